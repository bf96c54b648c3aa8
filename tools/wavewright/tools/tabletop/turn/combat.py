"""Phases of a fight: its begin, the turns of enemies and allies, and its end."""

from __future__ import annotations

from dataclasses import dataclass

from wavewright.engine import PhaseResult, proceed
from wavewright.tools.tabletop.game.events import CombatBegan, CombatEnded, Suggested
from wavewright.tools.tabletop.game.options import options_of
from wavewright.tools.tabletop.game.state import Combat
from wavewright.tools.tabletop.game.wording import describe_events
from wavewright.tools.tabletop.game.world import PLAYER
from wavewright.tools.tabletop.turn.agents import COMBAT, ENGINE, NARRATIVE, NPC, AgentRequest, TurnAgents
from wavewright.tools.tabletop.turn.context import TurnContext, reload_context
from wavewright.tools.tabletop.turn.preparation import context_text
from wavewright.tools.tabletop.turn.table import GameTable


async def _say_from(table: GameTable, kind: type[CombatBegan | CombatEnded]) -> None:
    """Say the last event of a kind in this turn, and what came with it of the end of a fight."""
    events = table.turn_events
    at = next((at for at in reversed(range(len(events))) if isinstance(events[at], kind)), None)
    if at is not None:
        count = 1 if kind is CombatBegan else len(events)
        await table.say(ENGINE, describe_events(events[at : at + count], table.state), "system")


@dataclass(frozen=True, slots=True)
class TransitionNarrativeToCombat:
    """Say that a fight has begun, and in which order."""

    name: str = "TransitionNarrativeToCombat"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Sum up the begin of the fight."""
        await _say_from(context.table, CombatBegan)
        return proceed(reload_context(context))


@dataclass(frozen=True, slots=True)
class InitialCombatPrompt:
    """Let the combat agent open the fight."""

    agents: TurnAgents
    name: str = "InitialCombatPrompt"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Prompt it with whose turn it is; an enemy may act at once, the player is only told."""
        combat = context.table.state.combat
        if combat is None:
            return proceed(context)
        current = context.table.state.creatures[combat.current]
        is_players = combat.current == PLAYER
        done = "Describe the scene; the player has not acted yet." if is_players else "Play this turn."
        request = AgentRequest(
            COMBAT,
            f"The fight begins, and it is the turn of {current.name}. {done}",
            context=context_text(context.table.state),
            suggestions=options_of(context.table.state),
            by_player=False,
            may_act=not is_players,
        )
        return proceed(await self.agents.ask(request, context))


@dataclass(frozen=True, slots=True)
class CombatAutoRun:
    """Play the turns of enemies until the player or an ally acts, or the fight is over."""

    agents: TurnAgents
    cap: int
    """Most turns of enemies in one turn of the player."""
    name: str = "CombatAutoRun"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Play turn after turn; end the fight by its tool when one side is beaten."""
        turns = 0
        while (combat := context.table.state.combat) is not None:
            state = context.table.state
            if not state.standing("hostile") or not state.standing("party"):
                return proceed(await self._end(context))
            if combat.current == PLAYER:
                break
            if state.is_ally_turn:
                return proceed(await self._suggest(context, combat))
            if turns == self.cap:
                text = f"The fight pauses after {self.cap} turns of enemies; say what you do, and it goes on."
                await context.table.say(ENGINE, text, "system")
                return proceed(reload_context(context), f"cap of {self.cap} turns")
            turns += 1
            context = await self._ask(
                context, f"It is the turn of {state.creatures[combat.current].name}. Play it."
            )
        return proceed(reload_context(context))

    async def _ask(self, context: TurnContext, prompt: str) -> TurnContext:
        state = context.table.state
        options = options_of(state, state.combat.current) if state.combat is not None else ()
        request = AgentRequest(
            COMBAT, prompt, context=context_text(context.table.state), suggestions=options, by_player=False
        )
        return await self.agents.ask(request, context)

    async def _end(self, context: TurnContext) -> TurnContext:
        """Let the combat agent end the fight by its tool; call the tool where it does not."""
        context = await self._ask(
            context, "One side has nobody left who stands. End the fight with end_combat."
        )
        if context.table.state.combat is not None:
            await context.table.call("end_combat", {}, "auto_end")
        return reload_context(context)

    async def _suggest(self, context: TurnContext, combat: Combat) -> TurnContext:
        """Propose what the ally does; the player decides."""
        state, ally = context.table.state, combat.current
        options = options_of(state, ally)
        request = AgentRequest(
            NPC,
            f"Propose in one sentence what you do in this fight, as {state.creatures[ally].name}.",
            context=context_text(context.table.state),
            suggestions=options,
            npc=ally,
            by_player=False,
            may_act=False,
            speech="ally_suggestion",
        )
        context = await self.agents.ask(request, context)
        await context.table.record("ally_options", lambda _: [Suggested(options)])
        return reload_context(context)


@dataclass(frozen=True, slots=True)
class TransitionCombatToNarrative:
    """Say how the fight ended, and let the narrative agent tell what comes of it."""

    agents: TurnAgents
    name: str = "TransitionCombatToNarrative"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Sum up the fight and prompt for its aftermath."""
        await _say_from(context.table, CombatEnded)
        request = AgentRequest(
            NARRATIVE,
            "The fight is over. Tell what comes of it; do not act.",
            context=context_text(context.table.state),
            suggestions=options_of(context.table.state),
            by_player=False,
            may_act=False,
        )
        context = await self.agents.ask(request, context)
        if context.game_state.is_won:
            await context.table.say(ENGINE, context.game_state.ending, "system")
        return proceed(reload_context(context))
