"""The turn, declared once: its phases, their order and conditions, and the second pipeline that is compared with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Final

from wavewright.engine import Pipeline, TwinReport, maybe
from wavewright.planner.types import Json
from wavewright.tools.tabletop.game.events import PhaseBegan
from wavewright.tools.tabletop.game.rules import GAME_TOOLS
from wavewright.tools.tabletop.settings import AUTO_RUN_CAP
from wavewright.tools.tabletop.turn.agents import COMBAT, NARRATIVE, NPC, AgentRegistry, TurnAgent, TurnAgents
from wavewright.tools.tabletop.turn.context import (
    TurnContext,
    combat_active,
    combat_just_ended,
    combat_just_started,
    has_npc_targets,
    is_selected,
    needs_initial_prompt,
)
from wavewright.tools.tabletop.turn.game_master import fight, narrate, speak
from wavewright.tools.tabletop.turn.phases import (
    BeginDialogueSession,
    BuildAgentContext,
    CombatAutoRun,
    DetectNpcDialogueTargets,
    EnrichContextWithToolSuggestions,
    ExecuteAgent,
    ExecuteNpcDialogue,
    InitialCombatPrompt,
    ReloadState,
    SelectAgent,
    TransitionCombatToNarrative,
    TransitionNarrativeToCombat,
    WrapAllyActionIfNeeded,
)

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
    registry = AgentRegistry()
    for agent in _STANDARD_AGENTS:
        registry = registry.with_agent(agent)
    return registry


def turn_pipeline(
    agents: TurnAgents, cap: int = AUTO_RUN_CAP, name: str = "turn"
) -> Pipeline[TurnContext, TurnContext]:
    """Return the pipeline of a turn; the registered agents' own phases stand around `ExecuteAgent`."""
    registered = agents.registry.agents.values()
    preparation = (
        Pipeline.builder(name)
        .phase(DetectNpcDialogueTargets())
        .when(has_npc_targets, [BeginDialogueSession(), ExecuteNpcDialogue(agents)])
        .phase(WrapAllyActionIfNeeded())
        .phase(SelectAgent(agents.registry))
        .phase(BuildAgentContext())
        .phase(EnrichContextWithToolSuggestions())
    )
    for agent in registered:
        if agent.before:
            preparation = preparation.when(is_selected(agent.name), agent.before)
    execution = preparation.phase(ExecuteAgent(agents)).phase(ReloadState())
    for agent in registered:
        if agent.after:
            execution = execution.when(is_selected(agent.name), agent.after)
    return (
        execution.when(
            combat_just_started,
            [
                TransitionNarrativeToCombat(),
                maybe(needs_initial_prompt, InitialCombatPrompt(agents)),
            ],
        )
        .maybe(combat_active, CombatAutoRun(agents, cap))
        .maybe(combat_just_ended, TransitionCombatToNarrative(agents))
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
    """Return what twin runs compare of a context: all but what it is played on, and the begins of phases."""
    from pydantic_core import to_jsonable_python

    compared = {one.name: getattr(context, one.name) for one in fields(context)}
    del compared["table"], compared["effects"]
    compared["events"] = [event for event in context.events if not isinstance(event, PhaseBegan)]
    shown: Json = to_jsonable_python(compared)
    return shown
