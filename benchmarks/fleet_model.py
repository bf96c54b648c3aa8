"""What a call of the fleet costs its database, measured, and what follows for up to 10,000 workers,
simulated.

A cost is processor time of the server's processes for the fleet's own statements: measured for
groups of 1 and of 50 calls, it gives the cost of a transaction and that of a row. The simulation
has the traffic of the port. Runs send calls in groups, twice the slots ahead. Each transaction that
adds calls to the queue wakes the workers that have room, which take a batch. Workers begin and
answer calls in groups, every group wakes its run, and every worker has a heartbeat. The database is
a queue before its processors. Not simulated: network, disk, tools, and what a run does with an
answer.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from uuid import uuid4

import anyio
import asyncpg
from pgqueuer.domain.types import QueueEntrypoint, QueueManagerId
from pgqueuer.ports.repository import EntrypointExecutionParameter

from benchmarks.measure import show_table
from tests.support.postgres import NoServer, OwnServer, started
from wavewright.executor.fleet.tables import (
    ANSWER,
    BEGIN,
    HEARTBEAT,
    MAX_GROUP,
    READ_ANSWERS,
    SEND,
    SEND_GOAL,
    open_fleet_database,
    queue_on,
)

if TYPE_CHECKING:
    from pgqueuer.domain.models import Job

    from wavewright.executor.fleet.tables import AnyConnection

GROUPS: Final = 200
LISTENERS: Final = 100
PROCESSORS: Final = 16
"""Of the simulated server, each as fast as one here."""
CALL_SECONDS: Final = 6.0
"""The mean of an exponential distribution: an answer of a model."""
HEARTBEAT_SECONDS: Final = 10.0
SHAPES: Final = (
    (10, 10, 1), (100, 10, 1), (1_000, 10, 1), (100, 100, 1), (100, 100, 4),
    (1_000, 10, 4), (10_000, 10, 16), (10_000, 10, 32), (1_000, 100, 16),
)  # fmt: skip
"""Workers, slots of each, and databases that share them."""
SIMULATED_SECONDS: Final = 45.0
WARM_UP_SECONDS: Final = 15.0


class Cost(NamedTuple):
    """Processor seconds of a transaction."""

    transaction: float
    row: float

    def of(self, rows: int) -> float:
        """Return the seconds for a number of rows."""
        return self.transaction + self.row * rows


def measure_fleet_model() -> None:
    """Print the costs, and what a simulated fleet reaches with them."""
    try:
        with started(syncs=True) as server:
            costs, listener = anyio.run(_measure, server)
    except NoServer as reason:
        print(f"\nNot measured: {reason}.")
        return
    show_table(
        "Processor time of the database for the statements of the fleet, microseconds",
        ["statements", "a transaction", "a row"],
        [[name, cost.transaction * 1e6, cost.row * 1e6] for name, cost in costs.items()]
        + [["a notice, for each connection that listens", listener * 1e6, ""]],
    )
    rows: list[list[object]] = []
    for workers, slots, databases in SHAPES:
        rate, processors = _simulate(costs, listener, workers // databases, slots)
        rate *= databases
        allowed = workers * slots / CALL_SECONDS
        rows.append([workers, slots, databases, round(rate), rate / allowed, processors])
    show_table(
        f"Simulated: calls of {CALL_SECONDS:g} s, servers of {PROCESSORS} processors",
        [
            "workers",
            "slots of each",
            "databases",
            "calls a second",
            "of what the slots allow",
            "processors in use, of a database",
        ],
        rows,
    )


async def _measure(server: OwnServer) -> tuple[dict[str, Cost], float]:
    async with (
        open_fleet_database(server.database()) as database,
        database.pool.acquire() as connection,
    ):
        small, large = [await _seconds(server, connection, rows) for rows in (1, 50)]
        costs: dict[str, Cost] = {}
        for name, one in small.items():
            row = max(0.0, (large[name] - one) / 49)
            costs[name] = Cost(one - row, row)
        beat = await _cpu_of(
            server, lambda: connection.execute(HEARTBEAT, "worker", 10, ["tool@1"], [], [0] * 10)
        )
        costs["heartbeat of a worker"] = Cost(beat, 0.0)
        costs["look into an empty queue"] = Cost(
            await _cpu_of(server, lambda: _dequeue(connection, 1)), 0.0
        )
        alone = await _cpu_of(server, lambda: connection.execute("NOTIFY measured"))
        listening = [await asyncpg.connect(database.url) for _ in range(LISTENERS)]
        for listener in listening:
            await listener.add_listener("measured", _ignore)
        together = await _cpu_of(server, lambda: connection.execute("NOTIFY measured"))
        for listener in listening:
            await listener.close()
        return costs, max(0.0, (together - alone) / LISTENERS)


def _ignore(*_: object) -> None:
    pass


async def _seconds(server: OwnServer, connection: AnyConnection, rows: int) -> dict[str, float]:
    """Return the processor seconds of each kind of transaction, for a number of rows."""
    ids = iter([[uuid4().hex for _ in range(rows)] for _ in range(GROUPS)])
    sent: list[list[str]] = []
    jobs: list[list[int]] = []

    async def send() -> None:
        sent.append(next(ids))
        await connection.fetch(
            SEND,
            sent[-1],
            ["run"] * rows,
            [b"x" * 500] * rows,
            ["tool@1"] * rows,
            "model",
            "a process",
        )

    async def take() -> None:
        jobs.append([job.id for job in await _dequeue(connection, rows)])

    parts: dict[str, Callable[[list[str]], Awaitable[object]]] = {
        "begin": lambda group: connection.fetch(BEGIN, group, "worker"),
        "answer": lambda group: connection.fetch(
            ANSWER, group, next(taken), [b"x" * 500] * rows, "worker"
        ),
        "read answers": lambda group: connection.fetch(READ_ANSWERS, group),
    }
    await connection.execute(SEND_GOAL, "run", b"{}", "a process")
    made = {"send": await _cpu_of(server, send)}
    await connection.execute("SET synchronous_commit TO off")
    made["take from the queue"] = await _cpu_of(server, take)
    await connection.execute("SET synchronous_commit TO on")
    taken = iter(jobs)
    for name, part in parts.items():
        groups = iter(sent)
        made[name] = await _cpu_of(server, partial(_next, part, groups))
    return made


async def _next(
    part: Callable[[list[str]], Awaitable[object]], groups: Iterator[list[str]]
) -> None:
    await part(next(groups))


async def _dequeue(connection: AnyConnection, rows: int) -> list[Job]:
    return await queue_on(connection).dequeue(
        batch_size=rows,
        entrypoints={QueueEntrypoint("tool@1"): EntrypointExecutionParameter(0)},
        queue_manager_id=QueueManagerId(uuid4()),
        global_concurrency_limit=None,
        heartbeat_timeout=timedelta(seconds=10),
    )


async def _cpu_of(server: OwnServer, work: Callable[[], Awaitable[object]]) -> float:
    """Return the processor seconds of the server's processes for one piece of work."""
    before = _server_seconds(server)
    for _ in range(GROUPS):
        await work()
    return (_server_seconds(server) - before) / GROUPS


