"""Records about a game world: a zone, who and what is in it, what sources say of it, and the state of its research,
with the topics that are researched and how far sources are trusted.

Each record has the fields of its table in the store, with empty defaults: what no source says stays empty.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, TypeAlias, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from wavewright.config.documents import read_document_file
from wavewright.config.model_validation import read_as_model
from wavewright.config.sources import DocumentError
from wavewright.planner.language.plan import DocumentModel
from wavewright.planner.types import ID_PATTERN, JsonObject
from wavewright.tools.packs import PackError
from wavewright.tools.text.cross_reference import normal_name

Category: TypeAlias = Literal["zone", "npcs", "factions", "lore", "narrative_items"]
"""What is extracted about a zone."""
CATEGORIES: Final[tuple[Category, ...]] = ("zone", "npcs", "factions", "lore", "narrative_items")

Probability: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Tier: TypeAlias = Literal["official", "primary", "secondary", "tertiary", "unlisted"]
"""How far a source is trusted, most first; `unlisted` where the list of sources does not have its domain."""
LoreCategory: TypeAlias = Literal["history", "mythology", "cosmology", "power_source", ""]
Stance: TypeAlias = Literal["allied", "hostile", "neutral"]


def slug(name: str) -> str:
    """Return the identity of a name: lower case, no accents, no leading article, words joined by `_`."""
    bare = name.replace("'", "").replace("’", "").replace("_", " ")
    return normal_name(bare).replace(" ", "_") or bare.strip().casefold()


class LoreModel(BaseModel):
    """Base of records and their parts: immutable, and closed to unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Evidence(LoreModel):
    """A sentence or a row of a page, to the letter."""

    quote: Annotated[str, Field(min_length=1)]
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

    min: Annotated[int, Field(ge=0)]
    max: Annotated[int, Field(ge=0)]

    @model_validator(mode="after")
    def _check_order(self) -> LevelRange:
        if self.min > self.max:
            msg = f"the least level {self.min} is above the highest level {self.max}"
            raise ValueError(msg)
        return self


class PhaseState(LoreModel):
    """How a zone is while a character's progress is at some point."""

    name: Annotated[str, Field(min_length=1)]
    description: str = ""


class ZoneData(LoreRecord):
    """A zone of the world."""

    name: Annotated[str, Field(min_length=1)]
    game: str = ""
    level_range: LevelRange | None = None
    narrative_arc: str = ""
    political_climate: str = ""
    access_gating: list[str] = []
    """What a character needs before entering."""
    phase_states: list[PhaseState] = []
    connected_zones: list[str] = []
    """Slugs."""
    era: str = ""


class NPCRelationship(LoreModel):
    """What one character is to another."""

    npc_id: str
    type: str
    """Such as ally, rival, mentor."""
    description: str = ""


class NPCData(LoreRecord):
    """A character of the world that no player plays."""

    name: Annotated[str, Field(min_length=1)]
    zone_id: str = ""
    faction_ids: list[str] = []
    personality: str = ""
    motivations: list[str] = []
    relationships: list[NPCRelationship] = []
    quest_threads: list[str] = []
    phased_state: str = ""
    role: str = ""
    """Such as vendor, quest giver, boss."""


class FactionRelation(LoreModel):
    """How one faction stands to another."""

    faction_id: str
    stance: Stance


class FactionData(LoreRecord):
    """A group of the world."""

    name: Annotated[str, Field(min_length=1)]
    parent_faction_id: str = ""
    level: str = ""
    """Such as guild, order, major faction."""
    inter_faction: list[FactionRelation] = []
    exclusive_with: list[str] = []
    """Slugs of factions that exclude one another: no character belongs to two of them."""
    ideology: str = ""
    goals: list[str] = []


class LoreData(LoreRecord):
    """A piece of the world's history, myths or rules."""

    name_field: ClassVar[str] = "title"

    title: Annotated[str, Field(min_length=1)]
    zone_id: str = ""
    """Empty where it is not about one zone."""
    category: LoreCategory = ""
    content: str = ""
    era: str = ""


class NarrativeItemData(LoreRecord):
    """A thing with a story."""

    name: Annotated[str, Field(min_length=1)]
    zone_id: str = ""
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

    name: Annotated[str, Field(min_length=1)]
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
    iterations: Annotated[int, Field(ge=0)] = 0
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
    daily_tokens_used: Annotated[int, Field(ge=0)] = 0
    last_reset_date: dt.date | None = None
    """Day, in UTC, whose tokens are counted."""


