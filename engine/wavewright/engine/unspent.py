"""What a plan may still spend, found by reading alone: for whoever looks at a plan and runs nothing.

The *unspent* is the allowance that a run of the plan would begin with. No journal is made where there is none, nobody
is asked, nothing is put aside; so `check`, `dry-run` and `run` hold a plan to the same budgets.
"""

from __future__ import annotations

import os
import sqlite3
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

import anyio

from wavewright.engine.dry_run_estimates import ModelPrice
from wavewright.planner.spending import BudgetScope
from wavewright.planner.types import RunId
from wavewright.tools.models import model_configured

if TYPE_CHECKING:
    from pathlib import Path

    from wavewright.config.settings import Settings
    from wavewright.planner.allowance import Allowance
    from wavewright.planner.goals import Goal
    from wavewright.planner.models import Budget, Plan

_NEW_RUN: Final = RunId("dry-run")
"""Stands for a run that has spent nothing."""
_LATEST_DAY: Final = "SELECT max(name) FROM purse_total WHERE pot = 'day'"
_TOTAL: Final = "SELECT calls, tokens, usd, seconds FROM purse_total WHERE pot = ? AND name = ? AND step = ?"
_HAS_BUDGET_TABLES: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'purse_total'"


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
    from wavewright.planner.model_port import ModelError
    from wavewright.tools.models.choosing import choose_model
    from wavewright.tools.models.prices import price_per_1000_tokens

    try:
        model = choose_model(settings, preference, role, os.environ).model
        return ModelPrice(model, price_per_1000_tokens(model, settings, os.environ))
    except ModelError as error:
        return f"{error} ({error.hint})" if error.hint else str(error)


def _remaining_in_file(settings: Settings, run: RunId, job: str, budget: Budget | None) -> Allowance:
    """Return what is left of the budgets, from the purse in the journal's file where there is one."""
    from wavewright.executor.budgets import NO_AMOUNT, Amount, BudgetCounter, BudgetLimits, budget_day
    from wavewright.executor.journal_faults import explain_use
    from wavewright.executor.journal_file import open_journal_file

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

        def total(pot: BudgetCounter) -> Amount:
            row = connection.execute(_TOTAL, pot).fetchone()
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

    async with budget_store_of(settings) as purse:
        if account.run is not None:
            purse.limit_run(account.run, budget)
        return await purse.left(account)
