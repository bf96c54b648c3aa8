"""The pack `web`: pages of the public web as text, and searches over a local index or a service."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.tools import Pack, validated_settings

if TYPE_CHECKING:
    from wavewright.planner import JsonObject

__all__ = ["SETTINGS", "TOOL_NAMES", "pack"]

TOOL_NAMES = frozenset({"fetch_page", "search_web"})
"""Tools that the pack brings."""
SETTINGS = "wavewright.packs.web.settings:WebSettings"
"""Model of its settings."""


def pack(settings: JsonObject, root: Path) -> Pack:
    """Return the pack over these settings; paths in them are relative to `root`.

    Raises:
        PackError: a setting is unknown or has a wrong value.
    """
    # Imported here: a list of all packs asks for no more than their names of tools.
    from wavewright.packs.web.settings import WebSettings
    from wavewright.packs.web.tools import web_tools

    return Pack(
        name="web",
        tools=web_tools(validated_settings("web", WebSettings, settings), root),
        description="Pages of the public web as text, and searches.",
    )
