"""The pack `tabletop`: a small game with rules of its own, whose turn is a pipeline of typed
phases.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.tools import Pack, PackPage

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from starlette.types import ASGIApp

    from wavewright.planner import JsonObject

__all__ = ["SETTINGS", "TOOL_NAMES", "pack"]

TOOL_NAMES = frozenset(
    {
        "tabletop.attack",
        "tabletop.end_combat",
        "tabletop.give",
        "tabletop.move",
        "tabletop.roll",
        "tabletop.start_combat",
        "tabletop.talk",
    }
)
"""Tools that the pack brings."""
SETTINGS = "wavewright.packs.tabletop.settings:TabletopSettings"
"""Model of its settings."""


def pack(settings: JsonObject, root: Path) -> Pack:
    """Return the pack over these settings; paths in them are relative to `root`.

    Raises:
        PackError: a setting is unknown or has a wrong value.
    """
    # Imported here: a list of all packs asks for no more than their names of tools.
    from wavewright.packs.tabletop.settings import plan_tools, read_settings

    return Pack(
        name="tabletop",
        tools=plan_tools(read_settings(settings), root),
        description="A small game whose turn is a pipeline of typed phases.",
        page=PackPage("a game", _open_page),
    )


def _open_page(root: Path, name: str) -> AbstractAsyncContextManager[ASGIApp]:
    from wavewright.packs.tabletop.page.app import open_game_page

    return open_game_page(root, name)
