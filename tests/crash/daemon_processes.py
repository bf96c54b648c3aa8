"""Real daemons as processes, a real broker, and whoever is outside: who asks, answers, judges and
reads.

What goes in is confirmed by the broker before it counts as sent. What comes out is read into a log
with its hash, so that the oracle sees every message that the broker had, repeats included.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final
from uuid import uuid4

import aio_pika
import anyio
from aio_pika.abc import AbstractIncomingMessage
from aio_pika.exceptions import CONNECTION_EXCEPTIONS, AMQPError

from tests.crash import oracle
from tests.crash.crash_project import KEY, LEDGER, Tail, request_of, settings_of, write_workplace
from tests.crash.file_broker import Sent
from tests.crash.minimal_daemon import Agreeing
from tests.crash.oracle import TOLD_ENDS, Findings
from tests.support.prepared_command import RunningCommand, Spawn, new_process
from wavewright.engine.service.bus.declaration import declare_topology
from wavewright.engine.service.bus.message_conversion import message_of
from wavewright.engine.service.bus.topology import Topology, topology_of
from wavewright.engine.service.job_store.records import JobId, OutgoingMessage
from wavewright.planner.types import JsonObject

PATIENCE: Final = 120.0
"""Seconds after which something is waited for in vain."""
_LOST: Final = (*CONNECTION_EXCEPTIONS, AMQPError, asyncio.CancelledError, RuntimeError)


@dataclass
class Daemon:
    """One daemon's process."""

    running: RunningCommand
    log: Path
    begun: float

    def text(self) -> str:
        """Return what it has written."""
        return self.log.read_text()

    def has_said(self, event: str) -> bool:
        """Return whether there is such a line in its log."""
        return f'"event": "{event}"' in self.text()

    async def is_ready(self) -> None:
        """Wait until it takes jobs."""
        await until(lambda: self.has_said("daemon_started") or self.running.poll() is not None)
        assert self.running.poll() is None, self.text()[-3000:]

    async def is_gone(self, seconds: float = PATIENCE) -> None:
        """Wait until it has ended."""
        await until(lambda: self.running.poll() is not None, seconds)

    async def says(self, event: str) -> None:
        """Wait until there is such a line in its log."""
        await until(lambda: self.has_said(event))

    def has_children(self) -> bool:
        """Return whether anything that it started is left, itself aside."""
        try:
            os.killpg(self.running.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """End it as `kill -9` does."""
        with suppress(ProcessLookupError):
            os.killpg(self.running.pid, signal.SIGKILL)
        # One that has just begun leads no group yet, and has no children.
        self.running.send_signal(signal.SIGKILL)
        self.running.wait()


@dataclass
class Fleet:
    """A project, its daemons, and everybody outside."""

    folder: Path
    url: str
    """Where the daemons find the broker: the broker itself, or a network with faults before it."""
    direct: str
    """Where everybody else finds it."""
    section: JsonObject
    environment: dict[str, str] = field(default_factory=dict[str, str])
    spawn: Spawn = new_process
    """Starts the processes."""
    daemons: list[Daemon] = field(default_factory=list[Daemon])
    submitted: list[JobId] = field(default_factory=list[JobId])
    sent: list[Sent] = field(default_factory=list[Sent])
    dead: list[JsonObject] = field(default_factory=list[JsonObject])
    crashes: list[float] = field(default_factory=list[float])
    answers: bool = True

    def __post_init__(self) -> None:
        # Whoever looks again and again looks at what is new only: a long programme has a hundred
        # thousand lines.
        self._ledger = Tail(self.folder / LEDGER)
        self._begun = list[float]()
        self._ended = set[str]()

    @cached_property
    def topology(self) -> Topology:
        """Return the names at the broker."""
        return topology_of(settings_of(self.folder).daemon)

    # Daemons

    def start(self) -> Daemon:
        """Start one more daemon."""
        log = self.folder / f"log-{len(list(self.folder.glob('log-*')))}.txt"
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("WAVEWRIGHT_")
        }
        own = {"WAVEWRIGHT_AMQP_URL": self.url, "WAVEWRIGHT_HMAC_KEY": KEY}
        begun = time.time()
        running = self.spawn(["daemon"], self.folder, kept | own | self.environment, log)
        daemon = Daemon(running, log, begun)
        self.daemons.append(daemon)
        return daemon

    def kill(self, daemon: Daemon) -> None:
        """End a daemon as `kill -9` does."""
        daemon.kill()
        self.is_over(daemon)

    def is_over(self, daemon: Daemon) -> None:
        """Take note that a daemon has ended."""
        self.crashed()
        self.daemons.remove(daemon)

    def crashed(self) -> None:
        """Take note of something that may hit calls in flight."""
        self.crashes.append(time.time())

    def close(self) -> None:
        """End all daemons."""
        for daemon in self.daemons:
            daemon.kill()

    # Everybody outside

    async def submit(self, job: JobId, document: JsonObject) -> None:
        """Ask for a job, again and again until the broker has confirmed it."""
        names = self.topology
        message = request_of(
            job, document, at=time.time(), exchange=names.exchange, intake=names.intake
        )
        await self._send(message)
        if job not in self.submitted:
            self.submitted.append(job)

    async def _send(self, message: OutgoingMessage) -> None:
        while True:
            try:
                connection = await aio_pika.connect(self.direct)
                async with connection:
                    await self._publish(connection, [message])
            except _LOST as fault:
                _raise_own(fault)
                await anyio.sleep(0.1)
            else:
                return

    async def _publish(
        self, connection: aio_pika.abc.AbstractConnection, messages: Sequence[OutgoingMessage]
    ) -> None:
        channel = await connection.channel()
        for message in messages:
            exchange = await channel.get_exchange(message.exchange, ensure=False)
            # The sender's user is whoever is logged in there.
            await exchange.publish(message_of(message, "tester"), message.routing_key)

    async def declare(self) -> None:
        """Have the queues there before anybody sends."""
        connection = await aio_pika.connect(self.direct)
        async with connection:
            await declare_topology(connection, self.topology, place="tests")

    async def listen(self) -> None:
        """Read all that comes out and answer it, through every loss of the broker, until this is
        cancelled.
        """
        while True:
            try:
                connection = await aio_pika.connect(self.direct)
                try:
                    await self._listen_once(connection)
                finally:
                    with anyio.CancelScope(shield=True), suppress(*_LOST):
                        await connection.close()
                        # The library tells itself of the end in tasks of its own.
                        await anyio.sleep(0.05)
            except _LOST as fault:
                _raise_own(fault)
                await anyio.sleep(0.1)

    async def _listen_once(self, connection: aio_pika.abc.AbstractConnection) -> None:
        channel = await connection.channel()
        names = self.topology
        while True:
            for queue in (*names.outlets, names.dead_queue):
                await self._read(channel, queue)
            await anyio.sleep(0.05)

    async def _read(self, channel: aio_pika.abc.AbstractChannel, queue: str) -> None:
        source = await channel.get_queue(queue, ensure=False)
        while (message := await source.get(fail=False)) is not None:
            said = self._note(message, queue)
            for answer in said:
                exchange = await channel.get_exchange(self.topology.exchange, ensure=False)
                await exchange.publish(message_of(answer, "tester"), self.topology.intake)
            # What was read and not acknowledged comes again: the log may hold it twice, never not
            # at all.
            await message.ack()

    def _note(self, message: AbstractIncomingMessage, queue: str) -> list[OutgoingMessage]:
        body: JsonObject = json.loads(message.body)
        if queue == self.topology.dead_queue:
            self.dead.append(body)
            return []
        sent = Sent(
            str(message.message_id),
            str(message.type),
            queue,
            hashlib.sha256(message.body).hexdigest(),
            body,
        )
        self.sent.append(sent)
        payload = body.get("payload")
        if isinstance(payload, dict) and payload.get("status") in TOLD_ENDS:
            self._ended.add(str(payload["job_id"]))
        return (
            Agreeing(intake=self.topology.intake, at=time.time()).answer([sent])
            if self.answers
            else []
        )

    # What is seen

    def ended(self) -> set[str]:
        """Return the jobs of which the end was told."""
        return self._ended

    async def until_begun(self, calls: int) -> None:
        """Wait until so many calls of tools were begun, or nothing is left to be done."""
        await until(lambda: self.starts() >= calls or set(self.submitted) <= self.ended())

    async def until_all_ended(self, seconds: float = PATIENCE) -> None:
        """Wait until the end of every job that was asked for is told."""
        await until(lambda: set(self.submitted) <= self.ended(), seconds)

    def dead_jobs(self) -> list[str]:
        """Return the jobs among the dead letters."""
        return [
            str(payload.get("job_id", ""))
            if isinstance(payload := body.get("payload", body), dict)
            else ""
            for body in self.dead
        ]

    def told(self, job: str) -> list[str]:
        """Return the statuses that were told of a job."""
        return [
            str(payload["status"])
            for sent in self.sent
            if isinstance(payload := sent.body.get("payload"), dict)
            and payload.get("job_id") == job
            and "status" in payload
        ]

    def found(self, *, clock_is_true: bool = True) -> Findings:
        """Return all that can be seen."""
        sent = [oracle.Message(one.message, one.kind, one.sha256, one.body) for one in self.sent]
        return oracle.look(
            self.folder,
            self.submitted,
            sent,
            self.dead_jobs(),
            crashes=self.crashes,
            has_true_clock=clock_is_true,
        )

    def starts(self) -> int:
        """Return how many calls of tools were begun."""
        return len(self.begun())

    def begun(self) -> list[float]:
        """Return when each of them was."""
        self._begun += [line["at"] for line in self._ledger.news() if line["event"] == "start"]
        return self._begun