class ValidationFeedback(LoreModel):
    """What a validator says of one field of a package."""

    field: str
    reason: str
    suggestion: str = ""


class ZoneVerdict(LoreModel):
    """A validator's verdict on the package of a zone, in the form that names the zone."""

    zone_name: str
    accepted: bool
    feedback: list[ValidationFeedback] = []
    iteration: Annotated[int, Field(ge=1)]
    """Number of the package within the job, from 1."""


DIRECT: Final = "_direct"
"""The topic of pages that no research of a topic has opened; they are extracted with every category."""
SHIPPED: Final = Path(__file__).with_name("research_topics.yml")


class Topic(DocumentModel):
    """One topic; in its texts `{zone}` and `{game}` stand for the names."""

    category: Category
    """What is extracted from its pages."""
    section_header: str
    """Put before its texts."""
    queries: Annotated[tuple[str, ...], Field(strict=False, min_length=1)]
    """What is searched for where no model chooses the words."""
    instructions: str
    """What the research agent is told."""
    schema_hints: str
    """What a summary must keep."""


class TopicsFile(DocumentModel):
    """The form of `research_topics.yml`."""

    topics: Annotated[dict[Annotated[str, Field(pattern=ID_PATTERN)], Topic], Field(min_length=1)]


@lru_cache(maxsize=8)
def read_topics(file: Path = SHIPPED) -> Mapping[str, Topic]:
    """Return the topics of a file by name, in their order.

    Raises:
        PackError: it cannot be read, or holds something else.
    """
    try:
        return read_as_model(read_document_file(file), TopicsFile).topics
    except DocumentError as error:
        raise PackError(str(error), hint="fix the file that the setting 'lore.topics' names") from error


TIERS: Final[tuple[Tier, ...]] = get_args(Tier)
DEFAULT_FILE: Final = Path(__file__).with_name("sources.yml")


class SourceTiers(DocumentModel):
    """The list of sources: `sources.yml` of the pack, or the file that the setting `sources` names."""

    version: Literal[1] = 1
    tiers: dict[Literal["official", "primary", "secondary", "tertiary"], list[str]] = {}
    """Places by tier; see the pack's own file for their form."""

    def tier(self, url: str) -> Tier:
        """Return the tier of a page, the most trusted one that lists its place."""
        for tier in TIERS:
            if tier != "unlisted" and any(_is_at(url, place) for place in self.tiers.get(tier, ())):
                return tier
        return "unlisted"

    def rank(self, url: str) -> int:
        """Return the place of a page's tier in the order of trust, from 0; what is sorted by it keeps its order."""
        return TIERS.index(self.tier(url))

    def reference(self, url: str, accessed_at: dt.datetime) -> PageReference:
        """Return the reference of a page that was read at a time."""
        return PageReference(url=url, domain=domain(url), tier=self.tier(url), accessed_at=accessed_at)


def domain(url: str) -> str:
    """Return the host of an address in lower case, without `www.`."""
    return (urlsplit(url).hostname or "").removeprefix("www.")


def _is_at(url: str, place: str) -> bool:
    parts = urlsplit(url)
    host, slash, path = place.lower().partition("/")
    given = parts.netloc.rpartition("@")[2].lower() if ":" in host else parts.hostname or ""
    at_host = fnmatchcase(given, host) or given.endswith(f".{host}")
    at_path = (
        f"{parts.path.lower().rstrip('/')}/".startswith(f"/{path.rstrip('/')}/") if slash and path else True
    )
    return at_host and at_path


@cache
def read_tiers(file: Path = DEFAULT_FILE) -> SourceTiers:
    """Return the tiers of a file.

    Raises:
        PackError: the file cannot be read, or has another form.
    """
    try:
        return SourceTiers.model_validate(read_document_file(file).value)
    except DocumentError as error:
        raise PackError(f"the sources of the pack lore cannot be read: {error}", hint=error.hint) from error
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(map(str, fault["loc"]))
        raise PackError(
            f"{file}: {where}: {fault['msg'].lower()}",
            hint=f"tiers are {', '.join(TIERS[:-1])}, each a list of places",
        ) from error
