"""Records about a game world: a zone, who and what is in it, what sources say of it, and the state
of its research.

Each record has the fields of its table in the store, with empty defaults: what no source says stays
empty.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Final, Literal, Self, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from wavewright.packs.text.cross_reference import normal_name
from wavewright.planner import JsonObject

Category: TypeAlias = Literal["zone", "npcs", "factions", "lore", "narrative_items"]
"""What is extracted about a zone."""
CATEGORIES: Final[tuple[Category, ...]] = ("zone", "npcs", "factions", "lore", "narrative_items")

_NonEmpty: TypeAlias = Annotated[str, Field(min_length=1)]
_Count: TypeAlias = Annotated[int, Field(ge=0)]
Probability: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Tier: TypeAlias = Literal["official", "primary", "secondary", "tertiary", "unlisted"]
"""How far a source is trusted, most first; `unlisted` where the list of sources does not have its
domain.
"""
LoreCategory: TypeAlias = Literal["history", "mythology", "cosmology", "power_source", ""]
Stance: TypeAlias = Literal["allied", "hostile", "neutral"]


def slug(name: str) -> str:
    """Return the identity of a name: lower case, no accents, no leading article, words joined by
    `_`; that of an identity is itself.
    """
    bare = name.replace("'", "").replace("’", "").replace("_", " ")
    words = normal_name(bare)
    # "The A Team": what is left without an article may begin with one.
    while (shorter := normal_name(words)) != words:
        words = shorter
    return words.replace(" ", "_") or bare.strip().casefold()


Slug: TypeAlias = Annotated[str, AfterValidator(slug)]
"""The identity of a thing, which is taken from its name where that is given."""


class LoreModel(BaseModel):
    """Base of records and their parts: immutable, and closed to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Evidence(LoreModel):
    """A sentence or a row of a page, to the letter."""

    quote: _NonEmpty
    url: str
    field: str = ""
    """The field whose value it carries; empty where it carries the record as a whole."""
    value: str = ""
    """What it says of that field, where that is known: another source may say something else."""


class PageReference(LoreModel):
    """A page that was read."""

    url: str
    domain: str
    tier: Tier = "unlisted"
    accessed_at: dt.datetime


class LoreRecord(LoreModel):
    """Base of the records of the store's five tables."""

    name_field: ClassVar[str] = "name"

    id: str = ""
    """Slug of the name; what is given here is replaced."""
    sources: list[PageReference] = []
    confidence: Probability = 0.0
    updated_at: dt.datetime | None = None
    """When the store wrote it."""
    evidence: list[Evidence] = []
    """What the values were read from."""

    @model_validator(mode="after")
    def _identify(self) -> LoreRecord:
        object.__setattr__(self, "id", slug(str(getattr(self, self.name_field))))
        return self


class LevelRange(LoreModel):
    """Levels of the characters that a zone is for."""

    min: _Count
    max: _Count | None = None
    """None where there is no upper end, as in `level 20 or higher`."""

    @model_validator(mode="after")
    def _check_order(self) -> LevelRange:
        if self.max is not None and self.min > self.max:
            msg = f"the least level {self.min} is above the highest level {self.max}"
            raise ValueError(msg)
        return self


class PhaseState(LoreModel):
    """How a zone is while a character's progress is at some point."""

    name: _NonEmpty
    description: str = ""


class ZoneData(LoreRecord):
    """A zone of the world."""

    name: _NonEmpty
    game: str = ""
    level_range: LevelRange | None = None
    narrative_arc: str = ""
    political_climate: str = ""
    access_gating: list[str] = []
    """What a character needs before entering."""
    phase_states: list[PhaseState] = []
    connected_zones: list[Slug] = []
    era: str = ""


class NPCRelationship(LoreModel):
    """What one character is to another."""

    npc_id: Slug
    type: str
    """Such as ally, rival, mentor."""
    description: str = ""


class NPCData(LoreRecord):
    """A character of the world that no player plays."""

    name: _NonEmpty
    zone_id: Slug = ""
    faction_ids: list[Slug] = []
    personality: str = ""
    motivations: list[str] = []
    relationships: list[NPCRelationship] = []
    quest_threads: list[str] = []
    phased_state: str = ""
    role: str = ""
    """Such as vendor, quest giver, boss."""


