"""What a run was told by models and people is told again in its replay, so that it comes to the
same verdict.
"""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.model_runs import model_run_project as planned
from tests.engine.model_runs.model_run_project import PLAN, UNPLANNED, review
from tests.engine.rehearsal.recordings.conftest import Yes
from tests.engine.run_in_process import run_request
from tests.engine.stale_quotes_project import JOB, TEMPLATE, take_calls, write_quotes_project
from wavewright.config.settings import load_settings
from wavewright.engine.rehearsal.fake_model.replies import ApiError, denied
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.rehearsal.recordings.replay import ReplayResult, replay_run
from wavewright.engine.rehearsal.recordings.replay_models import (
    RecordedAnswers,
    ReplayOptions,
    ReplayRejected,
)
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.ports import withhold_package
from wavewright.executor.events.types import Event, PlanAccepted, RunFinished, RungTaken
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.planning.records import UserQuestion
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelCall, ModelError, ModelErrorKind
from wavewright.planner.types import JsonObject, RunId
from wavewright.reviewer.package.comparison import RunComparison


class Person(Yes):
    """Approves everything, and knows the answer."""

    async def ask(self, question: UserQuestion) -> str | None:
        return "GNP and SKS"


class No(Person):
    """Approves nothing."""

    async def approve(self, request: object) -> bool:
        return False


async def ran(folder: Path, *, person: Person | None = None) -> tuple[RunId, list[Event]]:
    """Run the desk's job; return its journal."""
    journal = MemoryJournal()
    person = person or Person()
    request = RunRequest(job_file=folder / "quotes.job.yaml")
    await run_request(
        request,
        settings=load_settings(folder),
        journal=journal,
        approver=person,
        asker=person,
        publish=withhold_package,
    )
    [row] = await journal.list_runs()
    return row.run, await journal.load(row.run)


def as_it_was(folder: Path, *, person: Person | None = None) -> tuple[ReplayResult, RunComparison]:
    """Run the desk's job, and replay it with nothing changed."""

    async def work() -> ReplayResult:
        run, events = await ran(folder, person=person)
        return await replay_run(run, events, load_settings(folder), ReplayOptions())

    replayed = anyio.run(work)
    return replayed, replayed.compare()


