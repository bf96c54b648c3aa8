"""Runs whose planner and reviewer are a language model behind a real server on loopback."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.model_runs.model_run_project import ITS_PLAN, PLAN, TEMPLATE, UNPLANNED, review
from tests.engine.run_in_process import run_request
from tests.engine.stale_quotes_project import JOB, take_calls, write_quotes_project
from tests.support.prepared_command import PipedCommand
from wavewright.config.settings import load_settings
from wavewright.engine.rehearsal.fake_model.replies import denied, silence
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer, asked_for
from wavewright.engine.run.cancellation import CancellationToken
from wavewright.engine.run.context import RunContext, RunRequest
from wavewright.engine.run.pipeline.phase import PipelineRun
from wavewright.engine.run.ports import ApprovalRequest, ignore_event
from wavewright.executor.events.types import Event, ModelCalled, PlanAccepted, RunFinished
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.planner.types import JsonObject
from wavewright.reviewer.package.builder import read_package
from wavewright.reviewer.records import Package


class NoApprover:
    async def approve(self, request: ApprovalRequest) -> bool:
        raise AssertionError(request)


@pytest.fixture
def quotes_project(
    tmp_path: Path,
    wavewright: CommandLine,
    model_server: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> FakeModelServer:
    """A project without a plan of its own, and a model that reviews everything kindly."""
    write_quotes_project(tmp_path, template=TEMPLATE, job=UNPLANNED)
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    model_server.answer(review(), when=asked_for("review"))
    return model_server


def questions(server: FakeModelServer, schema: str) -> list[FakeModelRequest]:
    return [asked.request for asked in server.ledger if asked.request.schema_name == schema]


def package_of(folder: Path) -> Package:
    [file] = (folder / ".wavewright" / "runs").glob("*/package.json")
    return read_package(file.read_bytes())


async def in_process(
    folder: Path,
    request: RunRequest,
    on_event: Callable[[Event], None],
    token: CancellationToken | None = None,
) -> PipelineRun[RunContext]:
    settings = load_settings(folder)
    settings.journal.parent.mkdir(exist_ok=True)
    async with SqliteJournal(settings.journal) as journal:
        return await run_request(
            request,
            settings=settings,
            journal=journal,
            approver=NoApprover(),
            on_event=on_event,
            cancellation=token or CancellationToken(),
        )


def test_a_model_plans_and_reviews_and_its_cost_is_in_the_package(
    tmp_path: Path, wavewright: CommandLine, quotes_project: FakeModelServer
) -> None:
    quotes_project.answer(PLAN, when=asked_for("plan"))

    ran = wavewright("run", "quotes.job.yaml")

    assert ran.code == 0, ran.err
    package = package_of(tmp_path)
    assert (package.rung, package.result) == ("llm", "2 quotes at 1.25")
    assert package.review is not None
    assert (package.review.reviewer, package.review.confidence) == ("model", 0.9)
    assert package.orchestrator_tokens > 0
    assert package.worker_tokens == 0


def test_a_plan_that_the_job_gives_is_the_plan(
    tmp_path: Path, wavewright: CommandLine, quotes_project: FakeModelServer
) -> None:
    write_quotes_project(tmp_path, template=TEMPLATE, job=JOB)

    assert wavewright("run", "quotes.job.yaml").code == 0
    assert questions(quotes_project, "plan") == []
    assert package_of(tmp_path).rung == "given"


def test_a_model_that_may_not_be_asked_leaves_the_template_s_own_plan(
    tmp_path: Path, wavewright: CommandLine, quotes_project: FakeModelServer
) -> None:
    plan = f"fallback_{ITS_PLAN}"
    write_quotes_project(tmp_path, template=TEMPLATE + plan, job=UNPLANNED)
    quotes_project.answer(denied(), when=asked_for("plan"))

    ran = wavewright("run", "quotes.job.yaml")

    assert ran.code == 0, ran.err
    package = package_of(tmp_path)
    assert package.rung == "template"
    assert [rung.rung for rung in package.rungs if rung.ladder == "planner"] == [
        "llm",
        "repaired",
        "guided",
        "suggested",
        "template",
    ]
    assert package.review is not None
    assert package.review.confidence <= 0.9


def test_without_any_plan_the_run_fails_with_what_was_wrong_with_the_last_answer(
    tmp_path: Path, wavewright: CommandLine, quotes_project: FakeModelServer
) -> None:
    quotes_project.answer({"steps": [{"id": "a", "tool": "fetsh"}]}, when=asked_for("plan"))

    ran = wavewright("run", "quotes.job.yaml")

    assert ran.code == 1
    assert "error[E201]" in ran.err
    assert "did you mean 'fetch'?" in ran.err
    assert len(questions(quotes_project, "plan")) == 4
    assert take_calls(tmp_path) == {}


def test_a_question_that_nobody_answers_parks_the_run_and_the_answer_resumes_it(
    tmp_path: Path, wavewright: CommandLine, quotes_project: FakeModelServer
) -> None:
    many: JsonObject = {
        **PLAN,
        "result": {"more than 23": "More than 23: ${steps.quotes.size() > 23}"},
    }
    quotes_project.answer(
        {"ask": {"question": "How many at least?", "options": ["7", "23"]}},
        many,
        when=asked_for("plan"),
    )

    asked = wavewright("run", "quotes.job.yaml")

    assert asked.code != 0
    assert "How many at least?" in asked.err
    [run] = json.loads(wavewright("runs", "--format", "json").out)
    assert f"wavewright resume {run['run']} --answer" in asked.err
    resumed = wavewright("resume", run["run"], "--answer", "more than 23")
    assert resumed.code == 0, resumed.err
    first, second = questions(quotes_project, "plan")
    assert "more than 23" not in first.prompt
    assert "more than 23" in second.prompt
    # What a person answered is said by the job: the planner has written nothing of its own.
    review_of_run = package_of(tmp_path).review
    assert review_of_run is not None
    assert review_of_run.confidence == 0.9


def test_a_plan_that_was_made_before_a_crash_is_not_made_again(
    tmp_path: Path, quotes_project: FakeModelServer
) -> None:
    quotes_project.answer(PLAN, when=asked_for("plan"))

    class Crash(Exception):
        pass

    def crash(event: Event) -> None:
        if isinstance(event, PlanAccepted):
            raise Crash

    with pytest.raises(Crash):
        anyio.run(in_process, tmp_path, RunRequest(job_file=tmp_path / "quotes.job.yaml"), crash)

    async def resume() -> PipelineRun[RunContext]:
        settings = load_settings(tmp_path)
        async with SqliteJournal(settings.journal) as journal:
            [known] = await journal.list_runs()
        return await in_process(tmp_path, RunRequest(run=known.run), lambda _: None)

    outcome = anyio.run(resume)

    assert outcome.context.package is not None
    assert outcome.context.package.status == "achieved"
    assert len(questions(quotes_project, "plan")) == 1


def test_a_stop_while_the_planner_thinks_leaves_a_run_that_can_be_resumed(
    tmp_path: Path, quotes_project: FakeModelServer
) -> None:
    quotes_project.answer(silence(), PLAN, when=asked_for("plan"))
    seen: list[Event] = []

    async def stop_when_asked() -> PipelineRun[RunContext]:
        token = CancellationToken()
        outcomes: list[PipelineRun[RunContext]] = []

        async def work() -> None:
            request = RunRequest(job_file=tmp_path / "quotes.job.yaml")
            outcomes.append(await in_process(tmp_path, request, seen.append, token))

        with anyio.fail_after(20):
            async with anyio.create_task_group() as group:
                group.start_soon(work)
                await anyio.to_thread.run_sync(quotes_project.wait_for_requests, 1)
                token.cancel()
        return outcomes[0]

    outcome = anyio.run(stop_when_asked)

    assert outcome.halted == "interrupted"
    assert isinstance(seen[-1], RunFinished)
    assert seen[-1].status == "interrupted"
    assert any(isinstance(event, ModelCalled) for event in seen), "what was asked is charged"
    run = outcome.context.run
    resumed = anyio.run(in_process, tmp_path, RunRequest(run=run), ignore_event)
    assert resumed.context.package is not None
    assert resumed.context.package.status == "achieved"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_a_model_is_asked_stops_the_run_gently(
    tmp_path: Path, wavewright: CommandLine, quotes_project: FakeModelServer, number: signal.Signals
) -> None:
    quotes_project.answer(silence(), when=asked_for("plan"))
    with PipedCommand("run", "quotes.job.yaml", folder=tmp_path) as running:
        quotes_project.wait_for_requests(1)
        running.send_signal(number)
        _, told = running.communicate()

    [run] = json.loads(wavewright("runs", "--format", "json").out)
    assert running.returncode == 130
    assert f"continue with: wavewright resume {run['run']}" in told
    assert "given up before an answer came" in told, "what was asked is charged"
    assert "Traceback" not in told
    assert run["status"] == "interrupted"


def test_the_run_s_time_limit_holds_while_planning(
    tmp_path: Path, wavewright: CommandLine, quotes_project: FakeModelServer
) -> None:
    write_quotes_project(
        tmp_path, template=TEMPLATE + "limits: {run_timeout: 500ms}\n", job=UNPLANNED
    )
    quotes_project.answer(silence(), when=asked_for("plan"))

    ran = wavewright("run", "quotes.job.yaml")

    assert ran.code == 1
    assert "the run's time limit was reached while planning" in ran.err


def test_a_budget_that_is_too_small_for_a_question_stops_the_question(
    tmp_path: Path, wavewright: CommandLine, quotes_project: FakeModelServer
) -> None:
    with (tmp_path / "wavewright.yaml").open("a") as settings:
        settings.write("budgets: {run: {tokens: 100}}\n")
    quotes_project.answer(PLAN, when=asked_for("plan"))

    ran = wavewright("run", "quotes.job.yaml")

    assert ran.code == 1
    assert "budget" in ran.err
    assert questions(quotes_project, "plan") == []


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        pytest.param("WAVEWRIGHT_MODEL", "gpt-5", "provider", id="no provider"),
        pytest.param("WAVEWRIGHT_MODEL", "opnai:gpt-5", "openai", id="misspelt provider"),
        pytest.param("WAVEWRIGHT_BASE_URL", "not a url", "is no address", id="bad address"),
    ],
)
def test_a_model_that_cannot_be_asked_at_all_is_misuse_before_anything_runs(
    tmp_path: Path,
    wavewright: CommandLine,
    quotes_project: FakeModelServer,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    said: str,
) -> None:
    monkeypatch.setenv(variable, value)

    ran = wavewright("run", "quotes.job.yaml")

    assert ran.code == 2
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert len(quotes_project.ledger) == 0
    assert take_calls(tmp_path) == {}


def test_a_preference_that_stands_for_no_model_is_a_fault_at_its_place(
    tmp_path: Path, wavewright: CommandLine, quotes_project: FakeModelServer
) -> None:
    write_quotes_project(
        tmp_path, template=TEMPLATE, job=UNPLANNED + "overrides: {model_preference: sonet}\n"
    )

    ran = wavewright("run", "quotes.job.yaml")

    assert ran.code == 1
    assert "error[E107]: 'sonet' is no model preference" in ran.err
    assert "quotes.job.yaml:5:31" in ran.err
    assert "did you mean 'sonnet'?" in ran.err
    assert len(quotes_project.ledger) == 0


def test_a_review_that_the_run_s_time_limit_cuts_off_is_by_code_and_says_so(
    tmp_path: Path, wavewright: CommandLine, quotes_project: FakeModelServer
) -> None:
    write_quotes_project(tmp_path, template=TEMPLATE + "limits: {run_timeout: 2s}\n", job=UNPLANNED)
    quotes_project.reset()
    quotes_project.answer(PLAN, when=asked_for("plan"))
    quotes_project.answer(silence(), when=asked_for("review"))

    assert wavewright("run", "quotes.job.yaml").code == 0
    package = package_of(tmp_path)
    taken = [(rung.rung, rung.outcome) for rung in package.rungs if rung.ladder == "reviewer"]
    assert taken == [("model", "fallen"), ("code", "reached")]
    assert package.review is not None
    assert package.review.confidence <= 0.8
