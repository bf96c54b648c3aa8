"""A run that goes on gives each attempt of a step the answers that it had, and no other's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.engine.run_in_process import run_request
from wavewright.config.settings import Settings, load_settings
from wavewright.engine.rehearsal.fake_model.request import FakeModelRequest
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.ports import ApprovalRequest
from wavewright.executor.events.types import AnswerKept, Event, StepFinished
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import JsonObject

pytestmark = pytest.mark.anyio

STEP: JsonObject = {
    "id": "found",
    "tool": "agent",
    "retry": {"attempts": 4, "on": ["any"], "wait_initial": 0.001, "wait_jitter": 0},
    "params": {
        "task": "Look",
        "tools": [],
        "output_schema": {
            "type": "object",
            "properties": {"found": {"type": "integer"}},
            "required": ["found"],
        },
    },
}
BAD_ANSWERS = 4
"""More than one attempt asks for, all of its rungs together."""


class Agreeing:
    """Approves of everything."""

    async def approve(self, request: ApprovalRequest) -> bool:
        del request
        return True


async def run(request: RunRequest, settings: Settings, journal: MemoryJournal) -> StepFinished:
    """Return how the step ended."""
    done = await run_request(request, settings=settings, journal=journal, approver=Agreeing())
    [ending] = done.context.state.steps.values()
    return ending


def answers_in(events: list[Event]) -> int:
    return sum(isinstance(event, AnswerKept) for event in events)


async def test_a_step_whose_first_answers_were_bad_is_never_given_them_twice_wherever_the_run_was_cut(
    tmp_path: Path, model_server: FakeModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in model_server.environment().items():
        monkeypatch.setenv(name, value)
    (tmp_path / "wavewright.yaml").write_text("{}")
    (tmp_path / "find.yaml").write_text(
        "name: find\ngoal: Find it\navailable_tools: [{name: agent}]\n"
    )
    (tmp_path / "find.plan.yaml").write_text(
        json.dumps({"steps": [STEP], "result": "${steps.found.answer}"})
    )
    job = tmp_path / "one.job.yaml"
    job.write_text('{"name": "one", "goal_template": "find.yaml", "plan": "find.plan.yaml"}')
    settings, asked = load_settings(tmp_path), 0

    def answer(_: FakeModelRequest) -> JsonObject:
        nonlocal asked
        asked += 1
        return {"found": "nothing" if asked <= BAD_ANSWERS else 1}

    model_server.answer(answer)
    whole = MemoryJournal()
    expected = await run(RunRequest(job_file=job), settings, whole)
    [row] = await whole.list_runs()
    events = await whole.load(row.run)
    questions = asked

    assert (expected.status, expected.attempts > 1) == ("ok", True)
    end = next(number for number, event in enumerate(events) if isinstance(event, StepFinished))
    cuts = [
        number + 1 for number, event in enumerate(events[:end]) if isinstance(event, AnswerKept)
    ]
    assert len(cuts) > BAD_ANSWERS
    for cut in cuts:
        asked = answers_in(events[:cut])
        journal = MemoryJournal()
        await journal.append(row.run, events[:cut])
        await journal.close_run(row.run)
        ending = await run(RunRequest(run=row.run), settings, journal)

        assert (ending.output, ending.attempts) == (expected.output, expected.attempts), (
            f"cut after {cut}"
        )
        assert asked == questions, f"cut after {cut}"
