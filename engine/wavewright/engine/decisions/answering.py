"""Answers to open questions: of several people who answer at once, one wins and the others are told.

A run without a daemon is opened before it is answered, so that it is neither answered twice nor while it is resumed.
"""

from __future__ import annotations

import time
from typing import Final

import anyio

from wavewright.config.errors import WavewrightError
from wavewright.engine.decisions.approvals import (
    ANSWER,
    APPROVAL_GIVEN,
    approval_answer_note,
    open_question,
    pending_approval,
)
from wavewright.engine.decisions.questions import (
    AnsweredAlready,
    AnswerRejected,
    OpenQuestion,
    find_question,
    pending_question,
)
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import Noted
from wavewright.executor.store.errors import JournalError, RunBusy
from wavewright.executor.store.job_records import DecisionId, DecisionMade
from wavewright.executor.store.job_store import JobStore
from wavewright.executor.store.journal import Journal

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
            f"{choice!r} is not one of the options", f"answer with one of: {', '.join(question.options)}"
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


async def _answer_run(journal: Journal, question: OpenQuestion, choice: str, by: str, now: float) -> None:
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
        asked = open_question(state)
        assert asked is not None
        return Noted(now, ANSWER, {**asked.body, "answer": choice, "by": by})
    wanted = pending_approval(state)
    assert wanted is not None
    return Noted(now, APPROVAL_GIVEN, approval_answer_note(wanted, choice, by))
