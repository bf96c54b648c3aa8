"""Pages of a step and of the messages of models, of a run in the journal."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.engine.interfaces.view.served_page import write_project
from tests.executor.event_examples import run_started, step_finished
from wavewright.config.sections import Role
from wavewright.config.settings import load_settings
from wavewright.engine.interfaces.view.app import open_view
from wavewright.engine.interfaces.view.people import Viewer, set_viewer
from wavewright.engine.interfaces.view.viewed_project import ViewedProject
from wavewright.executor.events.types import (
    REFUSED_ANSWER,
    AnswerKept,
    AttemptLogged,
    Event,
    GateRecord,
    ItemFinished,
    ModelCalled,
    Noted,
    OutputLogged,
    PlanAccepted,
    RunFinished,
    StepError,
    StepFinished,
)
from wavewright.executor.stores import journal_of
from wavewright.planner.language.goals import Goal
from wavewright.planner.ports.model_port import ModelQuestion, ModelUse
from wavewright.planner.types import GateId, JsonObject, PlanHash, RunId, StepId

pytestmark = pytest.mark.anyio
RUN = RunId("20261121-231907-3f2a7c")
POST = StepId("post")
PLAN: JsonObject = {
    "goal": "Post",
    "steps": [
        {"id": "first", "tool": "wait_for", "params": {"file": "one.txt"}},
        {"id": "post", "tool": "post", "params": {"text": "found ${steps.first}"}},
        {"id": "later", "tool": "post", "params": {"text": "hello"}},
    ],
}
EVENTS: list[Event] = [
    run_started(RUN),
    PlanAccepted(1.0, PLAN, PlanHash("x"), "llm"),
    AnswerKept(
        1.0,
        "a",
        {"text": "a plan of <two> steps"},
        ModelQuestion("planner", "planner", "Make a plan"),
    ),
    step_finished("first", output="one.txt"),
    ModelCalled(
        2.0, ModelUse("worker", "post", "scripted", "answered", 1200, 34, usd=0.25, step=POST)
    ),
    AnswerKept(
        2.0, "b", {"text": "it is posted"}, ModelQuestion("worker", "post", "Post this", step=POST)
    ),
    Noted(
        2.0,
        REFUSED_ANSWER,
        {
            "role": "planner",
            "rung": "llm",
            "model": "scripted",
            "faults": ["E301: there is no tool <x>", "E114: no plan"],
            "text": "a <wrong> plan with the key ghp_abcdefghijklmnopqrstuvwxyz0123456789",
        },
    ),
    AttemptLogged(2.0, POST, 1, stdout="printed by the tool"),
    StepFinished(
        at=3.0,
        step=POST,
        status="failed",
        error=StepError("tool", "the post is full", hint="empty it"),
        gates=(GateRecord(GateId("whole"), POST, "check", "block", "fail", "output != ''"),),
        attempts=1,
    ),
]


async def test_a_step_shows_its_call_and_a_run_what_its_models_were_asked(tmp_path: Path) -> None:
    settings = load_settings(write_project(tmp_path))
    async with journal_of(settings) as journal:
        await journal.append(RUN, EVENTS)
        await journal.close_run(RUN)
    async with (
        open_view(settings) as app,
        httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://page") as client,
    ):
        step = (await client.get(f"/runs/{RUN}/steps/post")).text
        for told in (
            "found one.txt",
            "the post is full",
            "empty it",
            "printed by the tool",
            "whole",
            "1,200 tokens in, 34 out",
            "it is posted",
            f"wavewright show {RUN} post",
        ):
            assert told in step
        assert "Make a plan" not in step
        assert "It has not ended." in (await client.get(f"/runs/{RUN}/steps/later")).text

        messages = (await client.get(f"/runs/{RUN}/messages")).text
        assert messages.index("Make a plan") < messages.index("Post this")
        assert "a plan of &lt;two&gt; steps" in messages
        assert "a &lt;wrong&gt; plan" in messages
        assert "ghp_abcdef" not in messages
        assert messages.index("no tool &lt;x&gt;") < messages.index("E114: no plan")
        assert (await client.get(f"/runs/{RUN}/steps/none")).status_code == 404
        assert (await client.get("/runs/none/messages")).status_code == 404


async def test_a_run_whose_plan_was_refused_says_what_is_wrong_with_it(tmp_path: Path) -> None:
    faults: JsonObject = {
        "diagnostics": [
            {"code": f"E{number}", "message": f"step 's{number}' is wrong", "hint": "mend it"}
            for number in range(300, 325)
        ]
    }
    ended = RunFinished(20.0, "failed", "the plan is not valid")
    async with pages_of(tmp_path, Noted(10.0, "plan_refused", faults), ended) as client:
        page = (await client.get(f"/runs/{RUN}")).text

    assert page.count("<h1>") == 1
    assert "<code>E300</code> step &#39;s300&#39; is wrong" in page
    assert "E320" not in page
    assert "and 5 more" in page


async def test_a_run_with_targets_offers_no_retry_that_only_their_runs_can_have(
    tmp_path: Path,
) -> None:
    targets = Noted(1.0, "targets", {"targets": {"first": [{"name": "Westfall"}]}})
    ended = RunFinished(20.0, "not_achieved")
    async with pages_of(tmp_path, targets, ended, role="operate") as client:
        page = (await client.get(f"/runs/{RUN}")).text

    assert f'/runs/{RUN}/cancel"' in page
    assert f'/runs/{RUN}/retry"' not in page
    assert f'/runs/{RUN}/replay"' not in page


async def test_a_run_that_waits_in_the_queue_can_be_cancelled_before_it_has_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled: list[str] = []

    async def cancel(_project: ViewedProject, run: RunId, by: str) -> RunId:
        cancelled.append(f"{run} by {by}")
        return run

    monkeypatch.setattr(ViewedProject, "cancel", cancel)
    async with pages_of(tmp_path, role="operate") as client:
        answer = await client.post("/runs/waiting/cancel", data={"by": "ada"})

    assert (answer.status_code, cancelled) == (303, ["waiting by ada"])


async def refusal_of(
    folder: Path, path: str, accept: str, code: int = 404, method: str = "GET"
) -> httpx.Response:
    """Return how the pages of a run refuse a request."""
    async with pages_of(folder) as client:
        answer = await client.request(method, path, headers={"Accept": accept})
    assert answer.status_code == code
    return answer


@pytest.mark.parametrize(
    "path",
    [
        *("/nowhere", "/jobs/x/y", "/submit/none", "/cancel", "/compare?run=none&run=no-other"),
        *("/runs/none", "/runs/none/logs", "/runs/none/events", "/runs/none/retry"),
    ],
)
async def test_an_address_that_leads_nowhere_is_a_page_that_leads_back(
    path: str, tmp_path: Path
) -> None:
    answer = await refusal_of(tmp_path, path, "text/html")

    assert answer.headers["Content-Type"].startswith("text/html")
    assert "<nav" in answer.text
    assert '<a href="/">All runs</a>' in answer.text


@pytest.mark.parametrize(
    ("path", "accept"),
    [("/api/v1/nowhere", "*/*"), ("/api", "text/html"), ("/nowhere", "application/json")],
)
async def test_a_program_is_told_in_json_that_an_address_leads_nowhere(
    path: str, accept: str, tmp_path: Path
) -> None:
    answer = await refusal_of(tmp_path, path, accept)

    assert answer.json() == {"error": f"GET {path}: not found"}


@pytest.mark.parametrize("path", ["/runs/nowhere", "/api/v1/runs/nowhere"])
async def test_a_program_is_told_in_json_that_there_is_no_such_run(
    path: str, tmp_path: Path
) -> None:
    answer = await refusal_of(tmp_path, path, "application/json")

    assert "help" not in answer.json()["error"]


@pytest.mark.parametrize(
    ("method", "path", "code", "reason"),
    [
        ("GET", "/compare?run=x", 400, "two runs are compared, not 1"),
        ("POST", "/decisions/x", 422, "`choice`: String should have at least 1 character"),
        ("POST", "/schedules/begin/morning", 409, "there is no schedule 'morning'"),
    ],
)
async def test_a_program_is_told_in_json_what_a_page_shows_above_its_form(
    method: str, path: str, code: int, reason: str, tmp_path: Path
) -> None:
    answer = await refusal_of(tmp_path, path, "application/json", code, method)

    assert answer.json()["error"].startswith(reason)


async def test_a_parameter_that_the_api_does_not_have_is_named(tmp_path: Path) -> None:
    async with pages_of(tmp_path) as client:
        answer = await client.get("/api/v1/runs?limit=5")

    assert answer.json() == {"error": "`limit`: there is no such field"}


ITEMS, ASK = StepId("items"), StepId("ask")
MANY: JsonObject = {
    "goal": "Look",
    "inputs": {"numbers": [*range(1000)]},
    "steps": [
        {
            "id": "items",
            "tool": "post",
            "for_each": "${inputs.numbers}",
            "params": {"text": "${item}"},
        },
        {"id": "ask", "tool": "ask_person", "params": {"question": "Which colour?"}},
        {"id": "last", "tool": "post", "params": {"text": "${steps.ask}"}},
    ],
}


def failed_item(index: int, message: str) -> ItemFinished:
    return ItemFinished(3.0, ITEMS, index, None, "failed", error=StepError("tool", message))


@asynccontextmanager
async def pages_of(
    folder: Path, *events: Event, role: Role = "look"
) -> AsyncGenerator[httpx.AsyncClient]:
    """Serve the pages of a run that has these events; nobody executes it."""
    settings = load_settings(write_project(folder))
    goal = Goal(name="look", job="look", text="Look", inputs={}, tools=())
    started = replace(run_started(RUN), goal=goal.model_dump(mode="json"))
    async with journal_of(settings) as journal:
        await journal.append(RUN, [started, *events])
        await journal.close_run(RUN)
    async with (
        open_view(settings) as app,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(_seen_by(Viewer(role), app)), base_url="http://page"
        ) as client,
    ):
        yield client


def _seen_by(viewer: Viewer, app: ASGIApp) -> ASGIApp:
    """Return pages as the guard hands them to a viewer."""

    async def seen(scope: Scope, receive: Receive, send: Send) -> None:
        set_viewer(Request(scope), viewer)
        await app(scope, receive, send)

    return seen


async def test_failed_items_stand_at_the_top_in_groups_with_input_and_traceback(
    tmp_path: Path,
) -> None:
    failed = [failed_item(index, f"no price for {index}") for index in (499, 500, 999)]
    other = failed_item(7, "the shop is closed")
    fault = AttemptLogged(2.0, ITEMS, 1, 500, traceback="Traceback of 500")
    ended = StepFinished(4.0, ITEMS, "failed", error=failed[0].error, items=(996, 1000))
    end = RunFinished(5.0, "not_achieved", "it failed")
    plan = PlanAccepted(1.0, MANY, PlanHash("x"), "given")
    async with pages_of(tmp_path, plan, *failed, other, fault, ended, end) as client:
        page = (await client.get(f"/runs/{RUN}")).text
        step = (await client.get(f"/runs/{RUN}/steps/items")).text
        form = (await client.get(f"/runs/{RUN}/retry?from=items")).text

    assert (
        page.index("no price for 499") < page.index("the shop is closed") < page.index("The plan")
    )
    assert "3 items" in page
    assert "Traceback of 500" in page
    assert "&#34;text&#34;: 500" in page
    assert f"/runs/{RUN}/retry?failed=yes" in page
    assert "Traceback of 500" in step
    assert "<option selected>items</option>" in form
    assert 'name="input.numbers"' in form


async def test_a_waiting_run_shows_its_question_first_and_no_end(tmp_path: Path) -> None:
    binding: JsonObject = {"run": RUN, "plan_hash": "x", "step": "ask", "params": "p"}
    question = Noted(
        2.0, "question", {"question": "Which colour?", "options": [], "binding": binding}
    )
    plan = PlanAccepted(1.0, MANY, PlanHash("x"), "given")
    end = RunFinished(3.0, "interrupted", "a person must answer")
    async with pages_of(tmp_path, plan, question, end) as client:
        page = (await client.get(f"/runs/{RUN}")).text
        package = (await client.get(f"/api/v1/runs/{RUN}")).json()

    assert page.index("Which colour?") < page.index("Waiting for an answer")
    assert "Finished" not in page
    assert "Result as JSON" not in page
    assert "never ran" not in page
    assert 'aria-label="ask: asking"' in page
    assert package["status"] == "waiting_for_answer"
    assert [entry["status"] for entry in package["execution_log"]] == [
        "waiting",
        "asking",
        "waiting",
    ]


async def test_a_question_beside_running_steps_is_answered_without_resuming(
    tmp_path: Path,
) -> None:
    binding: JsonObject = {"run": RUN, "plan_hash": "x", "step": "ask", "params": "p"}
    question = Noted(2.0, "question", {"question": "Which?", "options": [], "binding": binding})
    plan = PlanAccepted(1.0, MANY, PlanHash("x"), "given")
    async with pages_of(tmp_path, plan, question) as client:
        page = (await client.get(f"/runs/{RUN}")).text
        decisions = (await client.get("/decisions")).text
        answer = await client.post(f"/decisions/{RUN}", data={"choice": "this", "by": "ada"})
        answered = (await client.get(answer.headers["Location"])).text

    assert f'Answered: <strong>this</strong>. <a href="/runs/{RUN}">Back to the run' in answered
    assert f'href="/decisions#{RUN}"' in page
    assert f'id="{RUN}"' in decisions
    assert f"wavewright answer {RUN}" in decisions
    assert "wavewright resume" not in decisions


async def test_the_log_of_a_run_is_found_by_step_item_level_and_text(tmp_path: Path) -> None:
    plan = PlanAccepted(1.0, MANY, PlanHash("x"), "given")
    lines = OutputLogged(2.0, ITEMS, 1, "stdout", "one <b>\ntwo\n", 3)
    async with pages_of(tmp_path, plan, lines) as client:

        async def told(query: str) -> list[str]:
            page = (await client.get(f"/runs/{RUN}/logs?{query}")).text
            return [word for word in ("one &lt;b&gt;", "two", "No such lines.") if word in page]

        assert await told("") == ["one &lt;b&gt;", "two"]
        assert await told("step=items&index=3&text=TWO") == ["two"]
        assert await told("index=4") == ["No such lines."]
        assert await told("level=warning") == ["No such lines."]
        assert (await client.get(f"/runs/{RUN}/logs?index=x")).status_code == 400
