"""The daemon: opens stores, models and bus, runs its tasks, and stops them in order.

The message handler consumes the intake, the dispatcher runs jobs in slots, the relay publishes
their messages. All state is in the store, so the next daemon on the same store continues where this
one stopped.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Final

import anyio
from anyio.abc import TaskGroup
from pydantic import JsonValue

from wavewright.config import Settings
from wavewright.config.errors import single_exception
from wavewright.config.sections import DAY_SECONDS, DaemonSection
from wavewright.engine.run.services import open_services
from wavewright.engine.run.version import __version__
from wavewright.engine.service.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.service.bus.faults import BrokerEvent, BrokerEventHandler
from wavewright.engine.service.bus.topology import topology_of
from wavewright.engine.service.daemon.budgets import (
    BudgetWarnings,
    DaemonBudgetStore,
    DailyBudget,
    format_instant,
    is_daily_budget_spent,
    standing_request,
)
from wavewright.engine.service.daemon.dispatcher import Dispatcher, MessageHandler
from wavewright.engine.service.daemon.job_runner import JobRunner
from wavewright.engine.service.daemon.local_bus import LocalBus
from wavewright.engine.service.daemon.maintenance import (
    MIN_VERDICT_POLL_SECONDS,
    PRUNE_POLL_SECONDS,
    RENEWAL_POLL_SECONDS,
    VERDICT_POLL_SECONDS,
    ApprovalRenewal,
    checkpoint_writer,
    reject_overdue,
    remove_message_ids,
    remove_runs,
    repeat,
)
from wavewright.engine.service.daemon.model_circuit import (
    CircuitListener,
    CircuitState,
    ModelCircuitBreaker,
)
from wavewright.engine.service.daemon.process import LoopWatchdog, ShutdownRequest
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.job_store.stores import Stores, open_stores
from wavewright.engine.service.messages.delivery import acceptance_rules
from wavewright.engine.service.notices.notice_store import NoticeStore
from wavewright.engine.service.notices.notifier import Notifier
from wavewright.engine.service.operations.health import serve_health
from wavewright.engine.service.operations.monitoring import Telemetry
from wavewright.engine.service.schedules.schedule_store import ScheduleStore
from wavewright.engine.service.schedules.scheduler import JobScheduler
from wavewright.executor import JournalReplayCache
from wavewright.tools.models.endpoints import configured_models

GRACE_SECONDS: Final = 3.0
"""How long calls may go on after a stop was requested: an interrupted call may or may not have
taken effect.
"""
DRAIN_SECONDS: Final = 3.5
"""How long cancelled jobs may take to journal their state; the next daemon continues those that
take longer.
"""
FLUSH_SECONDS: Final = 2.0
"""How long the last messages may take to be published; the others stay in the outbox."""
METRICS_SECONDS: Final = 2.0
"""How often metrics and health are updated."""
LAG_SAMPLES: Final = 30
"""The lag metric is the maximum of so many samples, one minute's, so that a rare scrape does not
miss it.
"""

NOT_ASKED: Final = "a tool cancelled its tasks or stopped its event loop"
"""Why a daemon ends that was not asked to stop, and has no error of its own."""

_GOOD_NEWS: Final = frozenset[BrokerEvent](
    {"broker_connected", "broker_unblocked", "queue_has_room"}
)
"""Events of the broker that are no warnings."""


def bus_settings(section: DaemonSection, name: str) -> BusSettings:
    """Return the settings of a bus whose connections have this name at the broker."""
    assert section.amqp_url is not None, "checked before"
    return BusSettings(section.amqp_url, topology_of(section), name=name)


def daemon_bus_settings(section: DaemonSection) -> BusSettings:
    """Return the settings of the daemon's bus, which checks the user's write rights at the start and
    knows of alarms while the daemon is idle.
    """
    settings = bus_settings(section, section.agent)
    return replace(settings, checks_write_rights=True, probes_alarms=True)


async def run_daemon(
    settings: Settings,
    watch: Telemetry,
    stopping: ShutdownRequest,
    *,
    beside: AbstractAsyncContextManager[object] | None = None,
    on_ready: Callable[[], None] = lambda: None,
    clock: Callable[[], float] = time.time,
) -> None:
    """Consume and run jobs until the daemon is asked to stop; without a broker's address, run those
    of schedules and of the live page.

    Args:
        settings: The project's settings, checked.
        watch: Log, metrics, health and traces.
        stopping: The request to stop.
        beside: What is open while it runs, such as a page that is served.
        on_ready: Called once everything is open and messages are consumed.
        clock: Seconds since the epoch.

    Raises:
        BusError: the broker cannot be reached, or settings or broker must be changed.
        JournalError: the store cannot be opened.
        ModelConfigError: the configured model cannot be used.
        PortTakenError: the health endpoint cannot listen where the settings say.
    """
    ready = anyio.Event()

    def mark_ready() -> None:
        ready.set()
        on_ready()

    try:
        async with beside or nullcontext(), anyio.create_task_group() as tasks:
            tasks.start_soon(_end_start, stopping, ready, tasks.cancel_scope)
            await _serve(settings, watch, stopping, mark_ready, clock)
            tasks.cancel_scope.cancel()
    except BaseExceptionGroup as faults:
        raise single_exception(faults) from None


async def _end_start(
    stopping: ShutdownRequest, ready: anyio.Event, start: anyio.CancelScope
) -> None:
    """Cancel a start that is asked to stop: a broker that is away may be waited for without end."""
    await stopping.wait_requested()
    if not ready.is_set():
        start.cancel()


async def _serve(
    settings: Settings,
    watch: Telemetry,
    stopping: ShutdownRequest,
    on_ready: Callable[[], None],
    clock: Callable[[], float],
) -> None:
    section = settings.daemon

    def on_spent(reason: str, until: float) -> None:
        at = format_instant(until)
        watch.log.write(
            "budget_exhausted",
            "warning",
            budget_type="day",
            action="sleep",
            until=at,
            message=reason,
        )
        watch.health.mark_failing("budget", f"the day's budget is spent; jobs continue at {at}")

    def on_renewed() -> None:
        watch.log.write("budget_renewed", budget_type="day")
        watch.health.mark_working("budget")

    day = DailyBudget(clock, on_spent, on_renewed)
    own = configured_models(settings)
    circuit = ModelCircuitBreaker(clock, day.stop_run, _circuit_listener(watch, own), own)
    for part in ("store",) if section.amqp_url is None else ("broker", "store"):
        watch.health.expect(part)
    async with (
        _health_served(watch, section.health),
        open_stores(settings, clock=clock, must_write=True) as stores,
        nullcontext(
            DaemonBudgetStore(stores.budget_store, day, BudgetWarnings(watch.log, clock))
        ) as budget_store,
        open_services(
            settings,
            budget_store,
            JournalReplayCache(stores.journal),
            circuit,
            uses_runtime=True,
        ) as services,
        nullcontext(Notifier(settings, NoticeStore(stores.journal), watch.log, clock)) as notifier,
        _bus_of(section, watch, notifier) as bus,
    ):
        job_runner = JobRunner(
            settings=settings,
            journal=stores.journal,
            jobs=stores.jobs,
            services=services,
            reporter=Reporter.of(settings),
            watch=watch,
            daily_budget=day,
            budget_store=budget_store,
            model_circuit=circuit,
            wake_relay=bus.relay.wake,
            checkpoints=checkpoint_writer(settings, services, watch.log, clock),
            clock=clock,
        )
        watch.log.write("daemon_started", "info", version=__version__, **_summary(settings))
        if services.budget_store is not None and await is_daily_budget_spent(stores.budget_store):
            day.mark_spent("the day's budget is spent", None)
        if section.standing is not None:
            await job_runner.jobs.receive(
                standing_request(section, clock()), job_runner.reporter.state_reports
            )
        on_ready()
        ended_by = "an error"
        try:
            await DaemonTasks(job_runner, stores, bus, notifier).run(stopping)
        except anyio.get_cancelled_exc_class():
            # No stop cancels this: a tool has done so, of all tasks of the process.
            ended_by = NOT_ASKED
            raise
        finally:
            watch.log.write("daemon_shutdown", reason=stopping.reason or ended_by)


def _bus_of(
    section: DaemonSection, watch: Telemetry, notifier: Notifier
) -> AbstractAsyncContextManager[Bus | LocalBus]:
    """Return the bus of the settings, to be entered; without a broker's address a local one."""
    if section.amqp_url is None:
        return nullcontext(LocalBus(watch.note_sent))
    on_event = _broker_event_handler(watch, notifier)
    return open_bus(daemon_bus_settings(section), on_event, watch.note_sent)


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
    """The concurrent tasks of an open daemon."""

    runner: JobRunner
    stores: Stores
    bus: Bus | LocalBus
    notifier: Notifier

    async def run(self, stopping: ShutdownRequest) -> None:
        """Run until a stop is requested, then stop the intake, the jobs and the relay, in this
        order.
        """
        settings = self.runner.settings
        jobs = self.stores.jobs
        section = settings.daemon
        dispatcher = Dispatcher(self.runner, section.slots)
        intake = MessageHandler(
            self.bus,
            self.runner,
            acceptance_rules(section, settings.hmac_key, self.runner.reporter.contract),
            dispatcher,
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
            with outward:
                await self.bus.relay.run(jobs)
            relayed.set()

        async def consume() -> None:
            with inward:
                await intake.run()

        async with anyio.create_task_group() as group:
            group.start_soon(loop_watch.run)
            group.start_soon(consume)
            group.start_soon(work)
            group.start_soon(relay)
            group.start_soon(self._scheduler(dispatcher).run)
            if settings.notify:
                group.start_soon(self.notifier.run)
            self._start_maintenance(group, dispatcher, intake)
            if (models := self.runner.services.models) is not None:
                group.start_soon(self.runner.model_circuit.run, models)
            group.start_soon(self._update_metrics, dispatcher)
            if self.runner.checkpoints is not None:
                group.start_soon(self.runner.checkpoints.run)
            group.start_soon(self.runner.watch.store.run, jobs.count_states)
            await stopping.wait_requested()
            self.runner.watch.health.mark_failing("daemon", f"it is stopping: {stopping.reason}")
            self.runner.watch.log.write(
                "daemon_stopping", reason=stopping.reason, running=dispatcher.running
            )
            inward.cancel()
            await _wind_down(dispatcher, ended)
            outward.cancel()
            with anyio.move_on_after(FLUSH_SECONDS):
                # Until then the relay marks confirmed messages, which would be published twice
                # otherwise.
                await relayed.wait()
                await self.bus.relay.flush(jobs)
            group.cancel_scope.cancel()

    def _scheduler(self, dispatcher: Dispatcher) -> JobScheduler:
        """Return what begins the jobs of the project's schedules."""

        def on_begun() -> None:
            self.runner.wake_relay()
            dispatcher.wake()

        return JobScheduler(
            settings=self.runner.settings,
            store=ScheduleStore(self.stores.journal),
            log=self.runner.watch.log,
            clock=self.runner.clock,
            on_begun=on_begun,
            project=self.runner.reporter.state_reports,
            on_missed=lambda schedule, instant: self.notifier.note_missed(schedule.name, instant),
        )

    def _start_maintenance(
        self, group: TaskGroup, dispatcher: Dispatcher, intake: MessageHandler
    ) -> None:
        """Start the periodic tasks of the store."""
        settings, clock = self.runner.settings, self.runner.clock
        section, jobs, journal = settings.daemon, self.stores.jobs, self.stores.journal
        timeout, on_fault = section.validation.timeout, self.runner.note_store_state

        async def reject_unjudged() -> None:
            assert timeout is not None
            report = self.runner.reporter.state_reports
            for verdict in await reject_overdue(
                jobs, timeout, clock(), report, intake.wait_drained
            ):
                self.runner.watch.log.write(
                    "verdict_overdue", "warning", job_id=verdict.job, iteration=verdict.iteration
                )
                self.runner.wake_relay()
                dispatcher.wake()

        async def remove_old_ids() -> None:
            await remove_message_ids(jobs, clock() - section.remembered_for)

        async def remove_old_runs() -> None:
            assert settings.retention is not None
            await remove_runs(
                journal, settings, self.runner.watch.log, clock() - settings.retention
            )

        renewal = ApprovalRenewal(jobs, journal, clock, intake.wait_drained)
        group.start_soon(repeat, renewal.renew, RENEWAL_POLL_SECONDS, on_fault)
        group.start_soon(repeat, remove_old_ids, PRUNE_POLL_SECONDS, on_fault)
        if timeout is not None:
            # A short wait is looked at as often as it lasts: it would else end half a minute late.
            pause = min(VERDICT_POLL_SECONDS, max(timeout, MIN_VERDICT_POLL_SECONDS))
            group.start_soon(repeat, reject_unjudged, pause, on_fault)
        if settings.retention is not None:
            group.start_soon(repeat, remove_old_runs, DAY_SECONDS, on_fault)

    async def _update_metrics(self, dispatcher: Dispatcher) -> None:
        """Update metrics and health every `METRICS_SECONDS`, until this is cancelled."""
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
    """Start no more calls, wait for those in progress, then cancel the jobs that still run."""
    dispatcher.wind_down()
    with anyio.move_on_after(GRACE_SECONDS):
        await ended.wait()
    dispatcher.stop()
    with anyio.move_on_after(DRAIN_SECONDS):
        await ended.wait()


@asynccontextmanager
async def _health_served(watch: Telemetry, place: str | None) -> AsyncGenerator[None]:
    """Serve health and metrics over HTTP while the block runs, where the settings name a place for
    it.
    """
    if place is None:
        yield
        return
    async with serve_health(watch.health, watch.metrics, place) as port:
        watch.log.write("health_served", place=f"{place.rpartition(':')[0]}:{port}")
        yield


def _broker_event_handler(watch: Telemetry, notifier: Notifier) -> BrokerEventHandler:
    """Return a handler that logs and counts the events of the bus, and has people told of messages
    that were dead-lettered.
    """

    def on_event(name: BrokerEvent, fields: Mapping[str, JsonValue], /) -> None:
        watch.log.write(name, "info" if name in _GOOD_NEWS else "warning", **fields)
        if name == "message_dead_lettered":
            watch.metrics.count_dead_lettered(str(fields["kind"]))
            notifier.note_dead_letter(str(fields["kind"]), str(fields["reason"]))
        elif name == "message_returned":
            watch.metrics.count_undeliverable()

    return on_event


def _circuit_listener(watch: Telemetry, own: Collection[str]) -> CircuitListener:
    """Return a listener that reports circuits; an open one of the daemon's own models makes it not
    ready.
    """

    def on_change(model: str, state: CircuitState, reason: str, until: float) -> None:
        watch.metrics.set_model_circuit(model, state)
        if state == "closed":
            watch.health.mark_working("model")
            watch.log.write("model_circuit_closed", model=model)
        elif state == "open":
            at = format_instant(until)
            if model in own:
                watch.health.mark_failing("model", f"{reason}; {model} is tried again at {at}")
            watch.log.write(
                "model_circuit_opened", "warning", model=model, message=reason, until=at
            )

    return on_change
