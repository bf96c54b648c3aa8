"""Questions that wait for a person, wherever they were asked: by a job of the daemon, or by a run of its own.

A job's question is a *decision* in the job store. A run that no daemon works on has its question in its journal, and
an answer is journaled there for whoever resumes it. Both are listed and answered alike, and both kinds of approval are
bound alike.

Runs that wait for a person, as lists of runs have them.

The store knows such a run as interrupted: that it waits, for what, and how many steps it would have follows from its
events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.engine.decisions.approvals import (
    APPROVAL_GIVEN,
    APPROVAL_SECONDS,
    APPROVE,
    REFUSE,
    approval_answer_note,
    approval_question,
    has_expired,
    pending_approval,
    recorded_answer,
)
from wavewright.engine.jobs.job_requests import job_name
from wavewright.engine.targets.waves import OPEN_JOB_STATES, job_of_run, target_runs
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import Noted
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.job_records import Decision, DecisionId, DecisionMade, JobRow
from wavewright.executor.store.job_rules import FINAL_STATES
from wavewright.executor.store.job_store import JobStore
from wavewright.executor.store.journal import Journal, RunRow, RunStatus
from wavewright.planner.types import JsonObject, RunId

QuestionSubject: TypeAlias = Literal["question", "plan", "patch"]
MAX_RUNS = 200
"""Interrupted runs, the newest first, that are looked at for questions."""


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that nobody has answered."""

    id: str
    """Of the decision; of the run where no daemon works on it."""
    run: RunId
    job: str
    subject: QuestionSubject
    question: str
    options: tuple[str, ...]
    context: str
    asked: float
    expires: float | None
    is_of_job: bool
    """Whether it is a daemon's job that waits; else a run that somebody must resume."""
    about: str = ""
    """What the job is about, in a word or two, where `job` is its id."""
    resume: RunId | None = None
    """What to resume: the run, or the root run where it is that of one of several targets."""


class AnswerRejected(WavewrightError):
    """An answer that has no effect."""

    exit_code = exit_codes.NEGATIVE


async def list_questions(journal: Journal, jobs: JobStore, now: float) -> list[OpenQuestion]:
    """Return the questions that may be answered now, those of jobs first, in the order in which they were asked."""
    asked = await jobs.list_decisions()
    rows = {name: await jobs.find_job(name) for name in {decision.job for decision in asked}}
    found = [
        _job_question(decision, row)
        for decision in asked
        if (row := rows[decision.job]) is not None and _is_waited_for(decision, row, now)
    ]
    # Of one job only the last is in hand: what it asked before it has asked anew since.
    last = {question.run: question for question in found}
    at_work = {row.run for row in await jobs.list_jobs(OPEN_JOB_STATES)} | {
        decision.run for decision in asked
    }
    others = await _questions_of_runs(journal, frozenset(at_work), now)
    if others:
        # What ended jobs have left unanswered nobody answers any more; only here must all of them be looked through.
        answered = {decision.run for decision in await jobs.list_decisions(is_open=False)}
        ended = {row.run for row in await jobs.list_jobs([*FINAL_STATES])}
        others = [question for question in others if question.run not in answered | ended]
    return [*last.values(), *others]


async def find_question(journal: Journal, jobs: JobStore, prefix: str, now: float) -> OpenQuestion | Decision:
    """Return the question with that id, or of that run; the decision itself where it is no longer open.

    Raises:
        JournalError: there is none, or there are several.
        NotAnswered: the run waits for nobody.
    """
    decision = await jobs.find_decision(prefix)
    if decision is None:
        run = await journal.find_run(prefix)
        row = await job_of_run(journal, jobs, run)
        if row is None:
            return await _find_in_run(journal, run, now)
        # Its own, or those of its targets.
        asked = [one for one in await jobs.list_decisions(job=row.job) if run in {one.run, row.run}]
        if not asked:
            raise AnswerRejected(f"job {row.job} waits for no answer", f"it is {row.state}")
        decision = asked[-1]
    job = await jobs.find_job(decision.job)
    return decision if job is None or decision.choice is not None else _job_question(decision, job)


async def _find_in_run(journal: Journal, run: RunId, now: float) -> OpenQuestion:
    question = pending_question(fold(await journal.load(run)), now)
    if question is None:
        raise AnswerRejected(f"run {run} waits for no answer", f"`wavewright show {run}` shows it")
    own = [one for one in await _questions_of_runs(journal, frozenset(), now) if one.run == run]
    return own[0] if own else question


async def answer_question(
    journal: Journal, jobs: JobStore, question: OpenQuestion, choice: str, *, by: str, now: float
) -> None:
    """Answer a question.

    Raises:
        NotAnswered: the answer has no effect.
        RunBusy: somebody works on the run.
        JournalError: the answer could not be written.
    """
    if question.options and choice not in question.options:
        raise AnswerRejected(
            f"{choice!r} is none of the options", f"answer with one of: {', '.join(question.options)}"
        )
    if question.is_of_job:
        receipt = await jobs.decide(DecisionMade(DecisionId(question.id), choice, by))
        if receipt.action != "accept":
            raise AnswerRejected(receipt.reason, "`wavewright decisions` lists what may be answered")
        return
    await _answer_run(journal, question, choice, by, now)


