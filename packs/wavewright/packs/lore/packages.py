"""The package of a zone, and the verdict on it: whether it is well formed and says no more than its
sources.

A package has the records with their sources, and the warnings and ceilings that code decides. The
validator reads no pages: it holds the package against itself, against the list of sources and
against the ceilings. What is missing in the world is told as a warning by the package; it is no
reason to reject.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from pydantic import ValidationError

from wavewright.packs.lore.messages import ResearchPackage, ZoneValidation
from wavewright.packs.lore.models import (
    CATEGORIES,
    Category,
    CrossReferenceResult,
    LoreRecord,
    PageReference,
    ValidationFeedback,
    ZoneExtraction,
    slug,
)
from wavewright.packs.lore.settings import SourceTiers, domain
from wavewright.planner import Json, JsonObject
from wavewright.tools import Tool, make_tool

_MIN_ARC: Final = 200
"""Characters of a narrative arc that is more than a caption."""
_NO_NPCS: Final = 0.2
_VAGUE_NPCS: Final = 0.4
_NO_FACTIONS: Final = 0.2
_MAX_FEEDBACK: Final = 50
"""Remarks of one verdict: the researcher repeats its work anyway."""
_DANGEROUS: Final = re.compile(r"\b(?:dungeon|raid)s?\b", re.IGNORECASE)
_HOSTILE_ROLE: Final = re.compile(
    r"\b(?:foe|boss|enemy|antagonist|villain|tyrant|usurper|raider|warlord|necromancer|lich|demon)\b",
    re.IGNORECASE,
)


def quality_warnings(found: ZoneExtraction) -> list[str]:
    """Return what a reader should know before relying on the records, as names that other programs
    know.
    """
    zone = found.zone
    warnings: list[str] = []
    if len(zone.narrative_arc) < _MIN_ARC:
        warnings.append("shallow_narrative_arc")
    if found.npcs and not any(npc.personality for npc in found.npcs):
        warnings.append("no_npc_personality_data")
    is_dangerous = _DANGEROUS.search(f"{zone.name} {zone.narrative_arc}") is not None
    if is_dangerous and not _has_antagonist(found):
        warnings.append("missing_antagonists")
    return warnings


def _has_antagonist(found: ZoneExtraction) -> bool:
    is_hostile = any(
        relation.stance == "hostile"
        for faction in found.factions
        for relation in faction.inter_faction
    )
    return is_hostile or any(_HOSTILE_ROLE.search(npc.role) for npc in found.npcs)


def ceilings(found: ZoneExtraction) -> dict[str, float]:
    """Return the highest confidence that the records of a category justify, where that is not the
    full one.
    """
    most: dict[str, float] = {}
    vague = [npc for npc in found.npcs if not npc.personality or not npc.role]
    if not found.npcs:
        most["npcs"] = _NO_NPCS
    elif 2 * len(vague) > len(found.npcs):
        most["npcs"] = _VAGUE_NPCS
    if not found.factions:
        most["factions"] = _NO_FACTIONS
    return most


def zone_package(
    zone_name: str,
    found: ZoneExtraction,
    cross_reference: CrossReferenceResult | None,
    sources: Sequence[PageReference],
    *,
    has_stand_ins: bool = False,
) -> JsonObject:
    """Return the fields of a `research_package` about a zone.

    Args:
        zone_name: The zone as it was asked for.
        found: Its records, with their confidences.
        cross_reference: How well the sources agree; without it nothing is known of that, and there
            is no confidence.
        sources: The pages that were read.
        has_stand_ins: Whether code made records in the place of a model that was asked for them.
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
        **{name: [shown(one, name) for one in found.records(name)] for name in CATEGORIES[1:]},
        "sources": [source.model_dump(mode="json") for source in sources],
        "confidence": {name: min(figure, most.get(name, 1.0)) for name, figure in stated.items()},
        "conflicts": [one.model_dump(mode="json") for one in cross_reference.conflicts]
        if cross_reference
        else [],
        "quality_warnings": [
            *quality_warnings(found),
            *(["records_without_model"] if has_stand_ins else []),
        ],
    }


def validate(package: JsonObject, tiers: SourceTiers) -> ZoneValidation:
    """Return the verdict on the payload of a `research_package`, with a remark for each fault."""
    try:
        research = ResearchPackage.model_validate(package)
    except ValidationError as error:
        iteration = package.get("iteration")
        return _verdict(
            str(package.get("zone_name", "")),
            iteration if isinstance(iteration, int) and iteration > 0 else 1,
            [
                ValidationFeedback(
                    field=".".join(map(str, fault["loc"])),
                    reason=fault["msg"],
                    suggestion="send the fields of `research_package` and no others",
                )
                for fault in error.errors(include_url=False)
            ],
        )
    remarks = [*_identity(research), *_sources(research, tiers), *_evidence(research)]
    remarks += [*_confidences(research), *_conflicts(research), *_warnings(research)]
    return _verdict(research.zone_name, research.iteration, remarks)


def _verdict(zone: str, iteration: int, remarks: Sequence[ValidationFeedback]) -> ZoneValidation:
    return ZoneValidation(
        zone_name=zone,
        accepted=not remarks,
        feedback=[*remarks[:_MAX_FEEDBACK]],
        iteration=iteration,
    )


