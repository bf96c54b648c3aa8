"""A client that sends jobs to daemons and reads their messages."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final
from uuid import uuid4

import aio_pika
import anyio
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage

from benchmarks.daemon_site import Site
from wavewright.engine.service.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.service.bus.topology import Topology
from wavewright.engine.service.job_store.records import MessageId, OutgoingMessage
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.messages.encoding import MessageAddress, encode
from wavewright.engine.service.messages.models import JobRequest, ValidationResult
from wavewright.planner.types import JsonObject
from wavewright.tools.message_contract import Payload

STEPS: Final = 6
MESSAGES_OUT: Final = 5 + STEPS
"""ACCEPTED, JOB_STARTED, a STEP_PROGRESS a step, the package, PACKAGE_SENT, JOB_COMPLETED."""
BACKLOG: Final = 200
"""Jobs that wait at the broker throughout."""
_TOPUP: Final = 50


class Counterpart:
    """Sends jobs and reads what comes of them."""

    def __init__(self, site: Site, channel: AbstractChannel, bus: Bus, job: JsonObject) -> None:
        self._site = site
        self._channel = channel
        self._bus = bus
        self._job = job
        self.sent = 0
        self.done = 0
        self._failed: str | None = None
        self._one_has_ended = anyio.Event()

    async def until(self, done: int) -> None:
        """Wait until so many jobs are done."""
        while self.done < done:
            self._one_has_ended = anyio.Event()
            await self._one_has_ended.wait()
            self._refuse_failures()

    async def read(self) -> None:
        """Read statuses and packages from now on, and count the jobs that are done."""

        async def count(message: AbstractIncomingMessage) -> None:
            if b'"JOB_COMPLETED"' in message.body:
                self.done += 1
                self._one_has_ended.set()
            elif b'"JOB_FAILED"' in message.body:
                self._failed = message.body.decode()
                self._one_has_ended.set()

        for name in ("status", "packages"):
            queue = await self._channel.get_queue(f"{self._site.own}.{name}", ensure=False)
            await queue.consume(count, no_ack=True)

    async def send_jobs(self, count: int) -> None:
        """Send jobs, each another one."""
        jobs = [JobRequest(job_id=str(uuid4()), job=self._job) for _ in range(count)]
        await self._send(jobs, [job.job_id for job in jobs])
        self.sent += count

    def _refuse_failures(self) -> None:
        if self._failed is not None:
            raise RuntimeError(f"a job has failed, which none should: {self._failed}")

    async def keep_busy(self) -> None:
        """Send more where few wait, or let a moment pass."""
        self._refuse_failures()
        if self.sent - self.done < BACKLOG:
            await self.send_jobs(_TOPUP)
        else:
            await anyio.sleep(0.02)

    async def hold(self, seconds: float, jobs: int, look: Callable[[], None]) -> None:
        """Keep them busy for so long, and until so many more jobs are done; look in every two
        seconds.
        """
        begun, done, looked = time.monotonic(), self.done, 0.0
        while time.monotonic() < begun + seconds or self.done < done + jobs:
            await self.keep_busy()
            if time.monotonic() > looked + 2:
                looked = time.monotonic()
                await anyio.to_thread.run_sync(look)

    async def send_job(self, job: str) -> None:
        """Send one job under an id."""
        await self._send([JobRequest(job_id=job, job=self._job)], [job])
        self.sent += 1

    async def send_stale(self, count: int, job: str) -> None:
        """Send verdicts on a package of a job that has ended: no job waits for them."""
        verdict = ValidationResult(
            job_id=job, package_id="long ago", accepted=True, iteration=1, feedback=[]
        )
        await self._send([verdict] * count, [job] * count)

    async def _send(self, payloads: Sequence[Payload], correlations: Sequence[str]) -> None:
        own = self._site.own
        address = MessageAddress("bench", "wavewright", f"{own}.topic", f"{own}.in")
        messages = [
            encode(
                payload, address, message=MessageId(str(uuid4())), correlation=job, at=time.time()
            )
            for payload, job in zip(payloads, correlations, strict=True)
        ]
        await self._bus.relay.flush(_Letters(messages))


class _Letters(JobStore):
    """An outbox of the messages to send now, without a database."""

    def __init__(self, messages: list[OutgoingMessage]) -> None:
        self._left = {message.message: message for message in messages}

    async def pending(self, most: int = 100) -> list[OutgoingMessage]:
        return [message for _, message in zip(range(most), self._left.values(), strict=False)]

    async def renew(self, messages: Sequence[MessageId]) -> None:
        del messages

    async def mark_sent(self, messages: Sequence[MessageId]) -> None:
        for message in messages:
            del self._left[message]

    async def mark_refused(self, message: MessageId, reason: str) -> None:
        raise RuntimeError(f"message {message} was not taken: {reason}")


@asynccontextmanager
async def opposite(site: Site, job: JsonObject) -> AsyncGenerator[Counterpart]:
    """Connect a client that sends this job again and again, and reads its messages."""
    own = site.own
    topology = Topology(
        exchange=f"{own}.topic",
        intake=f"{own}.in",
        outlets=(f"{own}.packages", f"{own}.decisions", f"{own}.status"),
        dead_exchange=f"{own}.dlx",
        dead_queue=f"{own}.dead",
    )
    connection = await aio_pika.connect(site.url)
    async with (
        connection,
        connection.channel() as channel,
        open_bus(BusSettings(site.url, topology, name="bench")) as bus,
    ):
        yield Counterpart(site, channel, bus, job)


def job_in_a_row(steps: int = STEPS) -> JsonObject:
    """Return a job of steps that wait for each other."""
    return job_in_waves(steps, 1)


def job_in_waves(waves: int, width: int) -> JsonObject:
    """Return a job of so many waves of so many steps, each of which waits for one of the wave
    before.
    """
    number_of_steps = waves * width
    steps: list[JsonObject] = [
        {
            "id": f"s{number}",
            "tool": "bump",
            "params": {"x": f"${{steps.s{number - width}}}" if number >= width else 1},
        }
        for number in range(number_of_steps)
    ]
    return {
        "name": "bench",
        "plan": {"steps": [*steps], "result": f"${{steps.s{number_of_steps - 1}}}"},
    }


async def bare_messages_a_second(url: str, messages: int = 3_000) -> float:
    """Return how many messages a second aio-pika alone sends to a quorum queue and reads from it."""
    connection = await aio_pika.connect(url)
    async with connection, connection.channel() as channel:
        queue = await channel.declare_queue(
            f"bare.{uuid4().hex[:8]}", durable=True, arguments={"x-queue-type": "quorum"}
        )
        read, ended = 0, anyio.Event()

        async def take(message: AbstractIncomingMessage) -> None:
            nonlocal read
            await message.ack()
            read += 1
            if read == messages:
                ended.set()

        await channel.set_qos(prefetch_count=100)
        tag = await queue.consume(take)
        start = time.perf_counter()
        limit = anyio.CapacityLimiter(100)

        async def send() -> None:
            async with limit:
                made = aio_pika.Message(b"x" * 500, delivery_mode=2)
                await channel.default_exchange.publish(made, queue.name)

        async with anyio.create_task_group() as group:
            for _ in range(messages):
                group.start_soon(send)
        await ended.wait()
        await queue.cancel(tag)
        taken = time.perf_counter() - start
        await queue.delete(if_unused=False, if_empty=False)
    return messages / taken
