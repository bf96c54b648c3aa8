"""The daemon: everything opened, everything started, and everything wound down in its order.

Messages come in by the *intake*, the *dispatcher* begins jobs in slots, the *relay* sends what they tell. Nothing of
it is kept in memory that would be missed: whoever starts next on the same store goes on where this one ended.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final, cast

import anyio
from pydantic import JsonValue

from wavewright.config.daemon_settings import DaemonSection
from wavewright.config.redaction import Redactor, known_secrets
from wavewright.config.settings import Settings
from wavewright.engine.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.bus.notices import Notice, NoticeName
from wavewright.engine.bus.topology import topology_of
from wavewright.engine.daemon.day import Day, PausingPurse, instant, is_spent
from wavewright.engine.daemon.decisions import Renewal
from wavewright.engine.daemon.forgetting import Forgetting, Retention
from wavewright.engine.daemon.intake import Intake
from wavewright.engine.daemon.loop_watch import LoopWatch
from wavewright.engine.daemon.model_circuit import CircuitWatch, ModelCircuit, State
from wavewright.engine.daemon.reports import Reporter
from wavewright.engine.daemon.sent import WatchedOutbox
from wavewright.engine.daemon.slots import Dispatcher
from wavewright.engine.daemon.stopping import Stopping
from wavewright.engine.daemon.work import Workshop
from wavewright.engine.messages.rules import rules_of
from wavewright.engine.operations.budget_watch import WarningPurse
from wavewright.engine.operations.health import serve_health
from wavewright.engine.operations.watch import Watch
from wavewright.engine.services import open_services
from wavewright.engine.version import __version__
from wavewright.executor.memory import RunMemory
from wavewright.executor.stores import Stores, open_stores
from wavewright.tools.models.choosing import configured_models

GRACE_SECONDS: Final = 3.0
"""For calls that are under way to come to their end, so that nobody has to ask whether they took effect."""
DRAIN_SECONDS: Final = 3.5
"""For jobs to be written down after they were stopped; what has not ended by then is taken up by whoever is next."""
FLUSH_SECONDS: Final = 2.0
"""For the last messages to go out; what has not stays in the outbox."""
LOOK_SECONDS: Final = 2.0
"""How often metrics and health are brought up to date."""
LAG_LOOKS: Final = 30
"""The longest lag of so many looks is told: a minute's, or whoever asks less often would miss it."""

_LOUD: Final = frozenset(
    {
        "broker_away",
        "broker_lost",
        "broker_misconfigured",
        "broker_unencrypted",
        "message_buried",
        "message_returned",
        "message_refused",
        "outbox_unreachable",
        "rights_missing",
    }
)


def bus_settings_of(section: DaemonSection, name: str) -> BusSettings:
    """Return what the bus must know, under the name that the broker shows."""
    assert section.amqp_url is not None, "checked before"
    return BusSettings(section.amqp_url, topology_of(section), name=name)


