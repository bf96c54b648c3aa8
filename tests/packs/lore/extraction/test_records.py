"""Records read from pages without a model: what pages say, from where, and nothing that they do not
say.
"""

from __future__ import annotations

import pytest

from wavewright.packs.extraction.structure import SourcePage
from wavewright.packs.lore.extraction.records import (
    ZonePages,
    connected_zones,
    extract,
    links_to_follow,
    read_apart,
)
from wavewright.packs.lore.models import CATEGORIES, FactionData, NPCData, ZoneData, slug

pytestmark = pytest.mark.anyio

TOWN = """<h1>Ash Hollow</h1>
<table class="infobox"><tr><th>Levels</th><td>4 to 9</td></tr><tr><th>Exits</th><td><a href="/w/2">Bel Marsh</a>
</td></tr></table>
<p>Ash Hollow is a town in a dry valley. The road to <a href="/w/7">High Tarn</a> leads over the ridge.</p>
<h2>Characters</h2><ul><li><a href="/w/3">Mara Voss</a>, baker</li><li>Old Tam, ferryman</li></ul>
<h2>Talk</h2><blockquote><b>Mara Voss:</b> The Lantern Guild rules us all, and Joren Pike is dead.</blockquote>"""
BAKER = """<h1>Mara Voss</h1><p>Mara Voss is a baker who came with the first wagons. She is stubborn and wry.
She wants to find her brother. Mara is the sister of <a href="/w/4">Joren Pike</a>.</p>
<h2>Appears in</h2><ul><li><a href="/w/1">Ash Hollow</a></li></ul>"""
GUIDE = """<h1>Traveller's guide</h1><p>Ash Hollow suits levels 6 to 9. Bel Marsh is a swamp.</p>"""


def pages(**bodies: str) -> list[SourcePage]:
    return [
        SourcePage(url=f"http://world.test/w/{name[1:]}", html=body)
        for name, body in bodies.items()
    ]


READ = pages(_1=TOWN, _3=BAKER, _8=GUIDE)


def test_a_zone_is_read_from_rows_and_sentences() -> None:
    [zone] = extract(ZonePages(READ, "ash_hollow", "zone"))

    assert isinstance(zone, ZoneData)
    assert (zone.name, zone.id) == ("Ash Hollow", "ash_hollow")
    assert zone.level_range is not None
    assert (zone.level_range.min, zone.level_range.max) == (4, 9)
    assert zone.narrative_arc.startswith("Ash Hollow is a town in a dry valley.")
    assert (zone.political_climate, zone.access_gating, zone.era) == ("", [], "")


def test_kinds_are_told_by_headings_and_sentences_where_addresses_say_nothing() -> None:
    mara, tam, *others = extract(ZonePages(READ, "Ash Hollow", "npcs"))

    assert isinstance(mara, NPCData)
    assert isinstance(tam, NPCData)
    assert (mara.name, mara.role, mara.zone_id) == ("Mara Voss", "baker", "ash_hollow")
    assert mara.personality == "She is stubborn and wry."
    assert mara.motivations == ["find her brother"]
    assert (tam.name, tam.role) == ("Old Tam", "ferryman")
    assert others == []


def test_what_a_character_says_is_no_fact() -> None:
    assert extract(ZonePages(READ, "Ash Hollow", "factions")) == []


def test_every_record_is_named_by_a_passage_of_a_page() -> None:
    for category in CATEGORIES:
        for record in extract(ZonePages(READ, "Ash Hollow", category)):
            name = str(getattr(record, record.name_field))
            assert any(slug(name) in slug(one.quote) for one in record.evidence)
            texts = {page.url: page.html for page in READ}
            assert all(one.url in texts for one in record.evidence)


def test_zones_are_connected_by_rows_and_by_sentences_about_places() -> None:
    found = connected_zones(
        ZonePages([*READ, *pages(_7="<h1>High Tarn</h1><p>High Tarn is a lake.</p>")], "Ash Hollow")
    )

    assert found.zone_slugs == ["bel_marsh", "high_tarn"]
    assert found.zones[0].evidence[0].quote == "Exits: Bel Marsh"


