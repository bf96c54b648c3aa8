"""Games as the tests play them: in memory, with dice that are known, and the events of a turn as
text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from wavewright.executor import MemoryJournal
from wavewright.packs.tabletop.game.events import (
    EVENTS,
    GameBegan,
    GameEvent,
    PhaseBegan,
    Said,
    Suggested,
)
from wavewright.packs.tabletop.game.fold import apply, fold_events
from wavewright.packs.tabletop.game.rules import events_of_call
from wavewright.packs.tabletop.game.state import GameState
from wavewright.packs.tabletop.game.world import PLAYER, Condition, World, read_world
from wavewright.packs.tabletop.session import Game
from wavewright.packs.tabletop.turn.agents import AgentRegistry
from wavewright.planner.types import JsonObject

TO_ENTRANCE = ("go to gate", "go to entrance")
WITH_SELA = ("go to inn", "hire Sela", "go to square", *TO_ENTRANCE)


def world_with(**creatures: JsonObject) -> World:
    """Return the world that comes with the pack, with some fields of its creatures replaced."""
    world = read_world()
    changed = {
        name: world.creatures[name].model_copy(update=fields) for name, fields in creatures.items()
    }
    return world.model_copy(update={"creatures": {**world.creatures, **changed}})


def new_state(
    seed: str = "one",
    world: World | None = None,
    *,
    place: str = "square",
    hit_points: int | None = None,
    items: Mapping[str, int] | None = None,
    conditions: Mapping[Condition, int] | None = None,
) -> GameState:
    """Return the state of a new game whose player is somewhere, hurt, or carries something else."""
    state = fold_events([GameBegan(seed, world or read_world())]).state
    player = replace(state.player, place=place, conditions=conditions or {})
    player = player if hit_points is None else replace(player, hit_points=hit_points)
    return state.with_creature(PLAYER, player if items is None else replace(player, items=items))


def after(state: GameState, *calls: tuple[str, JsonObject]) -> GameState:
    """Return the state after calls of tools."""
    for tool, params in calls:
        for event in events_of_call(state, tool, params):
            state = apply(state, event)
    return state


async def play(
    *messages: str,
    seed: str = "one",
    journal: MemoryJournal | None = None,
    world: World | None = None,
    registry: AgentRegistry | None = None,
    cap: int = 20,
    agent_hint: str | None = None,
) -> list[list[GameEvent]]:
    """Play turns in a game and return the events of each."""
    turns: list[list[GameEvent]] = []
    async with Game.open(
        journal or MemoryJournal(), seed=seed, world=world, registry=registry, cap=cap
    ) as game:
        turns += [
            [numbered.event async for numbered in game.turn(message, agent_hint)]
            for message in messages
        ]
    return turns


def text_of(events: Iterable[GameEvent]) -> str:
    """Return events as text, a line for each."""
    return "\n".join(_line(event) for event in events)


def _line(event: GameEvent) -> str:
    if isinstance(event, PhaseBegan):
        return f". {event.phase}"
    if isinstance(event, Said):
        return f"{event.speaker} [{event.speech}]: {event.text}"
    if isinstance(event, Suggested):
        return f"suggested: {[option.label for option in event.options]}"
    (fields,) = cast("list[JsonObject]", EVENTS.dump_python((event,), mode="json"))
    kind = fields.pop("kind")
    return f"{kind}: " + ", ".join(f"{name}={value!r}" for name, value in fields.items())


def kinds_of(events: Sequence[GameEvent]) -> list[str]:
    """Return the kinds of events, without the phases."""
    return [event.kind for event in events if not isinstance(event, PhaseBegan)]


def phases_of(events: Sequence[GameEvent]) -> list[str]:
    """Return the phases of a turn."""
    return [event.phase for event in events if isinstance(event, PhaseBegan)]
