"""What daemons do under load, from message to message: jobs a minute, steps a second, stale
messages, memory, lag.

Real daemons on a private broker; the tools of their jobs do nothing, so that what is measured is
the daemon. Beside each figure stand the daemons' own CPU time and how busy the machine was: the
first says as much on a machine that others use, too. Beside the jobs a minute stands what aio-pika
alone does with messages on the same broker: a job of six steps is one message in and eleven out.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from uuid import uuid4

import anyio
import pytest

from benchmarks.daemon_counterpart import (
    MESSAGES_OUT,
    STEPS,
    bare_messages_a_second,
    job_in_a_row,
    job_in_waves,
    opposite,
)
from benchmarks.daemon_site import SLOTS, Daemon, Machine, Site, broker
from benchmarks.measure import show_table
from tests.support.postgres import NoServer, PostgresServer, serving
from tests.support.rabbitmq import find_server
from wavewright.planner.types import JsonObject

WARM_SECONDS: Final = 6.0
"""Before anything is measured: what is imported and remembered once is."""
_JOBS_OF_A_SLOPE: Final = 2_000
MANY_STEPS: Final = 50
"""As many as a plan may have by default."""
DRAIN_SLOTS: Final = 32
"""As many messages are on their way in at once, at most."""


@dataclass(frozen=True)
class Extent:
    """How long and how much is measured."""

    seconds: float = 20.0
    """Of the first load, one daemon on SQLite."""
    jobs: int = 0
    """That the first load takes at least, for the slope of its memory."""
    others: float = 20.0
    """Seconds of each further load."""
    messages: int = 5_000
    """Of a drain."""
    daemons: tuple[int, ...] = (1, 2, 4)


WHOLE: Final = Extent(seconds=300, jobs=20_000, others=30, messages=100_000)
"""What is asked for; about twenty minutes."""


def measure_load(extent: Extent) -> None:
    """Print all that is measured of daemons."""
    measure_daemons(extent)
    measure_steps(extent)
    measure_drain(extent)


def measure_daemons(extent: Extent) -> None:
    """Print jobs a minute of one, two and four daemons on each store."""
    with _servers() as (url, database):
        if url is None:
            return
        bare = anyio.run(bare_messages_a_second, url)
        rows = list[list[object]]()
        for store in ("file", "database"):
            if store == "database" and database is None:
                break
            for daemons in extent.daemons:
                is_first = not rows
                site = Site(url, database.database() if store == "database" and database else None)
                seconds, jobs = (extent.seconds, extent.jobs) if is_first else (extent.others, 0)
                held = anyio.run(_hold, site, daemons, seconds, jobs, job_in_a_row())
                rows.append(
                    [site.store, daemons, *held.row(), held.rate * (1 + MESSAGES_OUT) / bare]
                )
                _tell(rows[-1])
    show_table(
        f"Jobs of {STEPS} steps, {SLOTS} slots a daemon (aim: 3,000 a minute with one on SQLite)",
        [
            "store",
            "daemons",
            "seconds",
            "jobs",
            "**jobs a minute**",
            "CPU of the daemons, ms a job",
            "RSS at first and at last, MiB",
            "MiB a 1,000 jobs",
            "loop lag: median, most, ms",
            "processors in use",
            "of what aio-pika alone does",
        ],
        rows,
    )


def measure_steps(extent: Extent) -> None:
    """Print how many steps a second one daemon journals where jobs have many."""
    shapes = {
        "ten waves of five": job_in_waves(10, MANY_STEPS // 10),
        "all side by side": job_in_waves(1, MANY_STEPS),
    }
    with _servers() as (url, database):
        if url is None:
            return
        rows = list[list[object]]()
        for journal in (None, database):
            if journal is None and rows:
                break
            for shape, job in shapes.items():
                site = Site(url, None if journal is None else journal.database())
                held = anyio.run(_hold, site, 1, extent.others, 0, job)
                steps = held.rate * MANY_STEPS
                rows.append([site.store, shape, round(steps), held.cpu_ms / MANY_STEPS, held.busy])
                _tell(rows[-1])
    show_table(
        f"Steps of jobs of {MANY_STEPS} steps, one daemon (aim: 1,000 journaled a second)",
        [
            "store",
            "steps",
            "**steps a second**",
            "CPU of the daemon, ms a step",
            "processors in use",
        ],
        rows,
    )


def measure_drain(extent: Extent) -> None:
    """Print how fast one daemon handles messages that no job waits for any more."""
    with _servers() as (url, database):
        if url is None:
            return
        rows = list[list[object]]()
        for journal in (None, database):
            if journal is None and rows:
                break
            site = Site(url, None if journal is None else journal.database(), DRAIN_SLOTS)
            # The aim is one of SQLite; on PostgreSQL a fifth says as much.
            messages = extent.messages if journal is None else max(1, extent.messages // 5)
            rows.append([site.store, messages, *anyio.run(_drain, site, messages)])
            _tell(rows[-1])
    show_table(
        f"Drain of stale messages by one daemon with {DRAIN_SLOTS} slots"
        " (aim: 1,500 a second, RSS at most 32 MiB more)",
        [
            "store",
            "messages",
            "**messages a second**",
            "CPU of the daemon, ms a message",
            "RSS grew by, MiB",
            "processors in use",
        ],
        rows,
    )


def _tell(row: Sequence[object]) -> None:
    """Say that something is measured: the table comes when all of it is."""
    print("  ", *row, sep=" | ", file=sys.stderr, flush=True)


@contextmanager
def _servers() -> Generator[tuple[str | None, PostgresServer | None]]:
    """Provide a broker and a database server of our own, as far as there are programs for them."""
    try:
        find_server()
    except pytest.skip.Exception as reason:
        print(f"\nDaemons were not measured: {reason}.")
        yield None, None
        return
    with broker() as url:
        try:
            with serving(syncs=True) as database:
                yield url, database
        except NoServer as reason:
            print(f"\nPostgreSQL was not measured: {reason}.")
            yield url, None


@dataclass
class Held:
    """What a load came to."""

    seconds: float = 0.0
    jobs: int = 0
    cpu: float = 0.0
    busy: str = ""
    memory: list[tuple[int, float]] = field(default_factory=list[tuple[int, float]])
    """MiB of all daemons, by jobs done."""
    lags: list[float] = field(default_factory=list[float])

    @property
    def rate(self) -> float:
        """Jobs a second."""
        return self.jobs / self.seconds

    @property
    def cpu_ms(self) -> float:
        """Milliseconds of CPU a job."""
        return self.cpu * 1000 / max(1, self.jobs)

    def row(self) -> list[object]:
        """Return the figures in the order of the columns."""
        lags = sorted(self.lags)
        return [
            round(self.seconds),
            self.jobs,
            round(self.rate * 60),
            self.cpu_ms,
            f"{self.memory[0][1]:.1f}, {self.memory[-1][1]:.1f}",
            # Of fewer jobs it would say what a look happened to meet.
            _slope(self.memory[len(self.memory) // 2 :]) * 1000
            if self.jobs >= _JOBS_OF_A_SLOPE
            else "",
            f"{lags[len(lags) // 2] * 1000:.0f}, {lags[-1] * 1000:.0f}",
            self.busy,
        ]


def _slope(points: Sequence[tuple[float, float]]) -> float:
    """Return the slope of the line that fits points best."""
    across, up = (sum(values) / len(points) for values in zip(*points, strict=True))
    spread = sum((x - across) ** 2 for x, _ in points)
    return sum((x - across) * (y - up) for x, y in points) / spread if spread else 0.0


@asynccontextmanager
async def _at_work(folder: Path, site: Site, daemons: int) -> AsyncGenerator[list[Daemon]]:
    running = list[Daemon]()
    try:
        for _ in range(daemons):
            running.append(Daemon(folder, site))
            await running[-1].started()
        yield running
    finally:
        for daemon in running:
            daemon.close()


async def _hold(site: Site, daemons: int, seconds: float, jobs: int, job: JsonObject) -> Held:
    """Keep daemons busy and return what they did after a warm-up; the slope of memory is that of
    the second half.
    """
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as name:
        site.write(Path(name))
        async with _at_work(Path(name), site, daemons) as running, opposite(site, job) as other:
            await other.read()
            await other.hold(min(WARM_SECONDS, seconds), 1, lambda: None)
            held, first = Held(), other.done

            def look() -> None:
                held.memory.append((other.done - first, sum(one.rss for one in running)))
                held.lags += [one.lag() for one in running]

            machine, begun, cpu = Machine.now(), time.monotonic(), sum(one.cpu for one in running)
            await other.hold(seconds, jobs, look)
            held.seconds, held.jobs = time.monotonic() - begun, other.done - first
            held.cpu = sum(one.cpu for one in running) - cpu
            held.busy = machine.since()
            look()
            return held


async def _drain(site: Site, messages: int) -> list[object]:
    """Have one job done, fill the queue with verdicts on it, and start a daemon again."""
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as name:
        folder = Path(name)
        site.write(folder)
        job = str(uuid4())
        async with _at_work(folder, site, 1), opposite(site, job_in_a_row()) as other:
            await other.read()
            await other.send_job(job)
            await other.until(1)
        async with opposite(site, job_in_a_row()) as other:
            for sent in range(0, messages, 1000):
                await other.send_stale(min(1000, messages - sent), job)
            # A job behind all of them is done when they are gone.
            await other.send_jobs(1)
            async with _at_work(folder, site, 1) as [daemon]:
                begun, rss, cpu, machine = time.monotonic(), daemon.rss, daemon.cpu, Machine.now()
                await other.read()
                await other.until(1)
                taken = time.monotonic() - begun
                cpu_ms = (daemon.cpu - cpu) * 1000 / messages
                return [round(messages / taken), cpu_ms, daemon.rss - rss, machine.since()]
