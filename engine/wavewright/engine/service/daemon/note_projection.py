"""Projection of a run's notes: decisions that people must make, and messages about targets.

A decision's id is made from the job and everything that the answer is for. So the same question has
the same id however often it is asked, and an answer fits no other question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from wavewright.engine.run.decisions.approvals import (
    APPROVAL_SECONDS,
    APPROVE,
    REFUSE,
    approval_question,
)
from wavewright.engine.run.target_waves import (
    TARGET_COMPLETED,
    TARGET_FAILED,
    TARGET_PACKAGE_JUDGED,
    TARGET_PACKAGE_SENT,
    TARGET_STARTED,
    TargetWaves,
)
from wavewright.engine.service.daemon.reports import Reporter, shorten_reason
from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    JobRow,
    OutgoingMessage,
    SentPackage,
)
from wavewright.engine.service.messages.models import decision_id, package_id
from wavewright.executor import Noted, RunFinished
from wavewright.planner import Json, JsonObject, content_hash
from wavewright.reviewer import Package
from wavewright.tools.message_contract import JobStatus

MAX_QUESTION_LENGTH: Final = 4_000


def requested_decision(job: JobRow, asked: Noted, target: str | None = None) -> Decision:
    """Return the decision for a run's note: a planner's question, or an approval.

    `target` is that of the run, where the job has several.
    """
    decision = (
        _question_decision(job, asked)
        if asked.topic == "question"
        else _approval_decision(job, asked)
    )
    if target is None:
        return decision
    about = f"about the target {target}"
    return replace(decision, context=f"{about}\n{decision.context}" if decision.context else about)


def answered_decision(decision: Decision | None, answer: Noted) -> DecisionId | None:
    """Return the id of the open decision where the note uses its answer; else None."""
    is_used = decision is not None and (decision.subject == "question") == (
        answer.topic == "answer"
    )
    return decision.id if decision is not None and is_used else None


def _question_decision(job: JobRow, noted: Noted) -> Decision:
    question = str(noted.body["question"])
    options = noted.body.get("options")
    return Decision(
        id=decision_id(job.job, "question", job.run, question, repr(noted.at)),
        job=job.job,
        run=job.run,
        subject="question",
        question=question[:MAX_QUESTION_LENGTH],
        options=tuple(map(str, options)) if isinstance(options, list) else (),
        asked=noted.at,
    )


def _approval_decision(job: JobRow, noted: Noted) -> Decision:
    body = noted.body
    subject, question = approval_question(noted)
    stored = body.get("binding")
    binding: JsonObject = stored if isinstance(stored, dict) else {}
    return Decision(
        id=decision_id(job.job, "approval", content_hash(binding), repr(noted.at)),
        job=job.job,
        run=job.run,
        subject=subject,
        question=question[:MAX_QUESTION_LENGTH],
        options=(APPROVE, REFUSE),
        context=str(body.get("text", "")),
        binding=binding,
        asked=noted.at,
        expires=noted.at + APPROVAL_SECONDS,
    )


_STATUSES: Final[dict[str, JobStatus]] = {
    TARGET_PACKAGE_SENT: "PACKAGE_SENT",
    TARGET_PACKAGE_JUDGED: "VALIDATION_RECEIVED",
    TARGET_STARTED: "TARGET_STARTED",
    TARGET_COMPLETED: "TARGET_COMPLETED",
    TARGET_FAILED: "TARGET_FAILED",
}
"""By topic of the note."""
TARGET_TOPICS: Final = _STATUSES.keys()
_ENDS: Final[dict[str, JobStatus]] = {
    "achieved": "JOB_COMPLETED",
    "not_achieved": "JOB_PARTIALLY_COMPLETED",
    "failed": "JOB_FAILED",
}


def project_target(
    job: JobRow,
    waves: TargetWaves,
    noted: Noted,
    reporter: Reporter,
    packages: Mapping[str, Package],
) -> list[OutgoingMessage]:
    """Return the messages about one target.

    Args:
        job: The job.
        waves: Its progress after the note.
        noted: The note about the target.
        reporter: Makes the messages.
        packages: Packages by run.
    """
    target = str(noted.body["target"])
    fields: JsonObject = {"target": target, **_target_counts(waves)}
    if isinstance(reason := noted.body.get("reason"), str) and reason:
        fields["reason"] = reason
    sent = waves.packages.get(target)
    iteration = 1 if sent is None else sent.iteration
    messages: list[OutgoingMessage] = []
    # A package that was validated was published before its target was completed.
    if noted.topic == TARGET_PACKAGE_SENT or (noted.topic == TARGET_COMPLETED and sent is None):
        package = packages[str(noted.body["run"])]
        messages.append(reporter.target_package(job, target, package, noted.at, iteration))
    if sent is not None:
        fields |= {"iteration": iteration, "package_id": package_id(job.job, iteration, target)}
    messages.append(
        reporter.status(job, _STATUSES[noted.topic], noted.at, target, iteration, **fields)
    )
    return messages


def packages_sent_by(job: JobRow, waves: TargetWaves, noted: Noted) -> tuple[SentPackage, ...]:
    """Return the package that is published with a note and waits for its verdict."""
    if noted.topic != TARGET_PACKAGE_SENT:
        return ()
    target = str(noted.body["target"])
    iteration = waves.packages[target].iteration
    return (SentPackage(package_id(job.job, iteration, target), iteration),)


def project_completion(
    job: JobRow, waves: TargetWaves, ended: RunFinished, reporter: Reporter
) -> OutgoingMessage:
    """Return the message that all targets of a job have ended."""
    fields = _target_counts(waves)
    failed: list[Json] = [
        {"target": target, "error": shorten_reason(waves.ends[target].reason)}
        for target in waves.failed
    ]
    if failed:
        fields["targets_failed"] = failed
    return reporter.status(job, _ENDS[ended.status], ended.at, reason=ended.reason, **fields)


def _target_counts(waves: TargetWaves) -> JsonObject:
    return {"targets_completed": waves.completed, "targets_total": len(waves.known())}
