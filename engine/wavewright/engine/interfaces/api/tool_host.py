"""Opening the tools of a project for the calls of other processes' runs: what a worker of any
runtime does.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Generator
from functools import partial
from pathlib import Path

from anyio.from_thread import start_blocking_portal

from wavewright.config import Settings, known_secrets_redactor, load_settings
from wavewright.config.value_types import Place
from wavewright.engine.run.project.tools import tools_of_goal, tools_with_redacted_outputs
from wavewright.engine.run.services import open_services
from wavewright.engine.service.operations.trace_export import export_traces
from wavewright.executor import ToolHost
from wavewright.executor.run.emissions import capturing
from wavewright.executor.store.leases import this_owner
from wavewright.planner import Goal, RunId
from wavewright.tools import Services, Tools


@contextlib.contextmanager
def open_tool_host(folder: Place) -> Generator[ToolHost]:
    """Open the tools, models and MCP servers of a project; its folder becomes the working
    directory.

    Raises:
        DocumentError: the settings of the project are wrong.
        ModelConfigError: a model's name, its key or an address is wrong or missing.

    >>> from wavewright.engine import open_tool_host
    >>> with open_tool_host(".") as host:
    ...     host.name != ""
    True
    """
    with opened_tools(load_settings(Path(folder))) as (host, _), capturing():
        yield host


@contextlib.contextmanager
def opened_tools(
    settings: Settings, *, loop: dict[str, bool] | None = None
) -> Generator[tuple[ToolHost, Services]]:
    """Open the tools of a project, and give the services that they are made with, too.

    Args:
        settings: Those of the project.
        loop: Options of the event loop of the tools, as anyio takes them.
    """
    with (
        contextlib.chdir(settings.root),
        export_traces(),
        start_blocking_portal(backend_options=loop) as portal,
        portal.wrap_async_context_manager(open_services(settings)) as services,
    ):
        owner = this_owner()
        yield (
            ToolHost(
                # A container that is started again has the same host and process number as the one
                # that died.
                name=f"{owner.host}/{owner.pid}/{owner.token[:8]}",
                tools_for=partial(_tools_of_run, settings, services),
                loop=portal.call(asyncio.get_running_loop),
                redactor=known_secrets_redactor(settings),
            ),
            services,
        )


def _tools_of_run(settings: Settings, services: Services, run: RunId, goal: Goal) -> Tools:
    """Return the tools of a run as its own process makes them, with what its goal says of them.

    Raises:
        ToolDefinitionError: a function or a worker of the project cannot be a tool.
        PackError: a pack cannot be imported or refuses its settings.
    """
    here = {"root": str(settings.root), "file": str(settings.file)}
    packs = {
        name: {**given, **here} for name, given in goal.packs.items() if isinstance(given, dict)
    }
    goal = goal.model_copy(update={"packs": packs})
    services = services.for_goal(goal)
    if services.budget_store is not None:
        services.budget_store.limit_run(run, goal.limits.budget)
    return tools_with_redacted_outputs(tools_of_goal(goal, settings, services), settings)
