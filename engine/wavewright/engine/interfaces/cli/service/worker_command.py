"""`wavewright worker`: make calls of runs on other machines, with the tools of this project."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Final

import anyio
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from wavewright.config import Settings, exit_codes, known_secrets_redactor
from wavewright.config.sections import FleetSection
from wavewright.engine.interfaces.api.tool_host import opened_tools
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.interfaces.cli.common.output import CommandError
from wavewright.engine.run.project.tools import all_tools
from wavewright.engine.run.services import fleet_database
from wavewright.engine.service.daemon.process import ShutdownRequest, handling_signals
from wavewright.engine.service.operations.health import HealthStatus, serve_health
from wavewright.engine.service.operations.logs import Level, StructuredLog, capture_output
from wavewright.engine.service.operations.metrics import BUCKETS
from wavewright.executor.fleet.remote_calls import served_entrypoints
from wavewright.executor.fleet.tables import open_fleet_database
from wavewright.executor.fleet.worker import FleetWorker
from wavewright.planner import suggest_name
from wavewright.tools import MessageContract, Services, Tool

_LOOP: Final = {"use_uvloop": sys.platform != "win32"}
"""Of its event loops: that of its tools, and the one in which calls are taken."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """What the command line says of a worker."""

    slots: int
    labels: Collection[str]
    tools: Collection[str]
    """Tools whose calls it makes; empty for all that it can make."""
    health: str | None
    log_level: Level


def serve(options: WorkerOptions) -> int:
    """Make calls until a signal, and return the exit code.

    Raises:
        RuntimeNotOpened: the journal is no database, or the extra `fleet` is not installed.
        JournalError: the database cannot be used.
        CommandError: the project has no tool that is named, or none whose needs the labels meet.
    """
    settings = project_settings()
    url = fleet_database(settings)
    log = StructuredLog(
        agent="worker",
        domain="fleet",
        level=options.log_level,
        redactor=known_secrets_redactor(settings),
        contract=MessageContract(),
    )
    log.capture_logging()
    with capture_output(log), opened_tools(settings, loop=_LOOP) as (host, services):
        served = _served_tools(settings, services, options)
        metrics, health = WorkerMetrics(options.slots), HealthStatus()
        health.expect("database")

        def note_heartbeat(fault: str | None) -> None:
            health.faults["database"] = fault

        async def work() -> None:
            stopping = ShutdownRequest()
            async with contextlib.AsyncExitStack() as stack:
                stack.enter_context(handling_signals(stopping))
                database = await stack.enter_async_context(open_fleet_database(url))
                log.write(
                    "worker_started", worker=host.name, slots=options.slots, tools=[*sorted(served)]
                )
                if options.health is not None:
                    await stack.enter_async_context(
                        serve_health(health, metrics, options.health, "--health")
                    )
                worker = FleetWorker(
                    database=database,
                    name=host.name,
                    slots=options.slots,
                    heartbeat=(settings.fleet or FleetSection()).heartbeat,
                    entrypoints=[*served],
                    labels=[*options.labels],
                    host=host,
                    on_call=metrics.note_call,
                    on_heartbeat=note_heartbeat,
                )

                async def wait_stopped() -> None:
                    await stopping.wait_requested()
                    health.mark_failing("worker", f"it is stopping: {stopping.reason}")

                await worker.run(wait_stopped)

        anyio.run(work, backend_options=_LOOP)
        log.write("worker_stopped", worker=host.name)
    return exit_codes.OK


def _served_tools(
    settings: Settings, services: Services, options: WorkerOptions
) -> dict[str, Tool]:
    """Return what the worker takes from the queue, by the names there."""
    tools = all_tools(settings, services)
    for name in options.tools:
        if name not in tools:
            hint = suggest_name(name, tools, what="its tools")
            raise CommandError(f"the project has no tool {name!r}", hint=hint)
    wanted = [tool for name, tool in tools.items() if not options.tools or name in options.tools]
    served = served_entrypoints(wanted, options.labels)
    if not served:
        needs = sorted({need for tool in wanted for need in tool.signature.needs})
        hint = f"start it with --labels {','.join(needs)}" if needs else "add tools to the project"
        raise CommandError("there is no tool whose calls this fleet worker could make", hint=hint)
    return served


class WorkerMetrics:
    """Calls that a worker has made, by tool."""

    def __init__(self, slots: int) -> None:
        """Create all metrics at zero."""
        self.registry = CollectorRegistry()
        calls = Counter(
            "wavewright_fleet_calls", "Calls that ended", ("tool", "ending"), registry=self.registry
        )
        seconds = Histogram(
            "wavewright_fleet_call_seconds",
            "Duration of a call in seconds",
            ("tool",),
            registry=self.registry,
            buckets=BUCKETS,
        )
        # Finding the metric of some labels costs more than counting.
        self._calls, self._seconds = cache(calls.labels), cache(seconds.labels)
        Gauge("wavewright_fleet_slots", "Maximum of concurrent calls", registry=self.registry).set(
            slots
        )

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def note_call(self, tool: str, ending: str, seconds: float) -> None:
        """Count a call that has ended."""
        self._calls(tool, ending).inc()
        self._seconds(tool).observe(seconds)
