"""What a run asks language models through, opened for as long as it goes on."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from wavewright.config.settings import Settings
from wavewright.planner.allowance import Allowance, OpenPurse
from wavewright.planner.spending import Account
from wavewright.planner.types import RunId
from wavewright.tools.models import model_configured
from wavewright.tools.workers.services import Services, make_services


async def left_to_spend(purse: OpenPurse | None, run: RunId | None, job: str) -> Allowance | None:
    """Return what a run's steps may still spend; none where nothing costs anything."""
    return None if purse is None else await purse.left(Account(run=run, job=job, role="worker"))


@dataclass(frozen=True, slots=True)
class OpenServices:
    """Whom a run asks, and out of which purse."""

    services: Services
    purse: OpenPurse | None = None
    """None where no model is configured: nothing costs anything then."""


@asynccontextmanager
async def open_services(settings: Settings) -> AsyncGenerator[OpenServices]:
    """Open the configured models under the configured budgets; without a model there is nothing to open.

    Raises:
        ModelConfigError: a model's name, its key or an address is wrong or missing.
        DocumentError: a ladder of the settings is faulty.
        JournalError: the journal's file, which keeps the budgets, cannot be used.
    """
    if not model_configured(settings):
        yield OpenServices(make_services(settings))
        return
    from wavewright.executor.purse_sqlite import SqlitePurse
    from wavewright.tools.models import open_models

    settings.journal.parent.mkdir(parents=True, exist_ok=True)
    async with (
        SqlitePurse(settings.journal, settings.budgets) as purse,
        open_models(settings, purse) as models,
    ):
        services = make_services(settings, models, purse)
        services.ladder("planner")  # faulty ladders are told before a run begins
        yield OpenServices(services, purse)
