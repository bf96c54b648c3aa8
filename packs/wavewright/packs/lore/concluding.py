"""Tools that shorten what was read, hold records against each other, find zones to go on with, and
make the package.

Each value is known with the pages that tell it, from the evidence of its record. A value that two
pages tell differently is a conflict where only one can be right, as of levels; texts and lists
complete each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from wavewright.packs.extraction.prose import ProseSettings
from wavewright.packs.lore.extraction.records import METHOD, ZonePages, connected_zones, read_apart
from wavewright.packs.lore.models import (
    CATEGORIES,
    Category,
    ConnectedZonesResult,
    CrossReferenceResult,
    Evidence,
    LoreRecord,
    SourceConflict,
    ZoneExtraction,
    slug,
)
from wavewright.packs.lore.packages import zone_package
from wavewright.packs.lore.recording import (
    EXTRACTED,
    MAX_CONTENT,
    SUMMARY,
    answer_of,
    found_records,
    topic_texts,
)
from wavewright.packs.lore.run_data import game_of, references, stored_pages, zone_of
from wavewright.packs.lore.settings import DIRECT, Topic
from wavewright.packs.text.cross_reference import (
    MergedRecord,
    RecordMention,
    merged_record,
)
from wavewright.planner import JsonObject, as_object
from wavewright.tools import Agents, Emit, LogEvent, RunData, ToolError

_EXCLUSIVE: Final = frozenset(
    {"level_range", "era", "level", "parent_faction_id", "phased_state", "significance"}
)
"""Fields of which a record has one value."""
_STANCE: Final = "inter_faction "
"""Begins the field of a stance; the other faction's slug follows."""


def cross_reference(found: ZoneExtraction) -> tuple[CrossReferenceResult, ZoneExtraction]:
    """Return how well the sources agree, and the records with their confidences.

    The confidence of a record is the mean of those of its fields; of a category, that of its
    records; of the zone's own fields, as `zone.level_range`, what the pages that tell it make of
    it.
    """
    confidence: dict[str, float] = {}
    conflicts: list[SourceConflict] = []
    rated: dict[Category, list[LoreRecord]] = {}
    for category in CATEGORIES:
        figures: list[float] = []
        for record in found.records(category):
            merged = _compared(record)
            figures.append(merged.confidence if record.evidence else 0.0)
            conflicts += _conflicts(merged)
            if category == "zone":
                confidence |= {f"zone.{field.name}": field.confidence for field in merged.fields}
        confidence[category] = round(math.fsum(figures) / len(figures), 4) if figures else 0.0
        rated[category] = [
            record.model_copy(update={"confidence": figure})
            for record, figure in zip(found.records(category), figures, strict=True)
        ]
    result = CrossReferenceResult(
        is_consistent=not conflicts, conflicts=conflicts, confidence=confidence
    )
    return result, ZoneExtraction.of(rated)


def _compared(record: LoreRecord) -> MergedRecord:
    """Return a record as its pages tell it."""
    name = str(getattr(record, record.name_field))
    claims_by_url: dict[str, JsonObject] = {}
    for one in record.evidence:
        claims_by_url.setdefault(one.url, {}).update(_claim(one))
    mentions = [RecordMention(url, name, claims) for url, claims in claims_by_url.items()]
    return merged_record(mentions or [RecordMention("", name, {})], record.name_field)


def _claim(evidence: Evidence) -> JsonObject:
    """Return what a passage says of a field; of a field that may have many values, that it says
    something.
    """
    name = evidence.field
    if not name:
        return {}
    is_exclusive = name in _EXCLUSIVE or name.startswith(_STANCE)
    return {name: evidence.value or True} if is_exclusive else {name: True}


def _conflicts(merged: MergedRecord) -> Iterator[SourceConflict]:
    """Yield where the pages contradict each other, with the two claims that most of them make."""
    for field in merged.fields:
        if len(field.claims) > 1:
            (claim_a, sources_a), (claim_b, sources_b) = field.claims[:2]
            yield SourceConflict(
                data_point=f"{merged.name}: {field.name}",
                source_a=sources_a[0],
                source_b=sources_b[0],
                claim_a=str(claim_a),
                claim_b=str(claim_b),
            )


CROSS_REFERENCE: Final = "cross_reference"
"""Run data: under `result`, how well the sources agree."""
DISCOVERED: Final = "zones.discovered"
"""Run data: connected zones by slug."""
_SHOWN_ZONES: Final = 5


@dataclass(frozen=True)
class ConflictDetected(LogEvent):
    """Two sources contradict each other."""

    data_point: str
    source_a: str
    source_b: str


class DiscoveredZones(TypedDict):
    """What `discover_zones` gives: one line, and the names."""

    message: str
    names: list[str]


