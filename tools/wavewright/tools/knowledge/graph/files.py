"""The graph as a file: JSON-LD, or GraphML."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Final, Literal, TypeAlias
from urllib.parse import quote

import networkx as nx

from wavewright.planner.types import Json, JsonObject
from wavewright.tools.folder import Folder, PathRefused
from wavewright.tools.functions.tool import ToolError
from wavewright.tools.knowledge.graph.models import GraphEntity, GraphRelation, KnowledgeGraph
from wavewright.tools.knowledge.models import QuotedEvidence

FileFormat: TypeAlias = Literal["json-ld", "graphml"]

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
    nodes: list[Json] = [_entity_node(one) for one in graph.entities]
    nodes += [_relation_node(one) for one in graph.relations]
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
        {"text": one.quote, "isPartOf": one.document, "graph:start": one.start, "graph:end": one.end}
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
    written = io.BytesIO()
    nx.write_graphml(drawn, written)  # pyright: ignore[reportUnknownMemberType]
    return written.getvalue()


def _told(evidence: tuple[QuotedEvidence, ...]) -> str:
    return _allowed("\n".join(f"{one.document} [{one.start}:{one.end}] {one.quote}" for one in evidence))


def _allowed(text: str) -> str:
    """Return a text without the characters that XML has no form for."""
    return "".join(char for char in text if char in "\n\t" or char.isprintable() or char == "\u00a0")
