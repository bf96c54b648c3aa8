"""The package of a zone: its records with their sources, the warnings and ceilings that code decides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from wavewright.planner.types import JsonObject
from wavewright.tools.lore.models import (
    Category,
    CrossReferenceResult,
    LoreRecord,
    PageReference,
    ZoneExtraction,
)

MIN_ARC: Final = 200
"""Characters of a narrative arc that is more than a caption."""
NO_NPCS: Final = 0.2
VAGUE_NPCS: Final = 0.4
NO_FACTIONS: Final = 0.2

_DANGEROUS: Final = re.compile(r"\b(?:dungeon|raid)s?\b", re.IGNORECASE)
_HOSTILE_ROLE: Final = re.compile(
    r"\b(?:foe|boss|enemy|antagonist|villain|tyrant|usurper|raider|warlord|necromancer|lich|demon)\b",
    re.IGNORECASE,
)


def quality_warnings(found: ZoneExtraction) -> list[str]:
    """Return what a reader should know before relying on the records, as names that other programs know."""
    zone = found.zone
    warnings: list[str] = []
    if len(zone.narrative_arc) < MIN_ARC:
        warnings.append("shallow_narrative_arc")
    if found.npcs and not any(npc.personality for npc in found.npcs):
        warnings.append("no_npc_personality_data")
    is_dangerous = _DANGEROUS.search(f"{zone.name} {zone.narrative_arc}") is not None
    if is_dangerous and not _has_antagonist(found):
        warnings.append("missing_antagonists")
    return warnings


def _has_antagonist(found: ZoneExtraction) -> bool:
    is_hostile = any(
        relation.stance == "hostile" for faction in found.factions for relation in faction.inter_faction
    )
    return is_hostile or any(_HOSTILE_ROLE.search(npc.role) for npc in found.npcs)


def ceilings(found: ZoneExtraction) -> dict[str, float]:
    """Return the highest confidence that the records of a category justify, where that is not the full one."""
    most: dict[str, float] = {}
    vague = [npc for npc in found.npcs if not npc.personality or not npc.role]
    if not found.npcs:
        most["npcs"] = NO_NPCS
    elif 2 * len(vague) > len(found.npcs):
        most["npcs"] = VAGUE_NPCS
    if not found.factions:
        most["factions"] = NO_FACTIONS
    return most


def zone_package(
    zone_name: str,
    found: ZoneExtraction,
    cross_reference: CrossReferenceResult | None,
    sources: Sequence[PageReference],
) -> JsonObject:
    """Return the fields of a `research_package` about a zone.

    Args:
        zone_name: The zone as it was asked for.
        found: Its records, with their confidences.
        cross_reference: How well the sources agree; without it nothing is known of that, and there is no confidence.
        sources: The pages that were read.
    """
    by_url = {source.url: source for source in sources}
    most = ceilings(found)
    stated = cross_reference.confidence if cross_reference else {}

    def shown(record: LoreRecord, category: Category) -> JsonObject:
        urls = dict.fromkeys(one.url for one in record.evidence)
        changed = {
            "sources": [by_url[url] for url in urls if url in by_url],
            "confidence": min(record.confidence, most.get(category, 1.0)),
        }
        return record.model_copy(update=changed).model_dump(mode="json")

    return {
        "zone_name": zone_name,
        "zone_data": shown(found.zone, "zone"),
        "npcs": [shown(one, "npcs") for one in found.npcs],
        "factions": [shown(one, "factions") for one in found.factions],
        "lore": [shown(one, "lore") for one in found.lore],
        "narrative_items": [shown(one, "narrative_items") for one in found.narrative_items],
        "sources": [source.model_dump(mode="json") for source in sources],
        "confidence": {name: min(figure, most.get(name, 1.0)) for name, figure in stated.items()},
        "conflicts": [one.model_dump(mode="json") for one in cross_reference.conflicts]
        if cross_reference
        else [],
        "quality_warnings": [*quality_warnings(found)],
    }
