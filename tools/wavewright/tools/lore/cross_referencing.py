"""How well the pages of a zone agree: contradictions, and confidences from counting who says what.

Each value is known with the pages that tell it, from the evidence of its record. A value that two pages tell
differently is a conflict where only one can be right, as of levels; texts and lists complete each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

from wavewright.planner.types import Json, JsonObject
from wavewright.tools.lore.models import (
    Category,
    CrossReferenceResult,
    Evidence,
    LoreRecord,
    SourceConflict,
    ZoneExtraction,
)
from wavewright.tools.text.cross_reference import RecordMention, merge_mentions

_Record = TypeVar("_Record", bound=LoreRecord)

_EXCLUSIVE: Final = frozenset(
    {"level_range", "era", "level", "parent_faction_id", "phased_state", "significance"}
)
"""Fields of which a record has one value."""
_STANCE: Final = "inter_faction "
"""Begins the field of a stance; the other faction's slug follows."""


def cross_reference(found: ZoneExtraction) -> tuple[CrossReferenceResult, ZoneExtraction]:
    """Return how well the sources agree, and the records with their confidences.

    The confidence of a record is the mean of those of its fields; of a category, that of its records; of the zone's own
    fields, as `zone.level_range`, what the pages that tell it make of it.
    """
    groups: Mapping[Category, Sequence[LoreRecord]] = {
        "zone": [found.zone],
        "npcs": found.npcs,
        "factions": found.factions,
        "lore": found.lore,
        "narrative_items": found.narrative_items,
    }
    confidence: dict[str, float] = {}
    conflicts: list[SourceConflict] = []
    figures: dict[tuple[Category, str], float] = {}
    for category, records in groups.items():
        for record in records:
            entry, against = _compare(record)
            figures[category, record.id] = float(str(entry["confidence"])) if record.evidence else 0.0
            conflicts += against
            if category == "zone":
                confidence |= {f"zone.{name}": figure for name, figure in _field_figures(entry)}
        confidences = [figures[category, record.id] for record in records]
        confidence[category] = round(math.fsum(confidences) / len(confidences), 4) if confidences else 0.0

    def rated(category: Category, record: _Record) -> _Record:
        return record.model_copy(update={"confidence": figures[category, record.id]})

    result = CrossReferenceResult(is_consistent=not conflicts, conflicts=conflicts, confidence=confidence)
    return result, ZoneExtraction(
        zone=rated("zone", found.zone),
        npcs=[rated("npcs", one) for one in found.npcs],
        factions=[rated("factions", one) for one in found.factions],
        lore=[rated("lore", one) for one in found.lore],
        narrative_items=[rated("narrative_items", one) for one in found.narrative_items],
    )


def _compare(record: LoreRecord) -> tuple[JsonObject, Iterator[SourceConflict]]:
    """Return a record as its pages tell it, merged, and where they contradict each other."""
    name = str(getattr(record, record.name_field))
    claims_by_url: dict[str, JsonObject] = {}
    for one in record.evidence:
        claims_by_url.setdefault(one.url, {}).update(_claim(one))
    mentions = [RecordMention(url, name, claims) for url, claims in claims_by_url.items()]
    merged = merge_mentions([mentions or [RecordMention("", name, {})]], record.name_field)
    entries, conflicts = merged["records"], merged["conflicts"]
    assert isinstance(entries, list)
    assert isinstance(conflicts, list)
    [entry] = entries
    assert isinstance(entry, dict)
    return entry, map(_conflict, conflicts)


def _claim(evidence: Evidence) -> JsonObject:
    """Return what a passage says of a field; of a field that may have many values, that it says something."""
    name = evidence.field
    if not name:
        return {}
    is_exclusive = name in _EXCLUSIVE or name.startswith(_STANCE)
    return {name: evidence.value or True} if is_exclusive else {name: True}


def _conflict(conflict: Json) -> SourceConflict:
    assert isinstance(conflict, dict)
    values = conflict["values"]
    assert isinstance(values, list)
    (claim_a, source_a), (claim_b, source_b) = map(_told, values[:2])
    return SourceConflict(
        data_point=str(conflict["subject"]),
        source_a=source_a,
        source_b=source_b,
        claim_a=claim_a,
        claim_b=claim_b,
    )


def _told(value: Json) -> tuple[str, str]:
    assert isinstance(value, dict)
    sources = value["sources"]
    assert isinstance(sources, list)
    return str(value["value"]), str(sources[0])


def _field_figures(entry: JsonObject) -> Iterator[tuple[str, float]]:
    fields = entry["fields"]
    assert isinstance(fields, dict)
    for name, details in fields.items():
        if isinstance(details, dict):
            yield name, float(str(details["confidence"]))
