"""For what a person's word counts: one run, one plan, these parameters, this question, once, for a
day.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from tests.engine.run_in_process import run_request
from wavewright.config.documents import read_document
from wavewright.config.settings import Settings, load_settings
from wavewright.engine.run.context import RunContext, RunRequest
from wavewright.engine.run.decisions.approvals import (
    APPROVAL_GIVEN,
    APPROVAL_SECONDS,
    APPROVAL_WANTED,
    APPROVE,
    approval_answer_note,
)
from wavewright.engine.run.decisions.questions import pending_question
from wavewright.engine.run.pipeline.phase import PipelineRun
from wavewright.engine.run.ports import ApprovalRequest, withhold_package
from wavewright.executor.events.state import fold
from wavewright.executor.events.types import Event, Noted, PlanAccepted
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import RunId

pytestmark = pytest.mark.anyio

RUN = RunId("20261122-060000-abc123")
JOB = read_document(
    "name: post\nplan: {steps: [{id: post, tool: post, params: {text: hello}}]}\n", "job post"
)


class Nobody:
    """Has not answered yet."""

    async def approve(self, request: ApprovalRequest) -> bool | None:
        del request
        return None


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    (tmp_path / "post.py").write_text(
        "from pathlib import Path\n\n\n"
        'def post(text: str) -> str:\n    """Post a text."""\n'
        '    (Path(__file__).parent / "posted.txt").write_text(text)\n    return text\n'
    )
    (tmp_path / "wavewright.yaml").write_text(
        "tools: [{path: post.py, functions: {post: {effects: [write], needs_approval: true}}}]\n"
    )
    return load_settings(tmp_path, {})


async def run(settings: Settings, journal: MemoryJournal) -> PipelineRun[RunContext]:
    done = await run_request(
        RunRequest(job=JOB, run=RUN),
        settings=settings,
        journal=journal,
        approver=Nobody(),
        publish=withhold_package,
    )
    await journal.close_run(RUN)
    return done


async def asked(settings: Settings) -> tuple[list[Event], Noted]:
    """Return the events of a run that waits for a word, and its question."""
    journal = MemoryJournal()
    await run(settings, journal)
    events = await journal.load(RUN)
    [wanted] = [
        event for event in events if isinstance(event, Noted) and event.topic == APPROVAL_WANTED
    ]
    return events, wanted


async def resumed(settings: Settings, events: Sequence[Event]) -> PipelineRun[RunContext]:
    journal = MemoryJournal()
    await journal.append(RUN, events)
    await journal.close_run(RUN)
    return await run(settings, journal)


def given(wanted: Noted) -> Noted:
    return Noted(wanted.at + 1, APPROVAL_GIVEN, approval_answer_note(wanted, APPROVE, "ada"))


def other_params(events: list[Event], wanted: Noted) -> list[Event]:
    """The parameters were changed after the word."""
    text = '{"id": "post", "tool": "post", "params": {"text": "goodbye"}}'
    step = read_document(text, "step").value
    changed: list[Event] = [
        replace(event, plan={"steps": [step]}) if isinstance(event, PlanAccepted) else event
        for event in events
    ]
    return [*changed, given(wanted)]


def other_nonce(events: list[Event], wanted: Noted) -> list[Event]:
    """The word was for a question that was asked another time."""
    forged = given(wanted)
    return [*events, replace(forged, body={**forged.body, "nonce": "0" * 32})]


def no_nonce(events: list[Event], wanted: Noted) -> list[Event]:
    """The word names no question."""
    forged = given(wanted)
    return [*events, replace(forged, body={"choice": APPROVE})]


def other_run(events: list[Event], wanted: Noted) -> list[Event]:
    """The question, and its word, were taken from another run."""
    binding = wanted.body["binding"]
    assert isinstance(binding, dict)
    moved = replace(
        wanted, body={**wanted.body, "binding": {**binding, "run": "20261122-060000-ffffff"}}
    )
    return [*(moved if event is wanted else event for event in events), given(moved)]


def a_day_later(events: list[Event], wanted: Noted) -> list[Event]:
    """Nobody has resumed the run for a day."""
    old = replace(wanted, at=wanted.at - APPROVAL_SECONDS)
    return [*(old if event is wanted else event for event in events), given(old)]


def taken_before(events: list[Event], wanted: Noted) -> list[Event]:
    """The run has acted on the word already, and asks for another thing."""
    return [
        *events,
        given(wanted),
        Noted(wanted.at + 2, "approval", {"subject": "step", "approved": True}),
    ]


async def test_a_word_for_exactly_what_was_asked_lets_the_run_go_on(settings: Settings) -> None:
    events, wanted = await asked(settings)

    done = await resumed(settings, [*events, given(wanted)])

    assert done.context.package is not None
    assert (settings.root / "posted.txt").read_text() == "hello"


@pytest.mark.parametrize(
    "forge",
    [other_params, other_nonce, no_nonce, other_run, a_day_later, taken_before],
    ids=lambda one: one.__name__,
)
async def test_any_other_word_is_none(
    settings: Settings, forge: Callable[[list[Event], Noted], list[Event]]
) -> None:
    events, wanted = await asked(settings)

    done = await resumed(settings, forge(events, wanted))

    assert done.context.state.is_interrupted
    assert not (settings.root / "posted.txt").exists()


async def test_a_question_may_be_answered_for_a_day_and_is_asked_anew_after_it(
    settings: Settings,
) -> None:
    events, wanted = await asked(settings)
    state = fold(events)

    in_time, too_late = (
        pending_question(state, wanted.at + APPROVAL_SECONDS - early) for early in (1, 0)
    )
    done = await resumed(settings, a_day_later(events, wanted))
    again = pending_question(done.context.state, wanted.at + 1)

    assert in_time is not None
    assert too_late is None
    assert again is not None
    assert again.asked > wanted.at


async def test_what_has_changed_since_the_last_question_about_a_step_is_marked(
    settings: Settings,
) -> None:
    events, wanted = await asked(settings)
    journal = MemoryJournal()
    await journal.append(RUN, other_params(events, wanted))
    await journal.close_run(RUN)

    await run(settings, journal)

    again = [
        event
        for event in await journal.load(RUN)
        if isinstance(event, Noted) and event.topic == APPROVAL_WANTED
    ][-1]
    assert '~ text: "goodbye"  (was "hello")' in str(again.body["text"])


async def test_a_policy_in_code_is_given_the_values_of_the_calls(settings: Settings) -> None:
    requests: list[ApprovalRequest] = []

    class Policy:
        async def approve(self, request: ApprovalRequest) -> bool:
            requests.append(request)
            return request.calls[0].params["text"] == "hello"

    done = await run_request(
        RunRequest(job=JOB, run=RUN),
        settings=settings,
        journal=MemoryJournal(),
        approver=Policy(),
        publish=withhold_package,
    )

    [[call]] = [request.calls for request in requests]
    assert (call.step, call.tool, call.params) == ("post", "post", {"text": "hello"})
    assert done.context.state.outputs() == {"post": "hello"}
