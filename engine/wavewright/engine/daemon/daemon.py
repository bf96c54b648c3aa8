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

from wavewright.config.redaction import Redactor, known_secrets
from wavewright.config.sections import DaemonSection
from wavewright.config.settings import Settings
from wavewright.engine.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.bus.health import BrokerEvent, BrokerEventHandler
from wavewright.engine.bus.topology import topology_of
from wavewright.engine.daemon.daily_budget import (
    DailyBudget,
    PausingBudgetStore,
    format_instant,
    is_daily_budget_spent,
)
from wavewright.engine.daemon.dispatcher import Dispatcher
from wavewright.engine.daemon.job_runner import JobRunner
from wavewright.engine.daemon.maintenance import ApprovalRenewal, MessageIdRetention, RunRetention
from wavewright.engine.daemon.message_handler import MessageHandler
from wavewright.engine.daemon.model_circuit import CircuitListener, CircuitState, ModelCircuitBreaker
from wavewright.engine.daemon.process import LoopWatchdog, ShutdownRequest
from wavewright.engine.daemon.reports import Reporter
from wavewright.engine.messages.contract import message_contract
from wavewright.engine.messages.rules import acceptance_rules
from wavewright.engine.operations.health import serve_health
from wavewright.engine.operations.monitoring import Telemetry, WarningBudgetStore
from wavewright.engine.pipeline.services import open_services
from wavewright.engine.pipeline.version import __version__
from wavewright.executor.run.reuse import JournalReplayCache
from wavewright.executor.stores import Stores, open_stores
from wavewright.tools.models.endpoints import configured_models

GRACE_SECONDS: Final = 3.0
"""For calls that are under way to come to their end, so that nobody has to ask whether they took effect."""
DRAIN_SECONDS: Final = 3.5
"""For jobs to be written down after they were stopped; what has not ended by then is taken up by whoever is next."""
FLUSH_SECONDS: Final = 2.0
"""For the last messages to go out; what has not stays in the outbox."""
METRICS_SECONDS: Final = 2.0
"""How often metrics and health are brought up to date."""
LAG_SAMPLES: Final = 30
"""The longest lag of so many looks is told: a minute's, or whoever asks less often would miss it."""

_WARNING_EVENTS: Final = frozenset(
    {
        "broker_away",
        "broker_lost",
        "broker_misconfigured",
        "broker_unencrypted",
        "message_dead_lettered",
        "message_returned",
        "message_refused",
        "outbox_unreachable",
        "rights_missing",
    }
)


def bus_settings(section: DaemonSection, name: str) -> BusSettings:
    """Return what the bus must know, under the name that the broker shows."""
    assert section.amqp_url is not None, "checked before"
    return BusSettings(section.amqp_url, topology_of(section), name=name)


def daemon_bus_settings(section: DaemonSection) -> BusSettings:
    """Return what the daemon's own bus must know: it must be able to write, too."""
    return replace(bus_settings(section, section.agent), checks_write_rights=True)


