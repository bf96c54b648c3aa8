"""Inputs of a forecast from outside the plan: the journal's history, models with prices, and
remaining budgets.

Everything is only read: no journal is created, no model is asked, nothing is reserved. So `check`,
`dry-run` and `run` apply the same budgets. What is unknown is left out, and the forecast says so.
"""

from __future__ import annotations

import datetime as dt
import math
import os
import time
from dataclasses import replace
from functools import partial
from typing import Final

from wavewright.config import Settings
from wavewright.config.sections import BudgetsSection
from wavewright.engine.rehearsal.dry_run.estimates import ForecastInputs, ModelPrice
from wavewright.engine.rehearsal.dry_run.forecast import DryRun, forecast
from wavewright.engine.rehearsal.dry_run.history import find_stored, read_history, read_journal
from wavewright.engine.rehearsal.dry_run.kept_results import (
    BegunRunForecast,
    find_saved_calls,
    known_values,
)
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.found_targets import require_valid_expansion
from wavewright.engine.run.jobs.goal_in_words import with_kept_plan
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.previous_run import PreviousRun, find_previous
from wavewright.engine.run.project.tools import find_obstacles, signatures_to_check
from wavewright.engine.run.read_job import as_requested
from wavewright.engine.run.services import priced
from wavewright.engine.run.session import run_to_end
from wavewright.executor.budgets.limits import NO_AMOUNT, BudgetLimits, budget_day
from wavewright.executor.budgets.tables import budget_left
from wavewright.executor.stores import journal_of
from wavewright.planner import Goal, Plan, RunId, ToolSignature, ToolSignatures
from wavewright.planner.language.plan import Budget
from wavewright.planner.language.signatures import AGENT
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.previous_run import reads_previous
from wavewright.planner.ports.budgets import Allowance, BudgetScope
from wavewright.planner.ports.model_port import ModelError, Role
from wavewright.tools.models import model_configured
from wavewright.tools.models.endpoints import choose_model
from wavewright.tools.models.pricing import price_per_1000_tokens

_NEW_RUN: Final = RunId("dry-run")
"""Stands for a run that has spent nothing."""


def read_remaining_allowance(
    plan: Plan, goal: Goal | None, settings: Settings, *, job: str, run: RunId = _NEW_RUN
) -> Allowance | None:
    """Return what a run of the plan may spend; None if no model is configured, since nothing costs
    anything then.

    Args:
        plan: The plan, whose steps may have budgets of their own.
        goal: The goal with its budget and model preference; None for a plan alone.
        settings: The project's settings.
        job: The job whose budget applies.
        run: The begun run of the plan, if there is one.

    Raises:
        JournalError: there is a journal that cannot be read.
    """
    if not model_configured(settings):
        return None
    budget, preference = (
        (None, "auto") if goal is None else (goal.limits.budget, goal.model_preference)
    )
    return priced(_remaining_budget(settings, run, job, budget), preference, plan, settings)


def _remaining_budget(settings: Settings, run: RunId, job: str, budget: Budget | None) -> Allowance:
    """Return what the budgets of a run leave, as the journal has it; a journal that does not exist
    has no calls.
    """
    limits, now = BudgetLimits(settings.budgets), time.time()
    limits.limit_run(run, budget)
    scope = BudgetScope(run=run, job=job, role="worker")
    ask = partial(budget_left, scope=scope, limits=limits, now=now)
    left = run_to_end(partial(read_journal, settings.journal_url or settings.journal, ask))
    return left or limits.left(scope, budget_day(now, None), lambda _: NO_AMOUNT)


