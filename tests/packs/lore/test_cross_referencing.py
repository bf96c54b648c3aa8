"""What pages say of one record, held against each other."""

from __future__ import annotations

from wavewright.packs.lore.concluding import cross_reference
from wavewright.packs.lore.models import (
    Evidence,
    FactionData,
    NPCData,
    SourceConflict,
    ZoneData,
    ZoneExtraction,
)


def told(field: str, *claims: tuple[str, str]) -> list[Evidence]:
    return [
        Evidence(quote=f"it is {value}", url=url, field=field, value=value) for url, value in claims
    ]


def test_a_value_of_which_only_one_can_be_right_is_a_conflict_when_pages_differ() -> None:
    levels = told("level_range", ("a", "4-9"), ("b", "6-9"), ("c", "4-9"))
    stance = told("inter_faction moths", ("a", "hostile"), ("b", "allied"))
    found = ZoneExtraction(
        zone=ZoneData(name="Ash", evidence=levels),
        factions=[FactionData(name="Lamps", evidence=stance)],
    )

    result, rated = cross_reference(found)

    assert not result.is_consistent
    assert result.conflicts == [
        SourceConflict(
            data_point="Ash: level_range", source_a="a", source_b="b", claim_a="4-9", claim_b="6-9"
        ),
        SourceConflict(
            data_point="Lamps: inter_faction moths",
            source_a="a",
            source_b="b",
            claim_a="hostile",
            claim_b="allied",
        ),
    ]
    assert result.confidence == {
        "zone.level_range": 0.5,
        "zone": 0.5,
        "npcs": 0.0,
        "factions": 0.25,
        "lore": 0.0,
        "narrative_items": 0.0,
    }
    assert (rated.zone.confidence, rated.factions[0].confidence) == (0.5, 0.25)


def test_texts_and_lists_complete_each_other() -> None:
    evidence = [
        *told("motivations", ("a", "gold"), ("b", "peace")),
        *told("role", ("a", "baker"), ("b", "Baker of Ash")),
        Evidence(quote="Mara", url="a"),
    ]

    result, rated = cross_reference(
        ZoneExtraction(zone=ZoneData(name="Ash"), npcs=[NPCData(name="Mara", evidence=evidence)])
    )

    assert result.is_consistent
    assert rated.npcs[0].confidence == 0.75


def test_what_no_page_names_has_no_confidence() -> None:
    result, rated = cross_reference(
        ZoneExtraction(zone=ZoneData(name="Ash"), npcs=[NPCData(name="Mara")])
    )

    assert result.confidence["npcs"] == 0.0
    assert rated.zone.confidence == 0.0
