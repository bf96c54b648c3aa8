"""The messages that tell of jobs, ready to go out.

A *report* is made of what is journaled: its id names the job and what happened, its time is that of what happened.
So the same thing is told in the same bytes, however often it has to be said.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from wavewright.config.redaction import Redactor, named_secrets
from wavewright.config.sections import DaemonSection
from wavewright.engine.bus.topology import ATTEMPTS_HEADER, KIND_HEADER, QUEUE_HEADER, REASON_HEADER
from wavewright.engine.messages.decoding import goal_of
from wavewright.engine.messages.encoding import (
    MessageAddress,
    correlation_of,
    encode,
    encode_request,
    sender_of,
)
from wavewright.engine.messages.ids import message_id
from wavewright.engine.messages.models import JobStatusUpdate, UserDecisionRequired
from wavewright.engine.messages.packaging import InvalidResult, package_report
from wavewright.engine.pipeline.context import PackageNotPublished
from wavewright.executor.store.job_records import Decision, JobId, JobRow, OutgoingMessage
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.records import Package
from wavewright.tools.message_contract import JobStatus, MessageContract, PackagePayload, Payload

POISON: Final = "max_deliveries"
"""The kind of a dead letter whose message was sound and whose work never came to an end."""
MAX_ESCAPED_SIZE: Final = 12
"""Bytes that a character takes in a message, at most."""
ENVELOPE_BYTES: Final = 4_096
"""Bytes of what a message holds besides its package, roughly."""
MAX_REASON_LENGTH: Final = 500
"""Characters of a reason; what is longer is in the journal."""
_MAX_CACHED_REDACTORS: Final = 256
_NEUTRAL: Final = MessageContract()
_ANY_AGENT: Final = "anybody"
"""To whom a message is addressed where nobody in particular has asked for it."""


@dataclass(frozen=True, slots=True)
class Reporter:
    """Makes reports under the daemon's names and key."""

    section: DaemonSection
    contract: MessageContract = field(default_factory=MessageContract)
    key: bytes | None = field(default=None, repr=False)
    redactor: Redactor = field(default_factory=Redactor, repr=False)
    """Knows the secrets that must not go out."""
    _redactors: dict[JobId, Redactor] = field(
        default_factory=dict[JobId, Redactor], repr=False, compare=False
    )
    """Those that also know what a job hands to its tools under a secret's name, of the jobs told of last."""

    def status(
        self, job: JobRow, status: JobStatus, at: float, *what: str | int, **fields: Json
    ) -> OutgoingMessage:
        """Return the message that something has happened to a job.

        Args:
            job: The job.
            status: What has happened.
            at: When.
            what: What tells it from the same having happened before.
            fields: What else `JobStatusUpdate` holds.
        """
        update = JobStatusUpdate.model_validate(
            {"job_id": job.job, "status": status, "target": goal_target(job), **_status_fields(fields)}
        )
        return self._message(
            job, update, at, self.section.queues.status, _requesting_agent(job), "job_status", status, *what
        )

    def package(self, job: JobRow, package: Package, at: float) -> OutgoingMessage:
        """Return the message that carries what came out; the next one after those that have gone out."""
        report = self._package_report(job, job.iteration + 1, package)
        section = self.section
        return self._message(
            job, report, at, section.queues.packages, section.validation.target_agent, "package"
        )

    def check_publishable(self, job: JobRow, package: Package) -> None:
        """Return where a package can go out.

        Raises:
            Unpublishable: its message would be larger than the settings let out, or its result does not fit it.
        """
        if self.contract.packages and goal_target(job) is not None:
            try:
                self._package_report(job, job.iteration + 1, package)
            except InvalidResult as error:
                raise PackageNotPublished(
                    f"{error}; change the `result` of the plan or its template"
                ) from error
        most = self.section.max_sent
        # The message is made only where it could be too large at all.
        if len(package.model_dump_json()) * MAX_ESCAPED_SIZE + ENVELOPE_BYTES <= most:
            return
        size = len(self.package(job, package, 0.0).body)
        if size > most:
            raise PackageNotPublished(
                f"its package makes a message of {size} bytes, and at most {most} are sent (daemon.max_sent); "
                f"`wavewright resume {package.run}` writes it to a file where the daemon's journal is"
            )

    def target_package(
        self, job: JobRow, target: str, package: Package, at: float, iteration: int
    ) -> OutgoingMessage:
        """Return the message that carries what came out for one of a job's targets."""
        report = self._package_report(job, iteration, package, target)
        queue, validator = self.section.queues.packages, self.section.validation.target_agent
        return self._message(job, report, at, queue, validator, "package", target, iteration)

    def decision(self, job: JobRow, decision: Decision) -> OutgoingMessage:
        """Return the message that puts a question to people."""
        question = UserDecisionRequired(
            question=decision.question,
            options=list(decision.options),
            context=decision.context,
            decision_id=decision.id,
        )
        queue = self.section.queues.decisions
        return self._message(
            job,
            question,
            decision.asked,
            queue,
            _requesting_agent(job),
            "user_decision_required",
            decision.id,
        )

    def dead_letter(self, job: JobRow, at: float) -> OutgoingMessage:
        """Return the request of a job that was given up, for the queue of what could not be done.

        It is a message like the one that the job came by, to be sent again under new ids; nobody has signed it.
        """
        reason = self._redactor_of(job, "job_status").redact(job.reason)
        section, queue = self.section, self.section.queues.intake
        letter = encode_request(
            job,
            MessageAddress(_requesting_agent(job), section.agent, section.dead_letter_exchange, queue),
            message=message_id(job.job, job.iteration, "dead_letter"),
        )
        why: JsonObject = {
            KIND_HEADER: POISON,
            REASON_HEADER: f"{POISON}: {shorten_reason(reason)}",
            QUEUE_HEADER: queue,
            ATTEMPTS_HEADER: job.attempts,
        }
        return replace(letter, kind="dead_letter", headers={**letter.headers, **why}, at=at)

    def state_reports(self, job: JobRow) -> Sequence[OutgoingMessage]:
        """Return what is told of a job that has come into its state otherwise than by its run: for the job store."""
        match job.state:
            case "queued" if job.feedback and job.package is None:
                # Verdicts on targets are told of when the run takes them.
                return ()
            case "queued" if job.feedback:
                return (self._accepted_verdict(job),)
            case "queued" if job.attempts == 0 and job.state_since == job.received:
                return (self.status(job, "ACCEPTED", job.received),)
            case "completed":
                return (self._accepted_verdict(job), *self.completed(job, job.state_since))
            case "failed":
                return self.failed(job, job.state_since)
            case "dead":
                return (*self.failed(job, job.state_since), self.dead_letter(job, job.state_since))
            case _:
                return ()

    def started(self, job: JobRow, at: float) -> tuple[OutgoingMessage, ...]:
        """Return the messages that the work on a job, and on the target of its goal, has begun."""
        return (self.status(job, "JOB_STARTED", at), *self._target(job, "TARGET_STARTED", at, 0))

    def completed(self, job: JobRow, at: float, *, is_whole: bool = True) -> tuple[OutgoingMessage, ...]:
        """Return the messages that a job is done; not wholly where its package says that the goal is not achieved."""
        status: JobStatus = "JOB_COMPLETED" if is_whole else "JOB_PARTIALLY_COMPLETED"
        told = self.status(job, status, at, package_id=job.package, iteration=job.iteration, **_reason(job))
        return (*self._target(job, "TARGET_COMPLETED", at, 1), told)

    def failed(self, job: JobRow, at: float) -> tuple[OutgoingMessage, ...]:
        """Return the messages that nothing more will come of a job."""
        target = goal_target(job)
        failures: Json = None if target is None else [{"target": target, "error": shorten_reason(job.reason)}]
        told = self.status(job, "JOB_FAILED", at, targets_failed=failures, **_reason(job))
        return (*self._target(job, "TARGET_FAILED", at, 0), told)

    def _target(self, job: JobRow, status: JobStatus, at: float, done: int) -> tuple[OutgoingMessage, ...]:
        if goal_target(job) is None:
            return ()
        return (self.status(job, status, at, targets_completed=done, targets_total=1),)

    def _package_report(
        self, job: JobRow, iteration: int, package: Package, target: str | None = None
    ) -> PackagePayload:
        about = None if (first := goal_target(job)) is None else target or first
        forms = self.contract.packages
        return package_report(job.job, iteration, package, target=target, forms=forms, goal_target=about)

    def _accepted_verdict(self, job: JobRow) -> OutgoingMessage:
        verdict = job.feedback[-1] if job.feedback else None
        iteration = job.iteration if verdict is None else verdict.iteration
        return self.status(
            job,
            "VALIDATION_RECEIVED",
            job.state_since,
            iteration,
            iteration=iteration,
            package_id=job.package,
        )

    def _redactor_of(self, job: JobRow, kind: str) -> Redactor:
        """Return who takes secrets out of what is told of a job; in its package its own document stays as it was."""
        if kind == "package":
            return self.redactor
        # The store's writer and the event loop both come here: what one finds, the other may have cleared since.
        found = self._redactors.get(job.job)
        if found is None:
            found = self.redactor.with_secrets(named_secrets(job.request))
            if len(self._redactors) >= _MAX_CACHED_REDACTORS:
                self._redactors.clear()
            self._redactors[job.job] = found
        return found

    def _message(
        self,
        job: JobRow,
        payload: Payload,
        at: float,
        queue: str,
        target: str,
        kind: str,
        *what: str | int,
    ) -> OutgoingMessage:
        section = self.section
        address = MessageAddress(
            section.agent, target, section.exchange, queue, self.key, self._redactor_of(job, kind)
        )
        message = message_id(job.job, job.iteration, kind, *what)
        return encode(
            payload,
            address,
            message=message,
            correlation=correlation_of(job),
            at=at,
            job=job.job,
            contract=_NEUTRAL if goal_target(job) is None else self.contract,
        )


def goal_target(job: JobRow) -> str | None:
    """Return the target of a job's goal; none where the job came as a job document."""
    goal = goal_of(job.request)
    return None if goal is None else goal.target


def shorten_reason(reason: str) -> str:
    """Return a reason as long as a message holds it."""
    return reason if len(reason) <= MAX_REASON_LENGTH else reason[: MAX_REASON_LENGTH - 1] + "…"


def _reason(job: JobRow) -> dict[str, Json]:
    return {"reason": job.reason} if job.reason else {}


def _status_fields(fields: dict[str, Json]) -> dict[str, Json]:
    reason = fields.get("reason")
    return {**fields, "reason": shorten_reason(reason)} if isinstance(reason, str) else fields


def _requesting_agent(job: JobRow) -> str:
    return sender_of(job) or _ANY_AGENT
