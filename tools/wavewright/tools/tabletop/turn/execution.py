"""Phases in which an agent answers, and after which the state is read again."""

from __future__ import annotations

from dataclasses import dataclass

from wavewright.engine import PhaseResult, proceed
from wavewright.tools.tabletop.turn.agents import NARRATIVE, AgentRequest, TurnAgents
from wavewright.tools.tabletop.turn.context import TurnContext, reload_context


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
