"""Open questions to people, of a daemon's jobs and of runs without a daemon.

A job's question is a *decision* in the job store. A run without a daemon has its question in its
journal. Both are listed and answered in the same way.
"""

from __future__ import annotations

from dataclasses import replace

from wavewright.engine.run.decisions.questions import (
    AnswerRejected,
    OpenQuestion,
    answered_already,
    find_questions_of_run,
    questions_of_runs,
    several_asked,
    stale_answer,
)
from wavewright.engine.run.find_run import find_run
from wavewright.engine.service.job_store.records import Decision, JobRow
from wavewright.engine.service.job_store.rules import FINAL_STATES, OPEN_STATES
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.requested_jobs import job_name, job_of_run, named_job
from wavewright.executor import Journal, JournalError, RunNotFound
from wavewright.planner import RunId


async def list_questions(journal: Journal, jobs: JobStore, now: float) -> list[OpenQuestion]:
    """Return the questions that can be answered now, those of jobs first, in the order in which
    they were asked.
    """
    asked = await jobs.list_decisions()
    rows = {name: await jobs.find_job(name) for name in {decision.job for decision in asked}}
    questions = [
        _job_question(decision, row)
        for decision in asked
        if (row := rows[decision.job]) is not None and _is_waited_for(decision, row, now)
    ]
    # Of each run only the last question is open; it has replaced those before.
    last = {question.run: question for question in questions}
    at_work = {row.run for row in await jobs.list_jobs(OPEN_STATES)} | {
        decision.run for decision in asked
    }
    others = await questions_of_runs(journal, frozenset(at_work), now)
    if others:
        # Questions of ended jobs are not open; all ended jobs are read only where there are other
        # questions.
        answered = {decision.run for decision in await jobs.list_decisions(is_open=False)}
        ended = {row.run for row in await jobs.list_jobs([*FINAL_STATES])}
        others = [question for question in others if question.run not in answered | ended]
    return [*last.values(), *others]


async def find_question_to_answer(
    journal: Journal, jobs: JobStore, name: str, now: float
) -> OpenQuestion:
    """Return the open question that an answer names.

    The id of a job or of a run is enough while it has asked once. After that it may ask another
    thing than the person has read, so the question's own id is needed.

    Raises:
        AnswerStale: something else is asked now, or several things are.
        JournalError: there is none, or there are several.
        AnsweredAlready: it was answered.
        AnswerRejected: the run waits for no answer.
    """
    question = await find_question(journal, jobs, name, now)
    is_named = question.id.startswith(name) if question.is_of_job else ":" in name
    if not is_named and question.number > 1:
        raise stale_answer(f"the first question of run {question.run}", question)
    return question


async def find_question(journal: Journal, jobs: JobStore, name: str, now: float) -> OpenQuestion:
    """Return the one open question with that id, or of that job or run.

    Raises:
        AnswerStale: the id is that of another question than the run asks now, or several are asked.
        JournalError: there is none, or there are several.
        RunIdRefused: the id of the run can be none.
        AnsweredAlready: it was answered.
        AnswerRejected: the run waits for no answer.
    """
    questions = await find_questions(journal, jobs, name, now)
    if len(questions) > 1:
        raise several_asked(name, questions)
    return questions[0]


async def find_questions(
    journal: Journal, jobs: JobStore, name: str, now: float
) -> list[OpenQuestion]:
    """Return the open question with that id, or those of that job or run and of its targets; at
    least one.

    Raises:
        AnswerStale: the id is that of another question than the run asks now.
        JournalError: there is none, or there are several.
        RunIdRefused: the id of the run can be none.
        AnsweredAlready: it was answered.
        AnswerRejected: the run waits for no answer.
    """
    decision = await jobs.find_decision(name)
    if decision is not None:
        return [await _asked_of_job(jobs, decision)]
    if (job := await named_job(jobs, name, OPEN_STATES)) is not None:
        return await _questions_of_job(jobs, job, job.run)
    prefix, _, rest = name.partition(":")
    try:
        run = await find_run(journal, prefix)
    except RunNotFound:
        # Whoever names a job that has ended is told that it has, not that there is no such run.
        if (ended := await named_job(jobs, name, [*FINAL_STATES])) is not None:
            raise _no_question(ended) from None
        raise
    row = await job_of_run(journal, jobs, run)
    if row is not None:
        return await _questions_of_job(jobs, row, run)
    questions = await find_questions_of_run(journal, run, now)
    if not rest:
        return questions
    named = [question for question in questions if question.id == f"{run}:{rest}"]
    if not named:
        raise stale_answer(f"question {name}", questions[0])
    return named


async def _questions_of_job(jobs: JobStore, row: JobRow, run: RunId) -> list[OpenQuestion]:
    """Return what a job asks by its own run, or by that of one of its targets."""

    def is_about_run(decision: Decision) -> bool:
        return run in {row.run, decision.run}

    asked = list(filter(is_about_run, await jobs.list_decisions(job=row.job)))
    answered = list(filter(is_about_run, await jobs.list_decisions(is_open=False, job=row.job)))
    # Of each run only the last question is open; it has replaced those before.
    last = {decision.run: decision for decision in asked}
    if last:
        number = len(answered) + len(asked)
        return [replace(_job_question(decision, row), number=number) for decision in last.values()]
    if answered:
        return [await _asked_of_job(jobs, answered[-1])]
    raise _no_question(row)


def _no_question(row: JobRow) -> AnswerRejected:
    return AnswerRejected(f"job {row.job} waits for no answer", f"it is {row.state}")


async def _asked_of_job(jobs: JobStore, decision: Decision) -> OpenQuestion:
    if decision.choice is not None:
        raise answered_already(f"decision {decision.id}", decision.choice, decision.by)
    job = await jobs.find_job(decision.job)
    if job is None:
        raise JournalError(f"the job {decision.job} of decision {decision.id} is unknown")
    return _job_question(decision, job)


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