@dataclass(frozen=True)
class ResearchConclusion:
    """The tools `summarize_content`, `cross_reference`, `discover_zones` and `assemble_package`."""

    topics: Mapping[str, Topic]
    model: str = ProseSettings().model
    """spaCy model that reads prose where no language model does."""

    async def summarize_content(  # noqa: D417 - `agents` and `data` are no parameters of the tool
        self, topic: str, *, agents: Agents, data: RunData
    ) -> str:
        """Shorten the content of a topic, for extraction, where all topics together are very long.

        Args:
            topic: Name of the topic.
        """
        names = [*self.topics, DIRECT]
        if topic not in names:
            raise ToolError(f"there is no topic {topic!r}", hint=f"topics: {', '.join(names)}")
        pages = stored_pages(data, [topic])
        length = sum(len(page.text) for page in pages)
        if not pages:
            return f"No content for topic {topic!r} - nothing to summarize."
        if sum(len(page.text) for page in stored_pages(data, names)) <= MAX_CONTENT:
            return f"Content unchanged ({length:,} chars): all topics together have at most {MAX_CONTENT:,}"
        if not agents.is_available:
            return f"Summarization failed for {topic} - content unchanged ({length:,} chars): there is no model"
        hints = self.topics[topic].schema_hints if topic in self.topics else ""
        values: JsonObject = {
            "zone": zone_of(data),
            "schema_hints": hints,
            "content": topic_texts(data, [topic], self.topics),
        }
        try:
            text = str(await agents.run("summarize", values))
        except ToolError as error:
            return (
                f"Summarization failed for {topic} - content unchanged ({length:,} chars): {error}"
            )
        if len(text) >= length:
            return f"Summarization failed for {topic} - content unchanged ({length:,} chars): it is no shorter"
        covered = [*data.read(f"content.{topic}")]
        data.write(SUMMARY, topic, {"text": text, "covers": [*covered]})
        return f"Summarized {topic}: {length:,} -> {len(text):,} chars"

    async def cross_reference(  # noqa: D417 - `agents`, `data`, `emit` are no parameters of the tool
        self, feedback: Sequence[str] = (), *, agents: Agents, data: RunData, emit: Emit
    ) -> str:
        """Hold the records of all five categories against each other: contradictions, and
        confidences.

        Args:
            feedback: Why the last package was rejected; a model considers what is about conflicts
                and confidences.
        """
        done = data.read(EXTRACTED)
        missing = [category for category in CATEGORIES if category not in done]
        if len(missing) == len(CATEGORIES):
            return f"Extract first: {', '.join(missing)}"
        found = found_records(data)
        shown: JsonObject = {
            **{category: [] for category in CATEGORIES[1:]},
            **found.model_dump(mode="json", exclude_defaults=True),
        }
        asked: JsonObject = {"zone": zone_of(data), "records": shown, "feedback": [*feedback]}
        result, note = await answer_of(
            agents, "agreement", asked, CrossReferenceResult.model_validate
        )
        method = METHOD if result is None else "agent"
        result = result or cross_reference(found)[0]
        data.write(CROSS_REFERENCE, "result", result.model_dump(mode="json"))
        for one in result.conflicts:
            emit(ConflictDetected(one.data_point, one.source_a, one.source_b))
        if missing:
            note += f"; not extracted: {', '.join(missing)}"
        agreement = "consistent" if result.is_consistent else f"{len(result.conflicts)} conflicts"
        count = sum(len(found.records(category)) for category in CATEGORIES)
        return f"Cross-referenced {count} records: {agreement} (method: {method}{note})"

    async def discover_zones(  # noqa: D417 - as above
        self, feedback: Sequence[str] = (), *, agents: Agents, data: RunData
    ) -> DiscoveredZones:
        """Find the zones that are connected to the researched one and not known yet.

        Args:
            feedback: Why the last package was rejected; a model considers what is about connected
                zones.
        """
        zone = zone_of(data)
        pages = stored_pages(data, [*self.topics, DIRECT])
        if not pages:
            return {"message": "Research first: there is no content", "names": []}
        overview = [name for name, topic in self.topics.items() if topic.category == "zone"]
        asked: JsonObject = {
            "zone": zone,
            "game": game_of(data),
            "content": topic_texts(data, [*overview, DIRECT], self.topics),
            "feedback": [*feedback],
        }
        found, note = await answer_of(
            agents, "discovery", asked, ConnectedZonesResult.model_validate
        )
        method = METHOD if found is None else "agent"
        if found is None:
            found = await read_apart(connected_zones, ZonePages(pages, zone, model=self.model))
        names: dict[str, str] = {}
        for one in found.zones:
            if slug(one.name) not in _known_zones(data):
                names.setdefault(slug(one.name), one.name)
                evidence = [passage.model_dump(mode="json") for passage in one.evidence]
                data.write(DISCOVERED, slug(one.name), {"name": one.name, "evidence": [*evidence]})
        shown = ", ".join([*names.values()][:_SHOWN_ZONES])
        more = "" if len(names) <= _SHOWN_ZONES else ", ..."
        message = f"Discovered {len(names)} zones: {shown}{more} (method: {method}{note})"
        return {"message": message, "names": [*names.values()]}

    def assemble_package(self, *, data: RunData) -> JsonObject:
        """Make the package of the zone: records with sources, confidences under their ceilings,
        conflicts, warnings.
        """
        _, rated = cross_reference(found_records(data))
        stored = data.read(CROSS_REFERENCE).get("result")
        result = None if stored is None else CrossReferenceResult.model_validate(stored)
        done = map(as_object, data.read(EXTRACTED).values())
        has_stand_ins = any(one.get("is_stand_in") for one in done)
        return zone_package(
            zone_of(data), rated, result, references(data), has_stand_ins=has_stand_ins
        )


def _known_zones(data: RunData) -> set[str]:
    """Return the slugs of zones that are no discovery: the one that is researched, and those
    visited or failed.
    """
    known = {slug(zone_of(data))}
    for name in ("visited", "failed"):
        listed = data.inputs.get(name)
        known |= {slug(str(one)) for one in listed} if isinstance(listed, list) else set()
    return known
