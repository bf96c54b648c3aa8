"""What a run's events mean for its job: a law of events, whatever crashes came between."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from wavewright.config.sections import DaemonSection, ValidationSection
from wavewright.engine.service.daemon.job_projection import (
    MAX_PROGRESS_REPORTS,
    JobProjection,
    project,
    replay,
)
from wavewright.engine.service.daemon.outbox import OutboxJournal
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import JobChange, JobId, JobRow, OutgoingMessage
from wavewright.executor.events.types import (
    Event,
    Noted,
    PlanAccepted,
    RunFinished,
    RunStarted,
    StepFinished,
)
from wavewright.executor.store.journal import MemoryJournal
from wavewright.planner.types import JsonObject, PlanHash, RunId, StepId
from wavewright.reviewer.records import Package

JOB = JobRow(
    job=JobId("c2d90e14-63b5-4f7a-8a1e-51f09b7d2e31"),
    run=RunId("20261122-060000-abc123"),
    state="running",
    request={"job": {"name": "a job"}, "source_agent": "ui_backend"},
    received=1.0,
)
REPORTER = Reporter(DaemonSection())
PACKAGE = Package(
    run=JOB.run,
    job="a job",
    goal="",
    status="achieved",
    plan={},
    plan_hash="",
    rung="given",
    now="",
)


def run_of(steps: int) -> list[Event]:
    """Return the events of a run of so many steps."""
    plan: JsonObject = {"steps": [{"id": f"s{number}", "tool": "say"} for number in range(steps)]}
    return [
        RunStarted(JOB.run, 2.0, "a job", {}, 2.0),
        PlanAccepted(3.0, plan, PlanHash("sha256:0"), "given"),
        *(StepFinished(4.0 + number, StepId(f"s{number}"), "ok") for number in range(steps)),
        RunFinished(4.0 + steps, "achieved"),
    ]


def told(
    batches: Sequence[Sequence[Event]], *, crash_before: int | None = None
) -> list[OutgoingMessage]:
    """Return what is told of a run, the process that does it being another one from that batch on."""
    account, messages, before = JobProjection(JOB), list[OutgoingMessage](), list[Event]()
    for number, batch in enumerate(batches):
        if number == crash_before:
            account = replay(JobProjection(JOB), before)
        account, alongside = project(account, batch, REPORTER, PACKAGE)
        messages += [] if alongside is None else alongside.messages
        before += batch
    return messages


def statuses(messages: Sequence[OutgoingMessage]) -> list[JsonObject]:
    return [json.loads(one.body)["payload"] for one in messages if one.kind == "job_status"]


def end_of(events: Sequence[Event], reporter: Reporter = REPORTER) -> OutboxWrites:
    _, alongside = project(replay(JobProjection(JOB), events[:-1]), events[-1:], reporter, PACKAGE)
    assert alongside is not None
    return alongside


@st.composite
def cut_runs(draw: st.DrawFn) -> tuple[list[list[Event]], int]:
    """Return a run's events in batches, and a batch before which its process dies."""
    events = run_of(draw(st.integers(1, 60)))
    cuts = draw(st.lists(st.integers(1, len(events) - 1), max_size=8, unique=True).map(sorted))
    edges = [0, *cuts, len(events)]
    batches = [events[start:end] for start, end in itertools.pairwise(edges)]
    return batches, draw(st.integers(0, len(batches) - 1))


@given(cut_runs())
def test_a_crash_changes_nothing_of_start_end_and_package(
    cut: tuple[list[list[Event]], int],
) -> None:
    batches, crash = cut

    undisturbed, disturbed = told(batches), told(batches, crash_before=crash)

    def lasting(messages: list[OutgoingMessage]) -> list[OutgoingMessage]:
        return [one for one in messages if b"STEP_PROGRESS" not in one.body]

    assert lasting(disturbed) == lasting(undisturbed)
    assert len({one.message for one in disturbed}) == len(disturbed)


def test_a_step_that_is_blocked_is_no_progress_until_a_patch_lets_it_run() -> None:
    begin, sheet = run_of(2)[:3], StepId("s1")
    blocked = StepFinished(5.0, sheet, "blocked", reason="'s0' is stopped by a gate")
    done = StepFinished(6.0, sheet, "ok")

    progress = [
        one
        for one in statuses(told([begin, [blocked], [done]]))
        if one["status"] == "STEP_PROGRESS"
    ]

    assert [(one["steps_completed"], one["steps_total"]) for one in progress] == [(1, 2), (2, 2)]