def _remark(field: str, reason: str, suggestion: str) -> ValidationFeedback:
    return ValidationFeedback(field=field, reason=reason, suggestion=suggestion)


def _records(research: ResearchPackage) -> Iterator[tuple[Category, str, LoreRecord]]:
    """Yield category, name of the field in a remark, and record."""
    yield "zone", "zone_data", research.zone_data
    found = _extraction(research)
    for category in CATEGORIES[1:]:
        for record in found.records(category):
            yield category, f"{category}[{record.id}]", record


def _identity(research: ResearchPackage) -> Iterator[ValidationFeedback]:
    if slug(research.zone_name) != research.zone_data.id:
        yield _remark(
            "zone_data.name",
            f"the package is about {research.zone_name!r}, the record about {research.zone_data.name!r}",
            "describe the zone that was asked for",
        )
    seen: set[str] = set()
    for _, field, _ in _records(research):
        if field in seen:
            yield _remark(
                field,
                "two records have this identity",
                "merge them into one",
            )
        seen.add(field)


def _sources(research: ResearchPackage, tiers: SourceTiers) -> Iterator[ValidationFeedback]:
    if not research.sources:
        yield _remark(
            "sources",
            "the package names no source",
            "read pages about the zone",
        )
    for source in research.sources:
        field = f"sources[{source.url}]"
        if source.domain.removeprefix("www.") != domain(source.url):
            yield _remark(
                f"{field}.domain",
                f"the address is at {domain(source.url) or 'no host'!r}, not at {source.domain!r}",
                "take the domain from the address",
            )
        expected = tiers.tier(source.url)
        if source.tier != expected:
            yield _remark(
                f"{field}.tier",
                f"the list of sources has the page as {expected}, the package as {source.tier}",
                "take the tier from the list of sources, and the same list on both sides",
            )


def _evidence(research: ResearchPackage) -> Iterator[ValidationFeedback]:
    """A record without evidence may only be the zone of which nothing was found."""
    read = {source.url for source in research.sources}
    for category, field, record in _records(research):
        if not record.evidence and (category != "zone" or record.confidence > 0):
            yield _remark(
                f"{field}.evidence",
                "no passage of a page names it",
                "quote the sentence or the row that it was read from, or leave it out",
            )
        for one in record.evidence:
            if one.url not in read:
                yield _remark(
                    f"{field}.evidence",
                    f"it quotes {one.url!r}, which is not among the sources",
                    "name every page that is quoted as a source",
                )
            elif not one.quote.strip():
                yield _remark(
                    f"{field}.evidence",
                    "a quote is empty",
                    "quote the passage to the letter",
                )


def _extraction(research: ResearchPackage) -> ZoneExtraction:
    return ZoneExtraction.of(
        {"zone": [research.zone_data], **{name: getattr(research, name) for name in CATEGORIES[1:]}}
    )


def _confidences(research: ResearchPackage) -> Iterator[ValidationFeedback]:
    most = ceilings(_extraction(research))
    stated: list[tuple[str, str, float]] = [
        (name, f"confidence.{name}", figure) for name, figure in research.confidence.items()
    ]
    stated += [
        (category, f"{field}.confidence", record.confidence)
        for category, field, record in _records(research)
    ]
    for name, field, figure in stated:
        if name in most and figure > most[name]:
            yield _remark(
                field,
                f"{figure} is above {most[name]}, the most that such records justify",
                f"find more about the {name}, or state {most[name]} at most",
            )


def _conflicts(research: ResearchPackage) -> Iterator[ValidationFeedback]:
    read = {source.url for source in research.sources}
    certain = {
        slug(str(getattr(record, record.name_field)))
        for _, _, record in _records(research)
        if record.confidence == 1
    }
    for conflict in research.conflicts:
        field = f"conflicts[{conflict.data_point}]"
        if conflict.source_a == conflict.source_b or conflict.claim_a == conflict.claim_b:
            yield _remark(
                field,
                "both sides are the same",
                "name two sources with two claims",
            )
        for source in {conflict.source_a, conflict.source_b} - read:
            yield _remark(
                field,
                f"{source!r} is not among the sources",
                "name both pages as sources, by their addresses",
            )
        if slug(conflict.data_point.partition(":")[0]) in certain:
            yield _remark(
                field,
                "the sources contradict each other, and the record is stated as certain",
                "state less confidence, or decide by a source of a higher tier",
            )


def _warnings(research: ResearchPackage) -> Iterator[ValidationFeedback]:
    for warning in quality_warnings(_extraction(research)):
        if warning not in research.quality_warnings:
            yield _remark(
                "quality_warnings",
                f"{warning} holds and is not told",
                "tell every warning, or find what is missing",
            )


def validate_package_tool(tiers: SourceTiers) -> Tool:
    """Return the tool `validate_package`."""

    def validate_package(package: dict[str, Json]) -> ZoneValidation:
        """Validate the package of a zone: form, sources and their tiers, evidence, confidence,
        conflicts.

        Args:
            package: Payload of a `research_package`.
        """
        return validate(package, tiers)

    return make_tool(
        validate_package,
        name="lore.validate_package",
        effects=set(),
        tags={"review"},
        expected_seconds=0.05,
        settings=tiers.model_dump(mode="json"),
    )
