"""The graph that follows from stored records, and questions to it.

All mentions of one name are an entity, and merged entities are one. A record tells of the entities
that it names; where none has the name, of those that its name was found to mean, or of none.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from wavewright.packs.knowledge.models import (
    ORIGINS,
    EntityRecord,
    GraphEntity,
    GraphObservation,
    GraphRecord,
    GraphRelation,
    KnowledgeGraph,
    NeighbouringEntity,
    ObservationRecord,
    Origin,
    QuotedEvidence,
    RelationRecord,
    UnlinkedRecord,
)
from wavewright.packs.text.cross_reference import normal_name
from wavewright.packs.web.index import IndexedPage, PageIndex
from wavewright.planner import suggest_name
from wavewright.tools import ToolError

OPEN_TYPES: Final = frozenset({"thing", "entity", "name", "term", ""})
"""Types that say nothing of what a thing is."""


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record and the chunk that it is from."""

    chunk: str
    record: GraphRecord


@dataclass(frozen=True, slots=True)
class StoredGraph:
    """What a graph's file holds."""

    records: Sequence[StoredRecord]
    """In the order in which they were written."""
    merged: Mapping[str, str]
    """Ids of entities, each with the one that it is merged into."""
    meant: Mapping[tuple[str, str], str]
    """By a chunk and the id that a name in it would have, the entity that was found for it."""


def entity_id(name: str) -> str:
    """Return the id of the entity of a name: the name without case and white space."""
    return " ".join(name.casefold().split())


