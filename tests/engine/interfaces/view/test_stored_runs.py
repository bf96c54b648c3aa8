"""Pages of the list of runs, and a run as it is now and as viewers follow it, of a journal in a
file or a database.
"""

from __future__ import annotations

import random
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from tests.executor.event_examples import run_finished, run_started, step_finished
from tests.support.postgres import PostgresServer
from wavewright.engine.interfaces.view.stored_runs import (
    PAGE_SIZE,
    RunFragment,
    RunQuery,
    RunWatches,
    list_labels,
    page_of_runs,
    read_run,
)
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import (
    Event,
    ModelCalled,
    Noted,
    PlanAccepted,
    StepStarted,
    WaveStarted,
)
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import JsonObject, PlanHash, RunId, StepId
from wavewright.reviewer.review.by_code import review_by_code

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["sqlite", "postgres"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[StoredJournal]:
    if request.param == "sqlite":
        async with SqliteJournal(tmp_path / "journal.db") as journal:
            yield journal
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        async with PostgresJournal(server.database()) as journal:
            yield journal


def run_id(number: int) -> RunId:
    return RunId(f"20261121-{number:06}-3f2a7c")


async def add_runs(journal: StoredJournal, count: int) -> None:
    for number in range(count):
        events: list[Event] = [run_started(run_id(number))]
        if number % 2:
            events.append(run_finished())
        await journal.append(run_id(number), events)
        await journal.close_run(run_id(number))


async def test_pages_follow_each_other_from_the_newest_run_to_the_first(
    journal: StoredJournal,
) -> None:
    await add_runs(journal, PAGE_SIZE + 5)

    first = await page_of_runs(journal, RunQuery())
    second = await page_of_runs(journal, RunQuery(before=first.next))

    assert [row.run for row in (*first.runs, *second.runs)] == [
        run_id(number) for number in reversed(range(PAGE_SIZE + 5))
    ]
    assert second.next is None


async def test_a_step_of_a_later_wave_is_not_shown_as_running(journal: StoredJournal) -> None:
    plan: JsonObject = {
        "version": 1,
        "steps": [
            {"id": "quick", "tool": "read"},
            {"id": "slow", "tool": "read"},
            {"id": "later", "tool": "read", "depends_on": ["quick"]},
        ],
    }
    goal = Goal(name="read", job="read", text="Read", inputs={}, tools=())
    wave = (StepId("quick"), StepId("slow"))
    await journal.append(
        run_id(1),
        [
            replace(run_started(run_id(1)), goal=goal.model_dump(mode="json")),
            PlanAccepted(2.0, plan, PlanHash("h"), "given"),
            WaveStarted(2.0, 0, wave),
            StepStarted(2.0, StepId("slow")),
            step_finished("quick"),
        ],
    )

    snapshot = await read_run(journal, run_id(1))

    assert snapshot is not None
    assert _running_names(snapshot.html("", "folded") or "") == ["slow"]


async def test_a_page_says_what_a_run_is_at_work_with_beside_its_steps(
    journal: StoredJournal,
) -> None:
    plan: JsonObject = {"version": 1, "steps": [{"id": "quick", "tool": "read"}]}
    again: JsonObject = {
        "version": 1,
        "steps": [
            {"id": "quick", "tool": "read"},
            {"id": "quick_2", "tool": "read", "supersedes": "quick"},
        ],
    }
    goal = Goal(name="read", job="read", text="Read", inputs={}, tools=())
    begun: list[Event] = [
        replace(run_started(run_id(1)), goal=goal.model_dump(mode="json")),
        PlanAccepted(2.0, plan, PlanHash("h"), "given"),
    ]
    ended = step_finished("quick", status="failed")
    review = review_by_code(Plan.model_validate(plan), goal, fold([*begun, ended]), {})
    patch: JsonObject = {"base": "h", "reason": "it failed", "ops": []}
    parts: list[list[Event]] = [
        begun,
        [ended],
        [Noted(3.0, "review", review.model_dump(mode="json"))],
        [PlanAccepted(4.0, again, PlanHash("h2"), "patch", round=1, patch=patch)],
    ]
    shown = list[str]()

    for events in parts:
        await journal.append(run_id(1), events)
        snapshot = await read_run(journal, run_id(1))
        assert snapshot is not None
        page = snapshot.html("", "folded") or ""
        shown += re.findall("follows the run|being reviewed|patch of the plan|round 1 are", page)

    assert shown == ["follows the run", "being reviewed", "patch of the plan", "round 1 are"]


def _running_names(page: str) -> list[str]:
    return re.findall(r'aria-label="([^"]+): running"', page)


async def test_runs_are_found_by_status_and_by_a_text_in_which_signs_stand_for_themselves(
    journal: StoredJournal,
) -> None:
    await add_runs(journal, 6)

    interrupted = await page_of_runs(journal, RunQuery(status="interrupted"))
    ended = await page_of_runs(journal, RunQuery(status="achieved"))
    named = await page_of_runs(journal, RunQuery(text="000004-3F"))

    assert [row.run for row in interrupted.runs] == [run_id(4), run_id(2), run_id(0)]
    assert [row.run for row in ended.runs] == [run_id(5), run_id(3), run_id(1)]
    assert [row.run for row in named.runs] == [run_id(4)]
    assert not (await page_of_runs(journal, RunQuery(text="20261121_000004"))).runs
    assert not (await page_of_runs(journal, RunQuery(text="%"))).runs


async def test_runs_are_found_by_template_tag_gate_and_model(journal: StoredJournal) -> None:
    for number, (template, gate) in enumerate(
        [("stocks", "fresh"), ("stocks", "whole"), ("lore", "fresh")]
    ):
        goal: JsonObject = {"name": template, "output_tags": ["daily", template]}
        plan: JsonObject = {"steps": [], "gates": [{"id": gate}]}
        started = replace(run_started(run_id(number)), goal=goal)
        accepted = PlanAccepted(1.0, plan, PlanHash("x"), "given")
        called = ModelCalled(1.0, ModelUse("planner", "planner", f"model_{number % 2}", "answered"))
        await journal.append(run_id(number), [started, accepted, called, called])
        await journal.close_run(run_id(number))

    async def found(**asked: str) -> list[RunId]:
        return [
            row.run for row in (await page_of_runs(journal, RunQuery.model_validate(asked))).runs
        ]

    assert await found(template="stocks") == [run_id(1), run_id(0)]
    assert await found(gate="fresh") == [run_id(2), run_id(0)]
    assert await found(model="model_1") == [run_id(1)]
    assert await found(tag="daily", gate="fresh", template="lore") == [run_id(2)]
    assert await found(tag="daily", before=run_id(2)) == [run_id(1), run_id(0)]
    assert await found(tag="daily", status="achieved") == []
    assert await list_labels(journal, "tag") == ["daily", "lore", "stocks"]


async def test_a_run_is_read_again_only_when_something_was_added(journal: StoredJournal) -> None:
    await journal.append(run_id(1), [run_started(run_id(1))])
    seen = await read_run(journal, run_id(1))
    assert seen is not None

    unchanged = await read_run(journal, run_id(1), unless=seen.version)
    await journal.append(run_id(1), [run_finished()])
    changed = await read_run(journal, run_id(1), known=seen)

    assert unchanged is None
    assert await read_run(journal, run_id(1), known=changed) is None
    assert changed == await read_run(journal, run_id(1))
    assert changed is not None
    assert changed.events == 2
    assert await read_run(journal, run_id(2)) is None


RUN = RunId("r-1")
NOTES = 30


async def test_a_viewer_that_is_cut_off_at_random_places_sees_the_newest_and_the_last_state(
    tmp_path: Path,
) -> None:
    chance = random.Random(3)  # noqa: S311 - decides where a connection is cut
    seen: list[RunFragment] = []
    async with SqliteJournal(tmp_path / "runs.db") as journal, anyio.create_task_group() as group:
        watches = RunWatches(journal, group, lambda snapshot, _: str(snapshot.events))

        async def work() -> None:
            await journal.append(RUN, [run_started(RUN)])
            for number in range(NOTES):
                await journal.append(RUN, [Noted(2.0 + number, "said", {})])
                await anyio.sleep(0.05)
            await journal.append(RUN, [run_finished()])

        group.start_soon(work)
        with anyio.fail_after(50):
            while not (seen and seen[-1].is_last):
                with anyio.move_on_after(chance.uniform(0.05, 0.6)):
                    async with aclosing(
                        watches.fragments(RUN, seen[-1].version if seen else "")
                    ) as coming:
                        async for fragment in coming:
                            seen.append(fragment)
                            if chance.random() < 0.5:
                                break
        group.cancel_scope.cancel()

    events = [int(fragment.version.partition("-")[0]) for fragment in seen]
    assert events == sorted(events)
    assert len({fragment.version for fragment in seen}) == len(seen)
    assert events[-1] == NOTES + 2
    assert f"data: {NOTES + 2}".encode() in seen[-1].message