@given(cut_runs())
def test_progress_only_grows_and_ends_with_all_steps(cut: tuple[list[list[Event]], int]) -> None:
    batches, crash = cut

    progress = [
        (one["steps_completed"], one["steps_total"])
        for one in statuses(told(batches, crash_before=crash))
        if one["status"] == "STEP_PROGRESS"
    ]

    done = [int(str(one)) for one, _ in progress]
    assert done == sorted(set(done))
    assert (
        progress[-1][0]
        == progress[-1][1]
        == sum(isinstance(event, StepFinished) for batch in batches for event in batch)
    )


@pytest.mark.parametrize("steps", [1, MAX_PROGRESS_REPORTS, 10_000])
def test_a_long_run_tells_of_its_progress_no_oftener_than_a_short_one(steps: int) -> None:
    events = run_of(steps)

    counts = Counter(str(one["status"]) for one in statuses(told([[event] for event in events])))

    assert counts["STEP_PROGRESS"] == min(steps, MAX_PROGRESS_REPORTS)


def test_a_finished_run_ends_its_job_with_the_package_in_one_piece() -> None:
    alongside = end_of(run_of(1))

    assert [one.kind for one in alongside.messages] == ["package", "job_status", "job_status"]
    assert alongside.change is not None
    assert (alongside.change.state, alongside.change.iteration) == ("completed", 1)
    package = json.loads(alongside.messages[0].body)["payload"]
    assert alongside.change.package == package["package_id"]


def test_a_package_that_is_to_be_looked_at_leaves_its_job_waiting_for_the_verdict() -> None:
    reporter = Reporter(DaemonSection(validation=ValidationSection(iterations=3)))

    alongside = end_of(run_of(1), reporter)

    assert alongside.change is not None
    assert alongside.change.state == "validating"
    assert [one["status"] for one in statuses(alongside.messages)] == ["PACKAGE_SENT"]


def test_a_goal_that_is_not_achieved_is_said_to_be_so() -> None:
    events: list[Event] = [*run_of(1)[:-1], RunFinished(9.0, "not_achieved", "gate fresh is red")]

    alongside = end_of(events)

    assert alongside.change is not None
    assert alongside.change.state == "completed"
    last = statuses(alongside.messages)[-1]
    assert (last["status"], last["reason"]) == ("JOB_PARTIALLY_COMPLETED", "gate fresh is red")


ABOUT: JsonObject = {"goal": "Research it", "target": "Westfall", "depth": 1, "budget_tokens": 500}


def test_of_a_job_with_a_goal_its_target_is_reported_too() -> None:
    zone = replace(JOB, request={"goal": ABOUT})

    _, begun = project(JobProjection(zone), run_of(0)[:1], REPORTER, None)
    _, ended = project(JobProjection(zone), run_of(0)[-1:], REPORTER, PACKAGE)
    failed = REPORTER.state_reports(replace(zone, state="failed", reason="no tool"))

    assert begun is not None
    assert ended is not None
    assert [(one["status"], one.get("targets_completed")) for one in statuses(begun.messages)] == [
        ("JOB_STARTED", None),
        ("TARGET_STARTED", 0),
    ]
    assert [one["status"] for one in statuses(ended.messages)] == [
        "PACKAGE_SENT",
        "TARGET_COMPLETED",
        "JOB_COMPLETED",
    ]
    assert [one["status"] for one in statuses(failed)] == ["TARGET_FAILED", "JOB_FAILED"]
    assert statuses(failed)[-1]["targets_failed"] == [{"target": "Westfall", "error": "no tool"}]


def test_a_run_that_was_interrupted_says_nothing_of_its_job() -> None:
    _, alongside = project(JobProjection(JOB), [RunFinished(9.0, "interrupted")], REPORTER, None)

    assert alongside is None


def test_a_refused_plan_fails_its_job_with_what_was_wrong() -> None:
    refused = Noted(
        3.0, "plan_refused", {"diagnostics": [{"severity": "error", "message": "no tool 'x'"}]}
    )

    alongside = end_of([run_of(0)[0], refused, RunFinished(4.0, "failed", "the plan is not valid")])

    assert alongside.change is not None
    assert alongside.change.reason == "the plan is not valid; no tool 'x'"


