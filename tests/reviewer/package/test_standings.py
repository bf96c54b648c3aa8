"""Where the steps of a run stand that has not ended."""

from __future__ import annotations

from tests.reviewer.scripted_runs import goal_for, plan_of
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import (
    Event,
    ItemFinished,
    Noted,
    PlanAccepted,
    RunFinished,
    RunStarted,
    StepError,
    StepFinished,
    StepStarted,
    WaveFinished,
    WaveStarted,
)
from wavewright.planner.types import PlanHash, RunId, StepId
from wavewright.reviewer.package.builder import RunNow, stored_package
from wavewright.reviewer.package.summary import render_summary

_STANDING_PLAN = plan_of(
    {"id": "first"},
    {"id": "beside"},
    {"id": "items", "for_each": [1, 2, 3], "depends_on": ["first"]},
    {"id": "last", "depends_on": ["items"]},
)


def begun() -> list[Event]:
    goal = goal_for(_STANDING_PLAN).model_dump(mode="json")
    plan = _STANDING_PLAN.model_dump(mode="json", by_alias=True)
    return [
        RunStarted(RunId("run-1"), 0.0, "Test job", goal, 0.0),
        PlanAccepted(0.0, plan, PlanHash("h"), "given"),
    ]


def standings(now: RunNow, *more: Event) -> dict[str, str]:
    package = stored_package(fold([*begun(), *more]), now)
    assert package is not None
    assert package.status == now.status
    assert package.timings.finished is None
    assert not [text for text in package.warnings if "never ran" in text]
    return {entry.id: entry.status for entry in package.execution_log}


FIRST, BESIDE, ITEMS = StepId("first"), StepId("beside"), StepId("items")


def test_a_step_waits_is_ready_runs_or_asks() -> None:
    wave = WaveStarted(1.0, 0, (FIRST, BESIDE))
    started = StepStarted(2.0, FIRST)

    assert standings(RunNow("running", 5.0)) == {
        "first": "ready",
        "beside": "ready",
        "items": "waiting",
        "last": "waiting",
    }
    assert standings(RunNow("running", 5.0, frozenset({BESIDE})), wave, started) == {
        "first": "running",
        "beside": "asking",
        "items": "waiting",
        "last": "waiting",
    }
    # A wave that has ended is not followed by running steps before the next one begins.
    ended = (StepFinished(3.0, FIRST, "ok"), StepFinished(3.0, BESIDE, "ok"), WaveFinished(3.0, 0))
    assert standings(RunNow("running", 5.0), wave, started, *ended)["items"] == "waiting"
    assert set(standings(RunNow("waiting_for_answer", 5.0, frozenset({FIRST})), wave).values()) == {
        "asking",
        "waiting",
    }


def test_a_step_that_was_cut_off_stands_anew_once_the_run_goes_on() -> None:
    cut = (WaveStarted(1.0, 0, (FIRST, BESIDE)), StepFinished(2.0, FIRST, "cancelled"))
    again = Noted(3.0, "resumed", {})

    assert standings(RunNow("interrupted", 5.0), *cut)["first"] == "cancelled"
    assert standings(RunNow("running", 5.0), *cut, again)["first"] == "ready"


def test_a_running_step_has_its_time_and_its_items_so_far() -> None:
    events = (
        StepFinished(1.0, FIRST, "ok"),
        StepStarted(2.0, ITEMS),
        ItemFinished(3.0, ITEMS, 0, None, "ok"),
        ItemFinished(3.0, ITEMS, 1, None, "failed", error=StepError("tool", "no")),
    )
    package = stored_package(fold([*begun(), *events]), RunNow("running", 7.0))

    assert package is not None
    [entry] = [entry for entry in package.execution_log if entry.id == ITEMS]
    assert (entry.status, entry.started, entry.seconds, entry.items) == (
        "running",
        2.0,
        5.0,
        (1, 3),
    )


def test_a_run_whose_job_was_given_up_says_why() -> None:
    given_up = "started 5 times, and never finished"
    package = stored_package(fold(begun()), RunNow("interrupted", 7.0, given_up=given_up))

    assert package is not None
    assert package.reason.endswith(f"its job was given up: {given_up}")
    assert given_up in render_summary(package)


def test_the_text_of_a_running_run_counts_items_and_failed_ones() -> None:
    failed = StepError("tool", "no")
    events = (
        StepFinished(1.0, FIRST, "ok"),
        StepStarted(2.0, ITEMS),
        ItemFinished(3.0, ITEMS, 0, None, "ok"),
        ItemFinished(3.0, ITEMS, 1, None, "failed", error=failed),
    )
    package = stored_package(fold([*begun(), *events]), RunNow("running", 7.0))

    assert package is not None
    text = render_summary(package)
    assert text.startswith("RUNNING  Test job\n1 of 4 steps have an output.\n")
    [line] = [line for line in text.splitlines() if " items " in line]
    assert line.split()[2:] == ["look", "running", "1/3", "5", "s", "1", "failed"]


def test_a_step_that_had_asked_when_the_run_was_cancelled_is_not_said_to_have_never_run() -> None:
    asked = Noted(2.0, "approval_wanted", {"subject": "step", "binding": {"step": FIRST}})
    cancelled = RunFinished(3.0, "cancelled", "cancelled by ann")

    package = stored_package(fold([*begun(), WaveStarted(1.0, 0, (FIRST,)), asked, cancelled]))

    assert package is not None
    assert {entry.id: entry.reason for entry in package.execution_log} == {
        "first": "had asked a person when the run ended",
        "beside": "never ran",
        "items": "never ran",
        "last": "never ran",
    }
    assert "step 'first' had asked a person when the run ended" in package.warnings
    assert "had asked a person when the run ended" in render_summary(package)
