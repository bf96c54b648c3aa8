"""What a forecast knows from outside the plan: the journal's history, models and prices, and what is left to spend.

The *outlook* is gathered by reading alone: no journal is made where there is none, nobody is asked, nothing is put
aside. What is not known is left out of it, and the forecast says so.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Collection, Mapping
from functools import partial

from wavewright.config.settings import Settings
from wavewright.engine.dry_run_estimates import ForecastInputs, ModelPrice
from wavewright.engine.dry_run_rerun import BegunRunForecast
from wavewright.engine.dry_run_reuse import FindStored, find_reuse
from wavewright.engine.obstacles import find_obstacles
from wavewright.engine.past_calls import History
from wavewright.engine.unspent import price_of_role, read_remaining_allowance
from wavewright.planner.binding import bind_plan
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan
from wavewright.planner.signatures import ToolSignature
from wavewright.tools.models import model_configured
from wavewright.tools.workers.services import AGENT


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
        from wavewright.engine.history import find_stored, read_history

        return read_history(settings.journal, tools), partial(find_stored, settings.journal)
    from wavewright.engine import history_in_database

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
    from wavewright.tools.workers.files import load_workers

    specs = [worker.spec for worker in load_workers(settings.workers)]
    return {spec.name: spec.model_preference for spec in specs if spec.model_preference != "auto"}