class FactionRelation(LoreModel):
    """How one faction stands to another."""

    faction_id: Slug
    stance: Stance


class FactionData(LoreRecord):
    """A group of the world."""

    name: _NonEmpty
    parent_faction_id: Slug = ""
    level: str = ""
    """Such as guild, order, major faction."""
    inter_faction: list[FactionRelation] = []
    exclusive_with: list[Slug] = []
    """Factions that exclude one another: no character belongs to two of them."""
    ideology: str = ""
    goals: list[str] = []


class LoreData(LoreRecord):
    """A piece of the world's history, myths or rules."""

    name_field: ClassVar[str] = "title"

    title: _NonEmpty
    zone_id: Slug = ""
    """Empty where it is not about one zone."""
    category: LoreCategory = ""
    content: str = ""
    era: str = ""


class NarrativeItemData(LoreRecord):
    """A thing with a story."""

    name: _NonEmpty
    zone_id: Slug = ""
    story_arc: str = ""
    wielder_lineage: list[str] = []
    power_description: str = ""
    significance: str = ""
    """Such as legendary, epic, quest."""


RECORD_TYPES: Final[Mapping[Category, type[LoreRecord]]] = {
    "zone": ZoneData,
    "npcs": NPCData,
    "factions": FactionData,
    "lore": LoreData,
    "narrative_items": NarrativeItemData,
}


class ZoneExtraction(LoreModel):
    """All records about one zone."""

    zone: ZoneData
    npcs: list[NPCData] = []
    factions: list[FactionData] = []
    lore: list[LoreData] = []
    narrative_items: list[NarrativeItemData] = []

    @classmethod
    def of(cls, records: Mapping[Category, Sequence[object]]) -> Self:
        """Return records by category, or what they are read from, as one; of several zones the
        first.
        """
        return cls.model_validate({**records, "zone": records["zone"][0]})

    def records(self, category: Category) -> Sequence[LoreRecord]:
        """Return the records of a category."""
        found: Sequence[LoreRecord] = [self.zone] if category == "zone" else getattr(self, category)
        return found


class SourceConflict(LoreModel):
    """Two statements that cannot both be right."""

    data_point: str
    """Record and field, such as `Westfall: level_range`."""
    source_a: str
    source_b: str
    claim_a: str
    claim_b: str


class CrossReferenceResult(LoreModel):
    """How well the sources of a zone agree."""

    is_consistent: bool
    conflicts: list[SourceConflict] = []
    confidence: dict[str, Probability] = {}
    """By category of findings."""


class ConnectedZone(LoreModel):
    """A zone that can be reached from the one that is researched."""

    name: _NonEmpty
    evidence: list[Evidence] = []


class ConnectedZonesResult(LoreModel):
    """The zones that can be reached from the one that is researched."""

    zones: list[ConnectedZone] = []

    @property
    def zone_slugs(self) -> list[str]:
        """Identities of the zones, each once."""
        return [*dict.fromkeys(slug(zone.name) for zone in self.zones)]


class FailedZone(LoreModel):
    """A zone whose research was given up."""

    zone_name: str
    error: str
    iterations: _Count = 0
    """Packages that were rejected."""


class ResearchCheckpoint(LoreModel):
    """Where the research of a world stands."""

    zone_name: str
    current_step: Annotated[int, Field(ge=0, le=10)] = 0
    """Last completed step; 0 before the first."""
    step_data: JsonObject = {}
    progression_queue: list[str] = []
    """Zones to research next."""
    priority_queue: list[str] = []
    """Zones that a person chose to research before those."""
    completed_zones: list[str] = []
    failed_zones: list[FailedZone] = []
    daily_tokens_used: _Count = 0
    last_reset_date: dt.date | None = None
    """Day, in UTC, whose tokens are counted."""


class ValidationFeedback(LoreModel):
    """What a validator says of one field of a package."""

    field: str
    reason: str
    suggestion: str = ""
