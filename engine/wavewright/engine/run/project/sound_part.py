"""The part of a project that can be shown although another part of it is faulty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from wavewright.config.settings import Settings
from wavewright.planner.types import Json
from wavewright.tools.functions.errors import ToolDefinitionError
from wavewright.tools.functions.user_tools import load_user_tools


def sound_part(settings: Settings) -> tuple[Settings, tuple[ToolDefinitionError, ...]]:
    """Return the settings without the functions, workers and agents that are none, and why each is
    none: for who shows what there is. What runs goes by the whole.
    """
    faults: list[ToolDefinitionError] = []

    def is_sound(load: Callable[[], object]) -> bool:
        try:
            load()
        except ToolDefinitionError as error:
            faults.append(error)
            return False
        return True

    functions: list[Json] = []
    for position, entry in enumerate(settings.tools):
        if is_sound(partial(load_user_tools, (entry,), settings.root, first=position)):
            functions.append(entry)
    workers, agents = settings.workers, settings.agents
    if any(place.suffix or place.exists() for place in (*workers, *agents)):
        # Most projects have neither.
        from wavewright.tools.workers.named_agents import load_agents
        from wavewright.tools.workers.specs import load_workers, spec_files

        workers = tuple(
            file for file in spec_files(workers) if is_sound(partial(load_workers, [file]))
        )
        agents = tuple(
            file for file in spec_files(agents) if is_sound(partial(load_agents, [file]))
        )
    sound = replace(settings, tools=tuple(functions), workers=workers, agents=agents)
    return sound, tuple(faults)
