"""Packages of a daemon's jobs that wait for a verdict, and verdicts of people at the command line."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from wavewright.engine.decisions.questions import AnswerRejected
from wavewright.engine.jobs.inline import job_name
from wavewright.engine.messages.models import ValidationResult, package_id
from wavewright.engine.targets.waves import OPEN_JOB_STATES, TARGET_PACKAGE_SENT
from wavewright.executor.events.types import Noted
from wavewright.executor.store.job_records import (
    JobId,
    JobRow,
    MessageId,
    ReceivedMessage,
    SentPackage,
    VerdictGiven,
)
from wavewright.executor.store.job_rules import ProjectJob
from wavewright.executor.store.job_store import JobStore
from wavewright.executor.store.journal import Journal
from wavewright.planner.types import RunId


@dataclass(frozen=True, slots=True)
class UnjudgedPackage:
    """A package that was sent and has no verdict yet."""

    id: str
    job: JobId
    about: str
    """The target, or the job's name."""
    iteration: int
    """Number of the package within the job, or of its target, from 1."""
    run: RunId
    """The run that made it."""


async def list_unjudged(journal: Journal, jobs: JobStore) -> list[UnjudgedPackage]:
    """Return the packages that wait for a verdict, job by job."""
    found = list[UnjudgedPackage]()
    for job in await jobs.list_jobs(OPEN_JOB_STATES):
        if job.sent:
            found += await _of_targets(journal, job)
        elif job.state == "validating" and job.package is not None:
            found.append(UnjudgedPackage(job.package, job.job, job_name(job), job.iteration, job.run))
    return found


async def _of_targets(journal: Journal, job: JobRow) -> list[UnjudgedPackage]:
    notes = [event for event in await journal.load(job.run) if isinstance(event, Noted)]
    runs = {
        str(note.body["target"]): RunId(str(note.body["run"]))
        for note in notes
        if note.topic == TARGET_PACKAGE_SENT
    }

    def named(sent: SentPackage) -> UnjudgedPackage:
        target = next(one for one in runs if package_id(job.job, sent.iteration, one) == sent.package)
        return UnjudgedPackage(sent.package, job.job, target, sent.iteration, runs[target])

    return [named(sent) for sent in job.sent]


def choose_unjudged(found: Sequence[UnjudgedPackage], prefix: str) -> UnjudgedPackage:
    """Return the package whose id, job or run starts with a prefix.

    Raises:
        AnswerRejected: there is none, or there are several.
    """
    fitting = [one for one in found if any(name.startswith(prefix) for name in (one.id, one.job, one.run))]
    if len(fitting) == 1:
        return fitting[0]
    listed = ", ".join(f"{one.id} ({one.about})" for one in fitting)
    raise AnswerRejected(
        f"{len(fitting)} packages that wait for a verdict begin with {prefix!r}: {listed}"
        if fitting
        else f"no package that waits for a verdict begins with {prefix!r}",
        "`wavewright decisions` lists them",
    )


async def give_verdict(
    jobs: JobStore, package: UnjudgedPackage, feedback: Sequence[str] | None, *, by: str, project: ProjectJob
) -> None:
    """Accept a package, or reject it with feedback; the same as a `validation_result` that comes as a message.

    Args:
        jobs: The job store.
        package: The package.
        feedback: What is wrong; None where it is accepted.
        by: Who says so.
        project: Makes the messages about the job.

    Raises:
        AnswerRejected: the package has its verdict, or its job has ended.
        JournalError: the verdict could not be written.
    """
    verdict = VerdictGiven(
        package.job, package.id, package.iteration, accepted=feedback is None, feedback=tuple(feedback or ())
    )
    message = ReceivedMessage(
        MessageId(str(uuid4())), ValidationResult.message_type, by, time.time(), verdict
    )
    receipt = await jobs.receive(message, project)
    if receipt.action not in {"accept", "defer"}:
        raise AnswerRejected(receipt.reason, "`wavewright decisions` lists what waits")