@pytest.fixture
def model(
    wavewright: CommandLine,
    tmp_path: Path,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> FakeModelServer:
    """The desk project, planned by the server's model."""
    write_quotes_project(tmp_path, template=planned.TEMPLATE, job=UNPLANNED)
    for name, value in model_server.environment("chat").items():
        monkeypatch.setenv(name, value)
    return model_server


def test_a_run_that_was_cut_and_resumed_anywhere_replays_to_its_verdict(
    wavewright: CommandLine, tmp_path: Path
) -> None:
    write_quotes_project(tmp_path)

    async def work() -> None:
        run, events = await ran(tmp_path)
        first = next(place for place, event in enumerate(events) if isinstance(event, PlanAccepted))
        for cut in range(first + 1, len(events), 2):
            journal = MemoryJournal()
            await journal.append(run, events[:cut])
            await journal.close_run(run)
            settings = load_settings(tmp_path)
            with pytest.raises(ReplayRejected, match="has not come to its end"):
                await replay_run(run, events[:cut], settings, ReplayOptions())
            request = RunRequest(run=run)
            await run_request(
                request,
                settings=settings,
                journal=journal,
                approver=Yes(),
                publish=withhold_package,
            )
            take_calls(tmp_path)

            replayed = await replay_run(run, await journal.load(run), settings, ReplayOptions())

            assert replayed.compare().is_empty, replayed.compare()
            assert replayed.before.status == replayed.after.status == "achieved"
            assert replayed.is_whole
            assert take_calls(tmp_path).total() == 0

    anyio.run(work)


JUDGED = (
    planned.TEMPLATE
    + """\
gates:
  - {id: sound, on_tool: write_down, judge: {rubric: It says how many quotes there are.}, severity: warn}
"""
)


@pytest.mark.parametrize(
    ("verdict", "quotes"),
    [("pass", ["2 quotes"]), ("fail", []), ("pass", ["what does not stand there"])],
    ids=["pass", "fail", "no verdict that counts"],
)
def test_a_judge_says_again_what_it_said(
    model: FakeModelServer, tmp_path: Path, verdict: str, quotes: list[str]
) -> None:
    write_quotes_project(tmp_path, template=JUDGED, job=UNPLANNED)
    model.answer(PLAN, when=asked_for("plan"))
    model.answer(review(), when=asked_for("review"))
    model.answer(
        {"reason": "So it is.", "quotes": [*quotes], "verdict": verdict}, when=asked_for("verdict")
    )

    replayed, found = as_it_was(tmp_path)
    asked = len(model.requests)

    [before] = [gate for gate in replayed.before.state.gates if gate.kind == "judge"]
    [after] = [gate for gate in replayed.after.state.gates if gate.kind == "judge"]
    assert before.verdict == (verdict if verdict == "fail" or quotes == ["2 quotes"] else "error")
    assert (after.verdict, after.severity) == (before.verdict, before.severity)
    assert (found.gates, found.confidence) == ((), ())
    assert replayed.is_same_verdict
    assert replayed.is_whole
    assert found.costs[-1].before == found.costs[-1].after
    assert found.costs[-1].before.calls == asked


@pytest.mark.parametrize(
    "answered",
    [pytest.param(denied(), id="no reviewer"), pytest.param("It is fine.", id="no review")],
)
def test_a_review_that_failed_fails_again(
    model: FakeModelServer, tmp_path: Path, answered: str | ApiError
) -> None:
    model.answer(PLAN, when=asked_for("plan"))
    model.answer(answered, when=asked_for("review"))

    replayed, found = as_it_was(tmp_path)

    before, after = replayed.before.package, replayed.after.package
    assert before is not None
    assert after is not None
    assert before.review is not None
    assert after.review is not None
    assert before.review.opinion is None
    assert (after.status, after.review.confidence) == (before.status, before.review.confidence)
    assert bool(after.review.unread_because) == bool(before.review.unread_because)
    assert replayed.is_same_verdict
    assert found.costs[-1].before == found.costs[-1].after


def test_a_planners_question_is_answered_as_it_was(model: FakeModelServer, tmp_path: Path) -> None:
    question: JsonObject = {"ask": {"question": "Which codes?", "options": []}}
    model.answer(question, PLAN, when=asked_for("plan"))
    model.answer(review(), when=asked_for("review"))

    async def work() -> ReplayResult:
        run, events = await ran(tmp_path)
        model.reset()
        model.answer(question, PLAN, when=asked_for("plan"))
        model.answer(review(), when=asked_for("review"))
        request = ReplayOptions(planner="openai-chat:other")
        return await replay_run(run, events, load_settings(tmp_path), request)

    replayed = anyio.run(work)

    answers = [
        noted.body["answer"] for noted in replayed.after.state.notes if noted.topic == "answer"
    ]
    assert answers == ["GNP and SKS"]
    assert replayed.after.status == "achieved"


def test_what_a_person_refused_is_refused_again(wavewright: CommandLine, tmp_path: Path) -> None:
    write_quotes_project(tmp_path, template=TEMPLATE + "auto_approve: false\n")

    replayed, found = as_it_was(tmp_path, person=No())

    assert replayed.before.status == replayed.after.status == "not_achieved"
    assert replayed.after.state.round == 0
    assert found.is_empty, found


def test_a_given_plan_is_replaced_where_another_planner_is_named(
    model: FakeModelServer, tmp_path: Path
) -> None:
    write_quotes_project(tmp_path, job=JOB)
    model.answer(PLAN, when=asked_for("plan"))
    model.answer(review(), when=asked_for("review"))

    async def work() -> ReplayResult:
        run, events = await ran(tmp_path)
        return await replay_run(
            run, events, load_settings(tmp_path), ReplayOptions(planner="openai-chat:other")
        )

    replayed = anyio.run(work)

    assert (replayed.before.state.rung, replayed.after.state.rung) == ("given", "llm")
    assert replayed.is_whole, replayed.misses
    assert replayed.is_same_verdict


def test_a_replay_ends_where_the_run_did(wavewright: CommandLine, tmp_path: Path) -> None:
    write_quotes_project(tmp_path)

    replayed, _ = as_it_was(tmp_path)

    assert isinstance(replayed.after.state.finished, RunFinished)
    assert replayed.before.state.finished is not None
    assert replayed.after.state.finished.status == replayed.before.state.finished.status
    assert replayed.after.state.run != replayed.before.state.run


@pytest.mark.parametrize("kind", ["over_budget", "timeout"])
def test_an_error_that_no_request_came_of_is_told_by_its_kind(kind: ModelErrorKind) -> None:
    failed = RungRecord("reviewer", "model", "fallen", "nothing is left of it", error_kind=kind)
    answers = RecordedAnswers.of([RungTaken(1.0, failed)])
    asked = ModelCall("reviewer", "reviewer", "You review.", "Review it.")

    recorded = answers.next_to(asked)

    assert recorded is not None
    assert isinstance(recorded.answer, ModelError)
    assert (recorded.answer.kind, str(recorded.answer)) == (kind, "nothing is left of it")
