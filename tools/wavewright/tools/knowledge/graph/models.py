"""The graph as tools return it: entities with their observations, relations, and what a write has changed."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from wavewright.tools.knowledge.models import KnowledgeModel, Origin, QuotedEvidence

RecordKind: TypeAlias = Literal["observation", "entity", "relation"]

MAX_LISTED: Final = 500
"""Names that a list in an answer has at most; the number beside it counts all."""


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
    """Statements about one entity that cannot all be true; the graph keeps each. The fields are those of packages."""

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
