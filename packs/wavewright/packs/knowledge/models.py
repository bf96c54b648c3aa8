"""What the tools of the pack pass on: chunks of documents, records that were extracted from them,
and the graph.

The graph is entities with their observations, relations, and what a write has changed. Every record
quotes the document that it was read from, and says by its `origin` how it was made.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Final, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field

from wavewright.planner import shipped_ladders

Origin: TypeAlias = Literal["agent", "suggested", "generated", "forced"]
"""How a record was made: by a model, among a model's words, by code, as the least that there is."""
ORIGINS: Final[tuple[Origin, ...]] = get_args(Origin)
MAX_LISTED: Final = 500
"""Names that a list in an answer has at most; the number beside it counts all."""

Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]
_NonEmpty: TypeAlias = Annotated[str, Field(min_length=1)]
_Offset: TypeAlias = Annotated[int, Field(ge=0)]
RecordKind: TypeAlias = Literal["observation", "entity", "relation"]


@cache
def origin_ceilings() -> Mapping[Origin, float]:
    """Return the greatest confidence of a record by its origin: the ceilings of the ladder of
    workers.
    """
    ladder = shipped_ladders()["worker"]
    found: dict[Origin, float] = {}
    for origin in ORIGINS:
        rung = ladder.rung(origin)
        assert rung is not None
        found[origin] = rung.ceiling
    return found


class KnowledgeModel(BaseModel):
    """Base of chunks and records: immutable, and closed to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class KnownName(KnowledgeModel):
    """A name that some document of the folder explains or repeats."""

    name: Name
    type: Name = "thing"


class Chunk(KnowledgeModel):
    """A piece of a document, cut at headings."""

    id: _NonEmpty
    """Slug of the document and hash of headings and text: the same as long as these are."""
    document: _NonEmpty
    """Path below the folder, or address."""
    title: str
    headings: tuple[str, ...] = ()
    """Headings above it, the outermost first."""
    table_head: str = ""
    """Lines above the rows of the table that it begins within; empty where it begins within none."""
    text: _NonEmpty
    start: _Offset
    """In the document's plain text, in characters."""
    end: _Offset
    names: tuple[KnownName, ...] = ()
    """Names from all documents that stand in the text."""
    terms: tuple[str, ...] = ()
    """Words that the document defines, as contracts do, and that stand in the text: no names."""
    again: str = ""
    """Instant of the run that reads it again, whose result is no earlier one; empty at the first
    reading.
    """


class QuotedEvidence(KnowledgeModel):
    """A passage of a document, to the letter."""

    quote: _NonEmpty
    document: _NonEmpty
    chunk: _NonEmpty
    """Id of the chunk."""
    start: _Offset
    """In the document's plain text, in characters."""
    end: _Offset


class GraphRecord(KnowledgeModel):
    """Base of the three kinds of records."""

    evidence: tuple[QuotedEvidence, ...] = ()
    origin: Origin


class EntityRecord(GraphRecord):
    """A thing that a document names."""

    name: Name
    type: Name = "thing"
    aliases: tuple[Name, ...] = ()


class ObservationRecord(GraphRecord):
    """A statement about an entity."""

    entity: Name
    text: _NonEmpty


class RelationRecord(GraphRecord):
    """A relation from one entity to another."""

    source: Name
    relation: Name
    target: Name


class ChunkRecords(KnowledgeModel):
    """What was extracted from one chunk."""

    chunk: _NonEmpty
    """Id of the chunk."""
    origin: Origin
    entities: tuple[EntityRecord, ...] = ()
    observations: tuple[ObservationRecord, ...] = ()
    relations: tuple[RelationRecord, ...] = ()


class GraphObservation(KnowledgeModel):
    """A statement about an entity, once for each wording."""

    text: str
    origin: Origin
    evidence: tuple[QuotedEvidence, ...] = ()


class GraphEntity(KnowledgeModel):
    """A thing with all that is said of it under any of its names."""

    id: str
    """Its name without case; stays while the entity is not merged into another."""
    name: str
    type: str
    aliases: tuple[str, ...] = ()
    origin: Origin
    """The best of its records."""
    observations: tuple[GraphObservation, ...] = ()
    evidence: tuple[QuotedEvidence, ...] = ()


class GraphRelation(KnowledgeModel):
    """A relation between two entities, once however many documents tell it."""

    source: str
    """Id of an entity."""
    relation: str
    target: str
    """Id of an entity."""
    origin: Origin
    evidence: tuple[QuotedEvidence, ...] = ()


class GraphCounts(KnowledgeModel):
    """How much a graph holds."""

    entities: int
    observations: int
    relations: int


class KnowledgeGraph(KnowledgeModel):
    """A graph at one moment."""

    entities: tuple[GraphEntity, ...] = ()
    relations: tuple[GraphRelation, ...] = ()

    @property
    def counts(self) -> GraphCounts:
        """How much it holds."""
        observations = sum(len(entity.observations) for entity in self.entities)
        return GraphCounts(
            entities=len(self.entities), observations=observations, relations=len(self.relations)
        )


class ChangedFact(KnowledgeModel):
    """An entity, observation or relation that is made in another way than before."""

    fact: str
    before: Origin
    after: Origin


class GraphDifference(KnowledgeModel):
    """What a run has changed in the graph: entities, observations and relations in words."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[ChangedFact, ...]
    added_count: int
    removed_count: int
    changed_count: int
    unchanged_count: int

    @property
    def is_all_new(self) -> bool:
        """Whether there was nothing before."""
        return not (self.removed_count or self.changed_count or self.unchanged_count)


class UnlinkedRecord(KnowledgeModel):
    """An observation or a relation that names an entity which the graph does not have."""

    kind: RecordKind
    record: str
    """In words."""
    missing: tuple[str, ...]
    """The names that no entity has."""
    chunk: str


class RefusedRecord(KnowledgeModel):
    """A record whose quotes are not in its document."""

    kind: RecordKind
    record: str
    quote: str
    chunk: str


class EntityMerge(KnowledgeModel):
    """Two entities that are taken for one."""

    id: str
    """For `undo_merge`."""
    kept: str
    merged: str
    reason: str


class ConflictingStatement(KnowledgeModel):
    """What one observation says."""

    value: str
    sources: tuple[str, ...]
    """Documents."""
    evidence: tuple[QuotedEvidence, ...]


class ObservationConflict(KnowledgeModel):
    """Statements about one entity that cannot all be true; the graph keeps each. The fields are
    those of packages.
    """

    subject: str
    """Name of the entity."""
    values: tuple[ConflictingStatement, ...]


class NeighbouringEntity(KnowledgeModel):
    """An entity that a relation leads to."""

    relation: str
    direction: Literal["out", "in"]
    """Whether the relation starts at the entity that was asked for."""
    name: str
    type: str
    origin: Origin
    evidence: tuple[QuotedEvidence, ...]