def gather_forecast_inputs(
    plan: Plan,
    goal: Goal,
    tools: ToolSignatures,
    settings: Settings,
    *,
    now: dt.datetime,
    rerun: BegunRunForecast | None = None,
) -> ForecastInputs:
    """Return the inputs of a plan's forecast; `rerun` is its run, if that has begun.

    Raises:
        JournalError: there is a journal that cannot be read.
    """
    called = {step.tool for step in plan.steps}
    journal = settings.journal_url or settings.journal
    history, find = read_history(journal, called), partial(find_stored, journal)
    saved = find_saved_calls(
        known_values(bind_plan(plan, goal), now, rerun),
        goal,
        tools,
        wall=time.time(),
        find=find,
        rerun=rerun,
    )
    obstacles = find_obstacles(plan, tools, settings)
    inputs = ForecastInputs(history, saved=saved, rerun=rerun, obstacles=obstacles)
    run = _NEW_RUN if rerun is None else rerun.run
    if not model_configured(settings):
        # Nothing is spent without a model, and yet the forecast shows the budgets that are set.
        has_budget = goal.limits.budget is not None or settings.budgets != BudgetsSection()
        if not has_budget:
            return inputs
        left = _remaining_budget(settings, run, goal.job, goal.limits.budget)
        return replace(inputs, allowance=left)
    asking = [
        tools[name] for name in sorted(called) if name in tools and tools[name].expected_tokens
    ]
    prices, stops = _model_prices(asking, goal, settings)
    allowance = read_remaining_allowance(plan, goal, settings, job=goal.job, run=run)
    return replace(inputs, prices=prices, allowance=allowance, has_models=True, notes=stops)


def forecast_job(
    order: ResolvedJob,
    settings: Settings,
    request: RunRequest | None = None,
    *,
    can_ask: bool = True,
    can_answer: bool | None = None,
) -> tuple[ToolSignatures, DryRun]:
    """Return the tools of a job that has not begun, and the dry run of its plan with the overrides
    of the request and of the settings.

    Raises:
        PlanError: the job has no plan, or the plan is not valid, also with the names of targets
            that it would find.
    """
    order = replace(order, goal=as_requested(order.goal, request or RunRequest(), settings))
    order = with_kept_plan(order, settings)
    plan = order.require_draft().plan
    tools = signatures_to_check(plan, order.goal, settings)
    now = order.goal.as_of or dt.datetime.now(dt.UTC)
    order = _with_previous(order, plan, tools, settings, now)
    outlook = gather_forecast_inputs(plan, order.goal, tools, settings, now=now)
    record = forecast(
        order, tools, now=now, outlook=outlook, can_ask=can_ask, can_answer=can_answer
    )
    if order.expansion is not None:
        require_valid_expansion(order, tools)
    return tools, record


def _with_previous(
    order: ResolvedJob,
    plan: Plan,
    tools: ToolSignatures,
    settings: Settings,
    now: dt.datetime,
) -> ResolvedJob:
    """Return the job with the previous run that it would read if it began now."""
    if not reads_previous(plan) or (settings.journal_url is None and not settings.journal.exists()):
        return order

    async def find() -> PreviousRun | None:
        async with journal_of(settings) as journal:
            return await find_previous(journal, order.goal, plan, tools, now.timestamp())

    previous = run_to_end(find)
    if previous is None:
        return order
    goal = order.goal.model_copy(update={"previous": previous.value})
    return replace(order, goal=goal)


def _model_prices(
    asking: list[ToolSignature], goal: Goal, settings: Settings
) -> tuple[dict[str, ModelPrice], tuple[str, ...]]:
    """Return the model that each tool would ask, with notes on why a run could not ask it; the
    dearest of those of a tool that may ask several.
    """
    prices: dict[str, ModelPrice] = {}
    notes: dict[str, None] = {}
    for tool in asking:
        role: Role = "agent" if tool.name == AGENT else "worker"
        candidates: list[ModelPrice] = []
        for own in tool.model_preferences:
            preference = goal.model_preference if own == "auto" else own
            try:
                model = choose_model(settings, preference, role, os.environ).model
                price = price_per_1000_tokens(model, settings, os.environ)
            except ModelError as error:
                reason = f"{error} ({error.hint})" if error.hint else str(error)
                notes[f"a run would stop: {reason}"] = None
                model, price = settings.model or preference, None
            candidates.append(ModelPrice(model, price))
        prices[tool.name] = max(candidates, key=_price_to_compare)
    return prices, tuple(notes)


def _price_to_compare(price: ModelPrice) -> float:
    """Return a price by which the dearest is found: one that is unknown may be any."""
    return math.inf if price.usd_per_1000_tokens is None else price.usd_per_1000_tokens
