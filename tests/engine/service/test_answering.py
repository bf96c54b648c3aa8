"""Of two people who answer at the same time one wins, and the other is told who it was and what
they answered.
"""

from __future__ import annotations

import time
from pathlib import Path

import anyio
import pytest

from tests.engine.service.job_store.job_examples import decision_of, request_of
from tests.executor.event_examples import run_started
from wavewright.engine.run.decisions.approvals import APPROVAL_WANTED, QUESTION
from wavewright.engine.run.decisions.questions import (
    AnsweredAlready,
    AnswerRejected,
    AnswerStale,
    OpenQuestion,
)
from wavewright.engine.run.target_waves import TARGET_STARTED, TARGETS_WANTED
from wavewright.engine.service.answering import answer_question
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import DecisionMade, JobChange
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.questions import (
    find_question,
    find_question_to_answer,
    find_questions,
)
from wavewright.executor.events.types import Noted, RunFinished
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.planner.types import JsonObject, RunId

pytestmark = pytest.mark.anyio
ROUNDS = 5


async def answer_at_once(journals: tuple[StoredJournal, StoredJournal], id_: str) -> None:
    """Have two people who have both seen a question answer it, and check what they are told."""
    given = {"ada": "yes", "bob": "no"}
    doors = [
        (name, journal, JobStore(journal)) for name, journal in zip(given, journals, strict=True)
    ]
    seen = {
        name: await find_question(journal, jobs, id_, time.time()) for name, journal, jobs in doors
    }
    told = dict[str, str]()

    async def answer(
        name: str, journal: StoredJournal, jobs: JobStore, question: OpenQuestion
    ) -> None:
        try:
            await answer_question(journal, jobs, question, given[name], by=name, now=time.time())
        except AnsweredAlready as error:
            told[name] = str(error)

    async with anyio.create_task_group() as group:
        for name, journal, jobs in doors:
            group.start_soon(answer, name, journal, jobs, seen[name])

    [(loser, text)] = told.items()
    [winner] = set(given) - {loser}
    assert f"answered already by {winner!r}: {given[winner]!r}" in text
    with pytest.raises(AnsweredAlready, match=f"already by {winner!r}"):
        await find_question(journals[0], JobStore(journals[0]), id_, time.time())


async def test_of_a_run(journals: tuple[StoredJournal, StoredJournal]) -> None:
    journal = journals[0]
    for number in range(ROUNDS):
        run = RunId(f"20261121-00000{number}-3f2a7c")
        asked = Noted(
            2.0, QUESTION, {"question": "Which?", "options": ["yes", "no"], "binding": {}}
        )
        await journal.append(
            run, [run_started(run), asked, RunFinished(3.0, "interrupted", "a question")]
        )
        await journal.close_run(run)

        await answer_at_once(journals, run)


async def test_of_an_approval(journals: tuple[StoredJournal, StoredJournal]) -> None:
    """As above, where the answer is bound to a nonce; a refused one is told by its choice, too."""
    run, journal = RunId("20261121-000009-3f2a7c"), journals[0]
    body: JsonObject = {"subject": "step", "needs": ["it posts"], "binding": {"nonce": "n"}}
    asked = Noted(time.time(), APPROVAL_WANTED, body)
    await journal.append(
        run, [run_started(run), asked, RunFinished(3.0, "interrupted", "an approval")]
    )
    await journal.close_run(run)
    jobs, other = JobStore(journal), JobStore(journals[1])
    seen = [await find_question(journal, jobs, run, time.time()) for _ in "ab"]

    await answer_question(journal, jobs, seen[0], "refuse", by="ada", now=time.time())
    with pytest.raises(AnsweredAlready, match="by 'ada': 'refuse'"):
        await answer_question(journals[1], other, seen[1], "approve", by="bob", now=time.time())


async def test_of_a_job(journals: tuple[StoredJournal, StoredJournal]) -> None:
    journal = journals[0]
    jobs = JobStore(journal)
    for number in range(ROUNDS):
        await jobs.receive(request_of(number))
        job = await jobs.claim()
        assert job is not None
        question = decision_of(number, run=job.run, id_=number)
        await journal.append(
            job.run,
            [run_started(job.run)],
            OutboxWrites(decisions=(question,), change=JobChange(job.job, "waiting")),
        )

        await answer_at_once(journals, question.id)


async def test_a_question_of_a_job_is_found_by_the_id_of_its_job(
    journals: tuple[StoredJournal, StoredJournal],
) -> None:
    journal, jobs = journals[0], JobStore(journals[0])
    await jobs.receive(request_of(1))
    job = await jobs.claim()
    assert job is not None
    first = decision_of(1, run=job.run, id_=1)
    waiting = JobChange(job.job, "waiting")
    await journal.append(
        job.run, [run_started(job.run)], OutboxWrites(decisions=(first,), change=waiting)
    )

    for name in (job.job, job.job[:-1]):
        assert (await find_question_to_answer(journal, jobs, name, time.time())).id == first.id

    await jobs.decide(DecisionMade(first.id, "yes", "ada"))
    assert await jobs.claim() is not None
    second = decision_of(1, run=job.run, id_=2)
    await journal.append(job.run, [], OutboxWrites(decisions=(second,), change=waiting))
    with pytest.raises(AnswerStale):
        await find_question_to_answer(journal, jobs, job.job, time.time())

    await journal.open_run(job.run)
    await jobs.change(JobChange(job.job, "failed"))
    with pytest.raises(AnswerRejected, match=f"job {job.job} waits for no answer"):
        await find_question_to_answer(journal, jobs, job.job, time.time())


