"""The turn, declared once: its agents, its phases with their order and conditions, and what it is
compared with.

Two of the agents join by registration alone: one raises the player's level, one adds places to the
map.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

from pydantic_core import to_jsonable_python

from wavewright.engine import PhaseResult, Pipeline, TwinReport, maybe, proceed
from wavewright.packs.tabletop.game.events import LevelGained, Option, PhaseBegan, PlaceAdded
from wavewright.packs.tabletop.game.rules import AUTO_RUN_CAP, GAME_TOOLS, MAX_PLACES
from wavewright.packs.tabletop.game.state import GameState
from wavewright.packs.tabletop.turn import phases
from wavewright.packs.tabletop.turn.agents import (
    COMBAT,
    NARRATIVE,
    NPC,
    AgentRegistry,
    AgentRequest,
    ToolUser,
    TurnAgent,
    TurnAgents,
)
from wavewright.packs.tabletop.turn.context import (
    TurnContext,
    TurnPhase,
    combat_active,
    combat_just_ended,
    combat_just_started,
    has_npc_targets,
    is_selected,
    needs_initial_prompt,
)
from wavewright.packs.tabletop.turn.game_master import IntendedCall, attempt, fight, narrate, speak
from wavewright.planner import Json, JsonObject

_STANDARD_AGENTS: Final = (
    TurnAgent(
        NARRATIVE,
        "Tells the story outside fights, and acts for the player.",
        "tabletop/narrative",
        GAME_TOOLS,
        narrate,
        selects=lambda _: True,
    ),
    TurnAgent(
        NPC,
        "Speaks as a person whom the player addresses.",
        "tabletop/npc",
        ("give", "roll"),
        speak,
        selects=lambda _: False,  # it is asked by `ExecuteNpcDialogue`, whoever is selected
    ),
    TurnAgent(
        COMBAT,
        "Plays fights: what the player says, and the turns of enemies.",
        "tabletop/combat",
        ("attack", "end_combat", "give", "roll"),
        fight,
        selects=combat_active,
    ),
)


def standard_registry() -> AgentRegistry:
    """Return the registry with the agents that every game has."""
    return AgentRegistry({agent.name: agent for agent in _STANDARD_AGENTS})


def turn_pipeline(
    agents: TurnAgents, cap: int = AUTO_RUN_CAP, name: str = "turn"
) -> Pipeline[TurnContext, TurnContext]:
    """Return the pipeline of a turn; the registered agents' own phases stand around `ExecuteAgent`."""
    registered = agents.registry.agents.values()
    preparation = (
        Pipeline.builder(name)
        .phase(phases.DetectNpcDialogueTargets())
        .when(has_npc_targets, [phases.BeginDialogueSession(), phases.ExecuteNpcDialogue(agents)])
        .phase(phases.WrapAllyActionIfNeeded())
        .phase(phases.SelectAgent(agents.registry))
        .phase(phases.BuildAgentContext())
        .phase(phases.EnrichContextWithToolSuggestions())
    )
    for agent in registered:
        if agent.before:
            preparation = preparation.when(is_selected(agent.name), agent.before)
    execution = preparation.phase(phases.ExecuteAgent(agents)).phase(phases.ReloadState())
    for agent in registered:
        if agent.after:
            execution = execution.when(is_selected(agent.name), agent.after)
    return (
        execution.when(
            combat_just_started,
            [
                phases.TransitionNarrativeToCombat(),
                maybe(needs_initial_prompt, phases.InitialCombatPrompt(agents)),
            ],
        )
        .maybe(combat_active, phases.CombatAutoRun(agents, cap))
        .maybe(combat_just_ended, phases.TransitionCombatToNarrative(agents))
        .build()
    )


@dataclass(frozen=True, slots=True)
class TurnTwin:
    """A second pipeline that is run beside the turn's own on some turns."""

    make: Callable[[TurnAgents, int], Pipeline[TurnContext, TurnContext]]
    """Makes it of the agents and the cap of turns of enemies."""
    report: Callable[[TwinReport], None]
    sample: float = 1.0
    seconds: float = 30.0


def view_of_turn(context: TurnContext) -> Json:
    """Return what twin runs compare of a context: all but what it is played on, and the begins of
    phases.
    """
    compared = {one.name: getattr(context, one.name) for one in fields(context)}
    del compared["table"], compared["effects"]
    compared["events"] = [event for event in context.events if not isinstance(event, PhaseBegan)]
    shown: Json = to_jsonable_python(compared)
    return shown


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
        Option(f"level up: {choice.replace('_', ' ')}", "level_up", {"choice": choice})
        for choice in CHOICES
    )


class OfferLevelChoices(TurnPhase):
    """Suggest what can get better by a new level."""

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Put the choices before the other suggestions."""
        options = level_options(context.game_state)
        return proceed(context.with_updates(suggestions=(*options, *context.suggestions)))


class CheckLevelChoice(TurnPhase):
    """Report a turn of the Level-Up agent in which no level was gained."""

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Add an error for log and caller where the turn brought no level."""
        if any(isinstance(event, LevelGained) for event in context.events):
            return proceed(context)
        return proceed(
            context.with_updates(errors=(*context.errors, "no level was gained")),
            "no level was gained",
        )


class TellMapLimits(TurnPhase):
    """Tell the agent which places there are, and how many more there may be."""

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Add the names of all places to what the agent is told."""
        places = context.game_state.places
        names = ", ".join(place.name for place in places.values())
        text = f"{context.context_text}\n\nPlaces ({len(places)} of at most {MAX_PLACES}): {names}"
        return proceed(context.with_updates(context_text=text))


class CheckNewPlaces(TurnPhase):
    """Check that a way leads back from every place that the turn has added."""

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
    return await attempt(tools, IntendedCall("level_up", {"choice": choice}))


async def create_by_rules(request: AgentRequest, tools: ToolUser) -> str:
    """Add the place that the message describes, as `create place NAME: DESCRIPTION`."""
    wished = _CREATE.search(request.message)
    if wished is None:
        return "Say it as: create place NAME: DESCRIPTION."
    described = wished["what"].strip() or "There is nothing to be seen yet."
    place: JsonObject = {"name": wished["name"].strip(), "description": described}
    return await attempt(tools, IntendedCall("create_place", place))


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
