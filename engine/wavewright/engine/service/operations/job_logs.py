"""Log lines of messages and runs.

A line on a received message is written when its effect is durable, one on a sent message when the
broker has confirmed it: a message that is not in the log may be repeated, one that is there is
settled. Lines of a run are derived from its events; `target` is the target of its goal, or else the
job's name, and steps are numbered in the plan's order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from wavewright.config.redaction import Redactor, named_secrets
from wavewright.engine.service.bus.topology import REASON_HEADER
from wavewright.engine.service.job_store.records import (
    DecisionMade,
    OutgoingMessage,
    ReceivedMessage,
    VerdictGiven,
)
from wavewright.engine.service.operations.logs import Level, StructuredLog
from wavewright.executor import (
    Event,
    ItemFinished,
    Noted,
    PlanAccepted,
    RunFinished,
    RunStarted,
    StepFinished,
    StepStarted,
    WaveStarted,
)
from wavewright.executor.events.types import ModelCalled
from wavewright.planner import Json, JsonObject, StepId, as_list, as_object
from wavewright.planner.ports.model_port import ModelUse

MAX_SUMMARY_LENGTH: Final = 500
"""Maximum characters of a validator's text in a line."""


def log_received(
    log: StructuredLog, received: ReceivedMessage, job: str | None, target: str | None = None
) -> None:
    """Log a message that has taken effect.

    Args:
        log: The log.
        received: The message.
        job: Id of its job.
        target: Target of that job, if known.
    """
    match received.request:
        case VerdictGiven() as verdict:
            named = verdict.target or target
            about: JsonObject = {"job_id": job, "target": named, "iteration": verdict.iteration}
            log_verdict(log, about, verdict.feedback, accepted=verdict.accepted)
        case DecisionMade() as made:
            log.write(
                "user_decision_received",
                job_id=job,
                decision_id=made.decision,
                choice=made.choice,
                by=made.by,
            )
        case _:
            log.write(
                "job_received",
                job_id=job,
                target=target,
                message_id=received.message,
                source_agent=received.source,
            )


def log_verdict(
    log: StructuredLog, about: JsonObject, feedback: Sequence[str], *, accepted: bool
) -> None:
    """Log a validator's verdict on a package.

    Args:
        log: The log.
        about: Job, target and iteration of the package.
        feedback: What is wrong with it.
        accepted: Whether it is accepted.
    """
    log.write("validation_received", "info", **about, accepted=accepted)
    if not accepted:
        summary = "; ".join(feedback)[:MAX_SUMMARY_LENGTH]
        log.write("validation_rejected", "warning", **about, feedback_summary=summary)


def log_sent(log: StructuredLog, sent: OutgoingMessage) -> None:
    """Log a confirmed message with a package, a question, a job that was given up or the failure of
    a target.
    """
    match sent.kind:
        case "dead_letter":
            log.write(
                "job_dead_lettered", "error", job_id=sent.job, message=sent.headers[REASON_HEADER]
            )
        case "job_status":
            _log_failed_target(log, sent)
        case "user_decision_required":
            question = _payload(sent)
            log.write(
                "user_decision_requested",
                job_id=sent.job,
                decision_id=question.get("decision_id"),
                options=question.get("options"),
                question=question.get("question"),
            )
        case _:  # a package, in the neutral form or the pack's
            kind, payload = _message(sent)
            form = next(
                (form for form in log.contract.packages if form.payload.message_type == kind), None
            )
            package = _inner(payload, "package")
            fields: JsonObject = {
                "target": package.get("job"),
                "data_point_count": _count(_inner(package, "review").get("confidences")),
                "total_sources": _count(package.get("sources")),
            }
            if form is not None:
                fields = {} if form.log_fields is None else form.log_fields(payload)
            line: JsonObject = {
                "message_id": sent.message,
                "message_type": kind,
                "bytes": len(sent.body),
            }
            log.write("package_sent", "info", job_id=sent.job, **fields, **line)


def _log_failed_target(log: StructuredLog, sent: OutgoingMessage) -> None:
    names = {"TARGET_FAILED", log.contract.statuses.get("TARGET_FAILED", "TARGET_FAILED")}
    if not any(name.encode() in sent.body for name in names):
        return
    status = _payload(sent)
    if status.get("status") in names:
        target = status.get(log.contract.fields.get("target", "target"), status.get("target"))
        log.write(
            "target_failed", "error", job_id=sent.job, target=target, message=status.get("reason")
        )


