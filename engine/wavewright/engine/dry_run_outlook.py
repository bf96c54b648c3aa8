"""What a forecast knows from outside the plan: the journal's history, models and prices, and what is left to spend.

The *outlook* is gathered by reading alone: no journal is made where there is none, nobody is asked, nothing is put
aside. What is not known is left out of it, and the forecast says so.
"""

from __future__ import annotations

import datetime as dt
import os
import sqlite3
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

import anyio

from wavewright.config.settings import Settings
from wavewright.engine.dry_run_estimates import ModelPrice, Outlook
from wavewright.engine.dry_run_rerun import Rerun
from wavewright.engine.dry_run_reuse import StoredCall, find_reuse
from wavewright.engine.history import NO_HISTORY, find_stored, read_history
from wavewright.planner.allowance import Allowance
from wavewright.planner.binding import bind_plan
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.spending import Account
from wavewright.planner.types import RunId, StepKey
from wavewright.tools.models import model_configured
from wavewright.tools.workers.services import AGENT

_READ_OF_1000: Final = 750
"""Tokens of 1,000 that a worker is taken to read, as where plans are held against budgets of money."""
_NEW_RUN: Final = RunId("dry-run")
"""Stands for a run that has spent nothing."""
_LATEST_DAY: Final = "SELECT max(name) FROM purse_total WHERE pot = 'day'"
_TOTAL: Final = "SELECT calls, tokens, usd, seconds FROM purse_total WHERE pot = ? AND name = ? AND step = ?"
_HAS_PURSE: Final = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'purse_total'"


def gather_outlook(
    plan: Plan,
    goal: Goal,
    tools: Mapping[str, ToolSignature],
    settings: Settings,
    *,
    now: dt.datetime,
    rerun: Rerun | None = None,
) -> Outlook:
    """Return the outlook of a plan; `rerun` is the run that it is part of, where that has begun already.

    Raises:
        JournalError: there is a journal, and it cannot be read.
        ToolDefinitionError: a worker's file is faulty.
    """
    called = {step.tool for step in plan.steps}
    # What is in a database is neither copied here nor asked for call by call.
    is_near = settings.journal_url is None
    history = read_history(settings.journal, called) if is_near else NO_HISTORY
    notes = () if is_near else ("earlier calls are not looked at: the journal is in PostgreSQL",)
    reuse = find_reuse(
        bind_plan(plan, goal, tools),
        goal,
        tools,
        now=now,
        wall=time.time(),
        find=partial(find_stored, settings.journal) if is_near else _find_nothing,
    )
    if not model_configured(settings):
        return Outlook(history, reuse=reuse, rerun=rerun, notes=notes)
    asking = [tools[name] for name in sorted(called) if name in tools and tools[name].expected_tokens]
    prices, stops = _prices(asking, goal, settings)
    allowance = _left(goal, settings, rerun.run if rerun is not None else _NEW_RUN)
    if allowance.bounds_usd or any(step.budget is not None for step in plan.steps):
        price = _price("worker", goal.model_preference, settings)
        per_1000 = price.usd_per_1000_tokens if isinstance(price, ModelPrice) else None
        allowance = replace(allowance, usd_per_1000_tokens=per_1000)
    return Outlook(history, prices, allowance, reuse, rerun, has_models=True, notes=(*stops, *notes))


def _find_nothing(_: set[StepKey]) -> dict[StepKey, StoredCall]:
    return {}


def _prices(
    asking: list[ToolSignature], goal: Goal, settings: Settings
) -> tuple[dict[str, ModelPrice], tuple[str, ...]]:
    """Return whom each tool would ask, and what would keep a run from asking."""
    own = _own_preferences(settings) if asking else {}
    found: dict[str, ModelPrice] = {}
    notes: dict[str, None] = {}
    for tool in asking:
        preference = own.get(tool.name, goal.model_preference)
        price = _price("agent" if tool.name == AGENT else "worker", preference, settings)
        if isinstance(price, str):
            notes[f"a run would stop: {price}"] = None
            price = ModelPrice(settings.model or preference, None)
        found[tool.name] = price
    return found, tuple(notes)


def _own_preferences(settings: Settings) -> dict[str, str]:
    """Return which model the project's workers prefer, where they do not leave it to the goal."""
    from wavewright.tools.workers.files import load_workers

    specs = [worker.spec for worker in load_workers(settings.workers)]
    return {spec.name: spec.model_preference for spec in specs if spec.model_preference != "auto"}


def _price(role: Literal["agent", "worker"], preference: str, settings: Settings) -> ModelPrice | str:
    """Return the model that would be asked, with its price; or why none can be."""
    from wavewright.planner.model_port import ModelError
    from wavewright.tools.models.choosing import choose_model
    from wavewright.tools.models.endpoints import find_endpoint
    from wavewright.tools.models.prices import price_of

    try:
        model = choose_model(settings, preference, role, os.environ).model
        endpoint = find_endpoint(model, settings, os.environ)
    except ModelError as error:
        return f"{error} ({error.hint})" if error.hint else str(error)
    url = endpoint.url if endpoint.is_foreign else None
    per_1000 = price_of(model, _READ_OF_1000, 1000 - _READ_OF_1000, 0, settings.models.prices, base_url=url)
    return ModelPrice(model, per_1000)


def _left(goal: Goal, settings: Settings, run: RunId) -> Allowance:
    """Return what is left of the budgets, from the purse in the journal's file where there is one."""
    from wavewright.executor.budgets import NOTHING, Amount, Budgets, Pot, day_of
    from wavewright.executor.journal_faults import explain_use
    from wavewright.executor.journal_file import open_journal_file

    budgets = Budgets(settings.budgets)
    budgets.limit_run(run, goal.limits.budget)
    account = Account(run=run, job=goal.job, role="worker")
    if settings.journal_url is not None:
        with ThreadPoolExecutor(1) as alone:
            # An event loop may be running here already.
            return alone.submit(anyio.run, _left_elsewhere, account, goal, settings).result()
    path: Path = settings.journal
    if not path.exists():
        return budgets.left(account, day_of(time.time(), None), lambda _: NOTHING)
    with closing(open_journal_file(path, patience=2.0, is_read_only=True)) as connection:

        def total(pot: Pot) -> Amount:
            row = connection.execute(_TOTAL, pot).fetchone()
            return NOTHING if row is None else Amount(*row)

        try:
            if connection.execute(_HAS_PURSE).fetchone() is None:
                return budgets.left(account, day_of(time.time(), None), lambda _: NOTHING)
            (latest,) = connection.execute(_LATEST_DAY).fetchone()
            return budgets.left(account, day_of(time.time(), latest), total)
        except sqlite3.Error as error:
            raise explain_use(error, path, connection) from error


async def _left_elsewhere(account: Account, goal: Goal, settings: Settings) -> Allowance:
    """Return what is left, from the purse in the journal's database."""
    from wavewright.executor.stores import purse_of

    async with purse_of(settings) as purse:
        if account.run is not None:
            purse.limit_run(account.run, goal.limits.budget)
        return await purse.left(account)
