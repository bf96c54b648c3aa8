"""A copy of the graph on an MCP server, so that what asks there finds the same entities, observations
and relations.

The embedded store is the graph; writing it again doubles nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from wavewright.config import McpServerSection
from wavewright.packs.knowledge.models import KnowledgeGraph
from wavewright.planner import Json, JsonObject, RunId, StepId, StepKey
from wavewright.tools import McpSessions, ToolCall, server_settings

_BATCH: Final = 500
"""Records of one call."""


async def send_to_server(graph: KnowledgeGraph, section: McpServerSection, root: Path) -> None:
    """Write a graph to a server with the three tools that create entities, observations and
    relations.

    Entities go first: such servers refuse an observation of an entity that they do not have. What a
    later graph no longer has stays there, as the three tools delete nothing.

    Raises:
        ToolError: the server cannot be used; transient where it may answer later.
    """
    server = server_settings("graph", section, root)
    async with McpSessions([server]) as sessions:
        for tool, (parameter, records) in _records_by_tool(graph).items():
            for start in range(0, len(records), _BATCH):
                params: JsonObject = {parameter: [*records[start : start + _BATCH]]}
                await sessions.call(server.name, tool, _request(tool, params))


def _records_by_tool(graph: KnowledgeGraph) -> Mapping[str, tuple[str, Sequence[Json]]]:
    """Return for each tool its parameter and the records in its words."""
    names = {entity.id: entity.name for entity in graph.entities}
    entities: list[Json] = [
        {"name": one.name, "entityType": one.type, "observations": []} for one in graph.entities
    ]
    observations: list[Json] = [
        {"entityName": one.name, "contents": [said.text for said in one.observations]}
        for one in graph.entities
        if one.observations
    ]
    relations: list[Json] = [
        {"from": names[one.source], "to": names[one.target], "relationType": one.relation}
        for one in graph.relations
    ]
    return {
        "create_entities": ("entities", entities),
        "add_observations": ("observations", observations),
        "create_relations": ("relations", relations),
    }


def _request(tool: str, params: JsonObject) -> ToolCall:
    return ToolCall(
        RunId("graph"), StepId("send_graph"), tool, params, StepKey(""), dt.datetime.now(dt.UTC)
    )
