"""What a project or a job sets for the pack `knowledge`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from wavewright.planner.language.plan import DocumentModel
from wavewright.planner.types import JsonObject
from wavewright.tools.knowledge.graph.settings import GraphSettings
from wavewright.tools.packs import validated_settings
from wavewright.tools.web.settings import WebSettings


class KnowledgeSettings(DocumentModel):
    """All settings of the pack."""

    documents: str = "."
    """Folder that documents are read from; no other file is read."""
    chunk_chars: Annotated[int, Field(ge=500, le=20_000)] = 3000
    """Characters of a chunk at most."""
    overlap_sentences: Annotated[int, Field(ge=0, le=10)] = 1
    """Sentences of the chunk before that a chunk begins with, where a section is cut."""
    graph: GraphSettings = GraphSettings()
    """Where the graph is."""
    web: WebSettings = WebSettings()
    """How addresses are fetched, as for the pack `web`."""


def read_settings(settings: JsonObject) -> KnowledgeSettings:
    """Return the settings of the pack.

    Raises:
        PackError: fields are unknown or have wrong values.
    """
    return validated_settings("knowledge", KnowledgeSettings, settings)
