"""Prompts: what models are told, as Jinja2 files, one folder a room or a pack.

This is the room's door. Jinja2 is loaded when a prompt is rendered, not before.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.prompts.blocks import data_block, one_line, prompt_json
    from wavewright.prompts.loading import PromptError, Prompts

__all__ = ["PromptError", "Prompts", "data_block", "one_line", "prompt_json"]

_HOME_OF = {
    "PromptError": "loading",
    "Prompts": "loading",
    "data_block": "blocks",
    "one_line": "blocks",
    "prompt_json": "blocks",
}


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
