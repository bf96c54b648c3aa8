"""Workers of a fleet, and daemons that have them make the calls, as processes on one PostgreSQL."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import asyncpg

from tests.crash.crash_project import job_id, poison_job, read_ledger, small_job, whole_job
from tests.crash.daemon_processes import Daemon, Fleet, fleet, until
from tests.crash.fleet_judge import READ_LEFT, READ_RECORDER, RECORDER, FleetFindings, Hit
from tests.crash.oracle import Findings, Message
from tests.crash.postgres_tables import read_tables
from tests.repository.tree import ROOT
from tests.support.postgres import OwnServer, PostgresServer
from tests.support.prepared_command import PreparedCommand, RunningCommand, new_process
from wavewright.executor.store.leases import LEASE_SECONDS
from wavewright.planner.types import JsonObject

HEARTBEAT: Final = 1.0
"""Seconds after which a worker without a heartbeat is taken for dead."""
LONG: Final = 3 * HEARTBEAT
"""Seconds of calls that are in flight at most faults."""
MOST_DRAIN: Final = 10.0
"""Seconds in which a worker that was asked to stop ends."""
_MOVE_AWAY: Final = """
    SET lock_timeout TO '1s';
    UPDATE wavewright.session SET pid_namespace = 'elsewhere', heartbeat_at = heartbeat_at - 60;
    UPDATE wavewright.outbox SET leased = leased - 60 WHERE leased IS NOT NULL"""
"""On one machine a suspended owner is alive, and nobody replaces it; so it looks like one on
another machine.
"""
_HELD: Final = "SELECT count(*) FROM wavewright.run WHERE owner IS NOT NULL"
_LOG_EVENT: Final = """\
from dataclasses import dataclass
from wavewright.tools import LogEvent


@dataclass(frozen=True)
class Gathered(LogEvent):
    part: str


"""


@dataclass
class Worker:
    """One worker's process."""

    running: RunningCommand
    log: Path

    async def is_ready(self) -> None:
        """Wait until it takes calls."""
        await until(
            lambda: '"event": "worker_started"' in self.text() or self.running.poll() is not None
        )
        assert self.running.poll() is None, self.text()[-3000:]

    def text(self) -> str:
        """Return what it has written."""
        return self.log.read_text() if self.log.exists() else ""


