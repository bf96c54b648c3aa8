"""Levels of a zone, in the words that pages use."""

from __future__ import annotations

import pytest

from wavewright.packs.lore.extraction.cues import ZONE_FACTS

LEVELS = next(cues for cues in ZONE_FACTS if cues.field == "level_range")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Danger level: 1\N{EN DASH}2", "1\N{EN DASH}2"),
        ("A zone for levels 10 through 20.", "10 through 20"),
        ("Monsters here are lvl 7-9.", "7-9"),
        ("It suits level 3 to level 5 players.", "3 to level 5"),
        ("Level range: 12 ~ 15", "12 ~ 15"),
        ("The lower level holds a forge.", None),
    ],
)
def test_levels_are_found_in_a_sentence(text: str, value: str | None) -> None:
    assert LEVELS.pattern is not None
    match = LEVELS.pattern.search(text)

    assert (match and match["value"]) == value
