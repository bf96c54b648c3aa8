"""What a process without a broker does with messages, where one with a broker shares its store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.engine.service.job_store.job_examples import job_id, outgoing, request_of
from tests.executor.event_examples import run_started
from wavewright.engine.service.daemon.local_bus import LocalRelay
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    JobId,
    JobRequested,
    JobRow,
    MessageId,
    OutgoingMessage,
)
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.messages.decoding import CORRELATION_KEY
from wavewright.executor.store.stored_journal import StoredJournal
from wavewright.planner.types import RunId

pytestmark = pytest.mark.anyio


async def test_only_messages_that_nobody_waits_for_at_a_broker_are_marked_as_sent(
    journals: tuple[StoredJournal, StoredJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others stay for a daemon with a broker, which publishes them in their order."""
    serving, at_broker = journals[0], JobStore(journals[1])
    jobs = JobStore(serving)
    scheduled, asked_for = request_of(1), request_of(2)
    assert isinstance(asked_for.request, JobRequested)
    stored = {**asked_for.request.request, CORRELATION_KEY: "whoever asked"}
    await jobs.receive(scheduled)
    await jobs.receive(replace(asked_for, request=replace(asked_for.request, request=stored)))
    messages = [outgoing(1), outgoing(2, job=2), outgoing(3, job=2), outgoing(4, job=None)]
    run = RunId("20261121-000001-3f2a7c")
    await serving.append(run, [run_started(run)], OutboxWrites(messages=tuple(messages)))
    told = list[OutgoingMessage]()

    relay = LocalRelay(told.append)
    await relay.flush(jobs)
    looked_up = list[JobId]()
    find_job = jobs.find_job

    async def find(job: JobId) -> JobRow | None:
        looked_up.append(job)
        return await find_job(job)

    monkeypatch.setattr(jobs, "find_job", find)
    await relay.flush(jobs)

    assert not looked_up, "how a job came is asked once"
    assert [message.job for message in told] == [job_id(1)]
    left: list[MessageId] = [message.message for message in await at_broker.pending()]
    assert left == [message.message for message in messages[1:]]
