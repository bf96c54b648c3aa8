"""Sites of very different forms, read without a model: what is found, what is placed, and that
nothing is invented.

A wiki with info boxes, categories, a talk page, a redirect and boxes of links; a plain site without
factions, whose names are hardly ever links; and a handbook of tables about a space station. Each
has a gold list.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.packs.lore.extraction.sites import GOLD, SITES, pages
from wavewright.packs.extraction.entities import Gazetteer
from wavewright.packs.extraction.kinds import KINDS, OTHER, ZONE
from wavewright.packs.extraction.prose import ProseSettings, prose_reader
from wavewright.packs.extraction.structure import read_structure
from wavewright.packs.lore.extraction.records import ZonePages, connected_zones, extract
from wavewright.packs.lore.models import (
    CATEGORIES,
    Category,
    LoreRecord,
    NarrativeItemData,
    NPCData,
    slug,
)
from wavewright.packs.web.index import FolderIndex

PROSE: Final = prose_reader(ProseSettings().model)

KEYS: Final[dict[Category, str]] = {
    "npcs": "npcs",
    "factions": "factions",
    "lore": "lore",
    "narrative_items": "items",
}


def records(site: str, zone: str) -> list[tuple[str, LoreRecord]]:
    """Return the first 20 records of a zone, with the gold list of each."""
    found = [
        (KEYS.get(one, "zones"), record)
        for one in CATEGORIES
        for record in extract(_read(site, zone, one))
    ]
    return found[:20]


def _read(site: str, zone: str, category: Category = "zone") -> ZonePages:
    return ZonePages(pages(site), zone, category)


def name_of(record: LoreRecord) -> str:
    return slug(str(getattr(record, record.name_field)))


def slugs(names: Iterable[str]) -> set[str]:
    return {slug(name) for name in names}


@pytest.mark.parametrize("site", SITES)
def test_a_site_is_read_whole_and_nothing_is_invented(site: str) -> None:
    gold: dict[str, Any] = GOLD[site]
    known = {(key, name) for key in KEYS.values() for name in slugs(gold[key])}
    known |= {("zones", name) for name in slugs([*gold["zones"], *gold["other zones"]])}
    every = set[tuple[str, str]]()
    for zone, told in gold["zones"].items():
        found = records(site, zone)
        placed = {
            name_of(record)
            for _, record in found
            if isinstance(record, NPCData | NarrativeItemData) and record.zone_id
        }
        every |= {(key, name_of(record)) for key, record in found}

        assert placed == slugs(told["there"]), zone
        assert set(connected_zones(_read(site, zone)).zone_slugs) == slugs(told["leads_to"]), zone
        for _, record in found:
            assert any(name_of(record) in slug(one.quote) for one in record.evidence), record

    assert every - known == set()
    assert {one for one in known if one[0] != "zones"} - every == set()


@pytest.mark.parametrize("site", SITES)
def test_the_names_of_a_site_are_those_of_its_world(site: str) -> None:
    gold: dict[str, Any] = GOLD[site]

    gazetteer = Gazetteer([read_structure(page) for page in pages(site)], KINDS, prose=PROSE)

    names = slugs(entity.name for entity in gazetteer.entities if entity.kind != OTHER)
    assert names & slugs(gold["not"]) == set()
    zones = slugs(entity.name for entity in gazetteer.entities if entity.kind == ZONE)
    assert slugs(gold["zones"]) <= zones <= slugs([*gold["zones"], *gold["other zones"]])


@pytest.mark.parametrize("site", SITES)
def test_pages_of_a_site_are_found_by_name(site: str, tmp_path: Path) -> None:
    for number, page in enumerate(pages(site)):
        (tmp_path / f"{number}.html").write_text(page.html)
    index = FolderIndex(tmp_path)

    for zone in GOLD[site]["zones"]:
        assert index.search(zone, 1)[0].title.startswith(zone)
