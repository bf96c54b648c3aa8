"""Levels of a zone, in the words that pages use."""

from __future__ import annotations

from typing import Final

import pytest

from wavewright.packs.extraction.structure import SourcePage
from wavewright.packs.lore.extraction.levels import levels_of_value, levels_told
from wavewright.packs.lore.extraction.records import ZonePages, extract
from wavewright.packs.lore.models import LevelRange, ZoneData

TOLD: Final = {
    "Danger level: 1\N{EN DASH}2": "1-2",
    "Danger Level - 3-6": "3-6",
    "The danger level of Gloam is 3.": "3-3",
    "The recommended level for Gloam is 3\N{EM DASH}6.": "3-6",
    "Threat levels range from 3 to 6.": "3-6",
    "A zone for levels 10 through 20.": "10-20",
    "A wood for levels twelve to eighteen.": "12-18",
    "Monsters here are lvl 7-9.": "7-9",
    "It suits level 3 to level 5 players.": "3-5",
    "Gloam is a wood for players between levels 3 and 5.": "3-5",
    "Suited to adventurers of level 5+.": "5+",
    "Level 20 or higher.": "20+",
    "Lv. 5+": "5+",
    "Gloam covers levels 3 to 7.": "3-7",
    "Recommended for level 12.": "12-12",
    "It is meant for characters of level 12 and above.": "12+",
    "Characters should be at least level 15.": "15+",
    "Minimum level: 30.": "30+",
    "Level requirement: 40+": "40+",
    "The level range is 10 to 20.": "10-20",
    "Gloam is best at levels 8 or 9.": "8-9",
    "Level range: 12 ~ 15": "12-15",
    "Level 20 and above": "20+",
    "A level 3-6 zone in the north.": "3-6",
    "Gloam (levels 3-6) is a wood.": "3-6",
    "Gloam was level 3-5 before the Fall; it is level 8-10 now.": "8-10",
    "Gloam is not for beginners: suited for level 25 and above.": "25+",
    "You should be level 18 or higher.": "18+",
}
NOT_TOLD: Final = (
    "The lower level holds a forge.",
    "Level 2 holds the forge.",
    "Gloam lies 30 m above sea level.",
    "Gloam lies at a level of 400 m.",
    "Water level: 12 metres.",
    "Danger level: 4.5",
    "Danger level: 2.5-3.5",
    "Danger level: -4",
    "Danger level: 3/5",
    "Danger level: 3 of 5",
    "Danger level: 10 %",
    "Levels: 1,000-2,000",
    "Gloam is for players up to level 10.",
    "Players of level 10 or lower come here.",
    "Gloam is a wood for levels 7-4.",
    "Gloam is not a level 3-6 zone.",
    "Gloam isn't for levels 3-6.",
    "Gloam is hardly suitable below level 12.",
    "Gloam's danger level was never 3-6.",
    "Gloam lies beside the Fen (levels 1-3).",
    "The warden is a level 30 mage who lives in Gloam.",
    "Gloam is where a level 30 mage lives.",
    "Gloam has level 3 of a mine.",
)


@pytest.mark.parametrize(("sentence", "levels"), TOLD.items())
def test_levels_are_found_in_a_sentence(sentence: str, levels: str) -> None:
    assert levels_told(sentence, "Gloam") == levels


@pytest.mark.parametrize("sentence", NOT_TOLD)
def test_what_is_denied_or_no_level_of_the_zone_is_not_taken_for_its_levels(sentence: str) -> None:
    assert levels_told(sentence, "Gloam") == ""


@pytest.mark.parametrize(
    ("value", "levels"),
    [
        ("4 to 7 (heroic: 30)", "4-7"),
        ("not 3-6 but 8-9", "8-9"),
        ("Normal: 60 / Heroic: 70", "60-60"),
        ("3.5", ""),
        ("4-7/10", ""),
        ("3 of 5", ""),
        ("-4", ""),
        ("low", ""),
        ("20 or higher", "20+"),
        ("min. 20", "20+"),
        ("up to 10", ""),
        ("10 or lower", ""),
        ("Lv5-Lv9", "5-9"),
        ("12th", ""),
    ],
)
def test_levels_are_whole_numbers_of_a_row(value: str, levels: str) -> None:
    assert levels_of_value(value) == levels


@pytest.mark.parametrize(
    "body",
    [
        "<p>It is dark there. Danger level: 4-7</p>",
        "<ul><li>Danger level: 4-7</li></ul>",
        "<h2>Danger level</h2><p>4-7</p>",
        "<p>Gloam is a wood for Lv. 4-7.</p>",
        "<table><tr><th>Danger level</th><td>4-7</td></tr></table>",
        "<p><b>Danger level:</b> 4-7<br>It is dark there.</p>",
    ],
)
def test_levels_are_found_wherever_a_page_tells_them(body: str) -> None:
    page = SourcePage(url="http://g.test/gloam", html=f"<main><h1>Gloam</h1>{body}</main>")

    [zone] = extract(ZonePages([page], "Gloam", "zone"))

    assert isinstance(zone, ZoneData)
    assert zone.level_range == LevelRange(min=4, max=7)


@pytest.mark.parametrize(
    "row", ["<td>Minimum level</td><td>30</td>", "<td>Levels</td><td>30 or higher</td>"]
)
def test_levels_without_an_upper_end_have_none(row: str) -> None:
    page = SourcePage(
        url="http://g.test/gloam", html=f"<main><h1>Gloam</h1><table><tr>{row}</tr></table></main>"
    )

    [zone] = extract(ZonePages([page], "Gloam", "zone"))

    assert isinstance(zone, ZoneData)
    assert zone.level_range == LevelRange(min=30)
