"""What a run's events mean for its job, worked out from them alone.

An *account* is how far a job has been told of. `tell` takes it and the events that are about to be journaled, and
gives the next account and what is written alongside: messages, the job's end, questions to people. Pure, so a job
that goes on after a crash is told of as if nothing had happened, and nothing is told that is not journaled.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from immutables import Map

from wavewright.engine.daemon.note_projection import (
    TARGET_TOPICS,
    answered_decision,
    packages_sent_by,
    project_completion,
    project_failure,
    project_start,
    project_target,
    requested_decision,
)
from wavewright.engine.daemon.reports import Reporter, goal_target, shorten_reason
from wavewright.engine.messages.ids import package_id
from wavewright.engine.targets.waves import TARGETS_WANTED, TargetWaves, initial_waves, waves_after
from wavewright.executor.events.types import Event, Noted, PlanAccepted, RunFinished, RunStarted, StepFinished
from wavewright.executor.store.job_records import (
    Decision,
    DecisionId,
    JobChange,
    JobRow,
    JobState,
    OutboxWrites,
    OutgoingMessage,
    SentPackage,
)
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.reviewer.records import Package

MAX_PROGRESS_REPORTS: Final = 20
"""Reports of progress in a run of many steps; a run of fewer tells of every step."""

_NO_STEPS: Map[StepId, None] = Map()
_NO_PACKAGES: Map[str, Package] = Map()


@dataclass(frozen=True, slots=True)
class JobProjection:
    """How far a job has been told of."""

    job: JobRow
    steps: int = 0
    """Of the plan that the run follows."""
    ended: Map[StepId, None] = _NO_STEPS
    reported: int = 0
    """Steps that had ended when progress was last told of."""
    invalid_because: str = ""
    """What is wrong with the plan, where it was refused."""
    open_decision: Decision | None = None
    """The question that the run has asked last and that it has taken no answer to."""
    target: str | None = None
    """The target that this is the account of, where the job has several."""
    waves: TargetWaves | None = None
    """How far a job with several targets is."""
    max_iterations: int | None = None
    """Packages that a validator may look at, where the goal says how many."""


@dataclass(slots=True)
class _Projected:
    """What one batch of events comes to."""

    messages: list[OutgoingMessage]
    decisions: list[Decision]
    taken: list[DecisionId]
    change: JobChange | None = None
    sent: tuple[SentPackage, ...] = ()
    """Packages of targets."""
    last_step: StepFinished | None = None


def replay(account: JobProjection, events: Iterable[Event]) -> JobProjection:
    """Return the account after events that were journaled, and told of, before."""
    for event in events:
        account = _apply(account, event)
    return replace(account, reported=len(account.ended))


def project(
    account: JobProjection,
    events: Sequence[Event],
    reporter: Reporter,
    package: Package | None,
    of_targets: Mapping[str, Package] = _NO_PACKAGES,
    *,
    has_advanced: bool = False,
) -> tuple[JobProjection, OutboxWrites | None]:
    """Return the account after events that are to be journaled now, and what is written with them.

    `package` is what the run has built, where these events end it; `of_targets` what the runs of its targets have;
    `has_advanced` whether the job comes further with these events than the attempts that were cut off.
    """
    telling = _Projected([], [], [])
    # How the run begins is told of a job with several targets otherwise, and it begins in one batch.
    if wanted := [event for event in events if isinstance(event, Noted) and event.topic == TARGETS_WANTED]:
        account = replace(account, waves=initial_waves(wanted[0]))
    for event in events:
        _project_event(account, event, reporter, package, telling)
        account = _apply(account, event)
        if isinstance(event, Noted) and event.topic in TARGET_TOPICS and account.waves is not None:
            telling.messages += project_target(account.job, account.waves, event, reporter, of_targets)
            telling.sent += packages_sent_by(account.job, account.waves, event)
    # One report for a batch, however many steps ended in it.
    if telling.last_step is not None and _is_progress_due(account):
        telling.messages.insert(0, _progress(account, telling.last_step, reporter))
        account = replace(account, reported=len(account.ended))
    # A job that a neighbour keeps from its end time and again is not the one that ends the process.
    has_advanced = has_advanced and account.job.attempts > 1
    if telling.change is None and (has_advanced or telling.sent):
        telling.change = JobChange(account.job.job, "running", has_advanced=has_advanced, sent=telling.sent)
        attempts = 1 if has_advanced else account.job.attempts
        account = replace(account, job=replace(account.job, attempts=attempts))
    if not (telling.messages or telling.change or telling.decisions or telling.taken):
        return account, None
    outbox_writes = OutboxWrites(
        messages=tuple(telling.messages),
        change=telling.change,
        decisions=tuple(telling.decisions),
        taken=tuple(telling.taken),
    )
    return account, outbox_writes


def _apply(account: JobProjection, event: Event) -> JobProjection:
    match event:
        case RunStarted():
            return replace(account, max_iterations=_max_iterations(event.goal))
        case PlanAccepted():
            return replace(account, steps=_count_steps(event.plan))
        case StepFinished(status="blocked" | "cancelled"):
            # It was not done, and a patch may let it be.
            ended = account.ended.delete(event.step) if event.step in account.ended else account.ended
            return replace(account, ended=ended)
        case StepFinished() if event.step not in account.ended:
            return replace(account, ended=account.ended.set(event.step, None))
        case Noted(topic="plan_refused"):
            return replace(account, invalid_because=_first_fault(event.body))
        case Noted(topic="question" | "approval_wanted"):
            return replace(account, open_decision=requested_decision(account.job, event, account.target))
        case Noted(topic="answer" | "approval"):
            return replace(account, open_decision=None)
        case Noted(topic="targets"):
            return account if account.waves is not None else replace(account, waves=initial_waves(event))
        case Noted() if account.waves is not None:
            return replace(account, waves=waves_after(account.waves, event))
        case _:
            return account


def _project_event(
    account: JobProjection, event: Event, reporter: Reporter, package: Package | None, telling: _Projected
) -> None:
    job = account.job
    match event:
        case RunStarted():
            telling.messages += project_start(job, account.waves, event, reporter)
        case Noted(topic="resumed"):
            telling.messages.append(reporter.status(job, "JOB_RESUMED", event.at, repr(event.at)))
        case Noted(topic="question" | "approval_wanted"):
            _project_question(account, requested_decision(job, event, account.target), reporter, telling)
        case Noted(topic="answer" | "approval"):
            if (taken := answered_decision(account.open_decision, event)) is not None:
                telling.taken.append(taken)
        case StepFinished():
            telling.last_step = event
        case RunFinished():
            _project_end(account, event, reporter, package, telling)
        case _:
            pass


def _project_question(
    account: JobProjection, decision: Decision, reporter: Reporter, telling: _Projected
) -> None:
    job = account.job
    telling.decisions.append(decision)
    telling.messages += [
        reporter.decision(job, decision),
        reporter.status(
            job,
            "DECISION_REQUIRED",
            decision.asked,
            decision.id,
            decision_id=decision.id,
            reason=decision.question,
            **_target_field(account),
        ),
    ]


def _project_end(
    account: JobProjection,
    event: RunFinished,
    reporter: Reporter,
    package: Package | None,
    telling: _Projected,
) -> None:
    if (reason := _failure_reason(account, event, package)) is not None:
        failed = replace(account.job, state="failed", reason=shorten_reason(reason), state_since=event.at)
        telling.messages += project_failure(failed, account.waves, event, reporter)
        telling.change = JobChange(failed.job, "failed", reason=failed.reason)
        return
    match event.status:
        case "interrupted" | "failed":
            # How its job stands then is for whoever interrupted it to say.
            return
        case "achieved" | "not_achieved" if account.waves is not None:
            telling.messages.append(project_completion(account.job, account.waves, event, reporter))
            telling.change = JobChange(account.job.job, "completed", reason=shorten_reason(event.reason))
        case "achieved" | "not_achieved":
            assert package is not None, "a run ends with its package"
            _project_package(account, event, reporter, package, telling)


def _failure_reason(account: JobProjection, event: RunFinished, package: Package | None) -> str | None:
    """Return why nothing goes out at a run's end; none where something does, or where the run has not ended yet.

    A pack's package may have no field for a goal that is not achieved, so a run by a request form without a valid
    result has failed.
    """
    if event.status == "failed":
        return "; ".join(part for part in (event.reason, account.invalid_because) if part)
    if goal_target(account.job) is None or package is None or package.review is None:
        return None
    return "; ".join(package.review.invalid_because) or None


def _project_package(
    account: JobProjection, event: RunFinished, reporter: Reporter, package: Package, telling: _Projected
) -> None:
    job, iterations = account.job, account.max_iterations
    if iterations is None:
        iterations = reporter.section.validation.iterations
    iteration = job.iteration + 1
    state: JobState = "validating" if iterations > 0 else "completed"
    sent = replace(
        job,
        state=state,
        iteration=iteration,
        package=package_id(job.job, iteration),
        reason=shorten_reason(event.reason),
        state_since=event.at,
    )
    telling.messages += [
        reporter.package(job, package, event.at),
        reporter.status(sent, "PACKAGE_SENT", event.at, iteration=iteration, package_id=sent.package),
    ]
    if state == "completed":
        telling.messages += reporter.completed(sent, event.at, is_whole=event.status == "achieved")
    telling.change = JobChange(sent.job, state, reason=sent.reason, iteration=iteration, package=sent.package)


def _is_progress_due(account: JobProjection) -> bool:
    done, steps = len(account.ended), max(account.steps, 1)
    if done >= steps or steps <= MAX_PROGRESS_REPORTS:
        return done > account.reported
    return done * MAX_PROGRESS_REPORTS // steps > account.reported * MAX_PROGRESS_REPORTS // steps


def _progress(account: JobProjection, last: StepFinished, reporter: Reporter) -> OutgoingMessage:
    done = len(account.ended)
    return reporter.status(
        account.job,
        "STEP_PROGRESS",
        last.at,
        last.step,
        repr(last.at),
        *(() if account.target is None else (account.target,)),
        step=last.step,
        steps_completed=done,
        # A patch may have taken steps away that have ended.
        steps_total=max(account.steps, done),
        **_target_field(account),
    )


def _target_field(account: JobProjection) -> dict[str, Json]:
    return {} if account.target is None else {"target": account.target}


def _max_iterations(goal: JsonObject) -> int | None:
    limits = goal.get("limits")
    found = limits.get("iterations") if isinstance(limits, dict) else None
    return found if isinstance(found, int) else None


def _count_steps(plan: JsonObject) -> int:
    steps = plan.get("steps")
    return len(steps) if isinstance(steps, list) else 0


def _first_fault(body: JsonObject) -> str:
    diagnostics: Json = body.get("diagnostics")
    for found in diagnostics if isinstance(diagnostics, list) else []:
        if isinstance(found, dict) and found.get("severity", "error") == "error":
            return str(found.get("message", ""))
    return ""
