"""Durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from wavewright.config.value_types import parse_duration, written_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(60, "1m"), (900, "15m"), (5_400, "1h30m"), (86_400, "1d"), (90_061.5, "1d1h1m1s500ms")],
)
def test_a_duration_is_written_in_its_units(seconds: float, text: str) -> None:
    assert written_duration(seconds) == text


@given(st.integers(min_value=0, max_value=10**10))
def test_what_is_written_of_a_duration_is_read_as_it(milliseconds: int) -> None:
    assert parse_duration(written_duration(milliseconds / 1000)) == pytest.approx(
        milliseconds / 1000
    )
