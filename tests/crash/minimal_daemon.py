"""The daemon's own parts, one after another in one task, over a broker in a folder.

The *little daemon* takes in, works, and sends what it has to tell until nothing is left to be done;
then whoever is outside answers what was asked, and it goes on. Nothing in it is a stand-in but the
broker, and it does the same in every run, so that its n-th step is always the same one.
"""

from __future__ import annotations

import io
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from tests.crash.crash_points import reach
from tests.crash.crash_project import EXCHANGE, INTAKE, KEY, SENT_AT, VALIDATOR, settings_of
from tests.crash.file_broker import FileBroker, Sent
from wavewright.config.settings import Settings
from wavewright.engine.run.cancellation import CancellationToken
from wavewright.engine.run.services import open_services
from wavewright.engine.service.bus.faults import BrokerHealth, ignore_event
from wavewright.engine.service.bus.relay import Relay
from wavewright.engine.service.daemon.budgets import DailyBudget
from wavewright.engine.service.daemon.dispatcher import Dispatcher, MessageHandler
from wavewright.engine.service.daemon.job_runner import JobRunner
from wavewright.engine.service.daemon.model_circuit import ModelCircuitBreaker
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.job_store import rules
from wavewright.engine.service.job_store.outbox_writes import OutboxWrites
from wavewright.engine.service.job_store.records import JobId, OutgoingMessage
from wavewright.engine.service.job_store.store import JobStore
from wavewright.engine.service.job_store.stores import Stores
from wavewright.engine.service.messages.delivery import acceptance_rules
from wavewright.engine.service.messages.encoding import MessageAddress, encode
from wavewright.engine.service.messages.models import (
    UserDecisionResponse,
    ValidationResult,
    message_id,
)
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.engine.service.operations.monitoring import Telemetry
from wavewright.executor.events.types import Event
from wavewright.executor.run.kept_answers import JournalReplayCache
from wavewright.executor.sqlite.journal import SqliteBudgetStore, SqliteJournal
from wavewright.executor.store.journal import Journal
from wavewright.planner.types import RunId
from wavewright.tools.message_contract import MessageContract
from wavewright.tools.workers.services import Services

# Nobody moves the clock of a little daemon on, so it begins a job again at once after each death.
rules.ATTEMPT_PAUSES = ()

MOST_ROUNDS = 2_000
"""Turns after which a daemon that finds something to do each time is going round in circles."""


OUTBOX_LEASE = 0.01


class World(Protocol):
    """Whoever is outside and reads what the daemon sends."""

    def answer(self, sent: Sequence[Sent]) -> list[OutgoingMessage]:
        """Return what is sent to the daemon because of what it has sent."""
        ...


@dataclass
class LittleDaemon:
    """The parts of one daemon."""

    stores: Stores
    broker: FileBroker
    job_runner: JobRunner
    intake: MessageHandler
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
        await self.intake.handle(delivery)
        return True

    async def work(self) -> bool:
        """Work on one job as far as it goes; say whether there was one."""
        job = await self.stores.jobs.claim(project=self.job_runner.reporter.state_reports)
        reach("after claim")
        if job is None:
            return False
        await self.job_runner.run_job(job, CancellationToken())
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
        said = [
            message for message in world.answer(self.broker.sent()) if message.message not in known
        ]
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
        self, run: RunId, events: Sequence[Event], alongside: OutboxWrites | None = None
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

    def __init__(
        self, committed: Callable[[], Coroutine[Any, Any, None]], written: Awaitable[None]
    ) -> None:
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
        open_services(
            settings, opened_stores.budget_store, JournalReplayCache(_pointed(opened_stores), clock)
        ) as services,
    ):
        yield assemble(settings, opened_stores, services, broker, clock)


@asynccontextmanager
async def _stores(settings: Settings, clock: Callable[[], float]) -> AsyncGenerator[Stores]:
    """Open the stores, with leases of the outbox that pass before anybody waits for them."""
    async with (
        SqliteJournal(settings.journal, clock=clock) as journal,
        SqliteBudgetStore(settings.journal, settings.budgets, clock) as budget_store,
    ):
        yield Stores(journal, JobStore(journal, outbox_lease=OUTBOX_LEASE), budget_store)


@asynccontextmanager
async def _given(stores: Stores) -> AsyncGenerator[Stores]:
    yield stores


def assemble(
    settings: Settings,
    stores: Stores,
    services: Services,
    broker: FileBroker,
    clock: Callable[[], float],
) -> LittleDaemon:
    """Put a daemon together of its parts."""
    section = settings.daemon
    watch = Telemetry(
        StructuredLog(agent=section.agent, domain="crash", level="error", stream=io.StringIO())
    )
    job_runner = JobRunner(
        settings=settings,
        journal=_pointed(stores),
        jobs=stores.jobs,
        services=services,
        reporter=Reporter(section),
        watch=watch,
        daily_budget=DailyBudget(clock, lambda _reason, _until: None),
        model_circuit=ModelCircuitBreaker(clock, lambda _run: None),
        wake_relay=lambda: None,
        clock=clock,
    )
    rules = acceptance_rules(section, settings.hmac_key, MessageContract())
    intake = MessageHandler(broker, job_runner, rules, Dispatcher(job_runner, 1))  # type: ignore[arg-type]
    relay = Relay(broker, "daemon", ignore_event, BrokerHealth(ignore_event))  # type: ignore[arg-type]
    return LittleDaemon(stores, broker, job_runner, intake, relay)


@dataclass(frozen=True)
class Agreeing:
    """Approves of everything and accepts every package, in the same words each time."""

    accepts: bool = True

    intake: str = INTAKE
    at: float = SENT_AT

    def answer(self, sent: Sequence[Sent]) -> list[OutgoingMessage]:
        """Return answers and verdicts to whatever was sent, in its order."""
        return [said for message in sent if (said := self._reply(message)) is not None]

    def _reply(self, message: Sent) -> OutgoingMessage | None:
        payload = message.body["payload"]
        assert isinstance(payload, dict)
        correlation = str(message.body["correlation_id"])
        if message.kind == "user_decision_required":
            id_ = str(payload["decision_id"])
            return self._said(
                "ui_backend",
                UserDecisionResponse(decision_id=id_, choice="approve"),
                correlation,
                id_,
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
        self,
        source: str,
        payload: UserDecisionResponse | ValidationResult,
        correlation: str,
        about: str,
    ) -> OutgoingMessage:
        return encode(
            payload,
            MessageAddress(source, "wavewright", EXCHANGE, self.intake, KEY.encode()),
            message=message_id(JobId(correlation), 0, "said", about),
            correlation=correlation,
            at=self.at,
        )
