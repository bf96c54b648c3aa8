"""Open questions to people, of runs without a daemon, and runs that wait for them.

Such a run has its question in its journal; the answer is journaled there for `resume`.

The store lists a run that waits for a person as interrupted; that it waits, and for what, follows
from its events.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from wavewright.config import WavewrightError, exit_codes
from wavewright.engine.run.decisions.approvals import (
    ANSWER,
    APPROVAL_GIVEN,
    APPROVAL_SECONDS,
    APPROVAL_WANTED,
    APPROVE,
    QUESTION,
    REFUSE,
    approval_question,
    asked_questions,
    asking_step,
    has_expired,
    open_question,
    question_id,
    recorded_answer,
)
from wavewright.engine.run.find_run import root_run_of
from wavewright.engine.run.target_waves import target_runs, target_waves
from wavewright.executor import Journal, JournalError, Noted, RunState, fold
from wavewright.executor.store.journal import RunRow, RunStatus
from wavewright.planner import RunId, StepId, as_list
from wavewright.reviewer.package.builder import RunNow

QuestionSubject: TypeAlias = Literal["question", "step", "patch"]
MAX_RUNS = 200
"""Maximum of interrupted runs, the newest first, that are searched for questions."""


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question without an answer."""

    id: str
    """Of the decision; where the run has no daemon, of this one asking."""
    run: RunId
    job: str
    subject: QuestionSubject
    question: str
    options: tuple[str, ...]
    context: str
    asked: float
    expires: float | None
    is_of_job: bool
    """Whether a daemon's job waits; else a run that must be resumed."""
    about: str = ""
    """The job's name, where `job` is its id."""
    is_interrupted: bool = True
    """Whether its run, where it has no job, has stopped; else other steps of it still run."""
    resume: RunId | None = None
    """The run to resume: the run itself, or its root run where it is that of a target."""
    number: int = 1
    """Which it is, from 1, of the questions of its run; where it was found by a root run, of those of
    all its targets.
    """


class AnswerRejected(WavewrightError):
    """An answer that has no effect."""

    exit_code = exit_codes.NEGATIVE


class AnswerStale(AnswerRejected):
    """An answer to what is not asked any more, or that does not say to which of several questions
    it is.
    """


def stale_answer(named: str, question: OpenQuestion) -> AnswerStale:
    """Return the error that says what is asked now."""
    shown = "\n".join(line for line in (question.question, question.context) if line)
    option = question.options[0] if question.options else "TEXT"
    return AnswerStale(
        f"{named} is not what run {question.run} waits for; it asks now: {shown}",
        f"answer that with: wavewright answer {question.id} {option}",
    )


def several_asked(named: str, questions: Sequence[OpenQuestion]) -> AnswerStale:
    """Return the error that lists what may be meant by a job's or a run's id."""
    ids = ", ".join(question.id for question in questions)
    return AnswerStale(
        f"{named} waits for {len(questions)} answers: {ids}",
        f"answer each by its own id; `wavewright decisions {named}` shows them",
    )


class AnsweredAlready(AnswerRejected):
    """An answer to a question that has one; the message says who gave it, and what it is."""


async def find_questions_of_run(journal: Journal, run: RunId, now: float) -> list[OpenQuestion]:
    """Return the open questions of a run without a daemon; of a root run those of its targets, too.

    Raises:
        AnsweredAlready: the last one was answered.
        AnswerRejected: the run waits for no answer.
    """
    state = fold(await journal.load(run))
    targets = target_runs(state)
    root = run if targets else await root_run_of(journal, run)
    states = [state, *[fold(await journal.load(target)) for target in sorted(targets)]]
    # Whoever names the root run may have read the question of any target.
    number = sum(len(asked_questions(state)) for state in states)
    questions = list[OpenQuestion]()
    for state in states:
        question = pending_question(state, now)
        if question is not None:
            questions.append(replace(question, resume=root, number=number))
    if questions:
        return sorted(questions, key=lambda question: question.asked)
    answers = [answer for answer in map(_last_answer, states) if answer is not None]
    if answers:
        raise answered_already(f"the question of run {run}", *answers[-1])
    raise AnswerRejected(f"run {run} waits for no answer", f"`wavewright show {run}` shows it")


def answered_already(question: str, choice: str, by: str | None) -> AnsweredAlready:
    """Return the error that says who gave which answer."""
    who = "" if by is None else f" by {by!r}"
    return AnsweredAlready(
        f"{question} was answered already{who}: {choice!r}", "the first answer is final"
    )


def _last_answer(state: RunState) -> tuple[str, str | None] | None:
    """Return the answer to the last question that a run has journaled, and who gave it, where that
    is known.
    """
    for noted in reversed(state.notes):
        if noted.topic in {QUESTION, APPROVAL_WANTED}:
            return None
        if noted.topic in {ANSWER, APPROVAL_GIVEN}:
            answer = noted.body["answer" if noted.topic == ANSWER else "choice"]
            by = noted.body.get("by")
            return str(answer), str(by) if by else None
    return None


