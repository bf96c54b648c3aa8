"""Daemons on simulated ports: a broker in a folder, a clock that is set by hand, and deaths at any
call.

The engine, the store and the daemon's own parts are the real ones, in this process. A daemon that
*dies* makes no further call of any port from that moment on, whatever its code would still do; the
others find its owner gone.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import AsyncExitStack, closing
from pathlib import Path
from types import ModuleType
from typing import Any, cast

import pytest

from tests.crash import crash_points as points, oracle
from tests.crash.crash_project import JOURNAL, LEDGER, add_line, settings_of, write_workplace
from tests.crash.file_broker import FileBroker
from tests.crash.minimal_daemon import Agreeing, LittleDaemon, World, assemble
from wavewright.engine.run.services import open_services
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import JobId, OutgoingMessage
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.job_store.stores import Stores
from wavewright.executor.events.types import Event, ItemFinished, StepFinished
from wavewright.executor.sqlite.journal import SqliteJournal
from wavewright.planner.types import RunId
from wavewright.tools.functions import user_tools
from wavewright.tools.functions.tool import Tool

NOW = 1_780_000_100.0


class Died(BaseException):
    """A daemon is dead: nothing that it would still do is done."""


class Clock:
    """Seconds since the epoch, as somebody sets them."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        """Return the time; a little passes between two looks."""
        self.now += 0.001
        return self.now


class Life:
    """One daemon's life: how many calls of ports it has left."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.is_over = False

    def step(self) -> None:
        """Make a call of a port, or die instead."""
        if self.left is not None:
            self.left -= 1
            self.is_over = self.is_over or self.left <= 0
        if self.is_over:
            raise Died


class MortalStore:
    """A job store that only the living can call."""

    def __init__(self, jobs: JobStore, life: Life) -> None:
        self._jobs = jobs
        self._life = life

    def __getattr__(self, name: str) -> Callable[..., Awaitable[object]]:
        method = getattr(self._jobs, name)

        async def call(*arguments: Any, **named: Any) -> object:
            self._life.step()
            result = await method(*arguments, **named)
            self._life.step()
            return result

        return call


class MortalJournal:
    """A journal that only the living can write."""

    def __init__(self, journal: SqliteJournal, life: Life, ledger: Path) -> None:
        self._journal = journal
        self._life = life
        self._ledger = ledger

    def __getattr__(self, name: str) -> object:
        return getattr(self._journal, name)

    def append(
        self, run: RunId, events: Sequence[Event], alongside: OutboxWrites | None = None
    ) -> Awaitable[None]:
        self._life.step()
        keys = [
            str(event.key)
            for event in events
            if isinstance(event, StepFinished | ItemFinished) and event.status in ("ok", "empty")
        ]
        return _Committed(
            self._journal.append(run, events, alongside), self._life, keys, self._ledger
        )


class _Committed:
    def __init__(self, written: Awaitable[None], life: Life, keys: list[str], ledger: Path) -> None:
        self._written = written
        self._life = life
        self._keys = keys
        self._ledger = ledger

    def __await__(self) -> Generator[Any, Any, None]:
        yield from self._written.__await__()
        for key in self._keys:
            add_line(
                self._ledger, {"event": "journaled", "tool": "", "job": "", "key": key, "at": 0.0}
            )
        self._life.step()


class MortalBroker(FileBroker):
    """A broker that the dead cannot reach, and that loses an acknowledgement when it is told to."""

    def __init__(self, folder: Path, life: Life) -> None:
        super().__init__(folder)
        self._life = life
        self.drops_acks = False

    def settle(self, name: str) -> None:
        """Forget a message, unless the acknowledgement is lost on its way."""
        self._life.step()
        if self.drops_acks:
            self.in_hand.discard(name)
        else:
            super().settle(name)
        self._life.step()

    async def publish(self, message: Any, exchange: str, routing_key: str, timeout: float) -> None:  # noqa: ASYNC109
        """Confirm a message of the daemon's; it may die before it hears of that."""
        self._life.step()
        await super().publish(message, exchange, routing_key, timeout)
        self._life.step()


class Simulated:
    """One daemon of a simulation."""

    def __init__(
        self,
        parts: LittleDaemon,
        broker: MortalBroker,
        journal: SqliteJournal,
        life: Life,
        opened: AsyncExitStack,
    ) -> None:
        self.parts = parts
        self.broker = broker
        self.journal = journal
        self.life = life
        self.opened = opened