async def run_daemon(
    settings: Settings,
    watch: Telemetry,
    stopping: ShutdownRequest,
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
        raise _first_error(faults) from None


async def _serve(
    settings: Settings,
    watch: Telemetry,
    stopping: ShutdownRequest,
    on_ready: Callable[[], None],
    clock: Callable[[], float],
) -> None:
    section = settings.daemon

    def tell_spent(reason: str, until: float) -> None:
        at = format_instant(until)
        watch.log.write(
            "budget_exhausted", "warning", budget_type="day", action="pause", until=at, message=reason
        )
        watch.health.mark_failing("budget", f"that of the day is spent; work goes on at {at}")

    def tell_begun() -> None:
        watch.log.write("budget_renewed", budget_type="day")
        watch.health.mark_working("budget")

    day = DailyBudget(clock, tell_spent, tell_begun)
    own = configured_models(settings)
    circuit = ModelCircuitBreaker(clock, day.stop_run, _circuit_listener(watch, own), own)
    for part in ("broker", "store"):
        watch.health.expect(part)
    async with (
        _health_served(watch, section.health),
        open_stores(settings, clock=clock) as stores,
        open_services(
            settings,
            PausingBudgetStore(WarningBudgetStore(stores.budget_store, watch.log, clock), day),
            JournalReplayCache(stores.journal),
            circuit,
        ) as opened,
        open_bus(daemon_bus_settings(section), _broker_event_handler(watch), watch.note_sent) as bus,
    ):
        job_runner = JobRunner(
            settings=settings,
            journal=stores.journal,
            jobs=stores.jobs,
            open_services=opened,
            reporter=Reporter(
                section,
                message_contract(settings),
                None if settings.hmac_key is None else settings.hmac_key.encode(),
                Redactor(known_secrets(settings, os.environ)),
            ),
            watch=watch,
            daily_budget=day,
            model_circuit=circuit,
            wake_relay=bus.wake_relay,
            clock=clock,
        )
        watch.log.write("daemon_started", "info", version=__version__, **_summary(settings))
        if opened.budget_store is not None and await is_daily_budget_spent(stores.budget_store):
            day.mark_spent("nothing is left of the day's budget", None)
        on_ready()
        try:
            await DaemonTasks(job_runner, stores, bus).run(stopping)
        finally:
            watch.log.write("daemon_shutdown", reason=stopping.reason or "a fault")


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
class DaemonTasks:
    """What goes on at the same time."""

    runner: JobRunner
    stores: Stores
    bus: Bus

    async def run(self, stopping: ShutdownRequest) -> None:
        """Work until somebody asks to stop, then wind down: intake, jobs, messages."""
        section = self.runner.settings.daemon
        dispatcher = Dispatcher(self.runner, section.slots)
        intake = MessageHandler(
            self.bus,
            self.runner,
            acceptance_rules(section, self.runner.settings.hmac_key, self.runner.reporter.contract),
            dispatcher,
        )
        renewal = ApprovalRenewal(
            self.stores.jobs, self.stores.journal, self.runner.clock, self.runner.note_store_state
        )
        forgetting = MessageIdRetention(
            self.stores.jobs, section.remembered_for, self.runner.clock, self.runner.note_store_state
        )
        retention = RunRetention(
            self.stores.journal,
            self.runner.settings,
            self.runner.clock,
            self.runner.watch.log,
            self.runner.note_store_state,
        )
        loop_watch = LoopWatchdog(
            self.runner.watch.log,
            section.stall_limit,
            lambda: [*map(str, dispatcher.running_jobs)],
            owns_process=stopping.owns_process,
        )
        ended, relayed = anyio.Event(), anyio.Event()
        inward, outward = anyio.CancelScope(), anyio.CancelScope()

        async def work() -> None:
            await dispatcher.run()
            ended.set()

        async def relay() -> None:
            await _run_in_scope(outward, lambda: self.bus.relay(self.stores.jobs))
            relayed.set()

        async with anyio.create_task_group() as group:
            group.start_soon(loop_watch.run)
            group.start_soon(_run_in_scope, inward, intake.run)
            group.start_soon(renewal.run)
            group.start_soon(forgetting.run)
            group.start_soon(retention.run)
            group.start_soon(work)
            group.start_soon(relay)
            if (models := self.runner.open_services.services.models) is not None:
                group.start_soon(self.runner.model_circuit.run, models)
            group.start_soon(self._update_metrics, dispatcher)
            group.start_soon(self.runner.watch.store.run, self.stores.jobs.count_states)
            await stopping.wait_requested()
            self.runner.watch.health.mark_failing("daemon", f"it is stopping: {stopping.reason}")
            self.runner.watch.log.write("daemon_stopping", reason=stopping.reason, running=dispatcher.running)
            inward.cancel()
            await _wind_down(dispatcher, ended)
            outward.cancel()
            with anyio.move_on_after(FLUSH_SECONDS):
                # It still marks what the broker has confirmed, which would go out twice otherwise.
                await relayed.wait()
                await self.bus.flush(self.stores.jobs)
            group.cancel_scope.cancel()

    async def _update_metrics(self, dispatcher: Dispatcher) -> None:
        """Keep metrics and health up to date."""
        watch, lags = self.runner.watch, deque([0.0], maxlen=LAG_SAMPLES)
        slots = self.runner.settings.daemon.slots
        while True:
            fault = self.bus.fault
            watch.metrics.set_part("broker", works=fault is None)
            if fault is None:
                watch.health.mark_working("broker")
            else:
                watch.health.mark_failing("broker", fault)
            watch.metrics.set_slots(busy=dispatcher.running, free=slots - dispatcher.running)
            watch.metrics.set_loop_state(
                lag=max(lags), is_paused=self.runner.daily_budget.paused_until is not None
            )
            due = anyio.current_time() + METRICS_SECONDS
            await anyio.sleep(METRICS_SECONDS)
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
async def _health_served(watch: Telemetry, place: str | None) -> AsyncGenerator[None]:
    """Say over HTTP how things are while the block runs, where the settings name a place for it."""
    if place is None:
        yield
        return
    async with serve_health(watch.health, watch.metrics, place) as port:
        watch.log.write("health_served", place=f"{place.rpartition(':')[0]}:{port}")
        yield


def _broker_event_handler(watch: Telemetry) -> BrokerEventHandler:
    """Return what is told of what happens at the broker."""

    def notice(name: BrokerEvent, fields: Mapping[str, JsonValue], /) -> None:
        watch.log.write(name, "warning" if name in _WARNING_EVENTS else "info", **fields)
        if name == "message_dead_lettered":
            watch.metrics.count_dead_lettered(str(fields["kind"]))
        elif name == "message_returned":
            watch.metrics.count_undeliverable()

    return notice


def _circuit_listener(watch: Telemetry, own: Collection[str]) -> CircuitListener:
    """Return what is told of models that cannot be asked; the daemon's own make it not ready."""

    def tell(model: str, state: CircuitState, reason: str, until: float) -> None:
        watch.metrics.set_model_circuit(model, state)
        if state == "closed":
            watch.health.mark_working("model")
            watch.log.write("model_circuit_closed", model=model)
        elif state == "open":
            at = format_instant(until)
            if model in own:
                watch.health.mark_failing("model", f"{reason}; {model} is tried again at {at}")
            watch.log.write("model_circuit_opened", "warning", model=model, message=reason, until=at)

    return tell


def _first_error(fault: BaseException) -> BaseException:
    while isinstance(fault, BaseExceptionGroup):
        fault = cast("BaseExceptionGroup[BaseException]", fault).exceptions[0]
    return fault


async def _run_in_scope(scope: anyio.CancelScope, work: Callable[[], Awaitable[None]]) -> None:
    with scope:
        await work()
