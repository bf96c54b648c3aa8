"""What the tools of the pack pass on: chunks of documents, and records that were extracted from them.

Every record quotes the document that it was read from, and says by its `origin` how it was made.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Final, Literal, TypeAlias, get_args

from pydantic import BaseModel, ConfigDict, Field

from wavewright.planner.ports.fallback_ladder import shipped_ladders

Origin: TypeAlias = Literal["agent", "suggested", "generated", "forced"]
"""How a record was made: by a model, among a model's words, by code, as the least that there is."""
ORIGINS: Final[tuple[Origin, ...]] = get_args(Origin)

Name: TypeAlias = Annotated[str, Field(min_length=1, max_length=200)]


@cache
def origin_ceilings() -> Mapping[Origin, float]:
    """Return the greatest confidence of a record by its origin: the ceilings of the ladder of workers."""
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

    id: Annotated[str, Field(min_length=1)]
    """Slug of the document and hash of headings and text: the same as long as these are."""
    document: Annotated[str, Field(min_length=1)]
    """Path below the folder, or address."""
    title: str
    headings: tuple[str, ...] = ()
    """Headings above it, the outermost first."""
    text: Annotated[str, Field(min_length=1)]
    start: Annotated[int, Field(ge=0)]
    """In the document's plain text, in characters."""
    end: Annotated[int, Field(ge=0)]
    names: tuple[KnownName, ...] = ()
    """Names from all documents that stand in the text."""
    again: str = ""
    """Instant of the run that reads it again, whose result is no earlier one; empty at the first reading."""


class QuotedEvidence(KnowledgeModel):
    """A passage of a document, to the letter."""

    quote: Annotated[str, Field(min_length=1)]
    document: Annotated[str, Field(min_length=1)]
    chunk: Annotated[str, Field(min_length=1)]
    """Id of the chunk."""
    start: Annotated[int, Field(ge=0)]
    """In the document's plain text, in characters."""
    end: Annotated[int, Field(ge=0)]


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
    text: Annotated[str, Field(min_length=1)]


class RelationRecord(GraphRecord):
    """A relation from one entity to another."""

    source: Name
    relation: Name
    target: Name


class ChunkRecords(KnowledgeModel):
    """What was extracted from one chunk."""

    chunk: Annotated[str, Field(min_length=1)]
    """Id of the chunk."""
    origin: Origin
    entities: tuple[EntityRecord, ...] = ()
    observations: tuple[ObservationRecord, ...] = ()
    relations: tuple[RelationRecord, ...] = ()
