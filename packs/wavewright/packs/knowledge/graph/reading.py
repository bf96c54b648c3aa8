"""Reading a stored graph: whole, by words, and around one entity."""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

from wavewright.packs.knowledge.graph.tables import (
    LISTED,
    OPEN_TYPES,
    PartOfGraph,
    as_list,
    entity_id,
    owners_of,
)
from wavewright.packs.knowledge.models import (
    ORIGINS,
    EntityMerge,
    GraphEntity,
    GraphObservation,
    GraphRelation,
    KnowledgeGraph,
    NeighbouringEntity,
    Origin,
    QuotedEvidence,
    RecordKind,
)
from wavewright.packs.text.cross_reference import normal_name
from wavewright.packs.web.index import query_words
from wavewright.planner import suggest_name
from wavewright.tools import ToolError

_NAME_WEIGHT: Final = 8.0
_Quotes: TypeAlias = Mapping[int, list[QuotedEvidence]]


class GraphReader:
    """Questions to the stored graph; entities that are merged answer as one."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._database = connection

    def chunk_origins(self, only: Collection[str] | None = None) -> dict[str, Origin]:
        """Return how the records of all or some chunks were made, by the chunk's id."""
        where, values = _among(only, "id")
        return dict(
            self._database.execute(f"SELECT id, origin FROM chunk{where} ORDER BY rowid", values)  # noqa: S608 - our words
        )

    def merges(self) -> list[EntityMerge]:
        """Return the merges that hold, in the order in which they were made."""
        rows = self._database.execute(
            "SELECT id, kept_name, dropped_name, reason FROM merge WHERE is_undone = 0"
            " AND kept IN (SELECT id FROM entity) AND dropped IN (SELECT id FROM entity) ORDER BY rowid"
        )
        return [
            EntityMerge(id=one, kept=kept, merged=merged, reason=why)
            for one, kept, merged, why in rows
        ]

    def undone_merges(self) -> set[tuple[str, str]]:
        """Return the pairs of entities that a person has separated."""
        return {*self._database.execute("SELECT kept, dropped FROM merge WHERE is_undone = 1")}

    def graph(self) -> KnowledgeGraph:
        """Return the graph: entities with their observations, and relations between two different
        entities.
        """
        return KnowledgeGraph(
            entities=tuple(self._entities(None)), relations=tuple(self._relations(None))
        )

    def part(self, entities: Collection[str]) -> PartOfGraph:
        """Return what the graph holds of some canonical entities."""
        found = KnowledgeGraph(
            entities=tuple(self._entities(entities, with_evidence=False)),
            relations=tuple(self._relations(entities, with_evidence=False)),
        )
        ends = as_list(end for one in found.relations for end in (one.source, one.target))
        names = dict(
            self._database.execute(f"SELECT id, name FROM entity WHERE id IN {LISTED}", (ends,))  # noqa: S608 - our words
        )
        facts: dict[str, Origin] = {}
        for entity in found.entities:
            facts[f"{entity.name} ({entity.type})"] = entity.origin
            facts |= {f"{entity.name}: {one.text}": one.origin for one in entity.observations}
        for one in found.relations:
            facts[f"{names[one.source]} — {one.relation} — {names[one.target]}"] = one.origin
        return PartOfGraph(found.counts, facts)

    def search(self, query: str, limit: int) -> list[GraphEntity]:
        """Return the entities that match most of the words, best first; names weigh more than
        statements.
        """
        words = query_words(query)
        if not words:
            return []
        found = self._database.execute(
            "SELECT entity FROM entity_text WHERE entity_text MATCH ?"
            " ORDER BY bm25(entity_text, 0, ?, 1), entity LIMIT ?",
            (" OR ".join(f'"{word}"' for word in words), _NAME_WEIGHT, limit),
        )
        places = [one for (one,) in found]
        by_id = {one.id: one for one in self._entities(places)}
        return [by_id[place] for place in places]

    def entity(self, name: str) -> GraphEntity:
        """Return the entity of a name or alias.

        Raises:
            ToolError: there is none, or several have the name.
        """
        ids = (entity_id(name), *owners_of(self._database, [normal_name(name)]).values())
        canonical = dict(
            self._database.execute(
                f"SELECT id, canonical FROM entity WHERE id IN {LISTED}",  # noqa: S608 - our words
                (as_list(ids),),
            )
        )
        if not canonical:
            known = [one for (one,) in self._database.execute("SELECT name FROM entity")]
            raise ToolError(
                f"the graph has no entity {name!r}",
                hint=suggest_name(name, known, what="its entities"),
            )
        [found] = self._entities([next(canonical[one] for one in ids if one in canonical)])
        return found

    def neighbours(self, entity: str) -> list[NeighbouringEntity]:
        """Return where the relations of a canonical entity lead, in either direction."""
        relations = [
            (one, one.target if one.source == entity else one.source)
            for one in self._relations([entity])
        ]
        by_id = {one.id: one for one in self._entities({end for _, end in relations})}
        return [
            NeighbouringEntity(
                relation=one.relation,
                direction="out" if one.source == entity else "in",
                name=by_id[end].name,
                type=by_id[end].type,
                origin=one.origin,
                evidence=one.evidence,
            )
            for one, end in relations
        ]

    def _entities(
        self, only: Collection[str] | None, *, with_evidence: bool = True
    ) -> list[GraphEntity]:
        where, values = _among(only, "e.canonical")
        members: dict[str, dict[str, tuple[str, str, Origin]]] = defaultdict(dict)
        for canonical, place, name, kind, origin in self._database.execute(
            f"SELECT canonical, id, name, type, origin FROM entity e{where} ORDER BY rowid",  # noqa: S608 - our words
            values,
        ):
            members[canonical][place] = (name, kind, origin)
        aliases: dict[str, dict[str, None]] = defaultdict(dict)
        mentions: dict[str, list[int]] = defaultdict(list)
        for canonical, number, name, other_names in self._database.execute(
            f"SELECT e.canonical, m.id, m.name, m.aliases FROM mention m JOIN entity e ON e.id = m.entity{where}"  # noqa: S608 - our words
            " ORDER BY m.id",
            values,
        ):
            mentions[canonical].append(number)
            aliases[canonical] |= dict.fromkeys((name, *json.loads(other_names)))
        said: dict[str, dict[str, list[tuple[int, Origin]]]] = defaultdict(
            lambda: defaultdict(list)
        )
        for canonical, number, text, origin in self._database.execute(
            "SELECT e.canonical, o.id, o.text, o.origin FROM observation o JOIN entity e ON e.id = o.entity"  # noqa: S608 - our words
            f"{where} ORDER BY o.id",
            values,
        ):
            said[canonical][text].append((number, origin))
        groups = (
            [number for number, _ in one] for texts in said.values() for one in texts.values()
        )
        quotes = self._quotes("entity", mentions.values() if with_evidence else ())
        told_by = self._quotes("observation", groups if with_evidence else ())
        found: list[GraphEntity] = []
        for canonical, group in members.items():
            name, kind, _ = group[canonical]
            kinds = (kind, *(other for _, other, _ in group.values()))
            found.append(
                GraphEntity(
                    id=canonical,
                    name=name,
                    type=next((one for one in kinds if one.casefold() not in OPEN_TYPES), kind),
                    aliases=tuple(one for one in aliases[canonical] if one != name),
                    origin=_best(origin for _, _, origin in group.values()),
                    observations=tuple(
                        GraphObservation(
                            text=text,
                            origin=_best(origin for _, origin in records),
                            evidence=_gathered((number for number, _ in records), told_by),
                        )
                        for text, records in said[canonical].items()
                    ),
                    evidence=_gathered(mentions[canonical], quotes),
                )
            )
        return found

    def _relations(
        self, only: Collection[str] | None, *, with_evidence: bool = True
    ) -> list[GraphRelation]:
        """Return all relations, or those that start or end at some canonical entities."""
        among, values = "", tuple[str, ...]()
        if only is not None:
            ends = f"IN (SELECT id FROM entity WHERE canonical IN {LISTED})"  # noqa: S608 - our words
            among = f" AND (r.source {ends} OR r.target {ends})"
            values = (as_list(only),) * 2
        found: dict[tuple[str, str, str], list[tuple[int, str, Origin]]] = defaultdict(list)
        for number, source, relation, target, origin in self._database.execute(
            "SELECT r.id, s.canonical, r.relation, t.canonical, r.origin FROM relation r"  # noqa: S608 - our words
            " JOIN entity s ON s.id = r.source JOIN entity t ON t.id = r.target"
            f" WHERE s.canonical != t.canonical{among} ORDER BY r.id",
            values,
        ):
            found[source, normal_name(relation), target].append((number, relation, origin))
        groups = ([number for number, _, _ in one] for one in found.values())
        quotes = self._quotes("relation", groups if with_evidence else ())
        return [
            GraphRelation(
                source=source,
                relation=records[0][1],
                target=target,
                origin=_best(origin for _, _, origin in records),
                evidence=_gathered((number for number, _, _ in records), quotes),
            )
            for (source, _, target), records in found.items()
        ]

    def _quotes(self, kind: RecordKind, groups: Iterable[Iterable[int]]) -> _Quotes:
        """Return the quotes of groups of records."""
        records = [number for group in groups for number in group]
        found: dict[int, list[QuotedEvidence]] = defaultdict(list)
        for record, quote, document, chunk, start, end in self._database.execute(
            f'SELECT record, quote, document, chunk, start, "end" FROM evidence WHERE kind = ? AND record IN {LISTED}',  # noqa: S608 - our words
            (kind, as_list(records)),
        ):
            found[record].append(
                QuotedEvidence(quote=quote, document=document, chunk=chunk, start=start, end=end)
            )
        return found


def _among(only: Collection[str] | None, column: str) -> tuple[str, tuple[str, ...]]:
    """Return the condition that a column is one of some values, if any are given, and its
    parameters.
    """
    return ("", ()) if only is None else (f" WHERE {column} IN {LISTED}", (as_list(only),))


def _best(origins: Iterable[Origin]) -> Origin:
    return min(origins, key=ORIGINS.index)


def _gathered(records: Iterable[int], quotes: _Quotes) -> tuple[QuotedEvidence, ...]:
    first, *others = (quotes.get(number, []) for number in records)
    return tuple(
        dict.fromkeys(one for found in (first, *others) for one in found) if others else first
    )
