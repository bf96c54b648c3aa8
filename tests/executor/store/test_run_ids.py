"""Run ids sort by time and are named by a part of them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from wavewright.executor.store.errors import RunNotFound
from wavewright.executor.store.journal import match_run, new_run_id
from wavewright.planner.types import RunId

RUNS = [RunId("20261120-080000-3f2a7c"), RunId("20261121-231907-3fb001"), RunId("20261121-231908-a11ce5")]


def test_an_id_tells_the_time_and_six_random_characters() -> None:
    assert new_run_id(1_795_303_147.9, lambda size: bytes(range(10, 10 + size))) == "20261121-231907-0a0b0c"


@given(st.lists(st.integers(min_value=0, max_value=4_000_000_000), min_size=2, max_size=5))
def test_ids_sort_by_time(instants: list[int]) -> None:
    ids = [new_run_id(instant) for instant in sorted(set(instants))]

    assert ids == sorted(ids)


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        pytest.param("20261120", RUNS[0], id="time"),
        pytest.param("3f2", RUNS[0], id="tail"),
        pytest.param("3FB", RUNS[1], id="capitals"),
        pytest.param("20261121-231908-a11ce5", RUNS[2], id="whole"),
    ],
)
def test_one_run_is_named_by_the_start_of_its_id_or_tail(prefix: str, found: RunId) -> None:
    assert match_run(prefix, RUNS) == found


def test_a_whole_id_is_found_even_where_it_starts_another() -> None:
    assert match_run("a", [RunId("a"), RunId("ab")]) == "a"


@pytest.mark.parametrize(
    ("prefix", "message"),
    [
        pytest.param(
            "3f",
            "2 runs start with '3f': 20261121-231907-3fb001, 20261120-080000-3f2a7c\n"
            "  --> runs.db\n"
            "  = help: type more of the id",
            id="ambiguous",
        ),
        pytest.param(
            "3f2a8",
            "no run starts with '3f2a8'\n  --> runs.db\n  = help: did you mean 20261120-080000-3f2a7c?",
            id="near",
        ),
        pytest.param(
            "zzz",
            "no run starts with 'zzz'\n"
            "  --> runs.db\n"
            "  = help: `wavewright runs` lists them; the newest is 20261121-231908-a11ce5",
            id="far",
        ),
        pytest.param(
            "",
            "no run starts with ''\n"
            "  --> runs.db\n"
            "  = help: `wavewright runs` lists them; the newest is 20261121-231908-a11ce5",
            id="empty",
        ),
    ],
)
def test_what_names_no_one_run_is_refused_with_a_way_on(prefix: str, message: str) -> None:
    with pytest.raises(RunNotFound) as caught:
        match_run(prefix, RUNS, place="runs.db")

    assert str(caught.value) == message


def test_an_empty_journal_says_how_to_make_a_run() -> None:
    with pytest.raises(RunNotFound) as caught:
        match_run("", [])

    assert str(caught.value) == "this journal has no runs yet\n  = help: `wavewright run JOB` makes one"