@asynccontextmanager
async def fleet(
    folder: Path,
    direct: str,
    *,
    url: str | None = None,
    section: JsonObject | None = None,
    listens: bool = True,
    settings: JsonObject | None = None,
) -> AsyncGenerator[Fleet]:
    """Write a project with queues of its own, and let everybody outside listen; daemons are ended
    afterwards.
    """
    own = uuid4().hex[:10]
    names: JsonObject = {
        "exchange": f"{own}.topic",
        "dead_letter_exchange": f"{own}.dlx",
        "queues": {
            name: f"{own}.{name}" for name in ("intake", "packages", "decisions", "status", "dead")
        },
        "validation": {"iterations": 2},
    }
    write_workplace(folder, {**names, **(section or {})}, **(settings or {}))
    made = Fleet(folder, url or direct, direct, names)
    await made.declare()
    try:
        async with anyio.create_task_group() as outside:
            if listens:
                outside.start_soon(made.listen)
            yield made
            outside.cancel_scope.cancel()
    finally:
        made.close()


async def until(is_so: Callable[[], bool], seconds: float = PATIENCE) -> None:
    """Wait for something that no event tells of."""
    with anyio.fail_after(seconds):
        while not is_so():  # noqa: ASYNC110 - another process makes it so
            await anyio.sleep(0.02)


def _raise_own(fault: BaseException) -> None:
    """Raise a cancellation that is this task's own; the library makes others."""
    task = asyncio.current_task()
    if isinstance(fault, asyncio.CancelledError) and task is not None and task.cancelling():
        raise fault
