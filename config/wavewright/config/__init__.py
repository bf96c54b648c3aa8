"""Settings, shipped templates, and the door through which every document is read."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.config.documents import (
        Document,
        DocumentError,
        DocumentFault,
        ReadLimits,
        Source,
        Span,
        read_document,
        read_document_file,
    )
    from wavewright.config.settings import Settings, load_settings

__all__ = [
    "Document",
    "DocumentError",
    "DocumentFault",
    "ReadLimits",
    "Settings",
    "Source",
    "Span",
    "load_settings",
    "read_document",
    "read_document_file",
]

_OF_SETTINGS = frozenset({"Settings", "load_settings"})


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{'settings' if name in _OF_SETTINGS else 'documents'}")
    return getattr(module, name)
