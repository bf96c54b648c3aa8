"""The pack `knowledge`: documents become a graph of entities, relations and observations with
evidence.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.tools import Pack, validated_settings

if TYPE_CHECKING:
    from wavewright.planner import JsonObject

__all__ = ["SETTINGS", "TOOL_NAMES", "pack"]

TOOL_NAMES = frozenset(
    {
        "extract_chunk",
        "knowledge.export_graph",
        "knowledge.link_evidence",
        "knowledge.list_minimal_chunks",
        "knowledge.merge_entities",
        "knowledge.neighbours",
        "knowledge.present_graph",
        "knowledge.rate_reading",
        "knowledge.read_documents",
        "knowledge.retry_relations",
        "knowledge.search_graph",
        "knowledge.send_graph",
        "knowledge.undo_merge",
        "knowledge.write_graph",
    }
)
"""Tools that the pack brings."""
SETTINGS = "wavewright.packs.knowledge.settings:KnowledgeSettings"
"""Model of its settings."""


def pack(settings: JsonObject, root: Path) -> Pack:
    """Return the pack over these settings; paths in them are relative to `root`.

    Raises:
        PackError: a setting is unknown or has a wrong value.
    """
    # Imported here: a list of all packs asks for no more than their names of tools.
    from wavewright.packs.knowledge.documents import read_documents_tool
    from wavewright.packs.knowledge.extraction import chunk_extractor
    from wavewright.packs.knowledge.graph.tools import graph_tools
    from wavewright.packs.knowledge.settings import KnowledgeSettings

    given = validated_settings("knowledge", KnowledgeSettings, settings)
    return Pack(
        name="knowledge",
        tools=(read_documents_tool(given, root), *graph_tools(given.graph, root)),
        workers=(chunk_extractor(given.extraction.model),),
        description="Documents as a graph of entities, relations and observations with evidence.",
    )
