"""What a step can call: the registry of typed functions, and the packs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.tools.calls import Tool, ToolCall, ToolError, ToolFunction
    from wavewright.tools.files import Folder, PathRefused
    from wavewright.tools.functions import ToolDefinitionError
    from wavewright.tools.packs import (
        Pack,
        PackError,
        find_packs,
        find_template,
        load_pack,
        load_packs,
        pack_names,
    )
    from wavewright.tools.registry import Registry, make_tool

__all__ = [
    "Folder",
    "Pack",
    "PackError",
    "PathRefused",
    "Registry",
    "Tool",
    "ToolCall",
    "ToolDefinitionError",
    "ToolError",
    "ToolFunction",
    "find_packs",
    "find_template",
    "load_pack",
    "load_packs",
    "make_tool",
    "pack_names",
]

_HOMES = {
    "Folder": "files",
    "Pack": "packs",
    "PackError": "packs",
    "PathRefused": "files",
    "Registry": "registry",
    "Tool": "calls",
    "ToolCall": "calls",
    "ToolDefinitionError": "functions",
    "ToolError": "calls",
    "ToolFunction": "calls",
    "find_packs": "packs",
    "find_template": "packs",
    "load_pack": "packs",
    "load_packs": "packs",
    "make_tool": "registry",
    "pack_names": "packs",
}
"""The module of each public name: nothing heavy is imported before it is asked for."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
