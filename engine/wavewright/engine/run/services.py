"""The models, budgets and sessions with servers that runs share, and what makes their calls in the
place of their own process (a fleet, or a runtime of the project's): opened as far as configured.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from typing import cast

from wavewright.config import Settings, WavewrightError, exit_codes, install_hint, is_installed
from wavewright.executor import budget_store_of
from wavewright.planner import NULL_REPLAY_CACHE, Goal, Plan, ReplayCache, RunId
from wavewright.planner.ports.budgets import Allowance, BudgetScope, InspectableBudgetStore
from wavewright.planner.ports.model_port import ALWAYS_CLOSED, CircuitBreaker, ModelError
from wavewright.tools import Runtime, Services, ToolDefinitionError, make_services
from wavewright.tools.functions.tool import OpenRuntime, ServerCaller
from wavewright.tools.functions.user_tools import import_project_module
from wavewright.tools.models import model_configured


async def remaining_allowance(
    services: Services, settings: Settings, goal: Goal, *, run: RunId, plan: Plan | None = None
) -> Allowance | None:
    """Return what a run's steps may still spend, priced; None if no model is configured."""
    if services.budget_store is None:
        return None
    allowance = await services.budget_store.left(BudgetScope(run=run, job=goal.job, role="worker"))
    return priced(allowance, goal.model_preference, plan, settings)


def priced(
    allowance: Allowance, preference: str, plan: Plan | None, settings: Settings
) -> Allowance:
    """Return what may still be spent with the price of a token of the model that a worker without a
    preference would ask, where a budget of money is set, also by a step of the plan.

    A price that is unknown stays so: such calls are refused when they are made.
    """
    steps = plan.steps if plan is not None else ()
    # Only a budget of money needs a price, and with it a model that can be chosen now.
    if not allowance.bounds_usd and all(
        step.budget is None or step.budget.usd is None for step in steps
    ):
        return allowance
    from wavewright.tools.models.endpoints import choose_model
    from wavewright.tools.models.pricing import price_per_1000_tokens

    try:
        model = choose_model(settings, preference, "worker", os.environ).model
    except ModelError:
        return allowance
    return replace(
        allowance, usd_per_1000_tokens=price_per_1000_tokens(model, settings, os.environ)
    )


@asynccontextmanager
async def open_services(
    settings: Settings,
    budget_store: InspectableBudgetStore | None = None,
    memory: ReplayCache = NULL_REPLAY_CACHE,
    circuit: CircuitBreaker = ALWAYS_CLOSED,
    *,
    uses_runtime: bool = False,
) -> AsyncGenerator[Services]:
    """Open the configured models under the configured budgets, and sessions with MCP servers, as
    far as configured.

    Args:
        settings: The project's.
        budget_store: Keeps the budgets; by default the store of the journal.
        memory: Answers from earlier attempts of the runs.
        circuit: Stops calls to a provider that fails.
        uses_runtime: Whether the fleet or the runtime of the settings makes calls, where there is
            one.

    Raises:
        RuntimeNotOpened: the settings name a fleet or a runtime that there cannot be.
        ModelConfigError: a model's name, its key or an address is wrong or missing.
        DocumentError: a ladder of the settings is faulty.
        PlanError: the calibration of the settings is absent or faulty.
        JournalError: the journal's file, which keeps the budgets, cannot be used.
        ToolDefinitionError: the extra `mcp` is not installed, and the settings have a server.
    """
    async with (
        _mcp_sessions(settings) as sessions,
        _open_models(settings, budget_store, memory, circuit) as services,
        open_runtime(settings) if uses_runtime else nullcontext() as runtime,
    ):
        yield replace(services, mcp=sessions, runtime=runtime)


