"""Answers to open questions, and verdicts of people on packages that wait for one.

Of several people who answer at once, one wins and the others are told.

A run without a daemon is opened before it is answered, so that it is neither answered twice nor
while it is resumed.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import anyio

from wavewright.config import WavewrightError
from wavewright.config.identities import Identity
from wavewright.engine.run.decisions.approvals import (
    ANSWER,
    APPROVAL_GIVEN,
    approval_answer_note,
    nonce_of,
    open_question,
)
from wavewright.engine.run.decisions.questions import (
    AnsweredAlready,
    AnswerRejected,
    OpenQuestion,
    answered_already,
    pending_question,
    stale_answer,
)
from wavewright.engine.run.target_waves import TARGET_PACKAGE_SENT
from wavewright.engine.service.job_store.records import (
    DecisionId,
    DecisionMade,
    JobId,
    JobRow,
    MessageId,
    ReceivedMessage,
    SentPackage,
    VerdictGiven,
)
from wavewright.engine.service.job_store.rules import OPEN_STATES, ProjectJob
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.messages.models import ValidationResult, package_id
from wavewright.engine.service.questions import find_question
from wavewright.engine.service.requested_jobs import job_name
from wavewright.executor import Journal, JournalError, Noted, RunBusy, RunState, fold
from wavewright.executor.store.journal import LeftAnswer
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.planner import RunId

_BUSY_SECONDS: Final = 2.0
"""For which a run is tried again that another answer may have open."""
_PAUSE: Final = 0.05
"""Seconds between two tries."""


async def answer_question(
    journal: Journal, jobs: JobStore, question: OpenQuestion, choice: str, *, by: str, now: float
) -> None:
    """Answer a question.

    Raises:
        AnsweredAlready: another answer was faster.
        AnswerRejected: the answer has no effect.
        RunBusy: another process has the run open.
        JournalError: the answer could not be written.
    """
    if question.options and choice not in question.options:
        raise AnswerRejected(
            f"{choice!r} is not one of the options",
            f"answer with one of: {', '.join(question.options)}",
        )
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            if question.is_of_job:
                await _answer_job(jobs, question, choice, by)
            else:
                await _answer_run(journal, question, choice, by, now)
        except (AnswerRejected, JournalError) as error:
            if (earlier := await _earlier_answer(journal, jobs, question, now)) is not None:
                raise earlier from error
            if not isinstance(error, RunBusy) or time.monotonic() > until:
                raise
            await anyio.sleep(_PAUSE)
        else:
            return


async def _earlier_answer(
    journal: Journal, jobs: JobStore, question: OpenQuestion, now: float
) -> AnsweredAlready | None:
    """Return the error that names the answer which counts; None where there is none."""
    try:
        await find_question(journal, jobs, question.id, now)
    except AnsweredAlready as earlier:
        return earlier
    except WavewrightError:
        pass
    return None


async def _answer_job(jobs: JobStore, question: OpenQuestion, choice: str, by: str) -> None:
    receipt = await jobs.decide(DecisionMade(DecisionId(question.id), choice, by))
    if receipt.action != "accept":
        raise AnswerRejected(receipt.reason, "`wavewright decisions` lists what may be answered")


async def _answer_run(
    journal: Journal, question: OpenQuestion, choice: str, by: str, now: float
) -> None:
    try:
        await journal.open_run(question.run)
    except RunBusy:
        state = fold(await journal.load(question.run))
        if state.is_interrupted or not isinstance(journal, StoredJournal):
            # Only for a moment: another person answers.
            raise
        noted = _still_asked(state, question, now)
        await _leave_answer(journal, question.run, LeftAnswer(nonce_of(noted), choice, by))
        return
    try:
        state = fold(await journal.load(question.run))
        noted = _still_asked(state, question, now)
        if isinstance(journal, StoredJournal):
            left = await journal.find_left_answer(question.run, nonce_of(noted))
            if left is not None:
                raise answered_already(f"the question of run {question.run}", left.choice, left.by)
        await journal.append(question.run, [_answer_note(question, noted, choice, by, now)])
    finally:
        await journal.close_run(question.run)


def _still_asked(state: RunState, question: OpenQuestion, now: float) -> Noted:
    """Return the question that a run asks, which is the one that a person has read."""
    still, noted = pending_question(state, now), open_question(state)
    if still is None or noted is None:
        raise AnswerRejected(
            f"run {question.run} does not wait for this any more",
            "`wavewright decisions` lists what does",
        )
    if still.id != question.id:
        # Somebody else has answered and resumed the run between the look and this answer.
        raise stale_answer(f"question {question.id}", still)
    return noted


async def _leave_answer(journal: StoredJournal, run: RunId, answer: LeftAnswer) -> None:
    """Leave an answer for the process that has the run open, which takes it while other steps run."""
    await journal.leave_answer(run, answer)
    first = await journal.find_left_answer(run, answer.nonce)
    if first is not None and first != answer:
        raise answered_already(f"the question of run {run}", first.choice, first.by)


def _answer_note(question: OpenQuestion, asked: Noted, choice: str, by: str, now: float) -> Noted:
    if question.subject == "question":
        return Noted(now, ANSWER, {**asked.body, "answer": choice, **Identity.parse(by).fields})
    return Noted(now, APPROVAL_GIVEN, approval_answer_note(asked, choice, by))


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
    unjudged = list[UnjudgedPackage]()
    for job in await jobs.list_jobs(OPEN_STATES):
        if job.sent:
            unjudged += await _of_targets(journal, job)
        elif job.state == "validating" and job.package is not None:
            unjudged.append(
                UnjudgedPackage(job.package, job.job, job_name(job), job.iteration, job.run)
            )
    return unjudged


async def _of_targets(journal: Journal, job: JobRow) -> list[UnjudgedPackage]:
    notes = [event for event in await journal.load(job.run) if isinstance(event, Noted)]
    runs = {
        str(note.body["target"]): RunId(str(note.body["run"]))
        for note in notes
        if note.topic == TARGET_PACKAGE_SENT
    }

    def named(sent: SentPackage) -> UnjudgedPackage:
        target = next(
            run for run in runs if package_id(job.job, sent.iteration, run) == sent.package
        )
        return UnjudgedPackage(sent.package, job.job, target, sent.iteration, runs[target])

    return [named(sent) for sent in job.sent]


async def find_unjudged(journal: Journal, jobs: JobStore, prefix: str) -> UnjudgedPackage:
    """Return the package that waits for a verdict and whose id, job or run starts with a prefix.

    Raises:
        AnswerRejected: there is none, or there are several; where it has its verdict, names that.
    """
    fitting = [
        package
        for package in await list_unjudged(journal, jobs)
        if any(name.startswith(prefix) for name in (package.id, package.job, package.run))
    ]
    if len(fitting) == 1:
        return fitting[0]
    told = f"no package that waits for a verdict begins with {prefix!r}"
    if fitting:
        listed = ", ".join(f"{package.id} ({package.about})" for package in fitting)
        told = f"{len(fitting)} packages that wait for a verdict begin with {prefix!r}: {listed}"
    else:
        for job in await jobs.list_jobs():
            for verdict in job.feedback:
                if verdict.package and verdict.package.startswith(prefix):
                    said = "accepted" if verdict.accepted else "rejected"
                    told = f"package {verdict.package} was {said}, and the first verdict stands"
    raise AnswerRejected(told, "`wavewright decisions` lists them")


async def give_verdict(
    jobs: JobStore,
    package: UnjudgedPackage,
    feedback: Sequence[str] | None,
    *,
    by: str,
    project: ProjectJob,
) -> None:
    """Accept a package, or reject it with feedback; the same as a `validation_result` that comes as
    a message.

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
        package.job,
        package.id,
        package.iteration,
        accepted=feedback is None,
        feedback=tuple(feedback or ()),
    )
    message = ReceivedMessage(
        MessageId(str(uuid4())), ValidationResult.message_type, by, time.time(), verdict
    )
    receipt = await jobs.receive(message, project)
    if receipt.action not in {"accept", "defer"}:
        raise AnswerRejected(receipt.reason, "`wavewright decisions` lists what waits")
