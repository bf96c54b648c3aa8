"""The daemon: everything opened, everything started, and everything wound down in its order.

Messages come in by the *intake*, the *dispatcher* begins jobs in slots, the *relay* sends what they tell. Nothing of
it is kept in memory that would be missed: whoever starts next on the same store goes on where this one ended.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

import anyio
from pydantic import JsonValue

from wavewright.config.daemon_settings import DaemonSection
from wavewright.config.redaction import Redactor, known_secrets
from wavewright.config.settings import Settings
from wavewright.engine.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.bus.notices import NoticeName
from wavewright.engine.bus.topology import topology_of
from wavewright.engine.daemon.day import Day, PausingPurse
from wavewright.engine.daemon.intake import Intake
from wavewright.engine.daemon.reports import Reporter
from wavewright.engine.daemon.sent import WatchedOutbox
from wavewright.engine.daemon.slots import Dispatcher
from wavewright.engine.daemon.stopping import Stopping
from wavewright.engine.daemon.work import Workshop
from wavewright.engine.messages.rules import rules_of
from wavewright.engine.operations.watch import Watch
from wavewright.engine.services import open_services
from wavewright.engine.version import __version__
from wavewright.executor.memory import RunMemory
from wavewright.executor.stores import Stores, open_stores

DRAIN_SECONDS: Final = 6.0
"""For jobs to be written down after they were stopped; what has not ended by then is taken up by whoever is next."""
FLUSH_SECONDS: Final = 2.0
"""For the last messages to go out; what has not stays in the outbox."""
LOOK_SECONDS: Final = 2.0
"""How often metrics and health are brought up to date."""

_LOUD: Final = frozenset({"broker_lost", "message_returned", "message_refused", "outbox_unreachable"})


def bus_settings_of(section: DaemonSection, name: str) -> BusSettings:
    """Return what the bus must know, under the name that the broker shows."""
    assert section.amqp_url is not None, "checked before"
    return BusSettings(section.amqp_url, topology_of(section), name=name)


async def run_daemon(
    settings: Settings,
    watch: Watch,
    stopping: Stopping,
    *,
    on_ready: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.time,
) -> None:
    """Take jobs in and work on them until the daemon is asked to stop.

    Args:
        settings: The project's, checked.
        watch: Log, metrics, health and traces.
        stopping: Whoever asks it to stop.
        on_ready: Called once everything is open and jobs are taken.
        clock: Seconds since the epoch.

    Raises:
        BusError: there is no broker, or it cannot be used like this.
        JournalError: the store cannot be opened.
        ModelConfigError: the configured model cannot be asked.
    """
    section = settings.daemon

    def notice(name: NoticeName, fields: Mapping[str, JsonValue]) -> None:
        watch.log.say(name, "warning" if name in _LOUD else "info", **fields)

    def tell_spent(reason: str, until: float) -> None:
        watch.log.say(
            "budget_exhausted", "warning", budget_type="day", action="pause", until=until, message=reason
        )

    day = Day(clock, tell_spent)
    async with (
        open_stores(settings, clock=clock) as stores,
        open_services(settings, PausingPurse(stores.purse, day), RunMemory(stores.journal)) as opened,
        open_bus(bus_settings_of(section, section.agent), notice) as bus,
    ):
        workshop = Workshop(
            settings=settings,
            journal=stores.journal,
            jobs=stores.jobs,
            opened=opened,
            reporter=Reporter(
                section,
                None if settings.hmac_key is None else settings.hmac_key.encode(),
                Redactor(known_secrets(settings, os.environ)),
            ),
            watch=watch,
            day=day,
            nudge=bus.nudge,
            clock=clock,
        )
        watch.log.say("daemon_started", "info", version=__version__, **_summary(settings))
        on_ready()
        try:
            await _Rooms(workshop, stores, bus).run(stopping)
        except BaseExceptionGroup as faults:
            # Whoever started the daemon knows its faults by name, not the group that they happened in.
            raise _first(faults) from None
        watch.log.say("daemon_shutdown", reason=stopping.reason)


def _summary(settings: Settings) -> dict[str, JsonValue]:
    section = settings.daemon
    return {
        "slots": section.slots,
        "intake": section.queues.intake,
        "store": "postgresql" if settings.journal_url is not None else str(settings.journal),
        "goal_template": section.goal_template,
        "model": settings.model,
        "is_signed": settings.hmac_key is not None,
        "identities": [*sorted(section.identities)],
    }


@dataclass(frozen=True, slots=True)
class _Rooms:
    """What goes on at the same time."""

    workshop: Workshop
    stores: Stores
    bus: Bus

    async def run(self, stopping: Stopping) -> None:
        """Work until somebody asks to stop, then wind down: intake, jobs, messages."""
        section = self.workshop.settings.daemon
        dispatcher = Dispatcher(self.workshop, section.slots)
        intake = Intake(
            self.bus, self.workshop, rules_of(section, self.workshop.settings.hmac_key), dispatcher
        )
        outbox = WatchedOutbox(self.stores.jobs, self.workshop.watch)
        ended = anyio.Event()

        async def work() -> None:
            await dispatcher.run()
            ended.set()

        async with anyio.create_task_group() as group:
            inward, outward = anyio.CancelScope(), anyio.CancelScope()
            group.start_soon(_within, inward, intake.run)
            group.start_soon(work)
            group.start_soon(_within, outward, lambda: self.bus.relay(outbox))
            group.start_soon(self._look)
            await stopping.asked()
            self.workshop.watch.log.say("daemon_stopping", reason=stopping.reason, running=dispatcher.running)
            inward.cancel()
            dispatcher.stop()
            with anyio.move_on_after(DRAIN_SECONDS):
                await ended.wait()
            outward.cancel()
            with anyio.move_on_after(FLUSH_SECONDS):
                await self.bus.flush(outbox)
            group.cancel_scope.cancel()

    async def _look(self) -> None:
        """Keep metrics and health up to date."""
        watch = self.workshop.watch
        while True:
            watch.metrics.part("broker", works=self.bus.is_up)
            if self.bus.is_up:
                watch.health.good("broker")
            else:
                watch.health.bad("broker", "there is no connection to the broker")
            await anyio.sleep(LOOK_SECONDS)


def _first(fault: BaseException) -> BaseException:
    while isinstance(fault, BaseExceptionGroup):
        fault = cast("BaseExceptionGroup[BaseException]", fault).exceptions[0]
    return fault


async def _within(scope: anyio.CancelScope, work: Callable[[], Awaitable[None]]) -> None:
    with scope:
        await work()
