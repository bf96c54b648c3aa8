"""Messages about jobs: statuses, packages, decisions and dead letters, ready to publish.

A report is made from journaled events: its id names the job and the event, its time is that of the
event. So the report of an event has the same bytes however often it is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from wavewright.config import Settings, known_secrets_redactor
from wavewright.config.errors import cut_end
from wavewright.config.redaction import Redactor, named_secrets
from wavewright.config.sections import DaemonSection
from wavewright.engine.run.ports import PackageNotPublished
from wavewright.engine.service.bus.topology import (
    ATTEMPTS_HEADER,
    KIND_HEADER,
    QUEUE_HEADER,
    REASON_HEADER,
)
from wavewright.engine.service.job_store.records import Decision, JobId, JobRow, OutgoingMessage
from wavewright.engine.service.messages.contract import message_contract
from wavewright.engine.service.messages.decoding import (
    correlation_of,
    sender_of,
    target_of,
    trace_of,
)
from wavewright.engine.service.messages.encoding import (
    InvalidResult,
    MessageAddress,
    encode,
    encode_request,
    failure_report,
    package_report,
    request_payload,
)
from wavewright.engine.service.messages.models import (
    JobStatusUpdate,
    UserDecisionRequired,
    message_id,
)
from wavewright.planner import Json, JsonObject
from wavewright.reviewer import Package
from wavewright.tools import MessageContract, Payload
from wavewright.tools.message_contract import JobStatus

POISON: Final = "max_deliveries"
"""Kind of the dead letter of a valid message whose job never ended."""
MAX_ESCAPED_SIZE: Final = 12
"""Maximum bytes of a character in a message."""
ENVELOPE_BYTES: Final = 4_096
"""Bytes of a message without its package, roughly."""
MAX_REASON_LENGTH: Final = 500
"""Characters of a reason; the journal has the full text."""
_MAX_CACHED_REDACTORS: Final = 256
_NEUTRAL: Final = MessageContract()
_ANY_AGENT: Final = "anybody"
"""Recipient of messages about a job whose sender is unknown."""


@dataclass(frozen=True, slots=True)
class Reporter:
    """Makes reports with the daemon's names and key."""

    section: DaemonSection
    contract: MessageContract = field(default_factory=MessageContract)
    key: bytes | None = field(default=None, repr=False)
    redactor: Redactor = field(default_factory=Redactor, repr=False)
    """Knows the secrets of the settings."""
    _redactors: dict[JobId, Redactor] = field(
        default_factory=dict[JobId, Redactor], repr=False, compare=False
    )
    """By recent job: redactors that also know the job's own values with a secret's name."""

    @classmethod
    def of(cls, settings: Settings) -> Reporter:
        """Return the reporter of a project."""
        key = None if settings.hmac_key is None else settings.hmac_key.encode()
        return cls(
            settings.daemon, message_contract(settings), key, known_secrets_redactor(settings)
        )

    def status(
        self, job: JobRow, status: JobStatus, at: float, *what: str | int, **fields: Json
    ) -> OutgoingMessage:
        """Return a status message.

        Args:
            job: The job.
            status: What happened.
            at: When it happened.
            what: Further parts of the message id, where the same status occurs more than once.
            fields: Further fields of `JobStatusUpdate`.
        """
        update = JobStatusUpdate.model_validate(
            {
                "job_id": job.job,
                "status": status,
                "target": target_of(job),
                **_status_fields(fields),
            }
        )
        return self._message(
            job,
            update,
            at,
            self.section.queues.status,
            _requesting_agent(job),
            "job_status",
            status,
            *what,
        )

    def package(self, job: JobRow, package: Package, at: float) -> OutgoingMessage:
        """Return the message with a package, the next one after those that were published."""
        return self._to_validator(
            job, self._package_report(job, job.iteration + 1, package), at, "package"
        )

    def check_publishable(self, job: JobRow, package: Package) -> None:
        """Raise where a package cannot be published.

        Raises:
            PackageNotPublished: its message exceeds `daemon.max_sent`, or its result does not fit
                its message.
        """
        is_sent = package.review is None or not package.review.invalid_because
        if (
            self.contract.packages
            and is_sent
            and package.status != "failed"
            and target_of(job) is not None
        ):
            try:
                self._package_report(job, job.iteration + 1, package)
            except InvalidResult as error:
                raise PackageNotPublished(
                    f"{error}; change the `result` of the plan or its template"
                ) from error
        most = self.section.max_sent
        # The message is made only where it could be too large.
        if len(package.model_dump_json()) * MAX_ESCAPED_SIZE + ENVELOPE_BYTES <= most:
            return
        size = len(self.package(job, package, 0.0).body)
        if size > most:
            raise PackageNotPublished(
                f"the message with its package has {size} bytes, more than the {most} of daemon.max_sent; "
                f"`wavewright resume {package.run}` writes it to a file where the daemon's journal is"
            )

    def target_package(
        self, job: JobRow, target: str, package: Package, at: float, iteration: int
    ) -> OutgoingMessage:
        """Return the message with the package of one of a job's targets."""
        report = self._package_report(job, iteration, package, target)
        return self._to_validator(job, report, at, "package", target, iteration)

    def decision(self, job: JobRow, decision: Decision) -> OutgoingMessage:
        """Return the message with a question to a person."""
        question = UserDecisionRequired(
            question=decision.question,
            options=list(decision.options),
            context=decision.context,
            decision_id=decision.id,
        )
        queue, agent = self.section.queues.decisions, _requesting_agent(job)
        kind = question.message_type
        return self._message(job, question, decision.asked, queue, agent, kind, decision.id)

    def dead_letter(self, job: JobRow, at: float) -> OutgoingMessage:
        """Return the dead letter of a job: its request, which can be sent again under a new id; it
        is not signed.
        """
        reason = self._redactor_of(job, "job_status").redact(job.reason)
        section, queue = self.section, self.section.queues.intake
        letter = encode_request(
            job,
            MessageAddress(
                _requesting_agent(job), section.agent, section.dead_letter_exchange, queue
            ),
            message=message_id(job.job, job.iteration, "dead_letter"),
        )
        why: JsonObject = {
            KIND_HEADER: POISON,
            REASON_HEADER: f"{POISON}: {shorten_reason(reason)}",
            QUEUE_HEADER: queue,
            ATTEMPTS_HEADER: max(job.attempts, job.failures),
        }
        return replace(letter, kind="dead_letter", headers={**letter.headers, **why}, at=at)

    def state_reports(self, job: JobRow) -> Sequence[OutgoingMessage]:
        """Return the messages about a job whose state the job store has changed, and not the job's
        run.
        """
        match job.state:
            case "queued" if job.feedback and job.package is None:
                # Verdicts on targets are reported when the run reads them.
                return ()
            case "queued" if job.feedback:
                return (self._accepted_verdict(job),)
            case "queued" if job.attempts == 0 and job.state_since == job.received:
                return (self.status(job, "ACCEPTED", job.received),)
            case "completed":
                return (self._accepted_verdict(job), *self.completed(job, job.state_since))
            case "failed":
                return self.failed(job, job.state_since)
            case "cancelled":
                return self.cancelled(job, job.state_since)
            case "dead":
                return (*self.failed(job, job.state_since), self.dead_letter(job, job.state_since))
            case _:
                return ()

    def started(self, job: JobRow, at: float) -> tuple[OutgoingMessage, ...]:
        """Return the messages that a job, and the target of its goal, have started."""
        return (self.status(job, "JOB_STARTED", at), *self._target(job, "TARGET_STARTED", at, 0))

    def completed(
        self, job: JobRow, at: float, *, is_whole: bool = True
    ) -> tuple[OutgoingMessage, ...]:
        """Return the messages that a job has completed; partially where the goal was not achieved."""
        status: JobStatus = "JOB_COMPLETED" if is_whole else "JOB_PARTIALLY_COMPLETED"
        end = self.status(
            job, status, at, package_id=job.package, iteration=job.iteration, **_reason(job)
        )
        return (*self._target(job, "TARGET_COMPLETED", at, 1), end)

    def failed(self, job: JobRow, at: float) -> tuple[OutgoingMessage, ...]:
        """Return the messages that a job has failed, first the answer to its request where the pack
        has one.
        """
        target = target_of(job)
        failures: Json = (
            None if target is None else [{"target": target, "error": shorten_reason(job.reason)}]
        )
        end = self.status(job, "JOB_FAILED", at, targets_failed=failures, **_reason(job))
        about = self._target(job, "TARGET_FAILED", at, 0, **_reason(job))
        return (*self._failure_answer(job, at), *about, end)

    def cancelled(self, job: JobRow, at: float) -> tuple[OutgoingMessage, ...]:
        """Return the messages that a job was cancelled, first the answer to its request where the
        pack has one.
        """
        end = self.status(job, "JOB_CANCELLED", at, **_reason(job))
        return (*self._failure_answer(job, at), end)

    def _failure_answer(self, job: JobRow, at: float) -> tuple[OutgoingMessage, ...]:
        target, request = target_of(job), request_payload(job)
        if target is None or request is None:
            return ()
        payload = failure_report(
            job.job,
            shorten_reason(job.reason),
            forms=self.contract.packages,
            goal_target=target,
            request=request,
        )
        return () if payload is None else (self._to_validator(job, payload, at, "failure"),)

    def _to_validator(
        self, job: JobRow, payload: Payload, at: float, kind: str, *what: str | int
    ) -> OutgoingMessage:
        queue, validator = self.section.queues.packages, self.section.validation.target_agent
        return self._message(job, payload, at, queue, validator, kind, *what)

    def _target(
        self, job: JobRow, status: JobStatus, at: float, done: int, **fields: Json
    ) -> tuple[OutgoingMessage, ...]:
        if target_of(job) is None:
            return ()
        return (self.status(job, status, at, targets_completed=done, targets_total=1, **fields),)

    def _package_report(
        self, job: JobRow, iteration: int, package: Package, target: str | None = None
    ) -> Payload:
        about = None if (first := target_of(job)) is None else target or first
        return package_report(
            job.job,
            iteration,
            package,
            target=target,
            forms=self.contract.packages,
            goal_target=about,
            request=request_payload(job),
        )

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
        """Return the redactor for messages about a job; in its package the job's own document is
        not redacted.
        """
        if kind == "package":
            return self.redactor
        # The store's writer thread and the event loop both call this, and each may clear the cache.
        redactor = self._redactors.get(job.job)
        if redactor is None:
            redactor = self.redactor.with_secrets(named_secrets(job.request))
            if len(self._redactors) >= _MAX_CACHED_REDACTORS:
                self._redactors.clear()
            self._redactors[job.job] = redactor
        return redactor

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
            section.agent,
            target,
            section.exchange,
            queue,
            self.key,
            self._redactor_of(job, kind),
            trace_of(job),
        )
        message = message_id(job.job, job.iteration, kind, *what)
        return encode(
            payload,
            address,
            message=message,
            correlation=correlation_of(job),
            at=at,
            job=job.job,
            contract=_NEUTRAL if target_of(job) is None else self.contract,
        )


def shorten_reason(reason: str) -> str:
    """Return a reason, cut to `MAX_REASON_LENGTH`."""
    return cut_end(reason, MAX_REASON_LENGTH)


def _reason(job: JobRow) -> dict[str, Json]:
    return {"reason": job.reason} if job.reason else {}


def _status_fields(fields: dict[str, Json]) -> dict[str, Json]:
    reason = fields.get("reason")
    return {**fields, "reason": shorten_reason(reason)} if isinstance(reason, str) else fields


def _requesting_agent(job: JobRow) -> str:
    return sender_of(job) or _ANY_AGENT
