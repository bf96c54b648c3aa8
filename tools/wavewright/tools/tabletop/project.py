"""The games of a project: its settings, its journal of games, and its models, opened together."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

from wavewright.config.settings import Settings, load_settings
from wavewright.engine import PhaseListener
from wavewright.executor import budget_store_of
from wavewright.planner.types import JsonObject
from wavewright.tools.models import open_models
from wavewright.tools.tabletop.session import Game
from wavewright.tools.tabletop.settings import read_settings
from wavewright.tools.tabletop.turn.agents import AgentRegistry
from wavewright.tools.workers import Services, make_services


@asynccontextmanager
async def open_project_game(
    root: Path | str = ".",
    name: str = "game",
    *,
    registry: AgentRegistry | None = None,
    listeners: Sequence[PhaseListener] = (),
    environment: Mapping[str, str] = os.environ,
) -> AsyncGenerator[Game]:
    """Open a game of the project in a folder; its agents are models where the project has one.

    Args:
        root: The folder.
        name: Of the game.
        registry: The agents; those that every game has where absent.
        listeners: Are told of each phase.
        environment: The environment variables, which may name the model and hold its key.

    Raises:
        DocumentError: the settings cannot be read.
        PackError: those of the pack, or the world that they name, are wrong.
        ModelConfigError: a model's name, its key or an address is wrong or missing.
        JournalError: the journal cannot be used, or somebody else has the game open.
    """
    settings = load_settings(Path(root), environment)
    given = read_settings(cast("JsonObject", settings.packs.get("tabletop", {})))
    file = given.games_file(settings.root)
    file.parent.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        services = await _open_services(settings, environment, stack)
        yield await stack.enter_async_context(
            Game.open(
                file,
                name,
                seed=given.seed,
                world=given.world_of(settings.root),
                registry=registry,
                services=services,
                cap=given.auto_run_cap,
                listeners=listeners,
            )
        )


async def _open_services(
    settings: Settings, environment: Mapping[str, str], stack: AsyncExitStack
) -> Services | None:
    """Open the models of the settings under their budgets; None where no model is configured."""
    if settings.model is None:
        return None
    budgets = await stack.enter_async_context(budget_store_of(settings))
    models = await stack.enter_async_context(open_models(settings, budgets, environment=environment))
    return make_services(settings, models, budgets)
