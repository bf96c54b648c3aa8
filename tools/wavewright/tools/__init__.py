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
    from wavewright.tools.signature_files import read_tools_file
    from wavewright.tools.user_tools import load_user_tools

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
    "load_user_tools",
    "make_tool",
    "pack_names",
    "read_tools_file",
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
    "load_user_tools": "user_tools",
    "make_tool": "registry",
    "pack_names": "packs",
    "read_tools_file": "signature_files",
}
"""The module of each public name: nothing heavy is imported before it is asked for."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
