"""`wavewright worker`: make calls of runs on other machines, with the tools of this project."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import anyio
from anyio.from_thread import start_blocking_portal

from wavewright.config import exit_codes
from wavewright.config.redaction import known_secrets_redactor
from wavewright.config.sections import FleetSection
from wavewright.config.settings import Settings
from wavewright.engine.cli.common.arguments import project_settings
from wavewright.engine.cli.common.errors import CommandError
from wavewright.engine.daemon.process import ShutdownRequest, handling_signals
from wavewright.engine.operations.health import HealthStatus, serve_health
from wavewright.engine.operations.logs import Level, StructuredLog, capture_output
from wavewright.engine.operations.trace_export import export_traces
from wavewright.engine.operations.worker_metrics import WorkerMetrics
from wavewright.engine.pipeline.runtimes import fleet_database
from wavewright.engine.pipeline.services import open_services
from wavewright.engine.project.tools import all_tools, tools_of_goal, tools_with_redacted_outputs
from wavewright.executor.fleet.routing import served_entrypoints
from wavewright.executor.fleet.tables import open_fleet_database
from wavewright.executor.fleet.worker import FleetWorker
from wavewright.executor.store.leases import this_owner
from wavewright.planner.diagnostics.suggestions import suggest_name
from wavewright.planner.language.goals import Goal
from wavewright.planner.types import RunId
from wavewright.tools.functions.tool import Tool
from wavewright.tools.message_contract import MessageContract
from wavewright.tools.workers.services import Services


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
    redactor = known_secrets_redactor(settings)
    log = StructuredLog(
        agent="worker", domain="fleet", level=options.log_level, redactor=redactor, contract=MessageContract()
    )
    log.capture_logging()
    with (
        contextlib.chdir(settings.root),
        capture_output(log),
        export_traces(),
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(open_services(settings)) as services,
    ):
        served = _served_tools(settings, services, options)
        owner = this_owner()
        name = f"{owner.host}/{owner.pid}"
        metrics, health = WorkerMetrics(options.slots), HealthStatus()
        health.expect("database")
        log.write("worker_started", worker=name, slots=options.slots, tools=[*sorted(served)])

        async def work() -> None:
            stopping = ShutdownRequest()
            async with contextlib.AsyncExitStack() as stack:
                stack.enter_context(handling_signals(stopping))
                database = await stack.enter_async_context(open_fleet_database(url))
                health.mark_working("database")
                if options.health is not None:
                    await stack.enter_async_context(serve_health(health, metrics, options.health, "--health"))
                worker = FleetWorker(
                    database=database,
                    name=name,
                    slots=options.slots,
                    heartbeat=(settings.fleet or FleetSection()).heartbeat,
                    entrypoints=[*served],
                    labels=[*options.labels],
                    tools_for=_ToolsOfRun(settings, services).load,
                    tool_loop=portal.call(_running_loop),
                    redactor=redactor,
                    on_call=metrics.note_call,
                )
                await worker.run(stopping.wait_requested)

        anyio.run(work)
        log.write("worker_stopped", worker=name)
    return exit_codes.OK


async def _running_loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _served_tools(settings: Settings, services: Services, options: WorkerOptions) -> dict[str, Tool]:
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
        raise CommandError("there is no tool whose calls this worker could make", hint=hint)
    return served


@dataclass(frozen=True, slots=True)
class _ToolsOfRun:
    """Makes the tools of a run as its own process does, with what its goal says of them."""

    settings: Settings
    services: Services

    def load(self, run: RunId, goal: Goal) -> Mapping[str, Tool]:
        """Return the tools of a run.

        Raises:
            ToolDefinitionError: a function or a worker of the project cannot be a tool.
            PackError: a pack cannot be imported or refuses its settings.
        """
        here = {"root": str(self.settings.root), "file": str(self.settings.file)}
        packs = {name: {**given, **here} for name, given in goal.packs.items() if isinstance(given, dict)}
        goal = goal.model_copy(update={"packs": packs})
        services = self.services.for_goal(goal)
        if services.budget_store is not None:
            services.budget_store.limit_run(run, goal.limits.budget)
        return tools_with_redacted_outputs(tools_of_goal(goal, self.settings, services), self.settings)
