"""The daemon's own parts, one after another in one task, over a broker in a folder.

The *little daemon* takes in, works, and sends what it has to tell until nothing is left to be done; then whoever is
outside answers what was asked, and it goes on. Nothing in it is a stand-in but the broker, and it does the same in
every run, so that its n-th step is always the same one.
"""

from __future__ import annotations

import io
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from tests.crash.file_broker import FileBroker, Sent
from tests.crash.points import reach
from tests.crash.workplace import EXCHANGE, INTAKE, KEY, SENT_AT, VALIDATOR, settings_of
from wavewright.config.settings import Settings
from wavewright.engine.bus.notices import unnoticed
from wavewright.engine.bus.relay import Relay
from wavewright.engine.bus.trouble import Trouble
from wavewright.engine.daemon.day import Day
from wavewright.engine.daemon.intake import Intake
from wavewright.engine.daemon.model_circuit import ModelCircuit
from wavewright.engine.daemon.reports import Reporter
from wavewright.engine.daemon.slots import Dispatcher
from wavewright.engine.daemon.work import Workshop
from wavewright.engine.messages.encoding import Address, encode
from wavewright.engine.messages.ids import message_id
from wavewright.engine.messages.requests import UserDecisionResponse, ValidationResult
from wavewright.engine.messages.rules import rules_of
from wavewright.engine.operations.logs import Log
from wavewright.engine.operations.watch import Watch
from wavewright.engine.services import OpenServices, open_services
from wavewright.engine.stopping import Stopper
from wavewright.executor.events import Event
from wavewright.executor.job_store.records import Alongside, JobId, Outgoing
from wavewright.executor.job_store.sqlite import SqliteJobStore
from wavewright.executor.journal import Journal
from wavewright.executor.journal_sqlite import SqliteJournal
from wavewright.executor.memory import RunMemory
from wavewright.executor.purse_sqlite import SqlitePurse
from wavewright.executor.stores import Stores
from wavewright.planner.types import RunId

MOST_ROUNDS = 200
"""Turns after which a daemon that finds something to do each time is going round in circles."""


OUTBOX_LEASE = 0.01


class World(Protocol):
    """Whoever is outside and reads what the daemon sends."""

    def answer(self, sent: Sequence[Sent]) -> list[Outgoing]:
        """Return what is sent to the daemon because of what it has sent."""
        ...


@dataclass
class LittleDaemon:
    """The parts of one daemon."""

    stores: Stores
    broker: FileBroker
    workshop: Workshop
    intake: Intake
    relay: Relay

    async def serve(self, world: World) -> None:
        """Work until nothing is left to be done and nobody outside has anything to say."""
        for _ in range(MOST_ROUNDS):
            if await self.take_in() or await self.work() or await self.send():
                continue
            if not self._hear(world):
                return
        raise AssertionError(f"it still has something to do after {MOST_ROUNDS} turns")

    async def take_in(self, number: int = 0) -> bool:
        """Take one message in; say whether there was one."""
        delivery = self.broker.take(number)
        if delivery is None:
            return False
        reach("taken")
        await self.intake.take_in(delivery)
        return True

    async def work(self) -> bool:
        """Work on one job as far as it goes; say whether there was one."""
        job = await self.stores.jobs.claim(tell=self.workshop.reporter.tell)
        reach("after claim")
        if job is None:
            return False
        await self.workshop.work_on(job, Stopper())
        reach("after work")
        return True

    async def send(self) -> bool:
        """Send what lies in the outbox; say whether there was anything."""
        found, _ = await self.relay.send_batch(self.stores.jobs)
        if found:
            reach("after marking")
        return bool(found)

    def _hear(self, world: World) -> bool:
        known = self.broker.known()
        said = [message for message in world.answer(self.broker.sent()) if message.message not in known]
        for message in said:
            self.broker.put(message)
        return bool(said)


class _PointedJournal:
    """The journal, with a point before and after each commit."""

    def __init__(self, stores: Stores) -> None:
        self._journal = stores.journal

    def __getattr__(self, name: str) -> object:
        return getattr(self._journal, name)

    def append(
        self, run: RunId, events: Sequence[Event], alongside: Alongside | None = None
    ) -> Awaitable[None]:
        reach("before commit")
        written = self._journal.append(run, events, alongside)

        async def committed() -> None:
            await written
            reach("after commit")

        return _Awaited(committed, written)