def daemon_bus_settings(section: DaemonSection) -> BusSettings:
    """Return what the daemon's own bus must know: it must be able to write, too."""
    return replace(bus_settings_of(section, section.agent), checks_writing=True)


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
        PortTakenError: health cannot be served where the settings say.
    """
    try:
        await _serve(settings, watch, stopping, on_ready, clock)
    except BaseExceptionGroup as faults:
        # Whoever started the daemon knows its faults by name, not the group that they happened in.
        raise _first(faults) from None


async def _serve(
    settings: Settings,
    watch: Watch,
    stopping: Stopping,
    on_ready: Callable[[], None],
    clock: Callable[[], float],
) -> None:
    section = settings.daemon

    def tell_spent(reason: str, until: float) -> None:
        at = instant(until)
        watch.log.say(
            "budget_exhausted", "warning", budget_type="day", action="pause", until=at, message=reason
        )
        watch.health.bad("budget", f"that of the day is spent; work goes on at {at}")

    def tell_begun() -> None:
        watch.log.say("budget_renewed", budget_type="day")
        watch.health.good("budget")

    day = Day(clock, tell_spent, tell_begun)
    own = configured_models(settings)
    circuit = ModelCircuit(clock, day.stop, _circuit_watch(watch, own), own)
    for part in ("broker", "store"):
        watch.health.expect(part)
    async with (
        _answering(watch, section.health),
        open_stores(settings, clock=clock) as stores,
        open_services(
            settings,
            PausingPurse(WarningPurse(stores.purse, watch.log, clock), day),
            RunMemory(stores.journal),
            circuit,
        ) as opened,
        open_bus(daemon_bus_settings(section), _notice_of(watch)) as bus,
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
            circuit=circuit,
            nudge=bus.nudge,
            clock=clock,
        )
        watch.log.say("daemon_started", "info", version=__version__, **_summary(settings))
        if opened.purse is not None and await is_spent(stores.purse):
            day.spend("nothing is left of the day's budget", None)
        on_ready()
        try:
            await _Rooms(workshop, stores, bus).run(stopping)
        finally:
            watch.log.say("daemon_shutdown", reason=stopping.reason or "a fault")


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
        renewal = Renewal(self.stores.jobs, self.stores.journal, self.workshop.clock, self.workshop.on_store)
        forgetting = Forgetting(
            self.stores.jobs, section.remembered_for, self.workshop.clock, self.workshop.on_store
        )
        retention = Retention(
            self.stores.journal,
            self.workshop.settings,
            self.workshop.clock,
            self.workshop.watch.log,
            self.workshop.on_store,
        )
        loop_watch = LoopWatch(
            self.workshop.watch.log,
            section.stall_limit,
            lambda: [*map(str, dispatcher.jobs)],
            owns_process=stopping.owns_process,
        )
        ended, relayed = anyio.Event(), anyio.Event()
        inward, outward = anyio.CancelScope(), anyio.CancelScope()

        async def work() -> None:
            await dispatcher.run()
            ended.set()

        async def relay() -> None:
            await _within(outward, lambda: self.bus.relay(outbox))
            relayed.set()

        async with anyio.create_task_group() as group:
            group.start_soon(loop_watch.run)
            group.start_soon(_within, inward, intake.run)
            group.start_soon(renewal.run)
            group.start_soon(forgetting.run)
            group.start_soon(retention.run)
            group.start_soon(work)
            group.start_soon(relay)
            if (models := self.workshop.opened.services.models) is not None:
                group.start_soon(self.workshop.circuit.run, models)
            group.start_soon(self._look, dispatcher)
            group.start_soon(self.workshop.watch.store.run, self.stores.jobs.count_states)
            await stopping.asked()
            self.workshop.watch.health.bad("daemon", f"it is stopping: {stopping.reason}")
            self.workshop.watch.log.say("daemon_stopping", reason=stopping.reason, running=dispatcher.running)
            inward.cancel()
            await _wind_down(dispatcher, ended)
            outward.cancel()
            with anyio.move_on_after(FLUSH_SECONDS):
                # It still marks what the broker has confirmed, which would go out twice otherwise.
                await relayed.wait()
                await self.bus.flush(outbox)
            group.cancel_scope.cancel()

    async def _look(self, dispatcher: Dispatcher) -> None:
        """Keep metrics and health up to date."""
        watch, lags = self.workshop.watch, deque([0.0], maxlen=LAG_LOOKS)
        slots = self.workshop.settings.daemon.slots
        while True:
            fault = self.bus.fault
            watch.metrics.part("broker", works=fault is None)
            if fault is None:
                watch.health.good("broker")
            else:
                watch.health.bad("broker", fault)
            watch.metrics.slots(busy=dispatcher.running, free=slots - dispatcher.running)
            watch.metrics.loop(lag=max(lags), is_paused=self.workshop.day.until is not None)
            due = anyio.current_time() + LOOK_SECONDS
            await anyio.sleep(LOOK_SECONDS)
            lags.append(max(0.0, anyio.current_time() - due))


async def _wind_down(dispatcher: Dispatcher, ended: anyio.Event) -> None:
    """Let calls that are under way come to their end, then stop what is left of the jobs."""
    dispatcher.wind_down()
    with anyio.move_on_after(GRACE_SECONDS):
        await ended.wait()
    dispatcher.stop()
    with anyio.move_on_after(DRAIN_SECONDS):
        await ended.wait()


@asynccontextmanager
async def _answering(watch: Watch, place: str | None) -> AsyncGenerator[None]:
    """Say over HTTP how things are while the block runs, where the settings name a place for it."""
    if place is None:
        yield
        return
    async with serve_health(watch.health, watch.metrics, place) as port:
        watch.log.say("health_served", place=f"{place.rpartition(':')[0]}:{port}")
        yield


def _notice_of(watch: Watch) -> Notice:
    """Return what is told of what happens at the broker."""

    def notice(name: NoticeName, fields: Mapping[str, JsonValue], /) -> None:
        watch.log.say(name, "warning" if name in _LOUD else "info", **fields)
        if name == "message_buried":
            watch.metrics.buried(str(fields["kind"]))
        elif name == "message_returned":
            watch.metrics.undeliverable()

    return notice


def _circuit_watch(watch: Watch, own: Collection[str]) -> CircuitWatch:
    """Return what is told of models that cannot be asked; the daemon's own make it not ready."""

    def tell(model: str, state: State, reason: str, until: float) -> None:
        watch.metrics.model_circuit(model, state)
        if state == "closed":
            watch.health.good("model")
            watch.log.say("model_circuit_closed", model=model)
        elif state == "open":
            at = instant(until)
            if model in own:
                watch.health.bad("model", f"{reason}; {model} is tried again at {at}")
            watch.log.say("model_circuit_opened", "warning", model=model, message=reason, until=at)

    return tell


def _first(fault: BaseException) -> BaseException:
    while isinstance(fault, BaseExceptionGroup):
        fault = cast("BaseExceptionGroup[BaseException]", fault).exceptions[0]
    return fault


async def _within(scope: anyio.CancelScope, work: Callable[[], Awaitable[None]]) -> None:
    with scope:
        await work()
