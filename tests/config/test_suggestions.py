"""Names that an author may have meant."""

from __future__ import annotations

import pytest

from wavewright.config.suggestions import did_you_mean


@pytest.mark.parametrize(
    ("name", "hint"), [("fetc", "did you mean 'fetch'?"), ("FETCH", "did you mean 'fetch'?")]
)
def test_the_nearest_name_is_suggested_whatever_its_case(name: str, hint: str) -> None:
    assert did_you_mean(name, ["parse", "fetch"]) == hint


def test_several_names_are_suggested_where_several_are_asked_for() -> None:
    assert did_you_mean("fetch", ["fetch_a", "fetch_b", "parse"], 2) == "did you mean 'fetch_b' or 'fetch_a'?"


@pytest.mark.parametrize("name", ["fetch", "quite_another", "f" * 1_000])
def test_nothing_is_suggested_for_a_known_name_or_one_that_nothing_is_like(name: str) -> None:
    assert did_you_mean(name, ["fetch", "parse"]) is None
