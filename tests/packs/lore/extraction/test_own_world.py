"""The world that comes with the project, read without a model: all that its gold file lists, and
nothing else.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

import pytest

from tests.repository.tree import ROOT
from wavewright.packs.extraction.structure import SourcePage
from wavewright.packs.lore.concluding import cross_reference
from wavewright.packs.lore.extraction.records import ZonePages, connected_zones, extract
from wavewright.packs.lore.models import (
    Category,
    FactionData,
    LoreData,
    NarrativeItemData,
    NPCData,
    ZoneData,
    ZoneExtraction,
    slug,
)
from wavewright.packs.lore.packages import quality_warnings

WORLD: Final = ROOT / "plans" / "lore" / "world"
GOLD: Final[dict[str, Any]] = json.loads((ROOT / "plans" / "lore" / "gold.json").read_text())
ZONES: Final[list[str]] = list(GOLD["zones"])

pytestmark = pytest.mark.usefixtures("pages_read_once")


@cache
def pages() -> tuple[SourcePage, ...]:
    return tuple(
        SourcePage(url=f"http://valley.test/{path.relative_to(WORLD)}", html=path.read_text())
        for path in sorted(WORLD.rglob("*.html"))
    )


def records(zone: str, category: Category) -> list[Any]:
    return list(extract(ZonePages(pages(), zone, category)))


def found_in(zone: str) -> ZoneExtraction:
    [own] = records(zone, "zone")
    return ZoneExtraction(
        zone=own,
        npcs=records(zone, "npcs"),
        factions=records(zone, "factions"),
        lore=records(zone, "lore"),
        narrative_items=records(zone, "narrative_items"),
    )


@pytest.mark.parametrize("name", ZONES)
def test_a_zone_has_its_levels_and_neighbours(name: str) -> None:
    [zone] = records(name, "zone")

    assert isinstance(zone, ZoneData)
    assert zone.level_range is not None
    assert [zone.level_range.min, zone.level_range.max] == GOLD["zones"][name]["level_range"]
    neighbours = {slug(other) for other in GOLD["zones"][name]["connected_zones"]}
    assert set(zone.connected_zones) == neighbours
    assert set(connected_zones(ZonePages(pages(), name)).zone_slugs) == neighbours


@pytest.mark.parametrize("name", ZONES)
def test_the_characters_and_items_of_a_zone_are_those_that_are_there(name: str) -> None:
    npcs = {
        one.name: one for one in records(name, "npcs") if isinstance(one, NPCData) and one.zone_id
    }
    items = {
        one.name: one
        for one in records(name, "narrative_items")
        if isinstance(one, NarrativeItemData)
    }

    there = {npc: told for npc, told in GOLD["npcs"].items() if told["zone"] == name}
    assert npcs.keys() == there.keys()
    for npc, told in there.items():
        assert npcs[npc].role == told["role"]
        assert npcs[npc].faction_ids == [slug(faction) for faction in told["factions"]]
        assert {one.type: one.npc_id for one in npcs[npc].relationships} == {
            kind: slug(other) for kind, other in told["relations"].items()
        }
        assert npcs[npc].personality
    lying = {item: told for item, told in GOLD["items"].items() if told["zone"] == name}
    assert {item for item, one in items.items() if one.zone_id} == lying.keys()
    for item, told in lying.items():
        assert set(told["wielders"]) <= set(items[item].wielder_lineage)


@pytest.mark.parametrize("name", GOLD["lore"])
def test_lore_is_found_where_it_is_told(name: str) -> None:
    told = GOLD["lore"][name]

    found = {one.title: one for one in records(told["zone"], "lore") if isinstance(one, LoreData)}

    assert found[name].category == told["category"]
    assert found[name].content.startswith(name)


def test_factions_stand_to_each_other_as_pages_say_and_no_others_exist() -> None:
    found = {
        one.name: one
        for zone in ZONES
        for one in records(zone, "factions")
        if isinstance(one, FactionData)
    }

    assert found.keys() == GOLD["factions"].keys()
    for name, told in GOLD["factions"].items():
        stances = {one.faction_id: one.stance for one in found[name].inter_faction}
        assert stances == {slug(other): stance for other, stance in told["stances"].items()}
        assert found[name].exclusive_with == [slug(other) for other in told["exclusive_with"]]


def test_contradictions_between_pages_are_the_two_that_were_written() -> None:
    conflicts = {
        one.data_point: [one.claim_a, one.claim_b]
        for zone in ZONES
        for one in cross_reference(found_in(zone))[0].conflicts
    }

    assert conflicts == {one["data_point"]: one["claims"] for one in GOLD["conflicts"]}


def test_thin_zones_are_warned_of() -> None:
    warned = {zone: quality_warnings(found_in(zone)) for zone in ZONES}

    assert {zone: told for zone, told in warned.items() if told} == {
        "The Sunken Vault": ["missing_antagonists"],
        "Old Wethermoor": ["shallow_narrative_arc"],
    }


def test_an_instruction_on_a_page_changes_no_record() -> None:
    [injected] = GOLD["not_in_the_world"]
    told = "".join(found_in(zone).model_dump_json() for zone in ZONES)

    assert any(injected in page.html for page in pages())
    assert injected not in told
    assert "levels 90" not in told


def test_every_passage_stands_on_its_page() -> None:
    texts = {page.url: slug(page.html) for page in pages()}
    for zone in ZONES:
        found = found_in(zone)
        for record in (
            found.zone,
            *found.npcs,
            *found.factions,
            *found.lore,
            *found.narrative_items,
        ):
            assert record.evidence
            assert all(one.url in texts for one in record.evidence)
