"""The graph written where others read it: into a file (JSON-LD or GraphML), or to a server.

The embedded store is the graph; a server has a copy, so that what asks there finds the same
entities, observations and relations. Writing again doubles nothing.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias, TypeVar
from urllib.parse import quote

import networkx as nx

from wavewright.config import McpServerSection
from wavewright.packs.knowledge.models import (
    GraphCounts,
    GraphEntity,
    GraphRelation,
    KnowledgeGraph,
    QuotedEvidence,
)
from wavewright.packs.knowledge.settings import GraphDatabaseSettings, GraphSettings
from wavewright.packs.surreal import SurrealConnection, record_id
from wavewright.planner import Json, JsonObject, RunId, StepId, StepKey
from wavewright.tools import Folder, PathRefused, ToolCall, ToolError

FileFormat: TypeAlias = Literal["json-ld", "graphml"]
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
_CONTEXT: Final[JsonObject] = {
    "@vocab": "https://schema.org/",
    "graph": "urn:knowledge:",
    "origin": "graph:origin",
    "evidence": {"@id": "graph:evidence", "@container": "@set"},
    "relation": "graph:relation",
    "source": {"@id": "graph:source", "@type": "@id"},
    "target": {"@id": "graph:target", "@type": "@id"},
    "observations": {"@id": "graph:observation", "@container": "@set"},
}


def graph_file(graph: KnowledgeGraph, form: FileFormat, root: Path, path: str) -> None:
    """Write a graph into a file below `root`.

    Raises:
        ToolError: the path leaves the folder, or cannot be written.
    """
    content = _json_ld(graph) if form == "json-ld" else _graphml(graph)
    try:
        with Folder(root) as folder:
            folder.write(path, content)
    except (PathRefused, OSError) as error:
        raise ToolError(str(error), hint="name a file below the project's folder") from error


def _json_ld(graph: KnowledgeGraph) -> bytes:
    nodes: list[Json] = [*map(_entity_node, graph.entities), *map(_relation_node, graph.relations)]
    document: JsonObject = {"@context": _CONTEXT, "@graph": nodes}
    return json.dumps(document, ensure_ascii=False, indent=1).encode()


def _entity_node(entity: GraphEntity) -> JsonObject:
    return {
        "@id": _urn(entity.id),
        "@type": "Thing",
        "additionalType": entity.type,
        "name": entity.name,
        "alternateName": [*entity.aliases],
        "origin": entity.origin,
        "evidence": _quotes(entity.evidence),
        "observations": [
            {"text": one.text, "origin": one.origin, "evidence": _quotes(one.evidence)}
            for one in entity.observations
        ],
    }


def _relation_node(relation: GraphRelation) -> JsonObject:
    return {
        "@type": "graph:Relation",
        "source": _urn(relation.source),
        "relation": relation.relation,
        "target": _urn(relation.target),
        "origin": relation.origin,
        "evidence": _quotes(relation.evidence),
    }


def _urn(name: str) -> str:
    return f"urn:knowledge:{quote(name, safe='')}"


def _quotes(evidence: tuple[QuotedEvidence, ...]) -> list[Json]:
    return [
        {
            "text": one.quote,
            "isPartOf": one.document,
            "graph:start": one.start,
            "graph:end": one.end,
        }
        for one in evidence
    ]


def _graphml(graph: KnowledgeGraph) -> bytes:
    drawn: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    for entity in graph.entities:
        drawn.add_node(
            _allowed(entity.id),
            label=_allowed(entity.name),
            type=_allowed(entity.type),
            origin=entity.origin,
            aliases=_allowed("\n".join(entity.aliases)),
            observations=_allowed("\n".join(one.text for one in entity.observations)),
            evidence=_told(entity.evidence),
        )
    for one in graph.relations:
        drawn.add_edge(
            _allowed(one.source),
            _allowed(one.target),
            relation=_allowed(one.relation),
            origin=one.origin,
            evidence=_told(one.evidence),
        )
    return "\n".join(nx.generate_graphml(drawn)).encode()


def _told(evidence: tuple[QuotedEvidence, ...]) -> str:
    return _allowed(
        "\n".join(f"{one.document} [{one.start}:{one.end}] {one.quote}" for one in evidence)
    )


def _allowed(text: str) -> str:
    """Return a text without the characters that XML has no form for."""
    return "".join(
        char for char in text if char in "\n\t" or char.isprintable() or char == "\u00a0"
    )


async def send(
    graph: KnowledgeGraph, sink: SinkName, settings: GraphSettings, root: Path
) -> GraphCounts:
    """Write a graph to a server and return what of it is there now.

    Raises:
        ToolError: the settings do not say where the server is, or it cannot be used; transient
            where it may answer later.
        SurrealStoreError: the database cannot be opened, or refuses a statement.
    """
    if sink == "surrealdb":
        return await _send_to_surreal(graph, settings.surrealdb, root)
    if settings.mcp is not None:
        return await _send_to_mcp(graph, settings.mcp, root)
    raise ToolError(
        f"there is no graph server {sink!r}",
        hint=f"name it in the settings as packs.knowledge.graph.{sink}",
    )


async def _send_to_mcp(graph: KnowledgeGraph, section: McpServerSection, root: Path) -> GraphCounts:
    """Write a graph to an MCP server with the three tools that create entities, observations and
    relations, in calls of up to 500 records.

    Entities go first: such servers refuse an observation of an entity that they do not have. What a
    later graph no longer has stays there, as the three tools delete nothing.
    """
    from wavewright.tools import McpSessions, server_settings

    names = {entity.id: entity.name for entity in graph.entities}
    calls: list[tuple[str, str, list[Json]]] = [
        (
            "create_entities",
            "entities",
            [
                {"name": one.name, "entityType": one.type, "observations": []}
                for one in graph.entities
            ],
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
                {
                    "from": names[one.source],
                    "to": names[one.target],
                    "relationType": one.relation,
                }
                for one in graph.relations
            ],
        ),
    ]
    server = server_settings("graph", section, root)
    async with McpSessions([server]) as sessions:
        for tool, parameter, records in calls:
            for batch in _batches(records):
                await sessions.call(server.name, tool, _request(tool, {parameter: [*batch]}))
    return graph.counts


async def _send_to_surreal(
    graph: KnowledgeGraph, settings: GraphDatabaseSettings, root: Path
) -> GraphCounts:
    """Write a graph into the tables `entity`, `observation` and `relation`, the last of edges, in
    transactions of up to 500 records.

    What a later graph no longer has is deleted. A reader sees a write batch by batch.
    """

    def entity(name: str) -> object:
        return record_id("entity", name)

    entities = [
        {**one.model_dump(exclude={"id", "observations"}), "id": entity(one.id)}
        for one in graph.entities
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
    async with SurrealConnection(settings, root) as connection:
        await connection.run(_SURREAL_TABLES)
        written = (("observation", observations), ("entity", entities), ("relation", relations))
        for table, rows in written:
            await connection.run(
                f"DELETE {table} WHERE id NOT IN $ids;", ids=[one["id"] for one in rows]
            )
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
    return ToolCall(
        RunId("graph"), StepId("send_graph"), tool, params, StepKey(""), dt.datetime.now(dt.UTC)
    )
