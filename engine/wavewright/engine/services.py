"""What a run asks language models through, opened for as long as it goes on."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

from wavewright.config.settings import Settings
from wavewright.planner.allowance import Allowance, InspectableBudgetStore
from wavewright.planner.goals import Goal
from wavewright.planner.memory import NULL_REPLAY_CACHE, ReplayCache
from wavewright.planner.model_port import ModelError
from wavewright.planner.models import Plan
from wavewright.planner.spending import BudgetScope
from wavewright.planner.types import RunId
from wavewright.tools.models import model_configured
from wavewright.tools.models.circuit import ALWAYS_CLOSED, CircuitBreaker
from wavewright.tools.workers.services import Services, make_services


async def remaining_allowance(
    purse: InspectableBudgetStore | None,
    services: Services,
    settings: Settings,
    goal: Goal,
    *,
    run: RunId,
    plan: Plan | None = None,
) -> Allowance | None:
    """Return what a run's steps may still spend; none where nothing costs anything.

    Where a budget of money is set, also by a step of the plan, the price of a token comes with it, of the model that
    a worker without a preference of its own would ask.
    """
    if purse is None:
        return None
    allowance = await purse.left(BudgetScope(run=run, job=goal.job, role="worker"))
    steps = plan.steps if plan is not None else ()
    if not allowance.bounds_usd and all(step.budget is None or step.budget.usd is None for step in steps):
        return allowance
    return replace(allowance, usd_per_1000_tokens=_worker_price(services, settings, goal))


def _worker_price(services: Services, settings: Settings, goal: Goal) -> float | None:
    """Return the price of 1,000 tokens; None where nobody knows it, and then calls are refused as they are made."""
    from wavewright.tools.models.prices import price_per_1000_tokens

    if services.models is None:
        return None
    try:
        return price_per_1000_tokens(
            services.models.choose(goal.model_preference, "worker").model, settings, os.environ
        )
    except ModelError:
        return None


@dataclass(frozen=True, slots=True)
class OpenServices:
    """Whom a run asks, and out of which purse."""

    services: Services
    budget_store: InspectableBudgetStore | None = None
    """None where no model is configured: nothing costs anything then."""


@asynccontextmanager
async def open_services(
    settings: Settings,
    purse: InspectableBudgetStore | None = None,
    memory: ReplayCache = NULL_REPLAY_CACHE,
    circuit: CircuitBreaker = ALWAYS_CLOSED,
) -> AsyncGenerator[OpenServices]:
    """Open the configured models under the configured budgets; without a model there is nothing to open.

    Args:
        settings: The project's.
        purse: Keeps the budgets; the one in the journal's file where absent.
        memory: What was answered in earlier lives of the runs that ask.
        circuit: Keeps questions from a provider that is out of order.

    Raises:
        ModelConfigError: a model's name, its key or an address is wrong or missing.
        DocumentError: a ladder of the settings is faulty.
        PlanError: the calibration of the settings is absent or faulty.
        JournalError: the journal's file, which keeps the budgets, cannot be used.
    """
    if not model_configured(settings):
        yield OpenServices(make_services(settings))
        return
    from wavewright.executor.stores import budget_store_of
    from wavewright.reviewer.calibration import read_calibration
    from wavewright.tools.models import open_models

    if settings.calibration is not None:
        read_calibration(settings.calibration)  # a faulty one is told before a plan is paid for
    async with AsyncExitStack() as stack:
        kept: InspectableBudgetStore = (
            await stack.enter_async_context(budget_store_of(settings)) if purse is None else purse
        )
        models = await stack.enter_async_context(open_models(settings, kept, memory=memory, circuit=circuit))
        services = make_services(settings, models, kept, memory)
        services.ladder("planner")  # faulty ladders are told before a run begins
        yield OpenServices(services, kept)
