"""The pack `text`: summaries, records with evidence, and records of several sources brought
together.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.tools import Pack, PackError

if TYPE_CHECKING:
    from wavewright.planner import JsonObject

__all__ = ["TOOL_NAMES", "pack"]

TOOL_NAMES = frozenset({"cross_reference", "extract_records", "summarize_content"})
"""Tools that the pack brings."""


def pack(settings: JsonObject, root: Path) -> Pack:
    """Return the pack; it has no settings of its own.

    Raises:
        PackError: a setting is given.
    """
    # Imported here: a list of all packs asks for no more than their names of tools.
    from wavewright.packs.text.cross_reference import cross_referencer
    from wavewright.packs.text.extract_records import extractor
    from wavewright.tools import summarizer

    del root
    if settings:
        raise PackError(
            f"setting 'text.{next(iter(settings))}' is not known",
            hint="the pack has no settings; models are chosen under 'models'",
        )
    return Pack(
        name="text",
        description="Summaries, records with evidence, and records of several sources brought together.",
        workers=(summarizer(), extractor(), cross_referencer()),
    )
