"""Servers that the graph is written to, behind one port.

The embedded store is the graph; a sink has a copy, so that what asks there finds the same entities, observations and
relations. Writing again doubles nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

from wavewright.config.mcp_servers import McpServerSection
from wavewright.planner.types import Json, JsonObject, RunId, StepId, StepKey
from wavewright.tools.functions.tool import ToolCall, ToolError
from wavewright.tools.knowledge.graph.models import GraphCounts, KnowledgeGraph
from wavewright.tools.knowledge.graph.settings import GraphDatabaseSettings, GraphSettings

SinkName: TypeAlias = Literal["mcp", "surrealdb"]

_T = TypeVar("_T")
_BATCH: Final = 500
"""Records of one call."""
_SURREAL_TABLES: Final = """
DEFINE TABLE IF NOT EXISTS entity SCHEMALESS;
DEFINE TABLE IF NOT EXISTS observation SCHEMALESS;
DEFINE TABLE IF NOT EXISTS relation TYPE RELATION IN entity OUT entity SCHEMALESS;
DEFINE INDEX IF NOT EXISTS observation_entity ON observation FIELDS entity;
"""


class GraphSink(Protocol):
    """A place that a graph is written to."""

    async def write(self, graph: KnowledgeGraph) -> GraphCounts:
        """Write a graph and return what of it is there now.

        Raises:
            ToolError: the place cannot be used; transient where it may answer later.
        """
        ...


def graph_sink(name: SinkName, settings: GraphSettings, root: Path) -> GraphSink:
    """Return the sink of a name.

    Raises:
        ToolError: the settings do not say where it is.
    """
    if name == "surrealdb":
        return SurrealSink(settings.surrealdb, root)
    if settings.mcp is not None:
        return McpSink(settings.mcp, root)
    raise ToolError(
        f"there is no graph server {name!r}", hint=f"name it in the settings as packs.knowledge.graph.{name}"
    )


class McpSink:
    """An MCP server with the three tools that create entities, observations and relations.

    Entities go first: such servers refuse an observation of an entity that they do not have. What a later graph no
    longer has stays there, as the three tools delete nothing.
    """

    def __init__(self, section: McpServerSection, root: Path) -> None:
        self._section = section
        self._root = root

    async def write(self, graph: KnowledgeGraph) -> GraphCounts:
        """Write a graph in calls of up to 500 records.

        Raises:
            ToolError: the server cannot be started or reached, or refuses a call.
        """
        from wavewright.tools.mcp.sessions import McpSessions
        from wavewright.tools.mcp.settings import server_settings

        names = {entity.id: entity.name for entity in graph.entities}
        calls: list[tuple[str, str, list[Json]]] = [
            (
                "create_entities",
                "entities",
                [{"name": one.name, "entityType": one.type, "observations": []} for one in graph.entities],
            ),
            (
                "add_observations",
                "observations",
                [
                    {"entityName": one.name, "contents": [said.text for said in one.observations]}
                    for one in graph.entities
                    if one.observations
                ],
            ),
            (
                "create_relations",
                "relations",
                [
                    {"from": names[one.source], "to": names[one.target], "relationType": one.relation}
                    for one in graph.relations
                ],
            ),
        ]
        server = server_settings("graph", self._section, self._root)
        async with McpSessions([server]) as sessions:
            for tool, parameter, records in calls:
                for batch in _batches(records):
                    await sessions.call(server.name, tool, _request(tool, {parameter: [*batch]}))
        return graph.counts


class SurrealSink:
    """A SurrealDB database with the tables `entity`, `observation` and `relation`, the last of edges.

    What a later graph no longer has is deleted. A reader sees a write batch by batch.
    """

    def __init__(self, settings: GraphDatabaseSettings, root: Path) -> None:
        self._settings = settings
        self._root = root

    async def write(self, graph: KnowledgeGraph) -> GraphCounts:
        """Write a graph in transactions of up to 500 records, and count what is there.

        Raises:
            SurrealStoreError: the database cannot be opened, or refuses a statement.
        """
        from wavewright.tools.surreal import SurrealConnection, record_id

        def entity(name: str) -> object:
            return record_id("entity", name)

        entities = [
            {**one.model_dump(exclude={"id", "observations"}), "id": entity(one.id)} for one in graph.entities
        ]
        observations = [
            {
                **said.model_dump(),
                "id": record_id("observation", [one.id, said.text]),
                "entity": entity(one.id),
            }
            for one in graph.entities
            for said in one.observations
        ]
        relations = [
            {
                **one.model_dump(exclude={"source", "target"}),
                "id": record_id("relation", [one.source, one.relation, one.target]),
                "in": entity(one.source),
                "out": entity(one.target),
            }
            for one in graph.relations
        ]
        async with SurrealConnection(self._settings, self._root) as connection:
            await connection.run(_SURREAL_TABLES)
            written = (("observation", observations), ("entity", entities), ("relation", relations))
            for table, rows in written:
                await connection.run(f"DELETE {table} WHERE id NOT IN $ids;", ids=[one["id"] for one in rows])
                verb = "INSERT RELATION" if table == "relation" else f"INSERT INTO {table}"
                for batch in _batches(rows):
                    await connection.run(
                        f"BEGIN; DELETE $ids; {verb} $rows RETURN NONE; COMMIT;",
                        ids=[one["id"] for one in batch],
                        rows=[*batch],
                    )
            counted = await connection.run(
                "".join(f"RETURN count(SELECT VALUE id FROM {table});" for table, _ in written)  # noqa: S608 - our names
            )
        observed, named, related = counted
        return GraphCounts(entities=named, observations=observed, relations=related)


def _batches(records: Sequence[_T]) -> Iterator[Sequence[_T]]:
    return (records[start : start + _BATCH] for start in range(0, len(records), _BATCH))


def _request(tool: str, params: JsonObject) -> ToolCall:
    return ToolCall(RunId("graph"), StepId("send_graph"), tool, params, StepKey(""), dt.datetime.now(dt.UTC))
