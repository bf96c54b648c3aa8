"""What is done at a tick, by the clock and by what the store has; nothing waits for a time."""

from __future__ import annotations

import pytest

from wavewright.config.schedules import ScheduleTerms
from wavewright.engine.service.schedules.instants import delay_of, instants_after
from wavewright.engine.service.schedules.rules import Outcome, ScheduleState, decide_tick

HOUR = 3600.0
MIDNIGHT = 20_000 * 24 * HOUR


def terms(**fields: object) -> ScheduleTerms:
    return ScheduleTerms.model_validate({"every": "1h", **fields})


def outcomes(given: ScheduleTerms, state: ScheduleState, now: float) -> list[tuple[float, Outcome]]:
    """Return what comes of instants, as hours after midnight."""
    tick = decide_tick(given, "a", state, now)
    return [((instant - MIDNIGHT) / HOUR, outcome) for instant, outcome in tick.outcomes]


def test_a_schedule_that_is_new_begins_at_its_next_instant() -> None:
    tick = decide_tick(terms(), "a", ScheduleState(), MIDNIGHT + 10)

    assert not tick.outcomes
    assert tick.seen == MIDNIGHT + 10
    assert outcomes(terms(), ScheduleState(tick.seen), MIDNIGHT + HOUR) == [(1, "begun")]


def test_an_instant_is_decided_once() -> None:
    first = decide_tick(terms(), "a", ScheduleState(MIDNIGHT), MIDNIGHT + HOUR + 1)

    assert outcomes(terms(), ScheduleState(first.seen), MIDNIGHT + HOUR + 2) == []


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        ("skip", [(1, "missed"), (2, "missed"), (3, "missed")]),
        ("last", [(1, "missed"), (2, "missed"), (3, "begun")]),
        ("all", [(1, "begun"), (2, "waiting"), (3, "waiting")]),
    ],
)
def test_what_was_missed_is_made_up_for_as_the_schedule_says(
    missed: str, expected: list[tuple[float, Outcome]]
) -> None:
    found = outcomes(terms(missed=missed), ScheduleState(MIDNIGHT), MIDNIGHT + 3.5 * HOUR)

    assert sorted(found) == expected


def test_an_instant_on_time_waits_for_those_that_are_made_up_for_with_it() -> None:
    given = terms(missed="all", overlap="skip")
    found = outcomes(given, ScheduleState(MIDNIGHT), MIDNIGHT + 3 * HOUR + 5)

    assert found == [(1, "begun"), (2, "waiting"), (3, "waiting")]


def test_nothing_is_made_up_for_that_is_longer_ago_than_the_window() -> None:
    given = terms(missed="all", window="90m")
    found = outcomes(given, ScheduleState(MIDNIGHT), MIDNIGHT + 4.5 * HOUR)

    assert [one for one in found if one[1] != "missed"] == [(3, "begun"), (4, "waiting")]


@pytest.mark.parametrize("missed", ["skip", "last", "all"])
def test_what_is_longer_ago_than_the_window_was_missed(missed: str) -> None:
    given = terms(every="168h", missed=missed)
    due = next(instants_after(given, MIDNIGHT))

    found = decide_tick(given, "a", ScheduleState(due - HOUR), due + 29 * HOUR)

    assert found.outcomes == [(due, "missed")]


def test_what_is_longer_ago_than_the_window_is_told_once_while_a_jitter_goes_on() -> None:
    given = terms(window="1m", jitter="10m")
    seen = MIDNIGHT - 9 * HOUR
    now = next(at for at in instants_after(given, MIDNIGHT) if delay_of(given, "a", at) > 2)

    first = decide_tick(given, "a", ScheduleState(seen), now + 1)
    again = decide_tick(given, "a", ScheduleState(first.seen), now + 2)

    assert [outcome for _, outcome in first.outcomes] == ["missed"]
    assert not again.outcomes


def test_an_instant_on_time_stands_for_those_that_were_missed() -> None:
    found = outcomes(terms(), ScheduleState(MIDNIGHT), MIDNIGHT + 3 * HOUR + 5)

    assert sorted(found) == [(1, "missed"), (2, "missed"), (3, "begun")]


@pytest.mark.parametrize(
    ("overlap", "expected", "cancels"),
    [("skip", "skipped", False), ("queue", "waiting", False), ("cancel_other", "waiting", True)],
)
def test_an_instant_that_meets_an_earlier_run_does_as_the_schedule_says(
    overlap: str, expected: Outcome, *, cancels: bool
) -> None:
    state = ScheduleState(MIDNIGHT, is_busy=True)
    tick = decide_tick(terms(overlap=overlap), "a", state, MIDNIGHT + HOUR)

    assert [outcome for _, outcome in tick.outcomes] == [expected]
    assert tick.cancels_other is cancels


def test_an_instant_that_waits_begins_when_the_earlier_run_has_ended() -> None:
    state = ScheduleState(MIDNIGHT + 1.5 * HOUR, waiting=[MIDNIGHT + HOUR])

    assert outcomes(terms(overlap="queue"), state, MIDNIGHT + 1.6 * HOUR) == [(1, "begun")]


def test_a_paused_schedule_begins_nothing_and_misses_nothing() -> None:
    tick = decide_tick(
        terms(missed="all"), "a", ScheduleState(MIDNIGHT, is_paused=True), MIDNIGHT + 5 * HOUR
    )

    assert not tick.outcomes
    assert outcomes(terms(missed="all"), ScheduleState(tick.seen), MIDNIGHT + 5.5 * HOUR) == []


def test_an_instant_that_goes_by_in_a_pause_is_to_be_remembered() -> None:
    def passes(**fields: object) -> bool:
        state = ScheduleState(MIDNIGHT + 10)
        return decide_tick(terms(paused=True, **fields), "a", state, MIDNIGHT + HOUR + 1).passes

    assert passes()
    assert not passes(every="3h")


def test_a_clock_that_jumps_ahead_leaves_out_what_lies_between() -> None:
    found = outcomes(terms(missed="skip"), ScheduleState(MIDNIGHT), MIDNIGHT + 400 * HOUR + 5)

    assert found[-1:] == [(400, "begun")]
    assert {outcome for _, outcome in found[:-1]} == {"missed"}
    assert len(found) <= 26


def test_a_clock_that_goes_back_begins_nothing_until_the_next_instant() -> None:
    tick = decide_tick(terms(), "a", ScheduleState(MIDNIGHT + 9.5 * HOUR), MIDNIGHT + 2.5 * HOUR)

    assert not tick.outcomes
    assert outcomes(terms(), ScheduleState(tick.seen), MIDNIGHT + 3 * HOUR) == [(3, "begun")]


def test_a_run_begins_after_its_jitter_and_before_the_jitter_is_over() -> None:
    given = terms(jitter="10m")
    state = ScheduleState(MIDNIGHT)
    times = range(0, 700, 10)
    begun = next(seconds for seconds in times if outcomes(given, state, MIDNIGHT + HOUR + seconds))

    assert 0 < begun <= 600
    assert outcomes(given, state, MIDNIGHT + HOUR + begun) == [(1, "begun")]
