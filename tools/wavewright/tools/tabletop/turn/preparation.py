"""Phases of asking an agent: whose action it is, who answers, what it is told, its answer, and the state after it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavewright.engine import PhaseResult, proceed
from wavewright.tools.tabletop.game.events import AgentSelected
from wavewright.tools.tabletop.game.options import options_of
from wavewright.tools.tabletop.game.state import GameState
from wavewright.tools.tabletop.game.wording import describe_party, describe_scene
from wavewright.tools.tabletop.game.world import PLAYER
from wavewright.tools.tabletop.turn.agents import NARRATIVE, AgentRegistry, AgentRequest, TurnAgents
from wavewright.tools.tabletop.turn.context import TurnContext, reload_context, wrap_ally_action


@dataclass(frozen=True, slots=True)
class WrapAllyActionIfNeeded:
    """Mark a message that says what an ally does in its turn of a fight."""

    name: str = "WrapAllyActionIfNeeded"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Wrap the message once; one that is wrapped already stays as it is."""
        state = context.game_state
        if not state.is_ally_turn or state.combat is None:
            return proceed(context)
        message = wrap_ally_action(context.user_message, state.creatures[state.combat.current].name)
        flags = replace(context.flags, is_ally_turn=True)
        return proceed(context.with_updates(user_message=message, flags=flags))


@dataclass(frozen=True, slots=True)
class SelectAgent:
    """Choose the agent that answers."""

    registry: AgentRegistry
    name: str = "SelectAgent"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Choose among the registered agents by the state machine and the caller's hint."""
        agent = self.registry.select(context).name
        await context.table.record("selected", lambda _: [AgentSelected(agent)])
        return proceed(reload_context(context).with_updates(selected_agent_type=agent))


@dataclass(frozen=True, slots=True)
class BuildAgentContext:
    """Write down what the agent is told of the game."""

    name: str = "BuildAgentContext"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Tell the scene, the party, and what was said lately."""
        return proceed(context.with_updates(context_text=context_text(context.table.state)))


def context_text(state: GameState) -> str:
    """Return what an agent is told of the game: the scene, the party, and what was said lately."""
    return "\n\n".join([describe_scene(state), describe_party(state), "\n".join(state.said)])


@dataclass(frozen=True, slots=True)
class EnrichContextWithToolSuggestions:
    """Add the calls of tools that the rules allow now."""

    name: str = "EnrichContextWithToolSuggestions"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Suggest what whoever acts can do, whichever agent answers."""
        state = context.game_state
        actor = PLAYER if state.combat is None else state.combat.current
        return proceed(context.with_updates(suggestions=options_of(state, actor)))


@dataclass(frozen=True, slots=True)
class ExecuteAgent:
    """Let the agent act and answer."""

    agents: TurnAgents
    name: str = "ExecuteAgent"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Ask the agent that was selected; what happens is shown as it happens."""
        request = AgentRequest(
            context.selected_agent_type or NARRATIVE,
            context.user_message,
            context=context.context_text,
            suggestions=context.suggestions,
        )
        asked = await self.agents.ask(request, context)
        # The transitions of the agent's calls are for `ReloadState` to take.
        return proceed(context.with_updates(errors=asked.errors))


@dataclass(frozen=True, slots=True)
class ReloadState:
    """Read the state again, and take the transitions of what has happened."""

    name: str = "ReloadState"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Return the context with the state of now; a second reload changes nothing."""
        return proceed(reload_context(context))