def test_pages_that_are_linked_and_unread_can_be_followed() -> None:
    assert links_to_follow(ZonePages(READ[:1], "Ash Hollow", "npcs")) == ["http://world.test/w/3"]
    assert links_to_follow(ZonePages(READ, "Ash Hollow", "zone")) == ["http://world.test/w/2"]


def test_a_world_without_factions_has_none() -> None:
    quiet = pages(
        _1="<h1>Ash Hollow</h1><dl><dt>Type</dt><dd>Town</dd></dl><p>The order of the day is rain. Wolves hunt in"
        " a pack here, and an alliance of cooks runs the inn.</p><h2>Enemies</h2><ul><li>Grey Wolf</li></ul>"
        "<h2>Races</h2><ul><li><a href='/w/9'>Elves</a></li></ul>",
        _9="<h1>Elves</h1><p>Elves are a tall people. They are allied with nobody.</p>",
    )

    assert extract(ZonePages(quiet, "Ash Hollow", "factions")) == []
    [wolf] = extract(ZonePages(quiet, "Ash Hollow", "npcs"))
    assert isinstance(wolf, NPCData)
    assert (wolf.name, wolf.role) == ("Grey Wolf", "foe")


def test_stances_and_hierarchy_of_factions_come_from_rows_and_sentences() -> None:
    told = [
        SourcePage(
            url="http://world.test/zones/ash",
            html="<h1>Ash</h1><p>The <a href='/factions/lamp'>Lamp Guild</a> meets in Ash.</p>",
        ),
        SourcePage(
            url="http://world.test/factions/lamp",
            html="<h1>Lamp Guild</h1><dl><dt>Part of</dt><dd><a href='/factions/league'>Salt League</a></dd></dl>"
            "<p>The Lamp Guild is a small guild of lighters. It is at war with the "
            "<a href='/factions/moths'>Moth Cult</a>. It seeks to light every road.</p>",
        ),
    ]

    found = extract(ZonePages(told, "Ash", "factions"))

    guild = next(one for one in found if isinstance(one, FactionData) and one.name == "Lamp Guild")
    assert (guild.parent_faction_id, guild.level) == ("salt_league", "guild")
    assert [(one.faction_id, one.stance) for one in guild.inter_faction] == [
        ("moth_cult", "hostile")
    ]
    assert guild.goals == ["light every road"]


def test_a_zone_that_no_page_is_about_is_its_name() -> None:
    [zone] = extract(ZonePages(READ, "nowhere_at_all", "zone"))

    assert zone == ZoneData(name="nowhere at all")


async def test_pages_are_read_in_another_process() -> None:
    assert await read_apart(connected_zones, ZonePages(READ, "Ash Hollow")) == connected_zones(
        ZonePages(READ, "Ash Hollow")
    )


def test_lists_under_other_words_are_read_and_a_guild_in_a_name_is_no_faction() -> None:
    told = {
        "maps/harbor": "<h1>Harbor</h1><h3>Exits</h3><ul><li>West: <a href='plains'>Plains</a></li>"
        "<li><a href='mine'>Mine</a> (locked)</li></ul><h3>People here</h3><ul><li>"
        "<a href='../persons/guild-master'>Guild Master</a> (vendor)</li></ul><h3>Foes here</h3><ul>"
        "<li><a href='../foes/goblin'>Goblin</a> level 1</li></ul>"
        "<h3>See also</h3><ul><li><a href='sea'>Sea</a></li></ul>",
        "persons/guild-master": "<h1>Guild Master</h1><table><tr><td>Trade</td><td>vendor of wands</td></tr></table>"
        "<h3>Stands on</h3><ul><li><a href='../maps/harbor'>Harbor</a></li></ul>",
    }
    read = [SourcePage(url=f"http://game.test/{path}", html=html) for path, html in told.items()]

    master, goblin = extract(ZonePages(read, "Harbor", "npcs"))

    assert isinstance(master, NPCData)
    assert isinstance(goblin, NPCData)
    assert (master.name, master.role, master.zone_id) == (
        "Guild Master",
        "vendor of wands",
        "harbor",
    )
    assert (goblin.name, goblin.role) == ("Goblin", "foe")
    assert connected_zones(ZonePages(read, "Harbor")).zone_slugs == ["plains", "mine"]
    assert extract(ZonePages(read, "Harbor", "factions")) == []


