"""The package of a zone: warnings, ceilings and sources that code decides, and the validator's
verdict on it.
"""

from __future__ import annotations

import datetime as dt
import json
import os
from copy import deepcopy
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.repository.tree import ROOT
from tests.support.prepared_command import run_prepared
from wavewright.packs.lore.messages import ResearchPackage
from wavewright.packs.lore.models import (
    CrossReferenceResult,
    Evidence,
    FactionData,
    FactionRelation,
    NPCData,
    PageReference,
    ZoneData,
    ZoneExtraction,
)
from wavewright.packs.lore.packages import ceilings, quality_warnings, validate, zone_package
from wavewright.packs.lore.settings import SourceTiers, read_tiers

ARC = "A town that lost its lake and would not move. " * 5
FULL = NPCData(name="Mara", personality="wry", role="baker")
VAGUE = NPCData(name="Tam", role="ferryman")
HOSTILE = FactionData(
    name="Moths", inter_faction=[FactionRelation(faction_id="lamps", stance="hostile")]
)


@pytest.mark.parametrize(
    ("found", "warnings"),
    [
        (ZoneExtraction(zone=ZoneData(name="Ash", narrative_arc=ARC), npcs=[FULL]), []),
        (
            ZoneExtraction(zone=ZoneData(name="Ash", narrative_arc=ARC[:199])),
            ["shallow_narrative_arc"],
        ),
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
                zone=ZoneData(name="Dungeon", narrative_arc=ARC),
                npcs=[NPCData(name="X", role="Boss")],
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
    result = CrossReferenceResult(
        is_consistent=True, confidence={"npcs": 0.9, "factions": 0.9, "lore": 0.5}
    )

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


TIERS = SourceTiers.model_validate({"tiers": {"official": ["tidefall.example"]}})
VALE = "https://tidefall.example/vale"
FANS = "https://fans.example/vale"


def evidence(quote: str, url: str = VALE) -> list[dict[str, str]]:
    return [{"quote": quote, "url": url}]


PACKAGE: dict[str, Any] = {
    "job_id": "6f1cf0a6-7a1d-4c9f-8a53-6f3d3f4f0f11",
    "package_id": "p-1",
    "iteration": 2,
    "zone_name": "Ash Vale",
    "zone_data": {
        "name": "Ash Vale",
        "narrative_arc": "Corsairs burn the orchards of the vale. " * 6,
        "confidence": 0.9,
        "evidence": evidence("Ash Vale lies below the lanterns."),
    },
    "npcs": [
        {
            "name": "Mira Fenn",
            "personality": "patient",
            "role": "pilot",
            "confidence": 0.8,
            "evidence": evidence("Mira Fenn is a patient pilot."),
        }
    ],
    "factions": [
        {
            "name": "Wardens",
            "confidence": 1.0,
            "evidence": evidence("The Wardens keep the vale.", FANS),
        }
    ],
    "sources": [
        {
            "url": VALE,
            "domain": "tidefall.example",
            "tier": "official",
            "accessed_at": "2026-04-14T09:00:00Z",
        },
        {
            "url": FANS,
            "domain": "fans.example",
            "tier": "unlisted",
            "accessed_at": "2026-04-14T09:00:00Z",
        },
    ],
    "confidence": {"zone": 0.9, "npcs": 0.8, "factions": 1.0},
    "conflicts": [
        {
            "data_point": "Ash Vale: level_range",
            "source_a": VALE,
            "source_b": FANS,
            "claim_a": "1",
            "claim_b": "2",
        }
    ],
}


def remarks(**changes: Any) -> list[tuple[str, str]]:
    """Return field and reason of each remark about the package with other fields; a dotted name
    leads inwards.
    """
    package = deepcopy(PACKAGE)
    for name, value in changes.items():
        node: Any = package
        *path, last = name.split("__")
        for part in path:
            node = node[int(part)] if part.isdigit() else node[part]
        node[last] = value
    verdict = validate(package, TIERS)
    assert verdict.accepted == (not verdict.feedback)
    assert (verdict.zone_name, verdict.iteration) == ("Ash Vale", 2)
    assert all(one.suggestion for one in verdict.feedback)
    return [(one.field, one.reason) for one in verdict.feedback]


def test_a_package_that_says_no_more_than_its_sources_is_accepted() -> None:
    assert remarks() == []


@pytest.mark.parametrize(
    ("changes", "field", "reason"),
    [
        (
            {"zone_data__name": "Port Merrow"},
            "zone_data.name",
            "about 'Ash Vale', the record about 'Port Merrow'",
        ),
        ({"npcs__0__evidence": []}, "npcs[mira_fenn].evidence", "no passage of a page names it"),
        ({"zone_data__evidence": []}, "zone_data.evidence", "no passage of a page names it"),
        (
            {"npcs__0__evidence": evidence("x", "https://a.test/")},
            "npcs[mira_fenn].evidence",
            "not among the sources",
        ),
        ({"npcs__0__evidence": evidence("  ")}, "npcs[mira_fenn].evidence", "a quote is empty"),
        (
            {"sources__1__tier": "official"},
            f"sources[{FANS}].tier",
            "as unlisted, the package as official",
        ),
        (
            {"sources__1__domain": "tidefall.example"},
            f"sources[{FANS}].domain",
            "is at 'fans.example'",
        ),
        ({"npcs__0__role": ""}, "npcs[mira_fenn].confidence", "0.8 is above 0.4"),
        ({"npcs__0__personality": ""}, "confidence.npcs", "0.8 is above 0.4"),
        ({"npcs": []}, "confidence.npcs", "0.8 is above 0.2"),
        ({"factions": []}, "confidence.factions", "1.0 is above 0.2"),
        (
            {"zone_data__narrative_arc": "Short."},
            "quality_warnings",
            "shallow_narrative_arc holds and is not told",
        ),
        (
            {"conflicts__0__source_b": "hearsay"},
            "conflicts[Ash Vale: level_range]",
            "'hearsay' is not among",
        ),
        (
            {"conflicts__0__claim_b": "1"},
            "conflicts[Ash Vale: level_range]",
            "both sides are the same",
        ),
        (
            {"conflicts__0__data_point": "Wardens: level"},
            "conflicts[Wardens: level]",
            "stated as certain",
        ),
        ({"npcs": PACKAGE["npcs"] * 2}, "npcs[mira_fenn]", "two records have this identity"),
    ],
)
def test_a_fault_is_told_with_field_reason_and_suggestion(
    changes: dict[str, Any], field: str, reason: str
) -> None:
    told = remarks(**changes)

    assert any(where == field and reason in why for where, why in told), told


def test_a_package_of_another_form_is_told_field_by_field() -> None:
    assert remarks(npcs=[{"name": "", "rank": 1}], sources=[]) == [
        ("npcs.0.name", "String should have at least 1 character"),
        ("npcs.0.rank", "Extra inputs are not permitted"),
    ]
    verdict = validate({}, TIERS)
    assert not verdict.accepted
    assert {one.field for one in verdict.feedback} >= {"zone_name", "zone_data"}


def test_nothing_found_is_no_fault_where_it_is_said() -> None:
    nothing: dict[str, Any] = {
        "zone_data": {"name": "Ash Vale"},
        "npcs": [],
        "factions": [],
        "conflicts": [],
        "confidence": {"npcs": 0},
    }

    assert remarks(**nothing, quality_warnings=["shallow_narrative_arc"]) == []


def test_a_package_without_sources_is_rejected() -> None:
    assert ("sources", "the package names no source") in remarks(sources=[])


def test_a_verdict_has_at_most_fifty_remarks() -> None:
    people = [{"name": f"Person {number}"} for number in range(80)]

    assert len(remarks(npcs=people)) == 50


def test_what_the_researcher_finds_in_the_world_of_the_plans_is_accepted(tmp_path: Path) -> None:
    environment = {**os.environ, "WAVEWRIGHT_STATE": str(tmp_path)}
    ran = run_prepared(
        "run", "plans/lore/one_zone.job.yaml", "--json", folder=ROOT, environment=environment
    )
    assert ran.returncode == 0, ran.stderr
    [files] = [
        event["files"]
        for event in map(json.loads, ran.stdout.splitlines())
        if event["kind"] == "outcome"
    ]
    found = json.loads(
        Path(next(file for file in files if file.endswith("package.json"))).read_text()
    )["result"]

    ids = {name: PACKAGE[name] for name in ("job_id", "package_id", "iteration")}
    verdict = validate({**found, **ids}, read_tiers())

    assert verdict.accepted, verdict.feedback
    assert found["npcs"]
