"""The pack `knowledge`: documents become a graph of entities, relations and observations with evidence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.planner.types import JsonObject
    from wavewright.tools.packs import Pack

__all__ = ["TOOL_NAMES", "pack"]

TOOL_NAMES = frozenset({"extract_chunk", "knowledge.read_documents"})
"""Tools that the pack brings."""


def pack(settings: JsonObject, root: Path) -> Pack:
    """Return the pack over these settings; paths in them are relative to `root`.

    Raises:
        PackError: a setting is unknown or has a wrong value.
    """
    from wavewright.tools.knowledge.extraction import chunk_extractor
    from wavewright.tools.knowledge.settings import read_settings
    from wavewright.tools.knowledge.tools import knowledge_tools
    from wavewright.tools.packs import Pack

    return Pack(
        name="knowledge",
        tools=knowledge_tools(read_settings(settings), root),
        workers=(chunk_extractor(),),
        description="Documents as a graph of entities, relations and observations with evidence.",
    )
