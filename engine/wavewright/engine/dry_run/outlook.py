"""What a plan may still spend, found by reading alone: for whoever looks at a plan and runs nothing.

The *unspent* is the allowance that a run of the plan would begin with. No journal is made where there is none, nobody
is asked, nothing is put aside; so `check`, `dry-run` and `run` hold a plan to the same budgets.

What a forecast knows from outside the plan: the journal's history, models and prices, and what is left to spend.

The *outlook* is gathered by reading alone: no journal is made where there is none, nobody is asked, nothing is put
aside. What is not known is left out of it, and the forecast says so.
"""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import anyio

from wavewright.config.settings import Settings
from wavewright.engine.dry_run.estimates import ForecastInputs, ModelPrice
from wavewright.engine.dry_run.history import History
from wavewright.engine.dry_run.kept_results import BegunRunForecast, FindStored, find_reuse
from wavewright.engine.project.obstacles import find_obstacles
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.ports.budgets import BudgetScope
from wavewright.planner.types import RunId
from wavewright.tools.models import model_configured
from wavewright.tools.workers.services import AGENT

if TYPE_CHECKING:
    from pathlib import Path

    from wavewright.planner.language.plan import Budget
    from wavewright.planner.ports.budgets import Allowance

_NEW_RUN: Final = RunId("dry-run")
"""Stands for a run that has spent nothing."""
_LATEST_DAY: Final = "SELECT max(name) FROM budget_total WHERE counter = 'day'"
_TOTAL: Final = (
    "SELECT calls, tokens, usd, seconds FROM budget_total WHERE counter = ? AND name = ? AND step = ?"
)
_HAS_BUDGET_TABLES: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'budget_total'"


def read_remaining_allowance(
    plan: Plan, goal: Goal | None, settings: Settings, *, job: str, run: RunId = _NEW_RUN
) -> Allowance | None:
    """Return what a run of the plan may spend; none where no model is configured, for nothing costs anything then.

    Args:
        plan: Whose steps may have budgets of their own.
        goal: With a budget of its own, and the model that it prefers; of a plan alone there is none.
        settings: The project's.
        job: Whose budget is looked at.
        run: The run that the plan is part of, where that has begun.

    Raises:
        JournalError: there is a journal, and it cannot be read.
    """
    if not model_configured(settings):
        return None
    allowance = _remaining_in_file(settings, run, job, goal.limits.budget if goal is not None else None)
    if allowance.bounds_usd or any(step.budget is not None for step in plan.steps):
        price = price_of_role("worker", goal.model_preference if goal is not None else "auto", settings)
        per_1000 = price.usd_per_1000_tokens if isinstance(price, ModelPrice) else None
        allowance = replace(allowance, usd_per_1000_tokens=per_1000)
    return allowance


def price_of_role(role: Literal["agent", "worker"], preference: str, settings: Settings) -> ModelPrice | str:
    """Return the model that would be asked, with its price; or why none can be."""
    from wavewright.planner.ports.model_port import ModelError
    from wavewright.tools.models.endpoints import choose_model
    from wavewright.tools.models.pricing import price_per_1000_tokens

    try:
        model = choose_model(settings, preference, role, os.environ).model
        return ModelPrice(model, price_per_1000_tokens(model, settings, os.environ))
    except ModelError as error:
        return f"{error} ({error.hint})" if error.hint else str(error)


def _remaining_in_file(settings: Settings, run: RunId, job: str, budget: Budget | None) -> Allowance:
    """Return what is left of the budgets, from the purse in the journal's file where there is one."""
    from wavewright.executor.budgets.limits import NO_AMOUNT, Amount, BudgetCounter, BudgetLimits, budget_day
    from wavewright.executor.sqlite.database import open_journal_file
    from wavewright.executor.sqlite.errors import explain_use

    budgets = BudgetLimits(settings.budgets)
    budgets.limit_run(run, budget)
    account = BudgetScope(run=run, job=job, role="worker")
    if settings.journal_url is not None:
        with ThreadPoolExecutor(1) as alone:
            # An event loop may be running here already.
            return alone.submit(anyio.run, _remaining_in_database, account, budget, settings).result()
    path: Path = settings.journal
    if not path.exists():
        return budgets.left(account, budget_day(time.time(), None), lambda _: NO_AMOUNT)
    with closing(open_journal_file(path, patience=2.0, is_read_only=True)) as connection:

        def total(counter: BudgetCounter) -> Amount:
            row = connection.execute(_TOTAL, counter).fetchone()
            return NO_AMOUNT if row is None else Amount(*row)

        try:
            if connection.execute(_HAS_BUDGET_TABLES).fetchone() is None:
                return budgets.left(account, budget_day(time.time(), None), lambda _: NO_AMOUNT)
            (latest,) = connection.execute(_LATEST_DAY).fetchone()
            return budgets.left(account, budget_day(time.time(), latest), total)
        except sqlite3.Error as error:
            raise explain_use(error, path, connection) from error


