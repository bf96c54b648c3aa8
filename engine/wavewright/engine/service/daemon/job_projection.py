"""Projection of a run's events onto its job: the messages to publish, decisions, and changes of the
job.

`project` takes a `JobProjection` and the events about to be journaled. It returns the next
projection and the `OutboxWrites` for the same transaction. It is pure, so a job that continues
after a crash publishes the same messages, and only what is journaled is published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from immutables import Map

from wavewright.engine.run.target_waves import (
    TARGETS_WANTED,
    TargetWaves,
    initial_waves,
    waves_after,
)
from wavewright.engine.service.daemon.note_projection import (
    TARGET_TOPICS,
    answered_decision,
    packages_sent_by,
    project_completion,
    project_target,
    requested_decision,
)
from wavewright.engine.service.daemon.reports import Reporter, shorten_reason
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    JobChange,
    JobRow,
    JobState,
    OutgoingMessage,
    SentPackage,
)
from wavewright.engine.service.messages.decoding import target_of
from wavewright.engine.service.messages.models import package_id
from wavewright.executor import Event, Noted, PlanAccepted, RunFinished, RunStarted, StepFinished
from wavewright.planner import Json, JsonObject, StepId
from wavewright.reviewer import Package

MAX_PROGRESS_REPORTS: Final = 20
"""Progress reports of a run with more steps; with fewer, each step is reported."""

_NO_STEPS: Map[StepId, None] = Map()
_NO_PACKAGES: Map[str, Package] = Map()


@dataclass(frozen=True, slots=True)
class JobProjection:
    """What is known of a job, or of the run of one of its targets, from its events so far."""

    job: JobRow
    steps: int = 0
    """Number of steps of the current plan."""
    ended: Map[StepId, None] = _NO_STEPS
    reported: int = 0
    """Steps that had ended at the last progress report."""
    invalid_because: str = ""
    """The first error of the plan, where it was refused."""
    open_decision: Decision | None = None
    """The last question of the run, as long as it has not used an answer to it."""
    target: str | None = None
    """The target of this run, where the job has several."""
    waves: TargetWaves | None = None
    """Progress of a job with several targets."""
    max_iterations: int | None = None
    """Packages that the validator may reject or accept, where the goal limits them."""


def replay(projection: JobProjection, events: Iterable[Event]) -> JobProjection:
    """Return the projection after events that were journaled before."""
    for event in events:
        projection = _apply(projection, event)
    return replace(projection, reported=len(projection.ended))


def project(
    projection: JobProjection,
    events: Sequence[Event],
    reporter: Reporter,
    package: Package | None,
    of_targets: Mapping[str, Package] = _NO_PACKAGES,
    *,
    has_advanced: bool = False,
) -> tuple[JobProjection, OutboxWrites | None]:
    """Return the next projection, and what is written in the transaction that journals the events.

    Args:
        projection: The projection so far.
        events: The events about to be journaled.
        reporter: Makes the messages.
        package: The run's package, where these events end it.
        of_targets: Packages of the runs of targets.
        has_advanced: Whether the job gets further with these events than its interrupted attempts.
    """
    projected = _Projected(reporter, package)
    # The start of a job with several targets is reported differently, and both events are in one
    # batch.
    if wanted := [
        event for event in events if isinstance(event, Noted) and event.topic == TARGETS_WANTED
    ]:
        projection = replace(projection, waves=initial_waves(wanted[0]))
    for event in events:
        projected.add(projection, event)
        projection = _apply(projection, event)
        if (
            isinstance(event, Noted)
            and event.topic in TARGET_TOPICS
            and projection.waves is not None
        ):
            projected.messages += project_target(
                projection.job, projection.waves, event, reporter, of_targets
            )
            projected.sent += packages_sent_by(projection.job, projection.waves, event)
    # One report for a batch, however many steps ended in it.
    if projected.last_step is not None and _is_progress_due(projection):
        projected.messages.insert(0, _progress(projection, projected.last_step, reporter))
        projection = replace(projection, reported=len(projection.ended))
    # A job that advances is not the one that ends the process again and again.
    has_advanced = has_advanced and projection.job.attempts > 1
    if projected.change is None and (has_advanced or projected.sent):
        projected.change = JobChange(
            projection.job.job, "running", has_advanced=has_advanced, sent=projected.sent
        )
        attempts = 1 if has_advanced else projection.job.attempts
        projection = replace(projection, job=replace(projection.job, attempts=attempts))
    if not (projected.messages or projected.change or projected.decisions or projected.taken):
        return projection, None
    writes = OutboxWrites(
        messages=tuple(projected.messages),
        change=projected.change,
        decisions=tuple(projected.decisions),
        taken=tuple(projected.taken),
    )
    return projection, writes


def _apply(projection: JobProjection, event: Event) -> JobProjection:
    match event:
        case RunStarted():
            return replace(projection, max_iterations=_max_iterations(event.goal))
        case PlanAccepted():
            return replace(projection, steps=_count_steps(event.plan))
        case StepFinished(status="blocked" | "cancelled"):
            # A patch may run it later.
            ended = (
                projection.ended.delete(event.step)
                if event.step in projection.ended
                else projection.ended
            )
            return replace(projection, ended=ended)
        case StepFinished() if event.step not in projection.ended:
            return replace(projection, ended=projection.ended.set(event.step, None))
        case Noted(topic="plan_refused"):
            return replace(projection, invalid_because=_first_fault(event.body))
        case Noted(topic="question" | "approval_wanted"):
            return replace(
                projection,
                open_decision=requested_decision(projection.job, event, projection.target),
            )
        case Noted(topic="answer" | "approval"):
            return replace(projection, open_decision=None)
        case Noted(topic="targets"):
            return (
                projection
                if projection.waves is not None
                else replace(projection, waves=initial_waves(event))
            )
        case Noted() if projection.waves is not None:
            return replace(projection, waves=waves_after(projection.waves, event))
        case _:
            return projection


@dataclass(slots=True)
class _Projected:
    """What one batch of events writes, collected event by event."""

    reporter: Reporter
    package: Package | None
    """The run's package, where the batch ends the run."""
    messages: list[OutgoingMessage] = field(default_factory=list[OutgoingMessage])
    decisions: list[Decision] = field(default_factory=list[Decision])
    taken: list[DecisionId] = field(default_factory=list[DecisionId])
    change: JobChange | None = None
    sent: tuple[SentPackage, ...] = ()
    """Packages of targets."""
    last_step: StepFinished | None = None

    def add(self, projection: JobProjection, event: Event) -> None:
        """Collect what an event writes; the projection is that before it."""
        job = projection.job
        match event:
            case RunStarted() if projection.waves is None:
                self.messages += self.reporter.started(job, event.at)
            case RunStarted():
                # Several targets are reported when each starts.
                self.messages.append(self.reporter.status(job, "JOB_STARTED", event.at))
            case Noted(topic="resumed"):
                self.messages.append(
                    self.reporter.status(job, "JOB_RESUMED", event.at, repr(event.at))
                )
            case Noted(topic="question" | "approval_wanted"):
                self._add_question(projection, requested_decision(job, event, projection.target))
            case Noted(topic="answer" | "approval"):
                if (taken := answered_decision(projection.open_decision, event)) is not None:
                    self.taken.append(taken)
            case StepFinished():
                self.last_step = event
            case RunFinished():
                self._add_end(projection, event)
            case _:
                pass

    def _add_question(self, projection: JobProjection, decision: Decision) -> None:
        self.decisions.append(decision)
        self.messages += [
            self.reporter.decision(projection.job, decision),
            self.reporter.status(
                projection.job,
                "DECISION_REQUIRED",
                decision.asked,
                decision.id,
                decision_id=decision.id,
                reason=decision.question,
                **_target_field(projection),
            ),
        ]

    def _add_end(self, projection: JobProjection, event: RunFinished) -> None:
        job, waves, reporter = projection.job, projection.waves, self.reporter
        if (reason := _failure_reason(projection, event, self.package)) is not None:
            failed = replace(
                job, state="failed", reason=shorten_reason(reason), state_since=event.at
            )
            self.messages += (
                reporter.failed(failed, event.at)
                if waves is None
                else [project_completion(failed, waves, event, reporter)]
            )
            self.change = JobChange(job.job, "failed", reason=failed.reason)
            return
        reason = shorten_reason(event.reason)
        match event.status:
            case "interrupted" | "failed":
                # `JobRunner` changes the state of its job.
                return
            case "cancelled":
                ended = replace(job, state="cancelled", reason=reason, state_since=event.at)
                self.messages += reporter.cancelled(ended, event.at)
                self.change = JobChange(job.job, "cancelled", reason=reason)
            case "achieved" | "not_achieved" if waves is not None:
                self.messages.append(project_completion(job, waves, event, reporter))
                self.change = JobChange(job.job, "completed", reason=reason)
            case "achieved" | "not_achieved":
                assert self.package is not None, "a run ends with its package"
                self._add_package(projection, event, self.package)

    def _add_package(self, projection: JobProjection, event: RunFinished, package: Package) -> None:
        job, iterations, reporter = projection.job, projection.max_iterations, self.reporter
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
        self.messages += [
            reporter.package(job, package, event.at),
            reporter.status(
                sent, "PACKAGE_SENT", event.at, iteration=iteration, package_id=sent.package
            ),
        ]
        if state == "completed":
            self.messages += reporter.completed(sent, event.at, is_whole=event.status == "achieved")
        self.change = JobChange(
            job.job, state, reason=sent.reason, iteration=iteration, package=sent.package
        )


