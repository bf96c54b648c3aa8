"""What a project or a job sets for the pack `knowledge`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from wavewright.config import McpServerSection, ReadPath
from wavewright.packs.extraction.prose import ProseSettings
from wavewright.packs.surreal import DatabaseName, SurrealSettings
from wavewright.packs.web.settings import WebSettings
from wavewright.planner import DocumentModel


class GraphDatabaseSettings(SurrealSettings):
    """A SurrealDB database that the graph is sent to."""

    what: ClassVar[str] = "graph's database"
    section: ClassVar[str] = "packs.knowledge.graph.surrealdb"

    path: str = Field(default=".wavewright/knowledge-surreal", min_length=1)
    """Folder of the embedded engine."""
    database: DatabaseName = "knowledge"


class GraphSettings(DocumentModel):
    """The part `graph` of the pack's settings."""

    path: str = Field(default=".wavewright/knowledge.db", min_length=1)
    """File of the graph."""
    surrealdb: GraphDatabaseSettings = GraphDatabaseSettings()
    """A SurrealDB database that `knowledge.send_graph` writes to; it needs the extra `graph`."""
    mcp: McpServerSection | None = None
    """A server with the tools `create_entities`, `add_observations` and `create_relations`."""


class KnowledgeSettings(DocumentModel):
    """All settings of the pack."""

    documents: ReadPath = "."
    """Folder that documents are read from; no other file is read."""
    chunk_chars: Annotated[int, Field(ge=500, le=20_000)] = 3000
    """Characters of a chunk at most."""
    overlap_sentences: Annotated[int, Field(ge=0, le=10)] = 1
    """Sentences of the chunk before that a chunk begins with, where a section is cut."""
    extraction: ProseSettings = ProseSettings()
    """How code reads prose where no model does."""
    graph: GraphSettings = GraphSettings()
    """Where the graph is."""
    web: WebSettings = WebSettings()
    """How addresses are fetched, as for the pack `web`."""
