"""The pack `lore`: messages of a daemon that researches the zones of a game world."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.planner.types import JsonObject
    from wavewright.tools.packs import Pack

__all__ = ["TOOL_NAMES", "pack"]

TOOL_NAMES = frozenset[str]()
"""Tools that the pack brings."""


def pack(settings: JsonObject, root: Path) -> Pack:
    """Return the pack; it has no settings of its own.

    Raises:
        PackError: a setting is given.
    """
    from wavewright.tools.lore.messages import CONTRACT
    from wavewright.tools.packs import Pack, PackError

    del root
    if settings:
        raise PackError(
            f"setting 'lore.{next(iter(settings))}' is not known",
            hint="the pack has no settings; `daemon.pack: lore` selects its messages",
        )
    return Pack(
        name="lore",
        description="Messages of a daemon that researches the zones of a game world.",
        messages=CONTRACT,
    )