QUARRY = """<h1>Grey Quarry</h1><p>Grey Quarry is a pit where slate was cut. By the winch waits Hanno Brill, a patient
old keeper who counts the carts. Behind him lies the Iron Lark, a horn that wakes sleepers. In Early Spring, a guard
stands at the gate, and near Cold Stair, the keeper of the lamps sleeps.</p>"""


def test_a_sentence_tells_what_a_name_is_and_when_or_where_something_is_names_nobody() -> None:
    read = pages(_1=QUARRY)

    assert [str(record.id) for record in extract(ZonePages(read, "grey_quarry", "npcs"))] == [
        "hanno_brill"
    ]
    items = extract(ZonePages(read, "grey_quarry", "narrative_items"))
    assert [str(record.id) for record in items] == ["iron_lark"]
    assert "a horn that wakes sleepers" in items[0].evidence[0].quote
    assert extract(ZonePages(read, "grey_quarry", "factions")) == []


REACH = """<h1>Orla Reach</h1><p>Orla Reach is a quiet sector. The Wreckers' Union has governed it since the war.</p>
<h2>Residents</h2><ul><li><a href="/w/3">Tam Ferrant</a></li><li><a href="/w/4">Ilse Brand</a> - quartermaster of the
Wreckers' Union</li></ul><h2>Gates</h2><ul><li><a href="/w/2">The Scour</a> (one way)</li></ul>"""
SCOUR = """<h1>The Scour</h1><p>The Scour is a desert ruled directly from Orla Reach. From Orla Reach a gate leads into
the Scour, but there is no way back.</p>"""
FREE = """<h1>Port Amity</h1><p>Port Amity is a port. It has no government.</p>"""
SURGEON = """<h1>Tam Ferrant</h1><p>Tam Ferrant is a surgeon who lives in Orla Reach. He lost a hand in the Scour.
He is a brother of nobody here and an old friend of Ilse Brand. Port Amity is where his father died.</p>"""
KEY = """<h1>Whisper Key</h1><p>The Whisper Key is a relic. It can be found in Port Amity.</p>"""
WORLD = pages(_1=REACH, _2=SCOUR, _3=SURGEON, _5=FREE, _6=KEY)


@pytest.mark.parametrize(
    ("zone", "climate", "people", "items", "ways"),
    [
        (
            "Orla Reach",
            "The Wreckers' Union has governed it since the war.",
            {"tam_ferrant", "ilse_brand"},
            set[str](),
            {"The Scour"},
        ),
        (
            "The Scour",
            "The Scour is a desert ruled directly from Orla Reach.",
            set[str](),
            set[str](),
            set[str](),
        ),
        ("Port Amity", "It has no government.", set[str](), {"whisper_key"}, set[str]()),
    ],
)
def test_sentences_tell_who_rules_and_what_is_there_now(
    zone: str, climate: str, people: set[str], items: set[str], ways: set[str]
) -> None:
    [record] = extract(ZonePages(WORLD, zone, "zone"))
    npcs = extract(ZonePages(WORLD, zone, "npcs"))
    things = extract(ZonePages(WORLD, zone, "narrative_items"))

    assert isinstance(record, ZoneData)
    assert record.political_climate == climate
    assert {one.id for one in npcs if isinstance(one, NPCData) and one.zone_id} == people
    assert {one.id for one in things if one.model_dump()["zone_id"]} == items
    assert {one.name for one in connected_zones(ZonePages(WORLD, zone)).zones} == ways


def test_a_list_and_a_sentence_of_two_nouns_tell_what_somebody_is() -> None:
    tam, ilse = extract(ZonePages(WORLD, "Orla Reach", "npcs"))

    assert isinstance(tam, NPCData)
    assert isinstance(ilse, NPCData)
    assert [(one.npc_id, one.type) for one in tam.relationships] == [("ilse_brand", "friend")]
    assert ilse.role == "quartermaster of the Wreckers' Union"