class GraphReading:
    """The graph of some records."""

    def __init__(self, stored: StoredGraph) -> None:
        self.records = stored.records
        """In the order in which they were written, each with its chunk."""
        self._meant = stored.meant
        self._merged = stored.merged
        self._mentions: dict[str, list[EntityRecord]] = defaultdict(list)
        """Of each entity, before it is merged into another."""
        for one in stored.records:
            if isinstance(one.record, EntityRecord):
                self._mentions[entity_id(one.record.name)].append(one.record)
        self._canonical = {entity: self._merged_into(entity) for entity in self._mentions}

    def has(self, entity: str) -> bool:
        """Whether anything has the name of an id."""
        return entity in self._canonical

    @cached_property
    def graph(self) -> KnowledgeGraph:
        """Entities with their observations, and relations between two different entities."""
        mentions: dict[str, list[EntityRecord]] = defaultdict(list)
        said: dict[str, dict[str, list[ObservationRecord]]] = defaultdict(lambda: defaultdict(list))
        related: dict[tuple[str, str, str], list[RelationRecord]] = defaultdict(list)
        for chunk, record in ((one.chunk, one.record) for one in self.records):
            if isinstance(record, EntityRecord):
                mentions[self._canonical[entity_id(record.name)]].append(record)
            elif isinstance(record, ObservationRecord):
                entity = self._entity_of(chunk, record.entity)
                if entity is not None:
                    said[entity][record.text].append(record)
            elif isinstance(record, RelationRecord):
                source = self._entity_of(chunk, record.source)
                target = self._entity_of(chunk, record.target)
                if source is not None and target is not None and source != target:
                    related[source, normal_name(record.relation), target].append(record)
        return KnowledgeGraph(
            entities=tuple(
                self._entity(entity, found, said[entity]) for entity, found in mentions.items()
            ),
            relations=tuple(
                GraphRelation(
                    source=source,
                    relation=found[0].relation,
                    target=target,
                    origin=_best_origin(found),
                    evidence=_evidence(found),
                )
                for (source, _, target), found in related.items()
            ),
        )

    def facts(self) -> dict[str, Origin]:
        """Return every entity, observation and relation in words, with its origin."""
        names = {one.id: one.name for one in self.graph.entities}
        facts: dict[str, Origin] = {}
        for entity in self.graph.entities:
            facts[f"{entity.name} ({entity.type})"] = entity.origin
            facts |= {f"{entity.name}: {one.text}": one.origin for one in entity.observations}
        for one in self.graph.relations:
            facts[f"{names[one.source]} — {one.relation} — {names[one.target]}"] = one.origin
        return facts

    def unlinked(self, only: Collection[str] | None = None) -> list[UnlinkedRecord]:
        """Return the observations, and then the relations, of all or some chunks that name an
        entity which is not there; equal relations once.
        """
        observations: list[UnlinkedRecord] = []
        relations: dict[tuple[str, ...], UnlinkedRecord] = {}
        for one in self.records:
            record, missing = one.record, self._missing(one)
            if not missing or (only is not None and one.chunk not in only):
                continue
            waiting = UnlinkedRecord(
                kind=record.kind, record=record.in_words, missing=missing, chunk=one.chunk
            )
            if isinstance(record, RelationRecord):
                parts = (record.source, record.relation, record.target)
                relations.setdefault(tuple(map(normal_name, parts)), waiting)
            else:
                observations.append(waiting)
        return [*observations, *relations.values()]

    def meant(self) -> dict[tuple[str, str], str | None]:
        """Return, by a chunk and the id that a name in it would have, which entity a name that none
        has may mean.
        """
        return {
            (one.chunk, entity_id(name)): self._owner(name)
            for one in self.records
            for name in self._missing(one)
        }

    def _owner(self, name: str) -> str | None:
        """Return the entity that has a name or an alias of the same normal form; none where several
        have one.
        """
        owners = self._owners.get(normal_name(name), {})
        return next(iter(owners.values())) if len(owners) == 1 else None

    def entity(self, name: str) -> GraphEntity:
        """Return the entity of a name or alias.

        Raises:
            ToolError: there is none, or several have the name.
        """
        place = entity_id(name)
        place = place if self.has(place) else self._owner(name) or ""
        if not place:
            known = [one.name for one in self.graph.entities]
            raise ToolError(
                f"the graph has no entity {name!r}",
                hint=suggest_name(name, known, what="its entities"),
            )
        return self._by_id[self._canonical[place]]

    def neighbours(self, entity: str) -> list[NeighbouringEntity]:
        """Return where the relations of an entity lead, in either direction."""
        found: list[NeighbouringEntity] = []
        for one in self.graph.relations:
            if entity not in {one.source, one.target}:
                continue
            is_outward = one.source == entity
            end = self._by_id[one.target if is_outward else one.source]
            found.append(
                NeighbouringEntity(
                    relation=one.relation,
                    direction="out" if is_outward else "in",
                    name=end.name,
                    type=end.type,
                    origin=one.origin,
                    evidence=one.evidence,
                )
            )
        return found

    def search(self, query: str, limit: int) -> list[GraphEntity]:
        """Return the entities that match most of the words, best first; names weigh more than
        statements.
        """
        pages = (
            IndexedPage(
                path=one.id,
                title="\n".join((one.name, *one.aliases)),
                text="\n".join(said.text for said in one.observations),
            )
            for one in self.graph.entities
        )
        index = PageIndex()
        index.replace((), pages)
        return [self._by_id[found.path] for found in index.search(query, limit)]

    @cached_property
    def _by_id(self) -> dict[str, GraphEntity]:
        return {one.id: one for one in self.graph.entities}

    @cached_property
    def _owners(self) -> dict[str, dict[str, str]]:
        """By the normal form of a name or an alias: by each merged entity that has it, the id of the
        name in whose mentions it stands.
        """
        owners: dict[str, dict[str, str]] = defaultdict(dict)
        for entity, mentions in self._mentions.items():
            names = (name for one in mentions for name in (one.name, *one.aliases))
            for form in dict.fromkeys(map(normal_name, names)):
                owners[form].setdefault(self._canonical[entity], entity)
        return owners

    def _missing(self, one: StoredRecord) -> tuple[str, ...]:
        """Return the names of a record that no entity has."""
        return tuple(
            name for name in one.record.tells_of if self._entity_of(one.chunk, name) is None
        )

    def _entity_of(self, chunk: str, name: str) -> str | None:
        """Return the entity that a record of a chunk means by a name."""
        place = entity_id(name)
        if not self.has(place):
            place = self._meant.get((chunk, place), "")
        return self._canonical.get(place)

    def _merged_into(self, entity: str) -> str:
        """Return the last entity on the way of its merges that anything still names."""
        found, place, seen = entity, entity, {entity}
        while (place := self._merged.get(place, "")) and place not in seen:
            seen.add(place)
            if place in self._mentions:
                found = place
        return found

    def _entity(
        self,
        entity: str,
        mentions: Sequence[EntityRecord],
        said: Mapping[str, Sequence[ObservationRecord]],
    ) -> GraphEntity:
        own = self._mentions[entity]
        name = Counter(one.name for one in own).most_common(1)[0][0]
        members = dict.fromkeys(entity_id(one.name) for one in mentions)
        types = [_type_of(own), *(_type_of(self._mentions[member]) for member in members)]
        names = dict.fromkeys(alias for one in mentions for alias in (one.name, *one.aliases))
        return GraphEntity(
            id=entity,
            name=name,
            type=next((one for one in types if one.casefold() not in OPEN_TYPES), types[0]),
            aliases=tuple(alias for alias in names if alias != name),
            origin=_best_origin(mentions),
            observations=tuple(
                GraphObservation(text=text, origin=_best_origin(found), evidence=_evidence(found))
                for text, found in said.items()
            ),
            evidence=_evidence(mentions),
        )


def _type_of(mentions: Iterable[EntityRecord]) -> str:
    """Return the type that most mentions give; one that says nothing where all of them do."""
    types = Counter[str]()
    for one in mentions:
        types[one.type] += one.type.casefold() not in OPEN_TYPES
    return types.most_common(1)[0][0]


def _best_origin(records: Sequence[GraphRecord]) -> Origin:
    best: Origin = records[0].origin
    for one in records[1:]:
        if ORIGINS.index(one.origin) < ORIGINS.index(best):
            best = one.origin
    return best


def _evidence(records: Sequence[GraphRecord]) -> tuple[QuotedEvidence, ...]:
    """Return the passages of some records, those of several records each once."""
    found = [passage for one in records for passage in one.evidence]
    return tuple(found if len(records) == 1 else dict.fromkeys(found))
