"""What fails around a job, and what becomes of the job then."""

from __future__ import annotations

import errno
import io
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import anyio
import anyio.to_thread
import pytest

from tests.engine.conftest import CommandLine
from tests.engine.service.daemon.conftest import InProcess
from tests.engine.service.daemon.daemon_project import BrokerClient, DaemonSite, job
from wavewright.config.settings import load_settings
from wavewright.engine.run.cancellation import CancellationToken
from wavewright.engine.run.context import RunContext
from wavewright.engine.run.pipeline.phase import PipelineRun
from wavewright.engine.run.run_job import run_job
from wavewright.engine.run.services import open_services
from wavewright.engine.service.daemon import job_runner as work
from wavewright.engine.service.daemon.budgets import DailyBudget
from wavewright.engine.service.daemon.model_circuit import ModelCircuitBreaker
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.job_store.records import (
    JobId,
    JobRequested,
    MessageId,
    Receipt,
    ReceivedMessage,
)
from wavewright.engine.service.job_store.rules import MAX_FAILURES
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.engine.service.messages.models import JobRequest
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.engine.service.operations.monitoring import Telemetry
from wavewright.executor.store.errors import (
    EventDamaged,
    EventUnwritable,
    JournalError,
    JournalNotWritten,
)

Failing = Callable[[int], None]


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Failing:
    """Have so many attempts fail by a fault that nobody foresaw, and the next ones succeed."""
    monkeypatch.setattr(work, "FIRST_RETRY_SECONDS", 0.01)

    def arrange(times: int) -> None:
        left = [times]

        async def run(*arguments: object, **named: object) -> PipelineRun[RunContext]:
            if left[0]:
                left[0] -= 1
                message = "the unforeseen"
                raise RuntimeError(message)
            return await run_job(*arguments, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(work, "run_job", run)

    return arrange


@pytest.mark.anyio
async def test_an_attempt_that_fails_unforeseen_is_made_again(
    site: DaemonSite, client: BrokerClient, in_process: InProcess, failing: Failing
) -> None:
    wanted = str(uuid4())
    failing(2)
    async with in_process() as daemon:
        await client.send(JobRequest(job_id=wanted, job=job(("say", "it"))))
        await client.until_told(wanted, "JOB_COMPLETED")

    assert [line["message"] for line in daemon.said("error")] == ["the unforeseen"] * 2
    assert site.calls() == {"say it": 1}


@pytest.mark.anyio
async def test_a_job_that_fails_unforeseen_every_time_is_laid_aside_and_its_neighbours_are_done(
    client: BrokerClient, in_process: InProcess, failing: Failing
) -> None:
    poison, good = str(uuid4()), str(uuid4())
    failing(MAX_FAILURES)
    async with in_process():
        await client.send(JobRequest(job_id=poison, job=job(("say", "no"))))
        failed = await client.until_told(poison, "JOB_FAILED")
        await client.send(JobRequest(job_id=good, job=job(("say", "well"))))
        await client.until_told(good, "JOB_COMPLETED")
        [letter] = await client.dead_letters(1)

    assert "the unforeseen" in str(failed["reason"])
    assert f"started {MAX_FAILURES} times" in str(letter.headers["x-wavewright-reason"])


@pytest.mark.anyio
async def test_a_message_is_kept_in_hand_until_the_store_can_be_written_again(
    site: DaemonSite, client: BrokerClient, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, left, receive = str(uuid4()), [1], JobStore.receive

    async def flaky(self: JobStore, *arguments: object) -> Receipt:
        if left[0]:
            left[0] -= 1
            message = "the disk is full"
            raise JournalNotWritten(message)
        return await receive(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(JobStore, "receive", flaky)
    async with in_process() as daemon:
        await client.send(JobRequest(job_id=wanted, job=job(("say", "it"))))
        await client.until_told(wanted, "JOB_COMPLETED")

    assert any("the disk is full" in str(line) for line in daemon.said("error"))
    assert site.calls() == {"say it": 1}


@pytest.mark.anyio
async def test_a_run_that_has_not_begun_is_none_to_resume_by_hand(
    site: DaemonSite, wavewright: CommandLine
) -> None:
    wanted = JobId(str(uuid4()))
    asked = JobRequested(wanted, {"job": job(("say", "it"))})
    async with open_stores(site.settings) as stores:
        await stores.jobs.receive(
            ReceivedMessage(MessageId(str(uuid4())), "job_request", "me", 1.0, asked)
        )
        row = await stores.jobs.find_job(wanted)
    assert row is not None

    answer = await anyio.to_thread.run_sync(wavewright, "resume", row.run)

    assert answer.code == 2
    assert "this journal has no runs yet" in answer.err


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "failures"),
    [
        (EventUnwritable("an event is too long"), 1),
        (EventDamaged("event 3 cannot be read"), 1),
        (JournalNotWritten("the disk is full"), 0),
    ],
    ids=["unwritable", "damaged", "full disk"],
)
async def test_a_fault_of_one_runs_journal_counts_against_its_job_and_not_against_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: JournalError, failures: int
) -> None:
    async def run(*_: object, **__: object) -> None:
        raise fault

    monkeypatch.setattr(work, "run_job", run)
    settings, watch = (
        load_settings(tmp_path, {}),
        Telemetry(StructuredLog(agent="a", domain="d", stream=io.StringIO())),
    )
    async with open_stores(settings) as stores, open_services(settings) as services:
        job_runner = work.JobRunner(
            settings=settings,
            journal=stores.journal,
            jobs=stores.jobs,
            services=services,
            reporter=Reporter(settings.daemon),
            watch=watch,
            daily_budget=DailyBudget(time.time, lambda _reason, _until: None),
            model_circuit=ModelCircuitBreaker(time.time, lambda _run: None),
            wake_relay=lambda: None,
            clock=time.time,
        )
        asked = JobRequested(JobId(str(uuid4())), {"job": job(("say", "it"))})
        await stores.jobs.receive(
            ReceivedMessage(MessageId(str(uuid4())), "job_request", "me", 1.0, asked)
        )
        claimed = await stores.jobs.claim()
        assert claimed is not None
        await job_runner.run_job(claimed, CancellationToken())
        row = await stores.jobs.find_job(claimed.job)

    assert row is not None
    assert (row.state, row.failures) == ("queued", failures)
    assert watch.health.faults.get("store") == (None if failures else "the disk is full")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (MemoryError(), True),
        (OSError(errno.EMFILE, "Too many open files"), True),
        (ExceptionGroup("of tasks", [ValueError("x"), MemoryError()]), True),
        (RuntimeError("can't start new thread"), True),
        (OSError(errno.ENOENT, "No such file"), False),
        (RuntimeError("surprise"), False),
    ],
    ids=["memory", "descriptors", "in a group", "threads", "another of the system", "another"],
)
def test_a_fault_of_the_process_is_told_from_one_of_the_job(
    fault: Exception,
    expected: bool,  # noqa: FBT001
) -> None:
    assert work.is_out_of_resources(fault) is expected


@pytest.mark.anyio
async def test_a_process_without_memory_ends_and_counts_nothing_against_its_job(
    site: DaemonSite, in_process: InProcess, client: BrokerClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = str(uuid4())

    async def starve(*arguments: object, **named: object) -> PipelineRun[RunContext]:
        raise MemoryError

    monkeypatch.setattr(work, "run_job", starve)

    async def serve() -> None:
        async with in_process():
            await client.send(JobRequest(job_id=wanted, job=job(("say", "it"))))
            await anyio.sleep_forever()

    with pytest.raises(ExceptionGroup) as ended:
        await serve()
    async with open_stores(site.settings) as stores:
        row = await stores.jobs.find_job(JobId(wanted))

    assert ended.group_contains(work.ProcessExhausted)
    assert row is not None
    assert (row.state, row.failures) == ("running", 0)