def _payload(sent: OutgoingMessage) -> JsonObject:
    return _message(sent)[1]


def _message(sent: OutgoingMessage) -> tuple[str, JsonObject]:
    """Return the type and the payload of a message."""
    envelope: Json = json.loads(sent.body)
    kind = envelope.get("message_type", sent.kind) if isinstance(envelope, dict) else sent.kind
    return str(kind), _inner(envelope, "payload")


def _inner(value: Json, name: str) -> JsonObject:
    return as_object(value.get(name) if isinstance(value, dict) else None)


def _count(value: Json) -> int:
    return len(value) if isinstance(value, list) else 0


def _target_of(goal: JsonObject) -> str | None:
    """Return the target that a goal's inputs name."""
    target = as_object(goal.get("inputs")).get("target")
    return target if isinstance(target, str) and target else None


_FAILED_STATUSES = ("failed", "blocked")


@dataclass(slots=True)
class RunLog:
    """Logs the events of a run that matter to operators."""

    log: StructuredLog
    job: str
    """The job's id."""
    target: str
    """The target of the run."""
    tools: dict[StepId, str] = field(default_factory=dict[StepId, str])
    """Tool by step of the current plan."""
    _numbers: dict[StepId, int] = field(default_factory=dict[StepId, int])
    _named: Redactor | None = None
    """Redacts values that the plan passes to tools under secret names."""
    _started: RunStarted | None = None
    """The start of the run, until it is logged."""
    _has_targets: bool = False
    _begun: set[StepId] = field(default_factory=set[StepId])
    _step_tokens: Counter[StepId] = field(default_factory=Counter[StepId])
    _tokens: Counter[str] = field(default_factory=Counter[str])

    def __call__(self, event: Event) -> None:
        """Log an event; most events are not logged."""
        if self._started is not None and not (isinstance(event, Noted) and event.topic == "draft"):
            self._write_start(self._started, event)
        match event:
            case RunStarted():
                self.target = _target_of(event.goal) or self.target
                # A job with targets says so in a note after its draft; each target has a run of its
                # own.
                self._started = event
            case PlanAccepted():
                self._take_plan(event)
            case WaveStarted():
                for step in event.steps:
                    self._begin(step)
            case StepStarted():
                self._begin(event.step)
            case ModelCalled(use=use):
                self._take_use(use)
            case ItemFinished(error=error) if error is not None:
                self._error_fields(event.step, error.kind, error.message, error.attempts)
            case StepFinished():
                self._end_step(event)
            case Noted():
                self._note(event)
            case RunFinished():
                self._end(event)
            case _:
                pass

    def _write_start(self, started: RunStarted, following: Event) -> None:
        self._started = None
        if isinstance(following, Noted) and following.topic == "targets":
            self._write_line("job_started", run=started.run)
        else:
            self._write_line("run_started", run=started.run)

    def _write_line(self, event: str, level: Level = "info", **fields: Json) -> None:
        if self._named is not None:
            fields = {
                name: self._named.redact_known(value) if isinstance(value, str) else value
                for name, value in fields.items()
            }
        self.log.write(event, level, job_id=self.job, target=self.target, **fields)

    def _take_plan(self, event: PlanAccepted) -> None:
        if named := [*named_secrets(event.plan)]:
            self._named = (self._named or Redactor()).with_secrets(named)
        steps = cast("list[JsonObject]", event.plan.get("steps", []))
        self.tools = {StepId(str(step["id"])): str(step["tool"]) for step in steps}
        self._numbers = {step: number for number, step in enumerate(self.tools, start=1)}
        self._write_line(
            "plan_accepted",
            plan_hash=event.plan_hash,
            rung=event.rung,
            round=event.round,
            steps=len(self.tools),
            warnings=len(event.warnings),
        )

    def _begin(self, step: StepId) -> None:
        if step not in self._begun:
            self._begun.add(step)
            self._write_line(
                "pipeline_step_started",
                step_number=self._numbers.get(step, 0),
                step_name=step,
                tool=self.tools.get(step, ""),
            )

    def _take_use(self, use: ModelUse) -> None:
        side = "worker" if use.role == "worker" else "orchestrator"
        self._tokens[side] += use.tokens
        if use.step is not None:
            self._step_tokens[use.step] += use.tokens
        if use.is_implausible:
            self._write_line(
                "model_usage_implausible", "warning", model=use.model, total_tokens=use.tokens
            )
        if use.outcome == "over_budget":
            self._write_line(
                "budget_exhausted", "warning", budget_type="model call", message=use.message
            )

    def _end_step(self, event: StepFinished) -> None:
        # A run that pauses ends the steps that it has not come to as cancelled: nothing has happened.
        if event.status == "cancelled" and event.step not in self._begun:
            return
        level: Level = "warning" if event.status in _FAILED_STATUSES else "info"
        self._write_line(
            "pipeline_step_completed",
            level,
            step_number=self._numbers.get(event.step, 0),
            step_name=event.step,
            status=event.status,
            duration_ms=round(event.seconds * 1000),
            tokens_used=self._step_tokens[event.step],
        )
        if event.error is not None:
            self._error_fields(
                event.step, event.error.kind, event.error.message, event.error.attempts
            )
        for gate in event.gates:
            if gate.has_failed:
                self._write_line(
                    "gate_failed",
                    "warning",
                    step_name=event.step,
                    gate=gate.gate,
                    severity=gate.severity,
                    message=gate.message,
                )

    def _error_fields(self, step: StepId, kind: str, message: str, attempts: int) -> None:
        self._write_line(
            "error",
            "error",
            step_name=step,
            error_type=kind,
            message=message,
            retry_count=max(0, attempts - 1),
        )

    def _note(self, event: Noted) -> None:
        match event.topic:
            case "resumed":
                self._resume(event.body)
            case "plan_prefix":
                self._take_tools(event.body)
            case "targets" | "target_started" | "target_sent":
                # The cost of each target is logged when its own run ends.
                self._has_targets = True
            case "target_judged":
                # However the verdict came, by a message or from a person at the command line.
                self._has_targets = True
                about: JsonObject = {
                    "job_id": self.job,
                    "target": event.body["target"],
                    "iteration": event.body.get("iteration"),
                }
                feedback = [str(line) for line in as_list(event.body.get("feedback"))]
                accepted = event.body.get("accepted") is True
                log_verdict(self.log, about, feedback, accepted=accepted)
            case "target_interrupted":
                self._write_line("target_interrupted", "warning", message=event.body.get("reason"))
            case "question":
                # The target that leads to several others, where the job's own run asks.
                self.log.write(
                    "fork_detected",
                    job_id=self.job,
                    target=event.body.get("target") or self.target,
                    options=event.body.get("options"),
                )
            case "answer" | "approval":
                self._write_line("user_decision_taken", subject=event.topic)
            case "recovery":
                self._write_line(
                    "recovery_planned",
                    reason=event.body.get("reason"),
                    round=event.body.get("round"),
                )
            case "tool_event":
                self._write_tool_event(event.body)
            case _:
                pass

    def _write_tool_event(self, body: JsonObject) -> None:
        step = StepId(str(body["step"]))
        fields = _inner(body, "fields")
        self._write_line(
            str(body["event"]), "info", step_name=step, tool=self.tools.get(step, ""), **fields
        )

    def _take_tools(self, body: JsonObject) -> None:
        """Take over the tools of the steps of a plan, or of what has arrived of it."""
        self.tools = {StepId(step): str(tool) for step, tool in _inner(body, "tools").items()}
        self._numbers = {step: number for number, step in enumerate(self.tools, start=1)}

    def _resume(self, body: JsonObject) -> None:
        """Take over what earlier attempts have done; a job with targets has no tools of its own."""
        self._has_targets = "tools" not in body
        self._take_tools(body)
        ended = body.get("ended")
        # The waves begin anew, and what has ended in them is not run again.
        self._begun = {StepId(str(step)) for step in ended} if isinstance(ended, list) else set()
        for side in ("orchestrator", "worker"):
            tokens = body.get(f"{side}_tokens")
            self._tokens[side] = tokens if isinstance(tokens, int) else 0
        self._write_line(
            "checkpoint_loaded", step=body.get("step"), queue_size=body.get("queue_size")
        )

    def _end(self, event: RunFinished) -> None:
        if not self._has_targets and event.status != "interrupted":
            self._write_line(
                "run_tokens",
                total_tokens=self._tokens.total(),
                orchestrator_tokens=self._tokens["orchestrator"],
                worker_tokens=self._tokens["worker"],
            )
        level: Level = "warning" if event.status == "failed" else "info"
        if self._has_targets:
            self._write_line("job_finished", level, status=event.status, reason=event.reason)
        else:
            self._write_line("run_finished", level, status=event.status, reason=event.reason)