def _failure_reason(
    projection: JobProjection, event: RunFinished, package: Package | None
) -> str | None:
    """Return why the job has failed, or None where its package is published.

    A pack's package may have no field for a goal that is not achieved, so a run by a request form
    without a valid result has failed.
    """
    if event.status == "failed":
        return "; ".join(part for part in (event.reason, projection.invalid_because) if part)
    if target_of(projection.job) is None or package is None or package.review is None:
        return None
    return "; ".join(package.review.invalid_because) or None


def _is_progress_due(projection: JobProjection) -> bool:
    done, steps = len(projection.ended), max(projection.steps, 1)
    if done >= steps or steps <= MAX_PROGRESS_REPORTS:
        return done > projection.reported
    return (
        done * MAX_PROGRESS_REPORTS // steps > projection.reported * MAX_PROGRESS_REPORTS // steps
    )


def _progress(projection: JobProjection, last: StepFinished, reporter: Reporter) -> OutgoingMessage:
    done = len(projection.ended)
    return reporter.status(
        projection.job,
        "STEP_PROGRESS",
        last.at,
        last.step,
        repr(last.at),
        *(() if projection.target is None else (projection.target,)),
        step=last.step,
        steps_completed=done,
        # A patch may have removed steps that have ended.
        steps_total=max(projection.steps, done),
        **_target_field(projection),
    )


def _target_field(projection: JobProjection) -> dict[str, Json]:
    return {} if projection.target is None else {"target": projection.target}


def _max_iterations(goal: JsonObject) -> int | None:
    limits = goal.get("limits")
    iterations = limits.get("iterations") if isinstance(limits, dict) else None
    return iterations if isinstance(iterations, int) else None


def _count_steps(plan: JsonObject) -> int:
    steps = plan.get("steps")
    return len(steps) if isinstance(steps, list) else 0


def _first_fault(body: JsonObject) -> str:
    diagnostics: Json = body.get("diagnostics")
    for diagnostic in diagnostics if isinstance(diagnostics, list) else []:
        if isinstance(diagnostic, dict) and diagnostic.get("severity", "error") == "error":
            return str(diagnostic.get("message", ""))
    return ""
