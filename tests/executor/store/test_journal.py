"""What every journal promises, asked of those in memory, in a file and in a database; and the ids
of runs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, strategies as st

from tests.executor.event_examples import run_finished, run_started, step_finished
from tests.support.postgres import PostgresServer
from wavewright.executor.events.types import (
    Event,
    GateRecord,
    ItemFinished,
    Noted,
    PlanAccepted,
    RetryOf,
    RunFinished,
    StepFinished,
)
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.errors import RunBusy, RunNotFound
from wavewright.executor.store.journal import (
    Journal,
    MemoryJournal,
    StoredOutput,
    match_run,
    new_run_id,
)
from wavewright.planner.types import (
    GateId,
    GateSeverity,
    JsonObject,
    PlanHash,
    RunId,
    StepId,
    StepKey,
)

pytestmark = pytest.mark.anyio

RUN = RunId("20261121-231907-3f2a7c")
OTHER = RunId("20261121-231908-b00b1e")


@pytest.fixture(params=["memory", "sqlite", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    journal = _journal(request, tmp_path)
    yield journal
    await journal.aclose()


def _journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    match request.param:
        case "memory":
            return MemoryJournal()
        case "sqlite":
            return SqliteJournal(tmp_path / "journal.db")
        case _:
            server: PostgresServer = request.getfixturevalue("postgres")
            return PostgresJournal(server.database())


async def test_events_come_back_in_the_order_of_appending(journal: Journal) -> None:
    events: list[Event] = [run_started(RUN), step_finished("a"), step_finished("b"), run_finished()]

    await journal.append(RUN, events[:2])
    await journal.append(RUN, events[2:])

    assert await journal.load(RUN) == events


async def test_runs_are_kept_apart(journal: Journal) -> None:
    await journal.append(RUN, [run_started(RUN)])
    await journal.append(OTHER, [run_started(OTHER)])

    assert await journal.load(RUN) == [run_started(RUN)]
    assert await journal.load(OTHER) == [run_started(OTHER)]


async def test_a_run_that_does_not_exist_has_no_events(journal: Journal) -> None:
    assert await journal.load(RUN) == []


async def test_a_run_has_one_owner_until_it_is_closed(journal: Journal) -> None:
    await journal.open_run(RUN)
    with pytest.raises(RunBusy, match="open already in this process"):
        await journal.open_run(RUN)
    await journal.close_run(RUN)

    await journal.open_run(RUN)


async def test_appending_opens_the_run(journal: Journal) -> None:
    await journal.append(RUN, [run_started(RUN)])

    with pytest.raises(RunBusy):
        await journal.open_run(RUN)


async def test_an_output_is_found_by_its_step_key_in_any_run(journal: Journal) -> None:
    await journal.append(RUN, [run_started(RUN), step_finished("fetch", key="k1", output=[1, 2])])

    assert await journal.find_output(StepKey("k1")) == StoredOutput(
        RUN, StepId("fetch"), StepKey("k1"), 2.0, "ok", [1, 2]
    )
    assert await journal.find_output(StepKey("k2")) is None


async def test_the_newest_output_of_a_key_is_found(journal: Journal) -> None:
    await journal.append(RUN, [step_finished("fetch", key="k", output="old")])
    await journal.append(OTHER, [step_finished("fetch", key="k", output="new")])

    stored = await journal.find_output(StepKey("k"))

    assert stored is not None
    assert (stored.run, stored.output) == (OTHER, "new")


async def test_an_item_is_found_by_its_key(journal: Journal) -> None:
    item = ItemFinished(
        at=3.0,
        step=StepId("each"),
        index=4,
        key=StepKey("k"),
        cache_key=StepKey("k"),
        status="empty",
        output=[],
    )
    await journal.append(RUN, [item])

    assert await journal.find_output(StepKey("k")) == StoredOutput(
        RUN, item.step, StepKey("k"), 3.0, "empty", []
    )


def _with_gate(severity: GateSeverity) -> StepFinished:
    gate = GateRecord(GateId("g"), StepId("s"), "check", severity, "fail", "size(output) > 0")
    return StepFinished(
        at=1.0,
        step=StepId("s"),
        status="ok",
        key=StepKey("k"),
        cache_key=StepKey("k"),
        output=[1],
        gates=(gate,),
    )


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(step_finished("s", status="failed", key="k"), id="failed"),
        pytest.param(step_finished("s", status="reused", key="k", output=1), id="reused"),
        pytest.param(step_finished("s", output=1), id="no-key"),
        pytest.param(_with_gate("block"), id="red-block-gate"),
        pytest.param(
            StepFinished(
                at=1.0,
                step=StepId("s"),
                status="ok",
                key=StepKey("k"),
                cache_key=StepKey("k"),
                output=[1],
                items=(1, 2),
            ),
            id="items-missing",
        ),
    ],
)
async def test_an_output_that_should_be_made_again_is_not_found(
    journal: Journal, event: StepFinished
) -> None:
    await journal.append(RUN, [event])

    assert await journal.find_output(StepKey("k")) is None


async def test_a_warning_gate_does_not_hide_an_output(journal: Journal) -> None:
    await journal.append(RUN, [_with_gate("warn")])

    assert await journal.find_output(StepKey("k")) is not None


async def test_runs_are_listed_newest_first_with_their_steps_by_last_ending(
    journal: Journal,
) -> None:
    await journal.append(
        RUN,
        [
            run_started(RUN, job="prices", at=10.0),
            step_finished("a", status="failed"),
            step_finished("b", status="empty"),
            step_finished("c", status="failed"),
            step_finished("d", status="skipped"),
            step_finished("a"),
            run_finished(at=20.0),
        ],
    )
    await journal.append(OTHER, [run_started(OTHER, job="news", at=11.0), step_finished("a")])

    newest, oldest = await journal.list_runs()

    assert (newest.run, newest.job, newest.status, newest.started, newest.finished) == (
        OTHER, "news", "running", 11.0, None,
    )  # fmt: skip
    assert (oldest.run, oldest.job, oldest.status, oldest.started, oldest.finished) == (
        RUN, "prices", "achieved", 10.0, 20.0,
    )  # fmt: skip
    assert (newest.steps, newest.ok, newest.failed) == (1, 1, 0)
    assert (oldest.steps, oldest.ok, oldest.failed) == (4, 2, 1)


async def test_achieved_runs_of_a_job_are_found_by_its_name_and_file(journal: Journal) -> None:
    started = replace(run_started(RUN, job="digest"), goal={"origin": "jobs/digest.yaml"})
    others = {
        "run-1": started,
        "run-2": replace(started, job="news"),
        "run-3": replace(started, goal={"origin": "other/digest.yaml"}),
        "run-4": replace(started, goal={}),
        "run-5": started,
        "run-6": started,
        "run-7": started,
    }
    for run, event in others.items():
        ended = RunFinished(20.0, "failed" if run == "run-6" else "achieved")
        await journal.append(RunId(run), [replace(event, run=RunId(run)), ended])

    async def listed(before: str | None, limit: int) -> list[str]:
        start = None if before is None else RunId(before)
        rows = await journal.list_achieved("digest", "jobs/digest.yaml", before=start, limit=limit)
        return [row.run for row in rows]

    assert await listed(None, 2) == ["run-7", "run-5"]
    assert await listed("run-5", 2) == ["run-1"]


async def test_retries_of_a_run_are_found_by_the_first_of_their_chain(journal: Journal) -> None:
    first, other = RunId("run-1"), RunId("run-2")
    retried = {"run-3": (first, first), "run-4": (other, other), "run-5": (RunId("run-3"), first)}
    for run in (first, other):
        await journal.append(run, [run_started(run)])
    for name, (donor, origin) in retried.items():
        begun = replace(run_started(RunId(name)), retry=RetryOf(donor, origin))
        await journal.append(RunId(name), [begun])

    assert [row.run for row in await journal.list_retries(first)] == ["run-5", "run-3"]


async def test_a_run_that_has_not_ended_is_listed_with_the_steps_of_its_plan(
    journal: Journal,
) -> None:
    await journal.append(
        RUN,
        [
            run_started(RUN),
            PlanAccepted(2.0, {"steps": [{"id": step} for step in "abcd"]}, PlanHash("h"), "given"),
            step_finished("a"),
        ],
    )

    [row] = await journal.list_runs()

    assert (row.ok, row.steps) == (1, 4)


@pytest.mark.parametrize("status", ["cancelled", "failed"])
async def test_a_run_that_was_cut_short_is_listed_with_all_steps_of_its_plan(
    journal: Journal, status: Literal["cancelled", "failed"]
) -> None:
    plan: JsonObject = {"steps": [{"id": step} for step in "abcd"]}
    await journal.append(
        RUN,
        [
            run_started(RUN),
            PlanAccepted(2.0, plan, PlanHash("h"), "given"),
            step_finished("a"),
            RunFinished(4.0, status),
        ],
    )

    [row] = await journal.list_runs()

    assert (row.status, row.ok, row.steps) == (status, 1, 4)


async def test_a_run_that_nobody_has_open_and_that_did_not_end_is_interrupted(
    journal: Journal,
) -> None:
    await journal.append(RUN, [run_started(RUN), step_finished("a")])
    await journal.close_run(RUN)

    (row,) = await journal.list_runs()

    assert row.status == "interrupted"


async def test_a_resumed_run_is_running_again_with_its_first_steps_counted(
    journal: Journal,
) -> None:
    await journal.append(
        RUN, [run_started(RUN), step_finished("a"), RunFinished(at=3.0, status="interrupted")]
    )
    await journal.append(RUN, [step_finished("b")])

    (row,) = await journal.list_runs()

    assert (row.status, row.finished, row.steps) == ("running", None, 2)


async def test_an_interrupted_run_that_is_open_again_is_running(journal: Journal) -> None:
    await journal.append(RUN, [run_started(RUN), RunFinished(at=3.0, status="interrupted")])
    await journal.close_run(RUN)
    (before,) = await journal.list_runs()
    await journal.open_run(RUN)
    await journal.append(RUN, [Noted(at=4.0, topic="resumed", body={})])

    (after,) = await journal.list_runs()

    assert (before.status, after.status) == ("interrupted", "running")


async def test_a_note_after_the_end_leaves_the_run_ended(journal: Journal) -> None:
    await journal.append(RUN, [run_started(RUN), run_finished(at=5.0)])
    await journal.append(RUN, [Noted(at=6.0, topic="package", body={})])

    (row,) = await journal.list_runs()

    assert (row.status, row.finished) == ("achieved", 5.0)


async def test_a_run_is_found_by_a_part_of_its_id(journal: Journal) -> None:
    await journal.append(RUN, [run_started(RUN)])
    await journal.append(OTHER, [run_started(OTHER)])

    assert await journal.find_run("3f2") == RUN
    with pytest.raises(RunNotFound):
        await journal.find_run("20261121")


async def test_closing_again_does_nothing(journal: Journal) -> None:
    await journal.append(RUN, [run_started(RUN)])

    await journal.aclose()
    await journal.aclose()


RUNS = [
    RunId("20261120-080000-3f2a7c"),
    RunId("20261121-231907-3fb001"),
    RunId("20261121-231908-a11ce5"),
]


def test_an_id_tells_the_time_and_six_random_characters() -> None:
    assert (
        new_run_id(1_795_303_147.9, lambda size: bytes(range(10, 10 + size)))
        == "20261121-231907-0a0b0c"
    )


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

    assert (
        str(caught.value)
        == "this journal has no runs yet\n  = help: `wavewright run JOB` makes one"
    )