@dataclass
class Site:
    """A project, its workers and coordinators, and what was done to them."""

    plant: Fleet
    postgres: PostgresServer
    url: str
    workers: list[Worker] = field(default_factory=list["Worker"])
    all_workers: list[int] = field(default_factory=list[int])
    hits: list[Hit] = field(default_factory=list[Hit])

    def start_worker(self) -> None:
        """Start one more worker."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("WAVEWRIGHT_")
        }
        environment = kept | self.plant.environment
        log = self.plant.folder / f"worker-{len(self.all_workers)}.txt"
        running = self.plant.spawn(["worker", "--slots", "6"], self.plant.folder, environment, log)
        self.workers.append(Worker(running, log))
        self.all_workers.append(running.pid)

    async def start_daemon(self) -> Daemon:
        """Start a coordinator and wait until it takes jobs."""
        daemon = self.plant.start()
        await daemon.is_ready()
        return daemon

    async def submit(self, *, pause: float = 0.1, long: int = 0) -> None:
        """Ask for one more job: one of twelve steps, or of so many long ones."""
        job = job_id(len(self.plant.submitted))
        document = small_job(job, steps=long, pause=LONG) if long else whole_job(job, pause=pause)
        await self.plant.submit(job, document)

    async def submit_poison(self) -> str:
        """Ask for a job whose call ends its process."""
        job = job_id(len(self.plant.submitted))
        await self.plant.submit(job, poison_job(job, "kill"))
        return job

    def last_called(self) -> int:
        """Return the number of the worker that has begun the last call."""
        process = read_ledger(self.plant.folder)[-1].process
        return [worker.running.pid for worker in self.workers].index(process)

    # What happens to them

    def kill_worker(self, number: int) -> None:
        """End a worker as `kill -9` does, and start another one."""
        worker = self.workers.pop(number)
        worker.running.send_signal(signal.SIGKILL)
        worker.running.wait()
        self._hit(worker, time.time())
        self.start_worker()

    async def freeze_worker(self, number: int, seconds: float) -> None:
        """Stop a worker for a while, and wake it up."""
        worker, begun = self.workers[number], time.time()
        worker.running.send_signal(signal.SIGSTOP)
        await anyio.sleep(seconds)
        worker.running.send_signal(signal.SIGCONT)
        self._hit(worker, begun)

    async def drain_worker(self, number: int) -> None:
        """Ask a worker to stop, wait for its end, and start another one."""
        worker = self.workers.pop(number)
        await worker.is_ready()
        begun = time.time()
        worker.running.send_signal(signal.SIGTERM)
        self.start_worker()
        await until(lambda: worker.running.poll() is not None, MOST_DRAIN)
        self._hit(worker, begun)
        assert worker.running.poll() == 0, worker.text()[-3000:]

    async def break_connections(self) -> None:
        """Break all connections to the database."""
        await self._all_ready()
        await anyio.to_thread.run_sync(self.postgres.kill_connections, self.url)

    async def stop_database(self, seconds: float) -> None:
        """Have no database for a while."""
        assert isinstance(self.postgres, OwnServer)
        await self._all_ready()
        await anyio.to_thread.run_sync(self.postgres.stop)
        await anyio.sleep(seconds)
        await anyio.to_thread.run_sync(self.postgres.start)

    async def replace_daemon(self, seconds: float) -> None:
        """Kill the coordinator; calls end while there is none, and another one takes over."""
        self.plant.kill(self.plant.daemons[0])
        await anyio.sleep(seconds)
        await self.start_daemon()

    async def suspend_daemon(self) -> None:
        """Stop the coordinator until another one has its jobs, and wake it up: both think that they
        own them.
        """
        daemon = self.plant.daemons[0]
        daemon.running.send_signal(signal.SIGSTOP)
        self.plant.crashed()
        while not await self._move_away():
            daemon.running.send_signal(signal.SIGCONT)
            await anyio.sleep(0.1)
            daemon.running.send_signal(signal.SIGSTOP)
        frozen_until = anyio.current_time() + LEASE_SECONDS + 0.5
        second = await self.start_daemon()
        if (await self.fetch(_HELD))[0] != (0,):
            await second.says("checkpoint_loaded")
        # Nobody replaces an owner earlier, so one that wakes up earlier need not ask whether it
        # was.
        await anyio.sleep_until(frozen_until)
        daemon.running.send_signal(signal.SIGCONT)
        await anyio.sleep(1.0)
        self.plant.kill(daemon)

    async def _move_away(self) -> bool:
        """Make the suspended coordinator look like one elsewhere; False where it was stopped within a
        transaction, whose rows stay locked until it goes on.
        """
        try:
            await anyio.to_thread.run_sync(self.postgres.run, _MOVE_AWAY, self.url)
        except asyncpg.LockNotAvailableError:
            return False
        return True

    async def _all_ready(self) -> None:
        """Wait for workers that start: one that finds no database ends, and whoever keeps it starts
        it again.
        """
        for worker in self.workers:
            await worker.is_ready()

    def _hit(self, worker: Worker, begun: float) -> None:
        self.hits.append(Hit(worker.running.pid, begun, time.time()))

    # What is seen

    async def fetch(self, query: str) -> list[tuple[object, ...]]:
        """Return the rows of a query."""
        return await anyio.to_thread.run_sync(self.postgres.fetch, query, self.url)

    async def look(self) -> FleetFindings:
        """Return all that can be seen, once nothing is under way any more."""
        tables = await read_tables(self.url)
        sent = [Message(one.message, one.kind, one.sha256, one.body) for one in self.plant.sent]
        found = Findings(
            self.plant.submitted,
            read_ledger(self.plant.folder),
            sent,
            self.plant.dead_jobs(),
            tables.rows,
            tables.events,
            self.plant.crashes,
            charged=tables.charged,
            faults=tables.faults,
        )
        recorded, left = await self.fetch(READ_RECORDER), await self.fetch(READ_LEFT)
        return FleetFindings(found, self.hits, self.all_workers, recorded, left)

    def close(self) -> None:
        """Kill all workers."""
        for worker in self.workers:
            if worker.running.poll() is None:
                worker.running.send_signal(signal.SIGKILL)
                worker.running.wait()


@asynccontextmanager
async def site(
    folder: Path, broker: str, postgres: PostgresServer, *, workers: int = 2, bug: str | None = None
) -> AsyncGenerator[Site]:
    """Start a coordinator and workers, with the recorder in their database; all are killed
    afterwards.
    """
    url = await anyio.to_thread.run_sync(postgres.database)
    settings: JsonObject = {"fleet": {"tools": ["*"], "heartbeat": HEARTBEAT}, "concurrency": 50}
    async with fleet(folder, broker, section={"slots": 20}, settings=settings) as plant:
        _emit_log_events(folder / "bench.py")
        plant.environment["WAVEWRIGHT_PG_URL"] = url
        plant.spawn = PreparedCommand
        if bug is not None:
            plant.spawn = partial(new_process, module="tests.crash.mutant_process")
            plant.environment |= {
                "BUG": bug,
                "PYTHONPATH": os.pathsep.join(
                    filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])
                ),
            }
        made = Site(plant, postgres, url)
        try:
            await made.start_daemon()
            await anyio.to_thread.run_sync(postgres.run, RECORDER, url)
            for _ in range(workers):
                made.start_worker()
            for worker in made.workers:
                await worker.is_ready()
            yield made
        finally:
            made.close()


def _emit_log_events(tools: Path) -> None:
    """Have `gather` emit a log event after each effect."""
    text = tools.read_text()
    call = '    await _call("gather", job, idempotency_key, pause)\n'
    assert call in text
    text = text.replace(call, f"{call}    emit(Gathered(part))\n")
    text = text.replace(
        "async def gather(job: str, part: str, pause: float = 0.0, *, idempotency_key: str)",
        "async def gather(job: str, part: str, pause: float = 0.0, *, idempotency_key: str, emit)",
    )
    tools.write_text(_LOG_EVENT + text)
