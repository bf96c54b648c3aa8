"""Where the graph is, and the servers that it can be sent to."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from wavewright.config.mcp_servers import McpServerSection
from wavewright.planner.language.plan import DocumentModel
from wavewright.tools.surreal.settings import DatabaseName, SurrealSettings


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