def _server_seconds(server: OwnServer) -> float:
    children = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in children) / 1e9


@dataclass(slots=True)
class _Worker:
    """What a simulated worker holds."""

    free: int
    taking: bool = False
    was_woken: bool = False
    groups: Counter[str] = field(default_factory=Counter[str])
    """Calls that wait for a group."""
    under_way: set[str] = field(default_factory=set[str])


@dataclass(slots=True)
class _Simulation:
    """A database with its workers and one run that has calls without end."""

    costs: dict[str, Cost]
    listener: float
    slots: int
    """Of each worker."""
    workers: list[_Worker]
    now: float = 0.0
    events: list[tuple[float, int, Callable[[], None]]] = field(
        default_factory=list[tuple[float, int, Callable[[], None]]]
    )
    number: itertools.count[int] = field(default_factory=itertools.count)
    requests: deque[tuple[float, Callable[[], None]]] = field(
        default_factory=deque[tuple[float, Callable[[], None]]]
    )
    """Transactions that wait for a processor of the database."""
    busy: int = 0
    used: float = 0.0
    queue: int = 0
    """Calls in the queue."""
    outstanding: int = 0
    sends: bool = False
    unread: int = 0
    reads: bool = False
    ended: int = 0
    chance: random.Random = field(default_factory=lambda: random.Random(1))  # noqa: S311 - of a simulation

    def at(self, seconds: float, do: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now + seconds, next(self.number), do))

    def ask(self, cost: float, then: Callable[[], None]) -> None:
        """Have the database do a transaction."""
        self.requests.append((cost, then))
        self.serve()

    def serve(self) -> None:
        while self.busy < PROCESSORS and self.requests:
            cost, then = self.requests.popleft()
            self.busy += 1
            if self.now >= WARM_UP_SECONDS:
                self.used += cost

            def end(then: Callable[[], None] = then) -> None:
                self.busy -= 1
                then()
                self.serve()

            self.at(cost, end)

    def run(self) -> None:
        for worker in self.workers:
            self.at(self.chance.random() * HEARTBEAT_SECONDS / 3, self.beat)
            self.at(self.chance.random() * 2, partial(self.look, worker))
        self.at(0, self.send)
        while self.events and self.events[0][0] < SIMULATED_SECONDS:
            self.now, _, do = heapq.heappop(self.events)
            do()

    def beat(self) -> None:
        self.ask(self.costs["heartbeat of a worker"].of(1), lambda: None)
        self.at(HEARTBEAT_SECONDS / 3, self.beat)

    def send(self) -> None:
        """Send calls, one group at a time, up to twice the slots ahead."""
        count = min(MAX_GROUP, 2 * self.slots * len(self.workers) - self.outstanding)
        if self.sends or count <= 0:
            return
        self.sends = True
        self.outstanding += count

        def end() -> None:
            self.sends = False
            self.queue += count
            self.ask(self.listener * len(self.workers), self.wake)
            self.send()

        self.ask(self.costs["send"].of(count), end)

    def wake(self) -> None:
        """Tell all workers that calls came."""
        for worker in self.workers:
            if worker.taking:
                worker.was_woken = True
            else:
                self.take(worker)

    def look(self, worker: _Worker) -> None:
        """Look into the queue every two seconds, whatever was told."""
        if not worker.taking:
            self.take(worker)
        self.at(2.0, lambda: self.look(worker))

    def take(self, worker: _Worker) -> None:
        if not worker.free:
            return
        worker.taking = True
        count = min(MAX_GROUP, worker.free, self.queue)
        self.queue -= count
        worker.free -= count
        cost = (
            self.costs["take from the queue"].of(count)
            if count
            else self.costs["look into an empty queue"].of(1)
        )

        def end() -> None:
            worker.taking = False
            self.group(worker, "begin", count)
            if count or worker.was_woken:
                worker.was_woken = False
                self.take(worker)

        self.ask(cost, end)

    def group(self, worker: _Worker, kind: str, calls: int = 1) -> None:
        """Add calls to what a worker writes next."""
        worker.groups[kind] += calls
        self.write(worker, kind)

    def write(self, worker: _Worker, kind: str) -> None:
        count = worker.groups[kind]
        if kind in worker.under_way or not count:
            return
        worker.under_way.add(kind)
        worker.groups[kind] = 0

        def end() -> None:
            worker.under_way.discard(kind)
            self.written(worker, kind, count)
            self.write(worker, kind)

        self.ask(self.costs[kind].of(count), end)

    def written(self, worker: _Worker, kind: str, count: int) -> None:
        if kind == "begin":
            for _ in range(count):
                self.at(
                    self.chance.expovariate(1 / CALL_SECONDS), lambda: self.group(worker, "answer")
                )
        else:
            worker.free += count
            self.ended += count * (self.now >= WARM_UP_SECONDS)
            self.unread += count
            self.read()
            if self.queue and not worker.taking:
                self.take(worker)

    def read(self) -> None:
        """Have the run read the answers that it was told of."""
        if self.reads or not self.unread:
            return
        self.reads, count, self.unread = True, self.unread, 0

        def end() -> None:
            self.reads = False
            self.outstanding -= count
            self.send()
            self.read()

        self.ask(self.costs["read answers"].of(count), end)


def _simulate(
    costs: dict[str, Cost], listener: float, workers: int, slots: int
) -> tuple[float, float]:
    """Return the calls a second that one database can have made, and its processors in use."""
    fleet = _Simulation(costs, listener, slots, [_Worker(slots) for _ in range(workers)])
    fleet.run()
    seconds = SIMULATED_SECONDS - WARM_UP_SECONDS
    return fleet.ended / seconds, fleet.used / seconds