@asynccontextmanager
async def _mcp_sessions(settings: Settings) -> AsyncGenerator[ServerCaller | None]:
    """Open sessions with the MCP servers of the settings; each is started at its first call."""
    if not settings.mcp.servers:
        yield None
        return
    if not is_installed("mcp"):
        raise ToolDefinitionError("the extra 'mcp' is not installed", install_hint("mcp"))
    # Imported here: the client is an extra, and most projects have no servers.
    from wavewright.engine.run.project.server_sessions import open_server_sessions

    async with open_server_sessions(settings) as sessions:
        yield sessions


@asynccontextmanager
async def _open_models(
    settings: Settings,
    budget_store: InspectableBudgetStore | None,
    memory: ReplayCache,
    circuit: CircuitBreaker,
) -> AsyncGenerator[Services]:
    if not model_configured(settings):
        yield make_services(settings)
        return
    # Imported here: a run without a model loads no client of one.
    from wavewright.reviewer import read_calibration
    from wavewright.tools.models import open_models

    if settings.calibration is not None:
        read_calibration(settings.calibration)  # reports faults before a plan is paid for
    async with (
        budget_store_of(settings) if budget_store is None else nullcontext(budget_store) as kept,
        open_models(settings, kept, memory=memory, circuit=circuit) as models,
    ):
        services = make_services(settings, models, kept, memory)
        services.ladder("planner")  # reports faulty ladders before a run begins
        yield services


class RuntimeNotOpened(WavewrightError):
    """The settings name a fleet or a runtime that there cannot be."""

    exit_code = exit_codes.MISUSE


@asynccontextmanager
async def open_runtime(settings: Settings) -> AsyncGenerator[Runtime | None]:
    """Open the fleet or the runtime of the settings; None where there is neither.

    Raises:
        RuntimeNotOpened: there can be no such fleet or runtime.
        ToolDefinitionError: the module of the runtime cannot be imported.
        JournalError: the database of the fleet cannot be used.
    """
    if settings.runtime is not None:
        async with _named_runtime(settings)(settings) as runtime:
            yield runtime
    elif settings.fleet is not None:
        url = fleet_database(settings)
        from wavewright.executor.fleet.caller import open_fleet_caller

        async with open_fleet_caller(url, settings.fleet.tools, settings.fleet.heartbeat) as caller:
            yield caller
    else:
        yield None


def check_runtime(settings: Settings) -> None:
    """Raise where there can be no such fleet or runtime as the settings name; opens neither.

    Raises:
        RuntimeNotOpened: there can be none.
        ToolDefinitionError: the module of the runtime cannot be imported.
    """
    if settings.runtime is not None:
        _named_runtime(settings)
    elif settings.fleet is not None:
        fleet_database(settings)


def fleet_database(settings: Settings) -> str:
    """Return the database in which calls wait for the fleet's workers.

    Raises:
        RuntimeNotOpened: the journal is no database, or the extra `fleet` is not installed.
    """
    if not is_installed("fleet"):
        raise RuntimeNotOpened("the extra 'fleet' is not installed", install_hint("fleet"))
    if settings.journal_url is None:
        raise RuntimeNotOpened(
            f"a fleet needs a journal in PostgreSQL, and this one is the file {str(settings.journal)!r}",
            "set WAVEWRIGHT_PG_URL or `journal` to postgresql://…, or remove `fleet` from the settings",
        )
    return settings.journal_url


def _named_runtime(settings: Settings) -> OpenRuntime:
    runtime = settings.runtime
    if settings.fleet is not None:
        raise RuntimeNotOpened("the settings have both 'fleet' and 'runtime'", "remove one of them")
    if not isinstance(runtime, str):
        return cast("OpenRuntime", runtime)
    module, _, name = runtime.partition(":")
    function = getattr(import_project_module(module, settings.root), name, None)
    if not callable(function):
        raise RuntimeNotOpened(
            f"setting 'runtime': the module {module!r} has no function {name!r}",
            "name one as `module:function`; it is given the settings and opens a runtime",
        )
    return cast("OpenRuntime", function)
