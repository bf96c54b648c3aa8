"""A site without rows, lists and links, whose pages tell everything in sentences."""

from __future__ import annotations

from typing import Final

import pytest

from wavewright.packs.extraction.structure import SourcePage
from wavewright.packs.lore.extraction.records import ZonePages, connected_zones, extract
from wavewright.packs.lore.models import Category, NPCData, ZoneData

pytest.importorskip("spacy")

PAGES: Final = {
    "marrow-ford": (
        "<h1>Marrow Ford</h1><p>Marrow Ford is a market town for levels 5 to 9. It is ruled by Lady Edith Vane, a "
        "patient judge who lost her son in the Flood and wants the mills rebuilt.</p>"
        "<p>The Copper Wheel Guild, a guild of millers, owns the weir; its captain, Tom Harrow, is at war with the "
        "Brotherhood of the Reed. Under the weir lies the Horn of Saint Alban, an old horn that calls the river.</p>"
        "<p>Long ago, the Flood carried away forty houses. The old people still mark the height on their doors.</p>"
    ),
    "eel-pool": (
        "<h1>Eel Pool</h1><p>Eel Pool is a hamlet across the river from Marrow Ford. Its reeve, Walter Finch, "
        "quarrels with Edith Vane over the toll. Autumn is the best time to visit, and the bakery on Mill Street is "
        "popular with travellers.</p>"
    ),
}


def read(zone: str, category: Category, model: str | None = None) -> list[str]:
    pages = [SourcePage(url=f"http://ford.test/{name}", html=html) for name, html in PAGES.items()]
    source = ZonePages(pages, zone, category)
    if model is not None:
        source = ZonePages(pages, zone, category, model)
    return sorted(str(record.id) for record in extract(source))


def test_whom_and_what_sentences_name_is_found_and_nothing_else() -> None:
    found = {
        category: read("Marrow Ford", category)
        for category in ("npcs", "factions", "lore", "narrative_items")
    }

    assert found == {
        "npcs": ["lady_edith_vane", "tom_harrow"],
        "factions": ["brotherhood_of_the_reed", "copper_wheel_guild"],
        "lore": ["flood"],
        "narrative_items": ["horn_of_saint_alban"],
    }


def test_a_place_is_spoken_of_by_what_it_was_called() -> None:
    text = (
        "<h1>Frost Hollow</h1><p>Frost Hollow is a valley in the north. The valley is ruled by Jarl Hedda. "
        "The town below it is ruled by nobody. Its envoy, Lady Vane, speaks for the Winter Court.</p>"
    )
    pages = [SourcePage(url="http://hollow.test/frost-hollow", html=text)]

    [zone] = extract(ZonePages(pages, "Frost Hollow"))
    factions = extract(ZonePages(pages, "Frost Hollow", "factions"))

    assert isinstance(zone, ZoneData)
    assert zone.political_climate == "The valley is ruled by Jarl Hedda."
    assert [str(record.id) for record in factions] == ["winter_court"]


def test_somebody_of_one_name_is_found_by_the_title_before_it() -> None:
    text = (
        "<h1>Holt</h1><p>Holt is a fort. Sir Bran guards its gate. It is ruled by Queen Maud.</p>"
    )
    pages = [SourcePage(url="http://holt.test/holt", html=text)]

    found = extract(ZonePages(pages, "Holt", "npcs"))

    assert sorted(str(record.id) for record in found) == ["queen_maud", "sir_bran"]


@pytest.mark.parametrize(
    ("sentence", "is_there", "climate"),
    [
        ("Here Mira Fenn keeps an inn.", True, ""),
        ("Nobody knows where Mira Fenn lives.", False, ""),
        ("Mira Fenn hates it.", False, ""),
        ("Mira Fenn left long ago.", False, ""),
        ("It has been contested by Mira Fenn.", False, "It has been contested by Mira Fenn."),
        ("Holt is ruled from Mira Fenn's hall.", False, "Holt is ruled from Mira Fenn's hall."),
    ],
)
def test_what_sentences_say_of_a_place_and_of_who_is_there(
    sentence: str, climate: str, *, is_there: bool
) -> None:
    pages = [
        SourcePage(
            url="http://holt.test/zones/holt",
            html=f"<h1>Holt</h1><p>Holt is a town. {sentence}</p>",
        ),
        SourcePage(
            url="http://holt.test/npcs/mira", html="<h1>Mira Fenn</h1><p>She is a captain.</p>"
        ),
    ]

    [zone] = extract(ZonePages(pages, "Holt"))
    [mira] = extract(ZonePages(pages, "Holt", "npcs"))

    assert isinstance(zone, ZoneData)
    assert isinstance(mira, NPCData)
    assert (mira.zone_id == "holt", zone.political_climate) == (is_there, climate)


def test_what_a_sentence_calls_somebody_is_the_role() -> None:
    pages = [SourcePage(url=f"http://ford.test/{name}", html=html) for name, html in PAGES.items()]

    found = extract(ZonePages(pages, "Marrow Ford", "npcs"))

    roles = {one.name: one.role for one in found if isinstance(one, NPCData)}
    assert roles["Tom Harrow"] == "captain"
    assert connected_zones(ZonePages(pages, "Marrow Ford")).zone_slugs == ["eel_pool"]


def test_without_a_model_of_the_language_nothing_is_read_in_sentences() -> None:
    assert read("Marrow Ford", "npcs", "xx_no_such_model") == []
