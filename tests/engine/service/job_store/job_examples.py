"""Jobs, messages and questions for tests of job stores, and what their contract asks of those who
run it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from uuid import UUID

import pytest

from tests.executor.event_examples import step_finished
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import (
    PRIORITY_KEY,
    Decision,
    DecisionId,
    JobChange,
    JobId,
    JobRequested,
    JobRow,
    MessageId,
    OutgoingMessage,
    ReceivedMessage,
    Request,
    VerdictGiven,
)
from wavewright.engine.service.job_store.stores import Stores
from wavewright.planner.types import JsonObject, RunId


class DaemonStores(Protocol):
    """Opens the same stores as several daemons would."""

    async def open(self) -> Stores:
        """Return the stores of one more daemon; they are closed at the end of the test."""
        ...

    async def kill(self, stores: Stores) -> None:
        """Let the others find this daemon dead from now on, though it can still try to write."""
        ...

    async def expire_leases(self) -> None:
        """Let all leases of the outbox end."""
        ...

    async def forbid_writes(self) -> None:
        """Have all that is written to a run refused from now on, its being given up, too."""
        ...

    async def allow_writes(self) -> None:
        """End what `let_nothing_be_written` began."""
        ...


def uuid(number: int) -> str:
    return str(UUID(int=number))


def job_id(number: int) -> JobId:
    return JobId(uuid(1_000 + number))


def request_of(
    number: int, *, weight: float = 1.0, priority: int = 0, message: int | None = None
) -> ReceivedMessage:
    urgency: JsonObject = {PRIORITY_KEY: priority} if priority else {}
    return received(
        JobRequested(job_id(number), {"job": {"goal": f"work {number}"}, **urgency}, weight),
        message=10_000 + number if message is None else message,
    )


FEW_ATTEMPTS = 5
"""Attempts after which a job is given up in these tests."""


def received(request: Request, *, message: int) -> ReceivedMessage:
    return ReceivedMessage(MessageId(uuid(message)), type(request).__name__, "tester", 5.0, request)


def verdict(
    number: int,
    iteration: int,
    *,
    accepted: bool = False,
    package: str = "",
    feedback: Sequence[str] = ("more",),
) -> VerdictGiven:
    return VerdictGiven(
        job_id(number),
        package or package_id(number, iteration),
        iteration,
        accepted,
        tuple(feedback),
    )


def package_id(number: int, iteration: int) -> str:
    return f"package {number}/{iteration}"


def decision_of(
    number: int,
    run: RunId,
    *,
    id_: int = 1,
    options: tuple[str, ...] = ("yes", "no"),
    expires: float | None = None,
) -> Decision:
    return Decision(
        id=DecisionId(uuid(2_000 + id_)),
        job=job_id(number),
        run=run,
        subject="question",
        question="Which zone?",
        options=options,
        context="because",
        binding={"plan": "sha256:1", "steps": ["a"]},
        asked=7.0,
        expires=expires,
    )


def outgoing(
    number: int, *, job: int | None = 1, body: bytes = b"{}", headers: JsonObject | None = None
) -> OutgoingMessage:
    return OutgoingMessage(
        message=MessageId(uuid(3_000 + number)),
        kind="job_status",
        exchange="wavewright.topic",
        routing_key="job.status",
        body=body,
        job=None if job is None else job_id(job),
        headers=headers or {},
        at=float(number),
    )


def project_state(job: JobRow) -> Sequence[OutgoingMessage]:
    """Tell of a job by its state, as a daemon would: the same state of the same job is the same
    message.
    """
    number = int(UUID(job.job)) - 1_000
    kind = f"{job.state} {job.attempts} {job.iteration} {len(job.feedback)}"
    return [
        OutgoingMessage(
            message=MessageId(f"{number} {kind}"),
            kind=job.state,
            exchange="wavewright.topic",
            routing_key="job.status",
            body=kind.encode(),
            job=job.job,
        )
    ]


async def published_states(stores: Stores) -> list[str]:
    """Return the kinds of the messages that wait to go out."""
    return [message.kind for message in await stores.jobs.pending()]


async def claimed(stores: Stores, number: int | None = None) -> JobRow:
    """Return the job that is claimed next, the expected one."""
    job = await stores.jobs.claim(project=project_state)
    assert job is not None
    assert number is None or job.job == job_id(number)
    return job


async def send_package(stores: Stores, job: JobRow, number: int, iteration: int) -> None:
    """Journal a package as sent, and await its verdict."""
    change = JobChange(
        job.job, "running", iteration=iteration, package=package_id(number, iteration)
    )
    await stores.journal.append(
        job.run,
        [step_finished(f"package_{iteration}")],
        OutboxWrites(messages=(outgoing(iteration),), change=change),
    )
    await stores.jobs.change(JobChange(job.job, "validating"), project_state)


async def row_of(stores: Stores, number: int) -> JobRow:
    job = await stores.jobs.find_job(job_id(number))
    assert job is not None
    return job


class StoresTestCase:
    """Tests that use the stores of one or two daemons; whoever runs them gives the fixture
    `daemons`.
    """

    @pytest.fixture
    async def one(self, daemons: DaemonStores) -> Stores:
        return await daemons.open()

    @pytest.fixture
    async def other(self, daemons: DaemonStores) -> Stores:
        return await daemons.open()
