"""How well a real game's wiki is read without a model, against what its data files say.

The pages are read from the shared corpus without its `gold` and `tools`; the gold file is opened by
the test alone.

Names over the corpus: what the pages together name, by kind, against the gold names of that kind. A
zone's package: what research finds for it. Its pages are those that the index finds for the zone's
queries and those that these link to; its gold is what the data files place in the zone (characters
and items). Recall counts what the package has in the right category; precision at 20 is the share
of its first 20 records, those of all categories in their order, that the gold file knows in that
category, and `placed` the share of characters that are said to be in the zone and are.
Connections: pairs of zones without direction, over all zones, against the gold file's pairs.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

import pytest

from tests.repository.tree import ROOT
from wavewright.packs.extraction.entities import Gazetteer
from wavewright.packs.extraction.kinds import FACTION, ITEM, KINDS, LORE, NPC, ZONE
from wavewright.packs.extraction.prose import ProseSettings, prose_reader
from wavewright.packs.extraction.structure import SourcePage, read_structure
from wavewright.packs.lore.extraction.records import (
    ZonePages,
    connected_zones,
    extract,
    links_to_follow,
)
from wavewright.packs.lore.models import CATEGORIES, Category, LoreRecord, NPCData, slug
from wavewright.packs.web.index import FolderIndex

PROSE: Final = prose_reader(ProseSettings().model)

CORPUS: Final = ROOT.parent / "shared" / "corpus" / "wesnoth"
SITE: Final = "http://archive.test"
GOLD_KEYS: Final[dict[Category, str]] = {
    "zone": "zones",
    "npcs": "npcs",
    "factions": "factions",
    "lore": "lore",
    "narrative_items": "items",
}
QUERIES: Final = (
    "{} lore zone overview",
    "{} NPCs notable characters",
    "{} factions organizations",
    "{} lore history mythology cosmology",
    "{} legendary items artifacts",
)

pytestmark = [
    pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here"),
    pytest.mark.usefixtures("pages_read_once"),
]


@cache
def gold() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CORPUS / "gold" / "gold.json").read_text())
    return found


@cache
def index() -> FolderIndex:
    return FolderIndex(CORPUS, exclude=("gold/*", "tools/*"))


@cache
def page(path: str) -> SourcePage:
    return SourcePage(url=f"{SITE}/{path}", html=(CORPUS / path).read_text())


def gathered(zone: str) -> list[SourcePage]:
    """Return the pages that research reads for a zone."""
    paths = dict.fromkeys(
        match.path for query in QUERIES for match in index().search(query.format(zone), 5)
    )
    read = [page(path) for path in paths]
    linked = [
        url
        for category in CATEGORIES
        for url in links_to_follow(ZonePages(read, zone, category))[:20]
    ]
    return [*read, *(page(url.removeprefix(f"{SITE}/")) for url in dict.fromkeys(linked))]


def name_of(record: LoreRecord) -> str:
    return slug(str(getattr(record, record.name_field)))


def test_a_page_is_found_by_the_name_of_what_it_is_about() -> None:
    names = [(name, kind) for kind in GOLD_KEYS.values() for name in sorted(gold()[kind])[::4]]

    hits = 0
    for name, kind in names:
        [first] = index().search(f"{name} {kind}", 1)
        hits += slug(first.title) == slug(name)

    assert hits / len(names) >= 0.95


def test_packages_of_zones_hold_what_is_there_and_little_else() -> None:
    placed_in: dict[str, set[tuple[str, str]]] = {}
    for kind in ("npcs", "items"):
        for name, told in gold()[kind].items():
            for zone in told["zones"]:
                placed_in.setdefault(zone, set()).add((kind, slug(name)))
    known = {(key, slug(name)) for key in GOLD_KEYS.values() for name in gold()[key]}
    found = wanted = right = shown = placed = said = unnamed = 0
    for zone in sorted(gold()["zones"])[::12]:
        read = gathered(zone)
        records = [
            (GOLD_KEYS[one], record)
            for one in CATEGORIES
            for record in extract(ZonePages(read, zone, one))
        ]
        package = [(key, name_of(record)) for key, record in records]
        wanted += len(placed_in.get(zone, ()))
        found += len(placed_in.get(zone, set()) & set(package))
        shown += len(package[:20])
        right += len(known & set(package[:20]))
        there = {name_of(one) for _, one in records if isinstance(one, NPCData) and one.zone_id}
        said += len(there)
        placed += sum(("npcs", name) in placed_in.get(zone, ()) for name in there)
        unnamed += sum(
            not any(name_of(record) in slug(passage.quote) for passage in record.evidence)
            for _, record in records
        )
    scores = {"recall": found / wanted, "precision at 20": right / shown, "placed": placed / said}
    print({name: round(score, 3) for name, score in scores.items()})

    assert scores["recall"] >= 0.85
    assert scores["precision at 20"] >= 0.7
    assert scores["placed"] >= 0.9
    assert unnamed == 0


def test_zones_are_connected_as_the_data_files_connect_them() -> None:
    zones = sorted(gold()["zones"])
    wanted = {frozenset((slug(one["from"]), slug(one["to"]))) for one in gold()["connects_to"]}
    found = set[frozenset[str]]()
    for zone in zones:
        read = [page(match.path) for match in index().search(f"{zone} zones connected", 8)]
        found |= {
            frozenset((slug(zone), other))
            for other in connected_zones(ZonePages(read, zone)).zone_slugs
        }
    right = len(found & wanted)
    print({"precision": right / len(found), "recall": right / len(wanted)})

    assert right / len(found) >= 0.9
    assert right / len(wanted) >= 0.8


def test_names_of_each_kind_are_those_of_the_data_files() -> None:
    pages = [
        page(str(path.relative_to(CORPUS)))
        for key in GOLD_KEYS.values()
        for path in (CORPUS / key).iterdir()
    ]
    gazetteer = Gazetteer([read_structure(one) for one in pages], KINDS, prose=PROSE)
    for kind, key in (
        (ZONE, "zones"),
        (NPC, "npcs"),
        (FACTION, "factions"),
        (LORE, "lore"),
        (ITEM, "items"),
    ):
        wanted = {slug(name) for name in gold()[key]}
        found = {slug(entity.name) for entity in gazetteer.entities if entity.kind == kind}

        assert len(found & wanted) / len(wanted) >= 0.85, key
        assert len(found & wanted) / len(found) >= 0.7, key