def pending_question(state: RunState, now: float) -> OpenQuestion | None:
    """Return what a run without a daemon asks; None where it asks nothing or was answered. Other
    steps of it may still run.
    """
    if state.started is None or state.has_ended:
        return None
    noted = open_question(state)
    if noted is None:
        return None
    if noted.topic == APPROVAL_WANTED:
        # Answered, and not used yet: the run takes the answer when it is resumed.
        if recorded_answer(state, noted) is not None or has_expired(noted, now):
            return None
        subject, question = approval_question(noted)
        return _noted_question(state, noted, subject, question, (APPROVE, REFUSE))
    # Without a binding it is the planner's, which is asked no more once there is a plan.
    if state.plan is not None and "binding" not in noted.body:
        return None
    options = as_list(noted.body.get("options"))
    return _noted_question(state, noted, "question", str(noted.body["question"]), options)


def _noted_question(
    state: RunState,
    noted: Noted,
    subject: QuestionSubject,
    question: str,
    options: Sequence[object],
) -> OpenQuestion:
    assert state.started is not None
    return OpenQuestion(
        id=question_id(state, noted),
        run=state.started.run,
        job=state.started.job,
        subject=subject,
        question=question,
        options=tuple(map(str, options)),
        context=str(noted.body.get("text", "")),
        asked=noted.at,
        expires=None if subject == "question" else noted.at + APPROVAL_SECONDS,
        is_of_job=False,
        is_interrupted=state.is_interrupted,
        number=asked_questions(state).index(noted) + 1,
    )


_OPEN: Final = frozenset({"interrupted", "running"})
"""Statuses of runs that may have an open question."""


async def questions_of_runs(
    journal: Journal, of_jobs: frozenset[RunId], now: float
) -> list[OpenQuestion]:
    """Return the open questions of runs without a daemon, those given left out."""
    # The list says `interrupted` of a run that waits; what it waits for is in its events.
    waiting = [row.run for row in await journal.list_runs() if row.status in _OPEN][:MAX_RUNS]
    states = [fold(await journal.load(run)) for run in reversed(waiting) if run not in of_jobs]
    root_of = dict[RunId, RunId]()
    for state in states:
        if state.run is not None:
            root_of |= dict.fromkeys(target_runs(state), state.run)
    questions: list[OpenQuestion] = []
    for state in states:
        question = pending_question(state, now)
        if question is not None:
            # The run of a target is resumed with its root run, and never alone.
            resume = root_of.get(question.run, question.run)
            questions.append(replace(question, resume=resume))
    return questions


async def mark_waiting_runs(journal: Journal, rows: Sequence[RunRow], now: float) -> list[RunRow]:
    """Return the rows, with the status `waiting_for_…` and the number of planned steps of runs that
    wait for a person.

    A job with several targets waits where one of its targets does, also where only the job's run is
    among the rows. A run whose events cannot be read is unchanged.

    Args:
        journal: The journal of the runs.
        rows: Those of the runs.
        now: Seconds since the epoch; expired approvals are not waited for.
    """
    return [await _marked_row(journal, row, now) for row in rows]


async def _marked_row(journal: Journal, row: RunRow, now: float) -> RunRow:
    if row.status != "interrupted":
        return row
    try:
        state = fold(await journal.load(row.run))
        status = await _waiting_status(journal, state, now)
    except JournalError:
        return row
    if status is None:
        return row
    return replace(row, status=status, steps=max(row.steps, _planned_steps(state)))


async def _waiting_status(journal: Journal, state: RunState, now: float) -> RunStatus | None:
    question = pending_question(state, now)
    if question is not None:
        return "waiting_for_answer" if question.subject == "question" else "waiting_for_approval"
    waves = target_waves(state)
    if waves is None:
        return None
    for target, run in sorted(waves.runs.items()):
        # A target that has ended asks nothing, and a job may have a thousand of them.
        if target not in waves.ends:
            status = await _waiting_status(journal, fold(await journal.load(run)), now)
            if status is not None:
                return status
    return None


def run_now(state: RunState, status: RunStatus, at: float, given_up: str = "") -> RunNow | None:
    """Return how a run goes on at a time, given its status in the list of runs, and why its job was
    given up; None of one that has ended.
    """
    match status:
        case "running" | "interrupted" | "waiting_for_answer" | "waiting_for_approval":
            question = pending_question(state, at)
            noted = None if question is None else open_question(state)
            asking = [] if noted is None else [StepId(asking_step(noted))]
            return RunNow(status, at, frozenset(asking), given_up)
        case _:
            return None


def _planned_steps(state: RunState) -> int:
    """Return the number of steps of the plan to approve, or else of the current plan."""
    request = open_question(state)
    # Only a request for an approval names steps.
    steps = None if request is None else request.body.get("steps")
    if isinstance(steps, int):
        return steps
    followed = None if state.plan is None else state.plan.get("steps")
    return len(followed) if isinstance(followed, list) else 0