def test_a_question_is_asked_of_people_and_its_answer_taken_once() -> None:
    body: JsonObject = {"question": "Which?", "options": ["a", "b"]}
    asked = Noted(5.0, "question", body)

    account, asking = project(JobProjection(JOB), [asked], REPORTER, None)
    again = replay(JobProjection(JOB), [asked])
    after, taking = project(again, [Noted(6.0, "answer", {**body, "answer": "a"})], REPORTER, None)

    assert asking is not None
    [decision] = asking.decisions
    assert (decision.question, decision.options, decision.subject) == (
        "Which?",
        ("a", "b"),
        "question",
    )
    assert {one.kind for one in asking.messages} == {"user_decision_required", "job_status"}
    assert again.open_decision == account.open_decision == decision
    assert taking is not None
    assert taking.taken == (decision.id,)
    assert after.open_decision is None


def test_the_word_for_another_plan_is_another_decision() -> None:
    def wanted(plan_hash: str) -> Noted:
        body: JsonObject = {
            "subject": "plan",
            "needs": ["it writes"],
            "binding": {"plan_hash": plan_hash},
        }
        return Noted(5.0, "approval_wanted", body)

    one, same, other = (
        replay(JobProjection(JOB), [wanted(plan_hash)]).open_decision
        for plan_hash in ("sha256:1", "sha256:1", "sha256:2")
    )

    assert one == same
    assert one is not None
    assert other is not None
    assert one.id != other.id


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (replace(JOB, state="queued", state_since=1.0), ["ACCEPTED"]),
        (replace(JOB, state="queued", state_since=7.0, attempts=1), []),
        (replace(JOB, state="failed", state_since=7.0, reason="no"), ["JOB_FAILED"]),
        (replace(JOB, state="dead", state_since=7.0, reason="begun 5 times"), ["JOB_FAILED"]),
        (replace(JOB, state="waiting", state_since=7.0), []),
        (
            replace(JOB, state="completed", state_since=7.0, iteration=1),
            ["VALIDATION_RECEIVED", "JOB_COMPLETED"],
        ),
    ],
    ids=lambda value: value.state if isinstance(value, JobRow) else "",
)
def test_a_job_that_comes_into_a_state_is_told_of(job: JobRow, expected: list[str]) -> None:
    messages = REPORTER.state_reports(job)

    assert [one["status"] for one in statuses(messages)] == expected
    assert [one.exchange for one in messages if one.kind == "dead_letter"] == (
        ["wavewright.dlx"] if job.state == "dead" else []
    )


def test_a_reason_is_cut_where_a_message_would_grow_without_end() -> None:
    [message] = REPORTER.state_reports(replace(JOB, state="failed", reason="x" * 10_000))

    assert len(message.body) < 2_000


@pytest.mark.anyio
async def test_a_job_of_many_targets_advances_with_each_step_and_each_end_of_one() -> None:
    journal = MemoryJournal()
    outbox = OutboxJournal(journal, replace(JOB, attempts=4), REPORTER)
    target = RunId("20261122-060000-abc124")
    await journal.open_run(JOB.run)
    await journal.open_run(target)
    body: JsonObject = {"targets": {"first": ["A", "B"]}}
    began = Noted(3.0, "target_started", {"target": "A", "wave": 0, "run": target})
    await outbox.append(
        JOB.run, [RunStarted(JOB.run, 2.0, "a job", {}, 2.0), Noted(2.0, "targets", body)]
    )
    await outbox.append(JOB.run, [began])
    await outbox.append(target, [StepFinished(4.0, StepId("s0"), "ok")])
    await outbox.append(target, [StepFinished(5.0, StepId("s1"), "ok")])

    advanced = [
        (run, beside)
        for run, beside in journal.alongside
        if isinstance(beside, OutboxWrites) and beside.change is not None
    ]
    [(run, beside)] = advanced
    [progress] = statuses(beside.messages)
    assert (run, beside.change) == (target, JobChange(JOB.job, "running", has_advanced=True))
    assert (progress["status"], progress["target"]) == ("STEP_PROGRESS", "A")