async def _answer_run(journal: Journal, question: OpenQuestion, choice: str, by: str, now: float) -> None:
    # Opened before it is read: nobody answers it twice, and nobody answers while it is resumed.
    await journal.open_run(question.run)
    try:
        state = fold(await journal.load(question.run))
        still = pending_question(state, now)
        if still is None or (still.asked, still.question) != (question.asked, question.question):
            raise AnswerRejected(
                f"run {question.run} does not wait for this any more",
                "`wavewright decisions` lists what does",
            )
        await journal.append(question.run, [_answer_note(state, still, choice, by, now)])
    finally:
        await journal.close_run(question.run)


def _answer_note(state: RunState, question: OpenQuestion, choice: str, by: str, now: float) -> Noted:
    if question.subject == "question":
        body: JsonObject = {"question": question.question, "options": [*question.options]}
        return Noted(now, "answer", {**body, "answer": choice, "by": by})
    wanted = pending_approval(state)
    assert wanted is not None
    return Noted(now, APPROVAL_GIVEN, approval_answer_note(wanted, choice, by))


def pending_question(state: RunState, now: float) -> OpenQuestion | None:
    """Return what a run waits for that no daemon works on; none where somebody has answered."""
    if state.started is None or not state.is_interrupted:
        return None
    last = next(
        (noted for noted in reversed(state.notes) if noted.topic in {"question", "answer"}),
        None,
    )
    wanted = pending_approval(state)
    if wanted is not None:
        is_open = recorded_answer(state, wanted) is None and not has_expired(wanted, now)
        return _approval_question(state, wanted) if is_open else None
    if state.plan is not None or last is None or last.topic == "answer":
        return None
    options = last.body.get("options")
    return _noted_question(
        state, last, "question", str(last.body["question"]), options if isinstance(options, list) else ()
    )


def _approval_question(state: RunState, wanted: Noted) -> OpenQuestion:
    subject, question = approval_question(wanted)
    return _noted_question(state, wanted, subject, question, (APPROVE, REFUSE))


def _noted_question(
    state: RunState, noted: Noted, subject: QuestionSubject, question: str, options: Sequence[object]
) -> OpenQuestion:
    assert state.started is not None
    return OpenQuestion(
        id=state.started.run,
        run=state.started.run,
        job=state.started.job,
        subject=subject,
        question=question,
        options=tuple(map(str, options)),
        context=str(noted.body.get("text", "")),
        asked=noted.at,
        expires=None if subject == "question" else noted.at + APPROVAL_SECONDS,
        is_of_job=False,
    )


async def _questions_of_runs(journal: Journal, of_jobs: frozenset[RunId], now: float) -> list[OpenQuestion]:
    waiting = [row.run for row in await journal.list_runs() if row.status == "interrupted"][:MAX_RUNS]
    states = [fold(await journal.load(run)) for run in reversed(waiting) if run not in of_jobs]
    roots = {run: state.run for state in states for run in target_runs(state) if state.run is not None}
    found = [question for state in states if (question := pending_question(state, now)) is not None]
    return [replace(question, resume=roots.get(question.run, question.run)) for question in found]


def _is_waited_for(decision: Decision, job: JobRow, now: float) -> bool:
    return job.state not in FINAL_STATES and (decision.expires is None or now < decision.expires)


def _job_question(decision: Decision, job: JobRow) -> OpenQuestion:
    return OpenQuestion(
        id=decision.id,
        run=decision.run,
        job=job.job,
        subject=decision.subject,
        question=decision.question,
        options=decision.options,
        context=decision.context,
        asked=decision.asked,
        expires=decision.expires,
        is_of_job=True,
        about=job_name(job),
    )


async def mark_waiting_runs(journal: Journal, rows: Sequence[RunRow], now: float) -> list[RunRow]:
    """Return the rows, in which a run that waits for an approval or an answer says so and counts its plan's steps.

    A job with several targets waits where one of its targets does. A run whose events cannot be read stays as it is.

    Args:
        journal: Where the runs are.
        rows: The newest first, so that targets come before their job.
        now: Seconds since the epoch; an approval that has expired is waited for no more.
    """
    waiting = dict[RunId, RunStatus]()
    told = list[RunRow]()
    for row in rows:
        if row.status == "interrupted":
            try:
                state = fold(await journal.load(row.run))
            except JournalError:
                told.append(row)
                continue
            if (status := _waiting_row(state, now, waiting)) is not None:
                waiting[row.run] = status
                told.append(replace(row, status=status, steps=max(row.steps, _planned_steps(state))))
                continue
        told.append(row)
    return told


def _waiting_row(state: RunState, now: float, waiting: dict[RunId, RunStatus]) -> RunStatus | None:
    question = pending_question(state, now)
    if question is not None:
        return "waiting_for_answer" if question.subject == "question" else "waiting_for_approval"
    return next((waiting[run] for run in target_runs(state) if run in waiting), None)


def _planned_steps(state: RunState) -> int:
    """Return the steps of the plan that somebody is asked to approve, or else of the one that the run follows."""
    wanted = pending_approval(state)
    asked = None if wanted is None else wanted.body.get("steps")
    if isinstance(asked, int):
        return asked
    followed = None if state.plan is None else state.plan.get("steps")
    return len(followed) if isinstance(followed, list) else 0
