"""How many jobs daemons do a minute, from message to message, and what one costs.

Real daemons on a private broker; jobs of six steps whose tools do nothing, so that what is measured is the daemon.
Beside each stands what aio-pika alone does with as many messages on the same broker in the same run: each job is one
message in and eleven out. Another load is the drain: messages of a job that is done already, which only have to be
looked at and acknowledged.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, cast
from uuid import uuid4

import aio_pika
import anyio
import pytest
from aio_pika.abc import AbstractChannel, AbstractExchange, AbstractIncomingMessage, HeadersType

from benchmarks.measure import show_table
from tests.support.postgres import NoServer, serving
from tests.support.rabbitmq import Broker, find_server
from wavewright.engine.messages.encoding import Address, encode
from wavewright.engine.messages.requests import JobRequest
from wavewright.executor.job_store.records import MessageId
from wavewright.planner.types import JsonObject

STEPS: Final = 6
MESSAGES_OUT: Final = 5 + STEPS
"""ACCEPTED, JOB_STARTED, a STEP_PROGRESS a step, the package, PACKAGE_SENT, JOB_COMPLETED."""
SLOTS: Final = 8
BACKLOG: Final = 200
"""Jobs that wait at the broker throughout."""
JOBS_AIM: Final = 3_000
DRAIN_AIM: Final = 1_500
RSS_AIM: Final = 32.0
START_SECONDS: Final = 90.0
MIB: Final = 1024

TOOLS = 'async def bump(x: int) -> int:\n    """Add one."""\n    return x + 1\n'


def measure_daemons(seconds: float) -> None:
    """Print jobs a minute of one, two and four daemons on each store."""
    if not _has_broker():
        return
    with broker() as url:
        bare = anyio.run(bare_messages_a_second, url)
        rows = [_row("SQLite, FULL", daemons, seconds, url, None, bare) for daemons in (1, 2)]
        try:
            with serving(syncs=True) as server:
                rows += [
                    _row("PostgreSQL", daemons, seconds, url, server.database(), bare)
                    for daemons in (1, 2, 4)
                ]
        except NoServer as reason:
            print(f"\nPostgreSQL was not measured: {reason}.")
    show_table(
        f"Six-step jobs over {seconds:g} s, {SLOTS} slots a daemon (aim: {JOBS_AIM} a minute with one on SQLite)",
        [
            "store",
            "daemons",
            "jobs a minute",
            "journaled steps a second",
            "CPU of the daemons, ms a job",
            "of what aio-pika alone does",
            "RSS at first, MiB",
            "MiB a 1,000 jobs",
            "loop lag at most, ms",
            "load of the machine",
        ],
        rows,
    )


def measure_drain(messages: int) -> None:
    """Print how fast one daemon gets rid of messages of a job that is done."""
    if not _has_broker():
        return
    with broker() as url:
        drained = anyio.run(_drain, url, messages)
    show_table(
        f"Drain of {messages} messages of a job that is done (aim: {DRAIN_AIM} a second, {RSS_AIM:g} MiB)",
        ["messages a second", "growth of RSS, MiB", "load of the machine"],
        [[drained[0], drained[1], os.getloadavg()[0]]],
    )


def _has_broker() -> bool:
    try:
        find_server()
    except pytest.skip.Exception as reason:
        print(f"\nDaemons were not measured: {reason}.")
        return False
    return True


@contextmanager
def broker() -> Generator[str]:
    """Provide a broker of our own and its address."""
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-", ignore_cleanup_errors=True) as folder:
        own = Broker.create(Path(folder) / "rabbitmq")
        own.start()
        try:
            yield own.url
        finally:
            own.close()


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


def _row(
    store: str, daemons: int, seconds: float, url: str, journal: str | None, bare: float
) -> list[object]:
    figures = anyio.run(_hold, Site(url, journal), daemons, seconds)
    return [
        store,
        daemons,
        round(figures.rate * 60),
        round(figures.rate * STEPS),
        figures.cpu_ms,
        figures.rate * (1 + MESSAGES_OUT) / bare,
        figures.rss_first,
        figures.slope,
        figures.lag_ms,
        os.getloadavg()[0],
    ]


@dataclass(frozen=True)
class Figures:
    """What a load came to."""

    rate: float
    """Jobs a second."""
    cpu_ms: float
    rss_first: float
    slope: float
    lag_ms: float


@dataclass
class Site:
    """A project with names of its own at the broker."""

    url: str
    journal: str | None
    own: str = field(default_factory=lambda: uuid4().hex[:8])

    def write(self, folder: Path) -> None:
        """Write the project."""
        own = self.own
        (folder / "mine.py").write_text(TOOLS)
        (folder / "wavewright.yaml").write_text(
            "tools: [{path: mine.py, functions: {bump: {}}}]\n"
            f"daemon:\n  exchange: {own}.topic\n  dead_letter_exchange: {own}.dlx\n  slots: {SLOTS}\n"
            "  health: 127.0.0.1:0\n"
            f"  queues: {{intake: {own}.in, packages: {own}.packages, decisions: {own}.decisions,"
            f" status: {own}.status, dead: {own}.dead}}\n"
        )

    @property
    def environment(self) -> dict[str, str]:
        """What the daemons are started with."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("WAVEWRIGHT_")}
        store = {} if self.journal is None else {"WAVEWRIGHT_PG_URL": self.journal}
        return kept | store | {"WAVEWRIGHT_AMQP_URL": self.url}


