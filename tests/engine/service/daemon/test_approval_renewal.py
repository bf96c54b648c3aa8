"""Jobs whose question has expired are queued, so that they ask anew."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.lowlevel
import pytest

from wavewright.config.settings import load_settings
from wavewright.engine.service.daemon.maintenance import ApprovalRenewal
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    Decision,
    DecisionId,
    JobChange,
    JobId,
    JobRequested,
    JobRow,
    MessageId,
    ReceivedMessage,
)
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.job_store.stores import Stores, open_stores
from wavewright.executor.store.errors import JournalNotWritten

pytestmark = pytest.mark.anyio

NOW = 1_795_348_800.0


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[Stores]:
    async with open_stores(load_settings(tmp_path, {})) as opened:
        yield opened


async def claim(stores: Stores) -> JobRow:
    job = await stores.jobs.claim()
    assert job is not None
    return job


async def set_waiting(stores: Stores, job: JobRow) -> None:
    await stores.jobs.change(JobChange(job.job, "waiting"))


async def park_with_expired_question(stores: Stores) -> JobRow:
    asked = JobRequested(JobId(str(uuid4())), {"job": {}})
    await stores.jobs.receive(
        ReceivedMessage(MessageId(str(uuid4())), "job_request", "me", 1.0, asked)
    )
    job = await claim(stores)
    decision = Decision(DecisionId(str(uuid4())), job.job, job.run, "step", "Go?", expires=NOW - 1)
    await stores.journal.append(job.run, [], OutboxWrites(decisions=(decision,)))
    await set_waiting(stores, job)
    return job


def renewal_of(stores: Stores) -> ApprovalRenewal:
    return ApprovalRenewal(stores.jobs, stores.journal, lambda: NOW, anyio.lowlevel.checkpoint)


async def test_a_job_that_could_not_be_queued_can_be_queued_the_next_time(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, renewal = await park_with_expired_question(stores), renewal_of(stores)

    async def full(*_: object) -> None:
        raise JournalNotWritten("the disk is full")

    with monkeypatch.context() as without_room:
        without_room.setattr(JobStore, "change", full)
        with pytest.raises(JournalNotWritten):
            await renewal.renew()
    renewed = await renewal.renew()

    assert renewed == 1
    assert (await claim(stores)).job == job.job


async def test_a_question_that_its_run_asks_no_more_queues_its_job_once(stores: Stores) -> None:
    job, renewal = await park_with_expired_question(stores), renewal_of(stores)

    renewed = list[int]()
    for _ in range(2):
        renewed.append(await renewal.renew())
        if renewed[-1]:
            # Its run waits for somebody else now, and the question stays open.
            assert (await claim(stores)).job == job.job
            await set_waiting(stores, job)

    assert renewed == [1, 0]
