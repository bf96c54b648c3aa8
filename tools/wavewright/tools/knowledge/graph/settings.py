"""Where the graph is, and the servers that it can be sent to."""

from __future__ import annotations

from pydantic import Field

from wavewright.config.mcp_servers import McpServerSection
from wavewright.planner.language.plan import DocumentModel


class GraphSettings(DocumentModel):
    """The part `graph` of the pack's settings."""

    path: str = Field(default=".wavewright/knowledge.db", min_length=1)
    """File of the graph."""
    mcp: McpServerSection | None = None
    """A server with the tools `create_entities`, `add_observations` and `create_relations`."""