class Daemon:
    """One real daemon."""

    def __init__(self, folder: Path, site: Site) -> None:
        self._log = folder / f"log-{uuid4().hex[:6]}"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "wavewright.engine.main", "daemon"],
                cwd=folder,
                env=site.environment,
                stderr=log,
            )

    async def started(self) -> None:
        """Wait until it takes jobs."""
        with anyio.fail_after(START_SECONDS):
            while '"daemon_started"' not in self._log.read_text():
                if self.process.poll() is not None:
                    raise RuntimeError(self._log.read_text())
                await anyio.sleep(0.1)
        line = next(line for line in self._log.read_text().splitlines() if '"health_served"' in line)
        self._place = json.loads(line)["place"]

    @property
    def rss(self) -> float:
        """MiB of memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / MIB

    @property
    def cpu(self) -> float:
        """Seconds of CPU so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def lag(self) -> float:
        """Seconds that its event loop was late when it was looked at last."""
        with urllib.request.urlopen(f"http://{self._place}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
        return float(next(line for line in lines if line.startswith("wavewright_loop_lag")).split()[1])

    def close(self) -> None:
        """Stop it."""
        self.process.terminate()
        self.process.wait()


class Counterpart:
    """Sends jobs and reads what comes of them."""

    def __init__(self, site: Site, channel: AbstractChannel, exchange: AbstractExchange) -> None:
        self._site = site
        self._channel = channel
        self._exchange = exchange
        self.sent = 0
        self.done = 0
        self._one_is_done = anyio.Event()

    async def until(self, done: int) -> None:
        """Wait until so many jobs are done."""
        while self.done < done:
            self._one_is_done = anyio.Event()
            await self._one_is_done.wait()

    async def read(self) -> None:
        """Read statuses and packages from now on, and count the jobs that are done."""

        async def count(message: AbstractIncomingMessage) -> None:
            if b'"JOB_COMPLETED"' in message.body:
                self.done += 1
                self._one_is_done.set()
            elif b'"JOB_FAILED"' in message.body:
                raise RuntimeError(message.body.decode())

        for name in ("status", "packages"):
            queue = await self._channel.get_queue(f"{self._site.own}.{name}", ensure=False)
            await queue.consume(count, no_ack=True)

    async def send(self, count: int, job: str | None = None) -> None:
        """Send jobs; the same one again and again where it is named."""
        async with anyio.create_task_group() as group:
            for _ in range(count):
                group.start_soon(self._send, job or str(uuid4()))
        self.sent += count

    async def _send(self, job: str) -> None:
        own = self._site.own
        address = Address("bench", "world_lore_researcher", f"{own}.topic", f"{own}.in")
        message = MessageId(str(uuid4()))
        made = encode(
            JobRequest(job_id=job, job=_job()), address, message=message, correlation=job, at=time.time()
        )
        body = aio_pika.Message(
            made.body,
            headers=cast("HeadersType", made.headers),
            content_type="application/json",
            delivery_mode=2,
        )
        await self._exchange.publish(body, f"{own}.in")


def _job() -> JsonObject:
    steps: list[JsonObject] = [
        {"id": f"s{number}", "tool": "bump", "params": {"x": f"${{steps.s{number - 1}}}" if number else 1}}
        for number in range(STEPS)
    ]
    return {"name": "six", "plan": {"steps": [*steps], "result": f"${{steps.s{STEPS - 1}}}"}}


@asynccontextmanager
async def _at_work(site: Site, daemons: int) -> AsyncGenerator[tuple[Counterpart, list[Daemon]]]:
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as name:
        folder = Path(name)
        site.write(folder)
        running = list[Daemon]()
        try:
            for _ in range(daemons):
                running.append(Daemon(folder, site))
                await running[-1].started()
            connection = await aio_pika.connect(site.url)
            async with connection, connection.channel() as channel:
                exchange = await channel.get_exchange(f"{site.own}.topic", ensure=False)
                yield Counterpart(site, channel, exchange), running
        finally:
            for daemon in running:
                daemon.close()


async def _hold(site: Site, daemons: int, seconds: float) -> Figures:
    async with _at_work(site, daemons) as (other, running):
        await other.read()
        warm = time.monotonic() + seconds / 5
        while time.monotonic() < warm or not other.done:
            await _top_up(other)
        first, began, lags = other.done, time.monotonic(), list[float]()
        cpu, rss = sum(one.cpu for one in running), sum(one.rss for one in running)
        looked = began
        while time.monotonic() < began + seconds:
            await _top_up(other)
            if time.monotonic() > looked + 2:
                looked = time.monotonic()
                lags += [await anyio.to_thread.run_sync(one.lag) for one in running]
        taken, done = time.monotonic() - began, max(1, other.done - first)
        return Figures(
            rate=done / taken,
            cpu_ms=(sum(one.cpu for one in running) - cpu) * 1000 / done,
            rss_first=rss,
            slope=(sum(one.rss for one in running) - rss) * 1000 / done,
            lag_ms=max(lags, default=0.0) * 1000,
        )


async def _top_up(other: Counterpart) -> None:
    if other.sent - other.done < BACKLOG:
        await other.send(50)
    else:
        await anyio.sleep(0.02)


async def _drain(url: str, messages: int) -> tuple[float, float]:
    site = Site(url, None)
    async with _at_work(site, 1) as (other, [daemon]):
        await other.read()
        job = str(uuid4())
        await other.send(1, job)
        await other.until(1)
        sent = 0
        start, rss = time.monotonic(), daemon.rss
        while sent < messages:
            await other.send(min(500, messages - sent), job)
            sent += 500
        # A job behind all of them is done when they are gone.
        await other.send(1)
        await other.until(2)
        return messages / (time.monotonic() - start), daemon.rss - rss
