"""The graph as a document for people: a picture of up to 200 entities, and tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from wavewright.packs.knowledge.graph.merging import conflicts_of
from wavewright.packs.knowledge.graph.store import GraphStore
from wavewright.packs.knowledge.models import (
    ORIGINS,
    GraphDifference,
    GraphEntity,
    KnowledgeGraph,
    Origin,
    QuotedEvidence,
    RefusedRecord,
    origin_ceilings,
)
from wavewright.packs.text.markdown_tables import counted, markdown_table
from wavewright.planner import Json, JsonObject

MAX_DRAWN: Final = 200
"""Entities in the picture: those with the most relations."""
_MAX_ROWS: Final = 400
"""Rows of a table; the graph has the others."""
_MAX_QUOTES: Final = 3
"""Of an entity in the picture."""


def graph_document(
    store: GraphStore, refused: Sequence[RefusedRecord], difference: GraphDifference | None
) -> JsonObject:
    """Return the graph as Markdown, with the picture as its content."""
    graph, chunks = store.read.graph(), store.read.chunk_origins()
    entities = _by_relations(graph)
    names = {one.id: one.name for one in entities}
    counts = graph.counts
    parts = [
        f"{counted(counts.entities, 'entity', 'entities')}, {counted(counts.observations, 'observation')} and "
        f"{counted(counts.relations, 'relation')} from {counted(len(chunks), 'chunk')}."
        + (
            f" The picture shows the {MAX_DRAWN} with the most relations."
            if len(entities) > MAX_DRAWN
            else ""
        ),
        *_origins_table(graph, chunks),
        *_changes(difference),
        *_rows(
            "Entities",
            ("name", "type", "also", "made by", "evidence"),
            [
                (one.name, one.type, ", ".join(one.aliases), one.origin, _source(one.evidence))
                for one in entities
            ],
        ),
        *_rows(
            "Relations",
            ("from", "relation", "to", "made by", "evidence"),
            [
                (
                    names[one.source],
                    one.relation,
                    names[one.target],
                    one.origin,
                    _source(one.evidence),
                )
                for one in graph.relations
            ],
        ),
        *_rows(
            "Observations",
            ("entity", "observation", "made by", "evidence"),
            [
                (entity.name, one.text, one.origin, _source(one.evidence))
                for entity in entities
                for one in entity.observations
            ],
        ),
        *_rows(
            "Contradictions",
            ("entity", "statement", "evidence"),
            [
                (conflict.subject, one.value, _source(one.evidence))
                for conflict in conflicts_of(graph)
                for one in conflict.values
            ],
        ),
        *_rows(
            "Merged entities",
            ("kept", "merged", "reason", "id"),
            [(one.kept, one.merged, one.reason, one.id) for one in store.read.merges()],
        ),
        *_rows(
            "Without an entity",
            ("record", "missing", "chunk"),
            [(one.record, ", ".join(one.missing), one.chunk) for one in store.unlinked()],
        ),
        *_rows(
            "Refused: the quote is not in the document",
            ("record", "quote", "chunk"),
            [(one.record, one.quote, one.chunk) for one in refused],
        ),
        *_rows(
            "Chunks with the least there is",
            ("chunk",),
            [(name,) for name, origin in chunks.items() if origin == "forced"],
        ),
    ]
    return {
        "id": "knowledge-graph",
        "title": "Graph",
        "tags": ["graph"],
        "markdown": "\n\n".join(parts),
        "content": {"graph": _picture(graph, entities[:MAX_DRAWN])},
    }


def _by_relations(graph: KnowledgeGraph) -> list[GraphEntity]:
    degrees = Counter(end for one in graph.relations for end in (one.source, one.target))
    return sorted(
        graph.entities,
        key=lambda one: (one.type == "document", -degrees[one.id], -len(one.evidence), one.id),
    )


def _origins_table(graph: KnowledgeGraph, chunks: Mapping[str, Origin]) -> list[str]:
    """Return a table of how many records were made in each way."""
    found = {
        "entities": Counter(one.origin for one in graph.entities),
        "observations": Counter(
            one.origin for entity in graph.entities for one in entity.observations
        ),
        "relations": Counter(one.origin for one in graph.relations),
        "chunks": Counter(chunks.values()),
    }
    ceilings = origin_ceilings()
    rows = [
        (origin, f"{ceilings[origin]:g}", *(str(counted[origin]) for counted in found.values()))
        for origin in ORIGINS
        if any(counted[origin] for counted in found.values())
    ]
    return markdown_table("How records were made", ("by", "confidence at most", *found), rows)


def _changes(difference: GraphDifference | None) -> list[str]:
    if difference is None or difference.is_all_new:
        return []
    rows = [("added", fact) for fact in difference.added]
    rows += [("removed", fact) for fact in difference.removed]
    rows += [("changed", f"{one.fact}: {one.before} → {one.after}") for one in difference.changed]
    return _rows("Changes", ("what", "record"), rows)


def _rows(title: str, names: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    table = markdown_table(title, names, rows[:_MAX_ROWS])
    if len(rows) > _MAX_ROWS:
        table.append(f"{len(rows) - _MAX_ROWS:,} more are in the graph.")
    return table


def _source(evidence: Sequence[QuotedEvidence]) -> str:
    if not evidence:
        return ""
    more = f" and {len(evidence) - 1} more" if len(evidence) > 1 else ""
    return f"“{evidence[0].quote}” ({evidence[0].document}{more})"


def _picture(graph: KnowledgeGraph, entities: Sequence[GraphEntity]) -> JsonObject:
    shown = {one.id for one in entities}
    nodes: list[Json] = [
        {
            "id": one.id,
            "label": one.name,
            "kind": one.type,
            "origin": one.origin,
            "evidence": [
                {
                    "quote": found.quote,
                    "source": f"{found.document}, characters {found.start}–{found.end}",
                }
                for found in one.evidence[:_MAX_QUOTES]
            ],
        }
        for one in entities
    ]
    edges: list[Json] = [
        {"from": one.source, "to": one.target, "label": one.relation}
        for one in graph.relations
        if one.source in shown and one.target in shown
    ]
    return {"nodes": nodes, "edges": edges}