class Simulation:
    """A store, a broker, a clock, and the daemons on them."""

    def __init__(self, folder: Path, *, validation: int = 1) -> None:
        self.folder = folder
        self.clock = Clock()
        self.crashes = list[float]()
        self.submitted: list[JobId] = []
        write_workplace(folder, {"validation": {"iterations": validation}})
        self.settings = settings_of(folder)
        self.broker = FileBroker(folder / "broker")
        self.daemons: list[Simulated] = []
        self._runner = asyncio.Runner()
        points.at_points(lambda _name, _number: None)

    def close(self) -> None:
        """End all daemons in good order."""
        while self.daemons:
            self.run(self._end(self.daemons.pop()))
        self._runner.close()

    def run(self, work: Coroutine[object, object, Any]) -> Any:
        """Return what the work comes to."""
        return self._runner.run(work)

    # Daemons

    def start(self) -> Simulated:
        """Start one more daemon."""
        daemon: Simulated = self.run(self._open())
        self.daemons.append(daemon)
        return daemon

    async def _open(self) -> Simulated:
        opened, life = AsyncExitStack(), Life()
        journal = await opened.enter_async_context(
            SqliteJournal(self.settings.journal, clock=self.clock)
        )
        services = await opened.enter_async_context(open_services(self.settings))
        jobs = JobStore(journal, outbox_lease=0.0)
        mortal = MortalJournal(journal, life, self.folder / LEDGER)
        stores = Stores(mortal, MortalStore(jobs, life), None)  # type: ignore[arg-type]
        broker = MortalBroker(self.folder / "broker", life)
        parts = assemble(self.settings, stores, services, broker, self.clock)
        return Simulated(parts, broker, journal, life, opened)

    def act(
        self,
        daemon: Simulated,
        work: Coroutine[object, object, bool],
        *,
        dies_after: int | None = None,
    ) -> bool:
        """Let a daemon do something, and die after so many calls where a number is given."""
        daemon.life.left = dies_after
        try:
            done: bool = self.run(work)
        except BaseException as fault:
            if not daemon.life.is_over or not _is_death(fault):
                raise
            done = True
        if daemon.life.is_over:
            self.kill(daemon)
        daemon.life.left = None
        return done

    def kill(self, daemon: Simulated) -> None:
        """End a daemon as `kill -9` would: it says nothing to anybody, and the others find it gone."""
        self.daemons.remove(daemon)
        daemon.life.is_over = True
        token = daemon.journal.store.token
        daemon.journal.store.held.clear()  # so that closing gives nothing up
        self.run(self._end(daemon))
        self.crashes.append(time.time())
        with closing(sqlite3.connect(self.folder / JOURNAL, timeout=10)) as file, file:
            # As if its process id had gone to a later program: this one cannot die.
            file.execute("UPDATE run SET process_start = 'before' WHERE owner = ?", (token,))

    async def _end(self, daemon: Simulated) -> None:
        await daemon.opened.aclose()

    # What is outside

    def submit(self, job: JobId, message: OutgoingMessage) -> None:
        """Have the broker confirm a request."""
        self.broker.put(message)
        if job not in self.submitted:
            self.submitted.append(job)

    def hear(self) -> list[OutgoingMessage]:
        """Return what people and the validator would say now and have not said."""
        known = self.broker.known()
        return [said for said in Agreeing().answer(self.broker.sent()) if said.message not in known]

    def settle(self, world: World | None = None) -> None:
        """Let everything come to its end, with one daemon that nothing happens to."""
        for daemon in self.daemons[:]:
            self.run(self._end(daemon))
            self.daemons.remove(daemon)
        self.clock.now = max(self.clock.now, NOW) + 1_000.0
        daemon = self.start()
        self.run(daemon.parts.serve(world or Agreeing()))

    # What is seen

    def found(self) -> oracle.Findings:
        """Return what can be seen now."""
        sent = [
            oracle.Message(one.message, one.kind, one.sha256, one.body)
            for one in self.broker.sent()
        ]
        return oracle.look(
            self.folder,
            self.submitted,
            sent,
            self.broker.dead(),
            crashes=self.crashes,
            has_true_clock=False,
        )

    def broken_so_far(self) -> list[str]:
        """Return what is broken already, leaving out what may still come right."""
        return [
            found
            for found in oracle.violations(self.found())
            if not found.startswith(("I13", "I1:"))
        ]


def _is_death(fault: BaseException) -> bool:
    if isinstance(fault, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", fault)
        return any(_is_death(one) for one in group.exceptions)
    return isinstance(fault, Died) or any(
        _is_death(cause) for cause in (fault.__cause__, fault.__context__) if cause is not None
    )


def remember_tools(patch: pytest.MonkeyPatch) -> None:
    """Read a project's tools once: they are the same in every run, and most of what a short run
    takes.
    """
    read = user_tools._tools_of  # pyright: ignore[reportPrivateUsage]
    known = dict[str, list[Tool]]()

    def tools_of(module: ModuleType, entry: user_tools.UserModule) -> list[Tool]:
        place = str(module.__file__)
        if place not in known:
            known[place] = read(module, entry)
        return known[place]

    patch.setattr(user_tools, "_tools_of", tools_of)
