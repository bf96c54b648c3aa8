"""The package of a zone: warnings, ceilings and sources that code decides."""

from __future__ import annotations

import datetime as dt
import json
from uuid import uuid4

import pytest

from wavewright.tools.lore.messages import ResearchPackage
from wavewright.tools.lore.models import (
    CrossReferenceResult,
    Evidence,
    FactionData,
    FactionRelation,
    NPCData,
    PageReference,
    ZoneData,
    ZoneExtraction,
)
from wavewright.tools.lore.packaging import ceilings, quality_warnings, zone_package

ARC = "A town that lost its lake and would not move. " * 5
FULL = NPCData(name="Mara", personality="wry", role="baker")
VAGUE = NPCData(name="Tam", role="ferryman")
HOSTILE = FactionData(name="Moths", inter_faction=[FactionRelation(faction_id="lamps", stance="hostile")])


@pytest.mark.parametrize(
    ("found", "warnings"),
    [
        (ZoneExtraction(zone=ZoneData(name="Ash", narrative_arc=ARC), npcs=[FULL]), []),
        (ZoneExtraction(zone=ZoneData(name="Ash", narrative_arc=ARC[:199])), ["shallow_narrative_arc"]),
        (
            ZoneExtraction(zone=ZoneData(name="Ash", narrative_arc=ARC), npcs=[VAGUE, VAGUE]),
            ["no_npc_personality_data"],
        ),
        (ZoneExtraction(zone=ZoneData(name="Ash", narrative_arc=ARC), npcs=[VAGUE, FULL]), []),
        (
            ZoneExtraction(zone=ZoneData(name="Ash", narrative_arc=f"{ARC} A raid.")),
            ["missing_antagonists"],
        ),
        (
            ZoneExtraction(zone=ZoneData(name="The Dungeons", narrative_arc=ARC), npcs=[FULL]),
            ["missing_antagonists"],
        ),
        (
            ZoneExtraction(
                zone=ZoneData(name="Dungeon", narrative_arc=ARC), npcs=[NPCData(name="X", role="Boss")]
            ),
            ["no_npc_personality_data"],
        ),
        (ZoneExtraction(zone=ZoneData(name="Dungeon", narrative_arc=ARC), factions=[HOSTILE]), []),
    ],
)
def test_warnings_say_what_is_thin(found: ZoneExtraction, warnings: list[str]) -> None:
    assert quality_warnings(found) == warnings


@pytest.mark.parametrize(
    ("npcs", "factions", "most"),
    [
        ([], [], {"npcs": 0.2, "factions": 0.2}),
        ([FULL, VAGUE], [HOSTILE], {}),
        ([FULL, VAGUE, VAGUE], [HOSTILE], {"npcs": 0.4}),
        ([FULL], [], {"factions": 0.2}),
    ],
)
def test_what_is_missing_lowers_what_can_be_believed(
    npcs: list[NPCData], factions: list[FactionData], most: dict[str, float]
) -> None:
    assert ceilings(ZoneExtraction(zone=ZoneData(name="Ash"), npcs=npcs, factions=factions)) == most


def test_a_package_is_a_message_that_says_no_more_than_its_ceilings() -> None:
    page = PageReference(
        url="http://a.test/1", domain="a.test", accessed_at=dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
    )
    vague = VAGUE.model_copy(
        update={
            "confidence": 0.9,
            "evidence": [Evidence(quote="Tam rows.", url=page.url), Evidence(quote="T", url="x")],
        }
    )
    found = ZoneExtraction(zone=ZoneData(name="Ash"), npcs=[vague])
    result = CrossReferenceResult(is_consistent=True, confidence={"npcs": 0.9, "factions": 0.9, "lore": 0.5})

    package = zone_package("ash", found, result, [page])

    sent = {**package, "job_id": str(uuid4()), "package_id": "p", "iteration": 1}
    message = ResearchPackage.model_validate_json(json.dumps(sent))
    assert message.confidence == {"npcs": 0.4, "factions": 0.2, "lore": 0.5}
    assert message.npcs[0].confidence == 0.4
    assert [source.url for source in message.npcs[0].sources] == ["http://a.test/1"]
    assert message.quality_warnings == ["shallow_narrative_arc", "no_npc_personality_data"]


def test_a_zone_of_which_nothing_is_known_has_a_package() -> None:
    package = zone_package("ash", ZoneExtraction(zone=ZoneData(name="ash")), None, [])

    assert (package["confidence"], package["conflicts"], package["npcs"]) == ({}, [], [])
