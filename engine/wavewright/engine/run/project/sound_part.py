"""The part of a project that can be shown although another part of it is faulty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeAlias

from wavewright.config import Settings
from wavewright.engine.run.project.tools import load_named_pack
from wavewright.planner import Json
from wavewright.tools import PackError, ToolDefinitionError, load_user_tools

ToolFault: TypeAlias = ToolDefinitionError | PackError
"""Why a part of a project brings no tools."""


def sound_part(settings: Settings) -> tuple[Settings, tuple[ToolFault, ...]]:
    """Return the settings without the functions, workers, agents and packs that are none, and why
    each is none: for who shows what there is. What runs goes by the whole.
    """
    faults: list[ToolFault] = []

    def is_sound(load: Callable[[], object]) -> bool:
        try:
            load()
        except (ToolDefinitionError, PackError) as error:
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
    packs: dict[str, Json] = {}
    for name, pack_settings in settings.packs.items():
        alone = replace(settings, packs={name: pack_settings}, tools=(), workers=(), agents=())
        if is_sound(partial(load_named_pack, name, alone)):
            packs[name] = pack_settings
    return replace(sound, packs=packs), tuple(faults)
