"""What waits for a person is found without reading all that a store has ever held."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.engine.service.job_store.job_examples import decision_of, job_id, request_of
from tests.executor.event_examples import run_started
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import Decision, JobChange, JobId, JobRow, JobState
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.questions import list_questions
from wavewright.executor.sqlite.journal import SqliteJournal


class Frugal(JobStore):
    """Says when jobs that have ended, or answered decisions, are looked through."""

    looked_through = False

    async def list_jobs(
        self, states: Sequence[JobState] = (), *, newest: int | None = None
    ) -> list[JobRow]:
        self.looked_through |= not states or "completed" in states
        return await super().list_jobs(states, newest=newest)

    async def list_decisions(
        self, *, is_open: bool = True, job: JobId | None = None
    ) -> list[Decision]:
        self.looked_through |= not is_open
        return await super().list_decisions(is_open=is_open, job=job)


@pytest.mark.anyio
async def test_questions_of_jobs_are_found_without_those_that_have_ended(tmp_path: Path) -> None:
    async with SqliteJournal(tmp_path / "journal.sqlite") as journal:
        jobs = Frugal(journal)
        for number in (1, 2):
            await jobs.receive(request_of(number))
        done, asking = await jobs.claim(), await jobs.claim()
        assert done is not None
        assert asking is not None
        await jobs.change(JobChange(done.job, "completed"))
        question = decision_of(2, run=asking.run)
        await journal.append(
            asking.run,
            [run_started(asking.run)],
            OutboxWrites(decisions=(question,), change=JobChange(asking.job, "waiting")),
        )

        [found] = await list_questions(journal, jobs, time.time())

    assert (found.id, found.job) == (question.id, job_id(2))
    assert not jobs.looked_through