def _pointed(stores: Stores) -> Journal:
    return cast("Journal", _PointedJournal(stores))


class _Awaited:
    """What an append returns, which may be awaited or not."""

    def __init__(self, committed: Callable[[], Coroutine[Any, Any, None]], written: Awaitable[None]) -> None:
        self._committed = committed
        self._written = written

    def __await__(self) -> Generator[Any, Any, None]:
        return self._committed().__await__()


@asynccontextmanager
async def little_daemon(
    folder: Path,
    *,
    settings: Settings | None = None,
    stores: Stores | None = None,
    broker: FileBroker | None = None,
    clock: Callable[[], float] = time.time,
) -> AsyncGenerator[LittleDaemon]:
    """Open a daemon on a project's folder, and close it in good order."""
    settings = settings or settings_of(folder)
    broker = broker or FileBroker(folder / "broker")
    async with (
        _given(stores) if stores is not None else _stores(settings, clock) as opened_stores,
        open_services(settings, opened_stores.purse, RunMemory(_pointed(opened_stores), clock)) as opened,
    ):
        yield assemble(settings, opened_stores, opened, broker, clock)


@asynccontextmanager
async def _stores(settings: Settings, clock: Callable[[], float]) -> AsyncGenerator[Stores]:
    """Open the stores, with leases of the outbox that pass before anybody waits for them."""
    async with (
        SqliteJournal(settings.journal, clock=clock) as journal,
        SqlitePurse(settings.journal, settings.budgets, clock) as purse,
    ):
        yield Stores(journal, SqliteJobStore(journal, clock=clock, outbox_lease=OUTBOX_LEASE), purse)


@asynccontextmanager
async def _given(stores: Stores) -> AsyncGenerator[Stores]:
    yield stores


def assemble(
    settings: Settings, stores: Stores, opened: OpenServices, broker: FileBroker, clock: Callable[[], float]
) -> LittleDaemon:
    """Put a daemon together of its parts."""
    section = settings.daemon
    watch = Watch(Log(agent=section.agent, domain="crash", level="error", stream=io.StringIO()))
    workshop = Workshop(
        settings=settings,
        journal=_pointed(stores),
        jobs=stores.jobs,
        opened=opened,
        reporter=Reporter(section),
        watch=watch,
        day=Day(clock, lambda _reason, _until: None),
        circuit=ModelCircuit(clock, lambda _run: None),
        nudge=lambda: None,
        clock=clock,
    )
    intake = Intake(broker, workshop, rules_of(section, settings.hmac_key), Dispatcher(workshop, 1))  # type: ignore[arg-type]
    relay = Relay(broker, "daemon", unnoticed, Trouble(unnoticed))  # type: ignore[arg-type]
    return LittleDaemon(stores, broker, workshop, intake, relay)


@dataclass(frozen=True)
class Agreeing:
    """Approves of everything and accepts every package, in the same words each time."""

    accepts: bool = True

    intake: str = INTAKE
    at: float = SENT_AT

    def answer(self, sent: Sequence[Sent]) -> list[Outgoing]:
        """Return answers and verdicts to whatever was sent, in its order."""
        return [said for message in sent if (said := self._reply(message)) is not None]

    def _reply(self, message: Sent) -> Outgoing | None:
        payload = message.body["payload"]
        assert isinstance(payload, dict)
        correlation = str(message.body["correlation_id"])
        if message.kind == "user_decision_required":
            id_ = str(payload["decision_id"])
            return self._said(
                "ui_backend", UserDecisionResponse(decision_id=id_, choice="approve"), correlation, id_
            )
        if message.kind == "package" and self.accepts:
            verdict = ValidationResult(
                job_id=str(payload["job_id"]),
                package_id=str(payload["package_id"]),
                accepted=True,
                iteration=int(str(payload["iteration"])),
                feedback=[],
            )
            return self._said(VALIDATOR, verdict, correlation, str(payload["package_id"]))
        return None

    def _said(
        self, source: str, payload: UserDecisionResponse | ValidationResult, correlation: str, about: str
    ) -> Outgoing:
        return encode(
            payload,
            Address(source, "world_lore_researcher", EXCHANGE, self.intake, KEY.encode()),
            message=message_id(JobId(correlation), 0, "said", about),
            correlation=correlation,
            at=self.at,
        )