def test_names_by_title_or_given_by_a_word_are_people_and_a_place_lies_west_of_another() -> None:
    read = pages(
        _1="<h1>Brackfield</h1><p>Brackfield is a fortress west of Orla. Sister Maud keeps a chapel there. "
        "A boy named Pip guards the gate. Ships sail to Orla.</p>",
        _2="<h1>Orla</h1><p>Orla is a town.</p>",
    )

    npcs = extract(ZonePages(read, "Brackfield", "npcs"))

    assert {str(one.id) for one in npcs} == {"sister_maud", "pip"}
    assert {one.name for one in connected_zones(ZonePages(read, "Brackfield")).zones} == {"Orla"}
    assert {one.name for one in connected_zones(ZonePages(read, "Orla")).zones} == {"Brackfield"}


@pytest.mark.parametrize(
    ("sentence", "is_there"),
    [
        ("He is in Orla Reach.", True),
        ("He is a warden of Orla Reach.", True),
        ("You can find him in Orla Reach.", True),
        ("Innkeeper of Orla Reach.", True),
        ("Owner of the inn in Orla Reach.", True),
        ("He may be found in Orla Reach.", True),
        ("He may be found by Orla Reach.", False),
        ("He may have been found in Orla Reach.", False),
        ("Former owner of the inn in Orla Reach.", False),
        ("Former innkeeper of Orla Reach.", False),
        ("Brother of the smith in Orla Reach.", False),
        ("The surgeon works in Orla Reach.", True),
        ("The innkeeper works in Orla Reach.", False),
        ("He is no longer in Orla Reach.", False),
        ("You cannot find him in Orla Reach.", False),
        ("He will find you in Orla Reach.", False),
        ("He fled from Orla Reach.", False),
        ("Tam fled from Orla Reach.", False),
        ("The master came from Orla Reach.", False),
    ],
)
def test_where_somebody_is_now_and_where_not(sentence: str, *, is_there: bool) -> None:
    read = pages(
        _1="<h1>Orla Reach</h1><p>Orla Reach is a quiet sector.</p>",
        _2=f"<h1>Tam Ferrant</h1><p>Tam Ferrant is a surgeon. {sentence}</p>",
    )

    [tam] = extract(ZonePages(read, "Orla Reach", "npcs"))

    assert isinstance(tam, NPCData)
    assert bool(tam.zone_id) is is_there


TIDES = {
    "regions": "<h1>Regions of the Tides</h1><ul><li><a href='quay'>Brack Quay</a></li>"
    "<li><a href='spire'>Gullspire</a></li></ul>",
    "quay": "<h1>Brack Quay</h1><table><tr><th>Factions</th><td><a href='rope'>Rope and Tar</a>, "
    "<a href='tide'>The Quiet Tide</a></td></tr></table><p>Boats sail from here to Gullspire.</p>"
    "<h2>Notable inhabitants</h2><ul><li>Tobin Reed, smuggler (<a href='tide'>The Quiet Tide</a>)</li></ul>"
    "<h2>Ways out</h2><ul><li>West: <a href='reef'>Reef</a></li></ul>",
}
"""A site whose lists and rows name things beside links to others."""


def test_what_lists_and_rows_of_links_name_is_found_whoever_else_they_link() -> None:
    pages = [SourcePage(url=f"http://tides.test/{name}", html=html) for name, html in TIDES.items()]

    names = {
        category: sorted(str(one.id) for one in extract(ZonePages(pages, "Brack Quay", category)))
        for category in ("npcs", "factions")
    }
    ways = connected_zones(ZonePages(pages, "Brack Quay")).zone_slugs

    assert names == {"npcs": ["tobin_reed"], "factions": ["quiet_tide", "rope_and_tar"]}
    assert ways == ["gullspire"]


def test_what_is_told_of_a_thing_ends_where_another_verb_tells_more() -> None:
    pytest.importorskip("spacy")
    html = (
        "<h1>The Ninth Lamp</h1><p>The Ninth Lamp is a lamp. It was carried by the Pearl Regent and now "
        "lies in Lantern Reef.</p>"
    )
    reef = "<h1>Lantern Reef</h1><h2>Items</h2><ul><li><a href='lamp'>The Ninth Lamp</a></li></ul>"
    pages = [
        SourcePage(url="http://tides.test/lamp", html=html),
        SourcePage(url="http://tides.test/reef", html=reef),
    ]

    [lamp] = extract(ZonePages(pages, "Lantern Reef", "narrative_items"))

    assert lamp.model_dump()["wielder_lineage"] == ["the Pearl Regent"]