async def test_a_run_that_is_open_elsewhere_for_a_moment_is_answered_after_it(
    tmp_path: Path,
) -> None:
    run = RunId("20261121-000001-3f2a7c")
    asked = Noted(2.0, QUESTION, {"question": "Which?", "options": ["yes", "no"], "binding": {}})
    async with SqliteJournal(tmp_path / "a.db") as one, SqliteJournal(tmp_path / "a.db") as other:
        await one.append(
            run, [run_started(run), asked, RunFinished(3.0, "interrupted", "a question")]
        )
        await one.close_run(run)
        jobs = JobStore(one)
        question = await find_question(one, jobs, run, time.time())
        await other.open_run(run)
        async with anyio.create_task_group() as group:
            group.start_soon(other.close_run, run)
            await answer_question(one, jobs, question, "yes", by="ada", now=time.time())

        with pytest.raises(AnsweredAlready, match="by 'ada'"):
            await find_question(one, jobs, run, time.time())


ROOT_RUN = RunId("20261121-000001-000000")


async def write_targets(journal: StoredJournal, *asking: str) -> list[RunId]:
    """Write a root run whose targets each wait for an answer; return the runs of the targets."""
    wanted: JsonObject = {"targets": {"first": [*asking], "depth": 1}}
    notes = [Noted(1.0, TARGETS_WANTED, wanted)]
    runs = list[RunId]()
    for number, target in enumerate(asking, start=1):
        run = RunId(f"20261121-000001-00000{number}")
        runs.append(run)
        notes.append(Noted(1.0, TARGET_STARTED, {"target": target, "run": run}))
        body: JsonObject = {"question": f"{target}?", "options": ["yes", "no"], "binding": {}}
        asked = Noted(2.0 + number, QUESTION, body)
        interrupted = RunFinished(9.0, "interrupted", "a question")
        await journal.append(run, [run_started(run, job=f"zones: {target}"), asked, interrupted])
        await journal.close_run(run)
    interrupted = RunFinished(9.0, "interrupted", "a question")
    await journal.append(ROOT_RUN, [run_started(ROOT_RUN, job="zones"), *notes, interrupted])
    await journal.close_run(ROOT_RUN)
    return runs


async def test_the_only_target_that_asks_is_answered_by_the_root_run(
    journals: tuple[StoredJournal, StoredJournal],
) -> None:
    journal, jobs = journals[0], JobStore(journals[0])
    [target] = await write_targets(journal, "Westfall")

    question = await find_question_to_answer(journal, jobs, ROOT_RUN, time.time())
    await answer_question(journal, jobs, question, "yes", by="ada", now=time.time())

    assert (question.run, question.resume) == (target, ROOT_RUN)
    with pytest.raises(AnsweredAlready, match="by 'ada': 'yes'"):
        await find_question(journal, jobs, ROOT_RUN, time.time())


async def test_of_several_targets_that_ask_each_is_answered_by_its_own_id(
    journals: tuple[StoredJournal, StoredJournal],
) -> None:
    """Also once only one is left: the root run's id may mean the one that was read before."""
    journal, jobs = journals[0], JobStore(journals[0])
    first, second = await write_targets(journal, "Westfall", "Ödmark")

    listed = await find_questions(journal, jobs, ROOT_RUN, time.time())
    with pytest.raises(AnswerStale, match="waits for 2 answers"):
        await find_question_to_answer(journal, jobs, ROOT_RUN, time.time())
    await answer_question(journal, jobs, listed[0], "yes", by="ada", now=time.time())
    left = await find_questions(journal, jobs, ROOT_RUN, time.time())

    assert [question.run for question in listed] == [first, second]
    assert [question.run for question in left] == [second]
    with pytest.raises(AnswerStale, match="Ödmark"):
        await find_question_to_answer(journal, jobs, ROOT_RUN, time.time())
    named = await find_question_to_answer(journal, jobs, left[0].id, time.time())
    assert named.id == left[0].id


async def test_the_second_question_of_a_job_is_not_answered_by_the_id_of_its_run(
    journals: tuple[StoredJournal, StoredJournal],
) -> None:
    """The first one was answered; whoever names the run may have read that one."""
    journal, jobs = journals[0], JobStore(journals[0])
    await jobs.receive(request_of(1))
    job = await jobs.claim()
    assert job is not None
    first, second = (decision_of(1, run=job.run, id_=number) for number in (1, 2))
    waiting = JobChange(job.job, "waiting")
    await journal.append(
        job.run, [run_started(job.run)], OutboxWrites(decisions=(first,), change=waiting)
    )
    await jobs.decide(DecisionMade(first.id, "yes", "ada"))
    with pytest.raises(AnsweredAlready, match="by 'ada': 'yes'"):
        await find_question_to_answer(journal, jobs, job.run, time.time())

    await jobs.claim()
    asked = Noted(3.0, "asked", {})
    await journal.append(job.run, [asked], OutboxWrites(decisions=(second,), change=waiting))

    with pytest.raises(AnswerStale, match=second.id):
        await find_question_to_answer(journal, jobs, job.run, time.time())
    named = await find_question_to_answer(journal, jobs, second.id, time.time())
    assert named.id == second.id
