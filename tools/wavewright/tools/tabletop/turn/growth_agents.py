"""Agents that join by registration alone: one raises the player's level, one adds places to the map."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from wavewright.engine import PhaseResult, proceed
from wavewright.planner.types import Json
from wavewright.tools.functions.tool import ToolError
from wavewright.tools.tabletop.game.events import LevelGained, Option, PlaceAdded
from wavewright.tools.tabletop.game.rules import MAX_PLACES
from wavewright.tools.tabletop.game.state import GameState
from wavewright.tools.tabletop.turn.agents import AgentRequest, ToolUser, TurnAgent
from wavewright.tools.tabletop.turn.context import TurnContext

CHOICES: Final = ("hit_points", "attack", "armor")
_LEVEL: Final = re.compile(r"\blevel[ -]?up\b", re.IGNORECASE)
_CREATE: Final = re.compile(
    r"\b(?:create|add) (?:a )?place (?:called |named )?(?P<name>[^:.]+)[:.]?\s*(?P<what>.*)",
    re.IGNORECASE | re.DOTALL,
)


def level_options(state: GameState) -> tuple[Option, ...]:
    """Return what can get better by a new level; nothing where none is due, or in a fight."""
    if not state.is_level_due or state.combat is not None:
        return ()
    return tuple(
        Option(f"level up: {choice.replace('_', ' ')}", "level_up", {"choice": choice}) for choice in CHOICES
    )


@dataclass(frozen=True, slots=True)
class OfferLevelChoices:
    """Suggest what can get better by a new level."""

    name: str = "OfferLevelChoices"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Put the choices before the other suggestions."""
        options = level_options(context.game_state)
        return proceed(context.with_updates(suggestions=(*options, *context.suggestions)))


@dataclass(frozen=True, slots=True)
class CheckLevelChoice:
    """Report a turn of the Level-Up agent in which no level was gained."""

    name: str = "CheckLevelChoice"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Add an error for log and caller where the turn brought no level."""
        if any(isinstance(event, LevelGained) for event in context.events):
            return proceed(context)
        return proceed(
            context.with_updates(errors=(*context.errors, "no level was gained")), "no level was gained"
        )


@dataclass(frozen=True, slots=True)
class TellMapLimits:
    """Tell the agent which places there are, and how many more there may be."""

    name: str = "TellMapLimits"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Add the names of all places to what the agent is told."""
        places = context.game_state.places
        names = ", ".join(place.name for place in places.values())
        text = f"{context.context_text}\n\nPlaces ({len(places)} of at most {MAX_PLACES}): {names}"
        return proceed(context.with_updates(context_text=text))


@dataclass(frozen=True, slots=True)
class CheckNewPlaces:
    """Check that a way leads back from every place that the turn has added."""

    name: str = "CheckNewPlaces"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Add an error for each place without a way back."""
        places = context.game_state.places
        lost = [
            f"no way leads to {event.place.name}"
            for event in context.events
            if isinstance(event, PlaceAdded)
            and not any(event.id in places[exit_].exits for exit_ in event.place.exits)
        ]
        return proceed(context.with_updates(errors=(*context.errors, *lost)))


async def level_up_by_rules(request: AgentRequest, tools: ToolUser) -> str:
    """Raise the level by the choice that the message names; ask for one where it names none."""
    text = request.message.lower().replace(" ", "_")
    choice = next((choice for choice in CHOICES if choice in text), None)
    if choice is None:
        return "What shall get better: hit points, attack or armor?"
    return await _call(tools, "level_up", {"choice": choice})


async def create_by_rules(request: AgentRequest, tools: ToolUser) -> str:
    """Add the place that the message describes, as `create place NAME: DESCRIPTION`."""
    wished = _CREATE.search(request.message)
    if wished is None:
        return "Say it as: create place NAME: DESCRIPTION."
    described = wished["what"].strip() or "There is nothing to be seen yet."
    return await _call(tools, "create_place", {"name": wished["name"].strip(), "description": described})


async def _call(tools: ToolUser, tool: str, params: dict[str, Json]) -> str:
    try:
        return await tools.call(tool, params)
    except ToolError as error:
        return f"That cannot be done: {error.message}."


LEVEL_UP: Final = TurnAgent(
    "level_up",
    "Raises the level of the player, once it has the experience.",
    "tabletop/level_up",
    ("level_up",),
    level_up_by_rules,
    selects=lambda context: (
        context.machine.mode == "narrative" and _LEVEL.search(context.user_message) is not None
    ),
    offers=level_options,
    before=(OfferLevelChoices(),),
    after=(CheckLevelChoice(),),
)
CREATOR: Final = TurnAgent(
    "creator",
    "Adds places to the map, when the player asks for one.",
    "tabletop/creator",
    ("create_place",),
    create_by_rules,
    selects=lambda context: (
        context.machine.mode == "narrative" and _CREATE.search(context.user_message) is not None
    ),
    before=(TellMapLimits(),),
    after=(CheckNewPlaces(),),
)