async def _remaining_in_database(
    account: BudgetScope, budget: Budget | None, settings: Settings
) -> Allowance:
    """Return what is left, from the purse in the journal's database."""
    from wavewright.executor.stores import budget_store_of

    async with budget_store_of(settings) as budget_store:
        if account.run is not None:
            budget_store.limit_run(account.run, budget)
        return await budget_store.left(account)


def gather_forecast_inputs(
    plan: Plan,
    goal: Goal,
    tools: Mapping[str, ToolSignature],
    settings: Settings,
    *,
    now: dt.datetime,
    rerun: BegunRunForecast | None = None,
) -> ForecastInputs:
    """Return the outlook of a plan; `rerun` is the run that it is part of, where that has begun already.

    Raises:
        JournalError: there is a journal, and it cannot be read.
        ToolDefinitionError: a worker's file is faulty.
    """
    called = {step.tool for step in plan.steps}
    history, find = _journal_history(called, settings)
    reuse = find_reuse(
        bind_plan(plan, goal, tools),
        goal,
        tools,
        now=now,
        wall=time.time(),
        find=find,
    )
    if not model_configured(settings):
        return ForecastInputs(
            history, reuse=reuse, rerun=rerun, obstacles=find_obstacles(plan, tools, settings)
        )
    asking = [tools[name] for name in sorted(called) if name in tools and tools[name].expected_tokens]
    prices, stops = _model_prices(asking, goal, settings)
    if rerun is None:
        allowance = read_remaining_allowance(plan, goal, settings, job=goal.job)
    else:
        allowance = read_remaining_allowance(plan, goal, settings, job=goal.job, run=rerun.run)
    obstacles = find_obstacles(plan, tools, settings)
    return ForecastInputs(
        history, prices, allowance, reuse, rerun, has_models=True, notes=stops, obstacles=obstacles
    )


def _journal_history(tools: Collection[str], settings: Settings) -> tuple[History, FindStored]:
    """Return the history of these tools, and what looks stored calls up."""
    if settings.journal_url is None:
        from wavewright.engine.dry_run.history import find_stored, read_history

        return read_history(settings.journal, tools), partial(find_stored, settings.journal)
    from wavewright.engine.dry_run import history_postgres as history_in_database

    history = history_in_database.read_history(settings.journal_url, tools)
    return history, partial(history_in_database.find_stored, settings.journal_url)


def _model_prices(
    asking: list[ToolSignature], goal: Goal, settings: Settings
) -> tuple[dict[str, ModelPrice], tuple[str, ...]]:
    """Return whom each tool would ask, and what would keep a run from asking."""
    own = _worker_preferences(settings) if asking else {}
    found: dict[str, ModelPrice] = {}
    notes: dict[str, None] = {}
    for tool in asking:
        preference = own.get(tool.name, goal.model_preference)
        price = price_of_role("agent" if tool.name == AGENT else "worker", preference, settings)
        if isinstance(price, str):
            notes[f"a run would stop: {price}"] = None
            price = ModelPrice(settings.model or preference, None)
        found[tool.name] = price
    return found, tuple(notes)


def _worker_preferences(settings: Settings) -> dict[str, str]:
    """Return which model the project's workers prefer, where they do not leave it to the goal."""
    from wavewright.tools.workers.specs import load_workers

    specs = [worker.spec for worker in load_workers(settings.workers)]
    return {spec.name: spec.model_preference for spec in specs if spec.model_preference != "auto"}
