"""The games of a project: its settings, its journal of games, and its models, opened together."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

from wavewright.config import Settings, load_settings
from wavewright.engine import PhaseListener, TwinReport, TwinSettings
from wavewright.executor import JournalReplayCache, SqliteJournal, budget_store_of
from wavewright.packs.tabletop.session import Game
from wavewright.packs.tabletop.settings import TabletopSettings, read_settings
from wavewright.packs.tabletop.turn.agents import AgentRegistry
from wavewright.packs.tabletop.turn.header import CREATOR, LEVEL_UP, TurnTwin, standard_registry
from wavewright.planner import JsonObject, ReplayCache
from wavewright.tools import Services, make_services, open_models


@asynccontextmanager
async def open_project_game(
    root: Path | str = ".",
    name: str = "game",
    *,
    registry: AgentRegistry | None = None,
    listeners: Sequence[PhaseListener] = (),
    report_twin: Callable[[TwinReport], None] | None = None,
    environment: Mapping[str, str] = os.environ,
) -> AsyncGenerator[Game]:
    """Open a game of the project in a folder; its agents are models where the project has one.

    Args:
        root: The folder.
        name: Of the game.
        registry: The agents; those that every game has, Level-Up and Creator where absent.
        listeners: Are told of each phase.
        report_twin: Takes the reports of the second pipeline that the settings name; without it
            none is run.
        environment: The environment variables, which may name the model and hold its key.

    Raises:
        DocumentError: the settings cannot be read.
        PackError: those of the pack, or the world that they name, are wrong.
        ModelConfigError: a model's name, its key or an address is wrong or missing.
        JournalError: the journal cannot be used, or another process has the game open.
        WavewrightError: the second pipeline cannot be made.
    """
    settings = load_settings(Path(root), environment)
    given = pack_settings(settings)
    file = given.games_file(settings.root)
    file.parent.mkdir(parents=True, exist_ok=True)
    async with AsyncExitStack() as stack:
        journal = await stack.enter_async_context(SqliteJournal(file))
        memory = JournalReplayCache(journal)
        services = await _open_services(settings, memory, environment, stack)
        yield await stack.enter_async_context(
            Game.open(
                journal,
                name,
                seed=given.seed,
                world=given.world_of(settings.root),
                registry=registry or standard_registry().with_agent(LEVEL_UP).with_agent(CREATOR),
                services=services,
                cap=given.auto_run_cap,
                listeners=listeners,
                twin=None
                if report_twin is None
                else _twin_of(given.twin, settings.root, report_twin),
            )
        )


def pack_settings(settings: Settings) -> TabletopSettings:
    """Return what a project sets for the pack.

    Raises:
        PackError: a field is unknown or has a wrong value.
    """
    return read_settings(cast("JsonObject", settings.packs.get("tabletop", {})))


def _twin_of(
    given: TwinSettings | None, root: Path, report: Callable[[TwinReport], None]
) -> TurnTwin | None:
    if given is None:
        return None
    return TurnTwin(partial(given.make, root), report, given.sample, given.seconds)


async def _open_services(
    settings: Settings, memory: ReplayCache, environment: Mapping[str, str], stack: AsyncExitStack
) -> Services | None:
    """Open the models of the settings under their budgets; None where no model is configured.

    The models keep their answers in `memory`.
    """
    if settings.model is None:
        return None
    budgets = await stack.enter_async_context(budget_store_of(settings))
    models = await stack.enter_async_context(
        # Libraries that are loaded at the first question would block the page.
        open_models(settings, budgets, environment=environment, memory=memory, loads_libraries=True)
    )
    return make_services(settings, models, budgets, memory)
