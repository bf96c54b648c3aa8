"""Phases of a fight: its begin, the turns of enemies and allies, and its end."""

from __future__ import annotations

from dataclasses import dataclass

from wavewright.engine import PhaseResult, proceed
from wavewright.tools.tabletop.game.events import CombatBegan, CombatEnded, GameEvent, Suggested
from wavewright.tools.tabletop.game.options import options_of
from wavewright.tools.tabletop.game.state import Combat
from wavewright.tools.tabletop.game.wording import describe_event
from wavewright.tools.tabletop.game.world import PLAYER
from wavewright.tools.tabletop.turn.agents import COMBAT, ENGINE, NARRATIVE, NPC, AgentRequest, TurnAgents
from wavewright.tools.tabletop.turn.context import TurnContext, reload_context
from wavewright.tools.tabletop.turn.preparation import context_text
from wavewright.tools.tabletop.turn.table import GameTable


async def _say_last(table: GameTable, kind: type[GameEvent]) -> None:
    """Say the last event of a kind in this turn."""
    event = next((event for event in reversed(table.turn_events) if isinstance(event, kind)), None)
    if event is not None:
        await table.say(ENGINE, describe_event(event, table.state), "system")


@dataclass(frozen=True, slots=True)
class TransitionNarrativeToCombat:
    """Say that a fight has begun, and in which order."""

    table: GameTable
    name: str = "TransitionNarrativeToCombat"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Sum up the begin of the fight."""
        await _say_last(self.table, CombatBegan)
        return proceed(reload_context(context, self.table))


@dataclass(frozen=True, slots=True)
class InitialCombatPrompt:
    """Let the combat agent open the fight."""

    table: GameTable
    agents: TurnAgents
    name: str = "InitialCombatPrompt"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Prompt it with whose turn it is; an enemy may act at once, the player is only told."""
        combat = self.table.state.combat
        if combat is None:
            return proceed(context)
        current = self.table.state.creatures[combat.current]
        is_players = combat.current == PLAYER
        done = "Describe the scene; the player has not acted yet." if is_players else "Play this turn."
        request = AgentRequest(
            COMBAT,
            f"The fight begins, and it is the turn of {current.name}. {done}",
            context=context_text(self.table),
            suggestions=options_of(self.table.state),
            by_player=False,
            may_act=not is_players,
        )
        return proceed(await self.agents.ask(request, context))


@dataclass(frozen=True, slots=True)
class CombatAutoRun:
    """Play the turns of enemies until the player or an ally acts, or the fight is over."""

    table: GameTable
    agents: TurnAgents
    cap: int
    """Most turns of enemies in one turn of the player."""
    name: str = "CombatAutoRun"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Play turn after turn; end the fight by its tool when one side is beaten."""
        turns = 0
        while (combat := self.table.state.combat) is not None:
            state = self.table.state
            if not state.standing("hostile") or not state.standing("party"):
                return proceed(await self._end(context))
            if combat.current == PLAYER:
                break
            if state.is_ally_turn:
                return proceed(await self._suggest(context, combat))
            if turns == self.cap:
                text = f"The fight pauses after {self.cap} turns of enemies; say what you do, and it goes on."
                await self.table.say(ENGINE, text, "system")
                return proceed(reload_context(context, self.table), f"cap of {self.cap} turns")
            turns += 1
            context = await self._ask(
                context, f"It is the turn of {state.creatures[combat.current].name}. Play it."
            )
        return proceed(reload_context(context, self.table))

    async def _ask(self, context: TurnContext, prompt: str) -> TurnContext:
        state = self.table.state
        options = options_of(state, state.combat.current) if state.combat is not None else ()
        request = AgentRequest(
            COMBAT, prompt, context=context_text(self.table), suggestions=options, by_player=False
        )
        return await self.agents.ask(request, context)

    async def _end(self, context: TurnContext) -> TurnContext:
        """Let the combat agent end the fight by its tool; call the tool where it does not."""
        context = await self._ask(
            context, "One side has nobody left who stands. End the fight with end_combat."
        )
        if self.table.state.combat is not None:
            await self.table.call("end_combat", {}, "auto_end")
        return reload_context(context, self.table)

    async def _suggest(self, context: TurnContext, combat: Combat) -> TurnContext:
        """Propose what the ally does; the player decides."""
        state, ally = self.table.state, combat.current
        options = options_of(state, ally)
        request = AgentRequest(
            NPC,
            f"Propose in one sentence what you do in this fight, as {state.creatures[ally].name}.",
            context=context_text(self.table),
            suggestions=options,
            npc=ally,
            by_player=False,
            may_act=False,
            speech="ally_suggestion",
        )
        context = await self.agents.ask(request, context)
        await self.table.record("ally_options", lambda _: [Suggested(options)])
        return reload_context(context, self.table)


@dataclass(frozen=True, slots=True)
class TransitionCombatToNarrative:
    """Say how the fight ended, and let the narrative agent tell what comes of it."""

    table: GameTable
    agents: TurnAgents
    name: str = "TransitionCombatToNarrative"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Sum up the fight and prompt for its aftermath."""
        await _say_last(self.table, CombatEnded)
        request = AgentRequest(
            NARRATIVE,
            "The fight is over. Tell what comes of it; do not act.",
            context=context_text(self.table),
            suggestions=options_of(self.table.state),
            by_player=False,
            may_act=False,
        )
        return proceed(await self.agents.ask(request, context))
