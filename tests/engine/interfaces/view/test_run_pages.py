"""Pages of a step and of the messages of models, of a run in the journal."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.engine.interfaces.view.served_page import write_project
from tests.executor.event_examples import run_started, step_finished
from wavewright.config.settings import load_settings
from wavewright.engine.interfaces.view.app import open_view
from wavewright.executor.events.types import (
    AnswerKept,
    AttemptLogged,
    Event,
    GateRecord,
    ModelCalled,
    PlanAccepted,
    StepError,
    StepFinished,
)
from wavewright.executor.stores import journal_of
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
        assert (await client.get(f"/runs/{RUN}/steps/none")).status_code == 404
        assert (await client.get("/runs/none/messages")).status_code == 404
