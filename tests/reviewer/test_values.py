from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, strategies as st

from wavewright.planner.types import Json
from wavewright.reviewer.values import brief, duration_text, read_time, shape, visible

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: (
        st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=9), inner, max_size=6)
    ),
    max_leaves=40,
)


@given(JSON)
def test_a_brief_value_is_one_short_line(value: Json) -> None:
    assert len(brief(value)) <= 400
    assert "\n" not in brief(value)


@given(st.text())
def test_what_is_made_visible_can_be_printed(text: str) -> None:
    shown = visible(text)

    assert all(
        unicodedata.category(character) not in {"Cc", "Cf", "Cs"} or character in "\n\t"
        for character in shown
    )
    assert visible(shown) == shown


@pytest.mark.parametrize("unseen", ["\u200b", "\u202e", "\u3164", "\u2800", "\ufe01", "\U000e0150"])
def test_what_shows_nothing_is_made_visible(unseen: str) -> None:
    assert visible(f"pay{unseen}pal") == f"pay{unseen.encode('unicode_escape').decode()}pal"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([1, 2], "[1, 2]"),
        (list(range(100)), "100 entries"),
        ({"a": "x" * 500}, "{a}"),
        ("x" * 500, '"' + "x" * 57 + '…"'),
        (None, "null"),
    ],
)
def test_values_are_written_out_where_they_are_short(value: Json, text: str) -> None:
    assert brief(value) == text


def test_a_shape_holds_no_text_of_the_value() -> None:
    assert shape({"note": "secret words"}) == "{note}"
    assert shape("secret words") == "12 characters"
    assert shape(["secret"]) == "1 entry"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.0042, "4.2 ms"),
        (1, "1 s"),
        (89, "89 s"),
        (5400, "90 min"),
        (86400, "24 h"),
        (4e5, "4.6 days"),
        (1e8, "3.2 years"),
    ],
)
def test_a_duration_is_told_in_the_unit_that_suits_it(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    "value", [None, 3, "", "soon", "2010-13-01", "0001-01-01T00:00:00+14:00", "x" * 100]
)
def test_what_is_no_time_is_none(value: Json) -> None:
    assert read_time(value) is None
