"""Models over the scripted server, with a purse to look into: what the tests of the wire ask with."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from wavewright.config.sections import BudgetsSection, ModelsSection
from wavewright.config.settings import Settings, load_settings
from wavewright.engine.rehearsal.fake_model.request import Wire
from wavewright.engine.rehearsal.fake_model.server import FakeModelServer
from wavewright.executor.budgets.memory import MemoryBudgetStore
from wavewright.planner.ports.budgets import BudgetScope, Spend
from wavewright.planner.ports.model_port import ModelCall, ModelClient, ModelUse
from wavewright.planner.types import RunId
from wavewright.tools.models import open_models

RUN = RunId("run_wire")


@dataclass(frozen=True, slots=True)
class Asking:
    """Models, what they cost so far, and who pays."""

    models: ModelClient
    budget_store: MemoryBudgetStore
    uses: list[ModelUse] = field(default_factory=list[ModelUse])

    async def spent(self) -> Spend:
        """Return what the run has spent, reservations included."""
        return (await self.budget_store.left(BudgetScope(run=RUN))).run.spent


def settings_for(
    server: FakeModelServer,
    folder: Path,
    wire: Wire = "chat",
    *,
    budgets: BudgetsSection | None = None,
    is_forced: bool = True,
    **models: Any,
) -> Settings:
    """Return the settings of a project in a folder whose model is the server."""
    settings = load_settings(folder, server.environment(wire))
    section = ModelsSection.model_validate(
        {"attempt_seconds": 20.0, "prices": {"scripted": {"input": 1, "output": 2}}, **models}
    )
    return replace(
        settings, models=section, budgets=budgets or BudgetsSection(), model_is_forced=is_forced
    )


@asynccontextmanager
async def models_over(
    server: FakeModelServer,
    folder: Path,
    wire: Wire = "chat",
    *,
    budgets: BudgetsSection | None = None,
    is_forced: bool = True,
    **models: Any,
) -> AsyncGenerator[Asking]:
    """Open the models of such a project; `models` is the section of that name."""
    settings = settings_for(server, folder, wire, budgets=budgets, is_forced=is_forced, **models)
    async with (
        MemoryBudgetStore(settings.budgets) as budget_store,
        open_models(settings, budget_store, environment=server.environment(wire)) as opened,
    ):
        yield Asking(opened, budget_store)


def question(prompt: str = "How much is it?", **fields: Any) -> ModelCall:
    """Return a question of the run."""
    call = ModelCall("worker", "asker", "Be short.", prompt, run=RUN)
    return replace(call, **fields)
