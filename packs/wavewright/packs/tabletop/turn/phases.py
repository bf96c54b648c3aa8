"""The phases of a turn: of any message, of one that is said to somebody, and of a fight."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from wavewright.engine import PhaseResult, halt, proceed
from wavewright.packs.tabletop.game.events import (
    AgentSelected,
    CombatBegan,
    CombatEnded,
    DialogueBegan,
    DialogueEnded,
    Suggested,
)
from wavewright.packs.tabletop.game.state import (
    Combat,
    Creature,
    GameState,
    describe_events,
    describe_party,
    describe_scene,
    options_of,
)
from wavewright.packs.tabletop.game.world import PLAYER
from wavewright.packs.tabletop.turn.agents import (
    COMBAT,
    ENGINE,
    NARRATIVE,
    NPC,
    AgentRegistry,
    AgentRequest,
    TurnAgents,
)
from wavewright.packs.tabletop.turn.context import (
    TurnContext,
    TurnEvent,
    TurnPhase,
    reload_context,
    wrap_ally_action,
)
from wavewright.packs.tabletop.turn.game_master import continues_talk
from wavewright.packs.tabletop.turn.table import GameTable
from wavewright.packs.tabletop.turn.wording import is_nearly, named_in, words_of
from wavewright.tools import ToolError

_HALT_AFTER_NPC_DIALOGUE: Final = "HALT_AFTER_NPC_DIALOGUE"
_ADDRESS: Final = (
    r"@{0}\b|^{0}\s*(?:[,:!?.]|$)|^(?:i\s+)?(?:talk|speak|say|chat)\s+(?:\w+\s+)?(?:to|with)\s+{0}\b"
    r"|^(?:i\s+|now\s+|and\s+)*(?:ask|tell|thank|greet|call)\s+{0}\b|,\s*{0}\s*[?!.]*$"
    r"|^(?:hello|hi|hey|greetings|welcome|excuse me|thanks|thank you|good\s+\w+)[\s,]+(?:\w+\s+)?{0}\b"
    r"|^{0}\s+(?:who|what|where|when|why|how|which|do|did|can|could|will|would|are|have|tell|come|please)\b"
)
_NEXT_NAME: Final = r"\band\s+@?{0}\b"
_UNNAMED: Final = re.compile(
    r"(?:hello|hi|hey|greetings|excuse me|good (?:morning|day|afternoon|evening))\b"
    r"|(?:i )?(?:talk|speak|chat)(?: (?:again|more|on))?[.!]*$"
    r"|(?:i )?(?:talk|speak|chat) (?:to|with) (?:him|her|them)\b"
)
"""How a message begins that is said to somebody who is not named."""


class WrapAllyActionIfNeeded(TurnPhase):
    """Mark a message that says what an ally does in its turn of a fight."""

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Wrap the message once; one that is wrapped already stays as it is."""
        state = context.game_state
        if not state.is_ally_turn or state.combat is None:
            return proceed(context)
        message = wrap_ally_action(context.user_message, state.creatures[state.combat.current].name)
        flags = replace(context.flags, is_ally_turn=True)
        return proceed(context.with_updates(user_message=message, flags=flags))


@dataclass(frozen=True, slots=True)
class SelectAgent(TurnPhase):
    """Choose the agent that answers."""

    registry: AgentRegistry

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Choose among the registered agents by the state machine and the caller's hint."""
        agent = self.registry.select(context).name
        await context.table.record("selected", lambda _: [AgentSelected(agent)])
        return proceed(reload_context(context).with_updates(selected_agent_type=agent))


class BuildAgentContext(TurnPhase):
    """Write down what the agent is told of the game."""

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Tell the scene, the party, and what was said lately."""
        return proceed(context.with_updates(context_text=_context_text(context.table.state)))


def _context_text(state: GameState) -> str:
    """Return what an agent is told of the game: the scene, the party, and what was said lately."""
    return "\n\n".join([describe_scene(state), describe_party(state), "\n".join(state.said)])


def _engine_request(
    agent: str, text: str, state: GameState, who: str = PLAYER, *, may_act: bool = True
) -> AgentRequest:
    """Return a request of the game itself to an agent, with the state of the game and what `who`
    can do.
    """
    return AgentRequest(
        agent,
        text,
        context=_context_text(state),
        suggestions=options_of(state, who),
        by_player=False,
        may_act=may_act,
    )


class EnrichContextWithToolSuggestions(TurnPhase):
    """Add the calls of tools that the rules allow now."""

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Suggest what whoever acts can do, whichever agent answers."""
        state = context.game_state
        actor = PLAYER if state.combat is None else state.combat.current
        return proceed(context.with_updates(suggestions=options_of(state, actor)))


@dataclass(frozen=True, slots=True)
class ExecuteAgent(TurnPhase):
    """Let the agent act and answer."""

    agents: TurnAgents

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


class ReloadState(TurnPhase):
    """Read the state again, and take the transitions of what has happened."""

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Return the context with the state of now; a second reload changes nothing."""
        return proceed(reload_context(context))


def addressed_people(message: str, state: GameState) -> tuple[str, ...]:
    """Return the people at the player's place to whom a message is said, such as `@Mira` or `ask
    Mira about …`.
    """
    text, found = message.strip().lower(), list[str]()
    here = [
        *state.standing("neutral"),
        *(one for one in state.standing("party") if one != state.player),
    ]
    for pattern in (_ADDRESS, _NEXT_NAME):
        for person in here:
            named = any(
                re.search(pattern.format(rf"(?:the\s+)?{re.escape(name)}"), text)
                for name in (*person.names, *_near_names(text, person))
            )
            if named and person.id not in found and (found or pattern is _ADDRESS):
                found.append(person.id)
    others = [name for one in state.creatures.values() for name in one.names]
    if not found and len(here) == 1 and _UNNAMED.match(text) and not named_in(text, others):
        # Who is alone with the player is meant without a name.
        found = [here[0].id]
    return tuple(found)


def _near_names(text: str, person: Creature) -> list[str]:
    """Return the words of a text that are nearly a name of somebody."""
    return [word for word in words_of(text) if any(is_nearly(word, name) for name in person.names)]


class DetectNpcDialogueTargets(TurnPhase):
    """Find out whether the message is said to somebody, outside a fight."""

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Take the event of the turn, and end a dialogue that the message does not continue."""
        state, machine = context.game_state, context.machine
        targets = () if state.combat is not None else addressed_people(context.user_message, state)
        if not targets and continues_talk(context.user_message, state):
            here = {person.id for side in ("neutral", "party") for person in state.standing(side)}
            targets = tuple(person for person in state.dialogue if person in here)
        if not targets and state.dialogue:
            await context.table.record("dialogue_ended", lambda _: [DialogueEnded()])
        event = TurnEvent.NPC_TARGETED if targets else TurnEvent.PLAYER_ACTION
        flags = replace(context.flags, npc_targets=targets)
        context = reload_context(context)
        return proceed(context.with_updates(flags=flags, machine=machine.after(event)))


class BeginDialogueSession(TurnPhase):
    """Turn the player to the people that it speaks to."""

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Begin the dialogue, unless it goes on already."""
        targets = context.flags.npc_targets
        await context.table.record(
            "dialogue", lambda state: [] if state.dialogue == targets else [DialogueBegan(targets)]
        )
        return proceed(reload_context(context))


@dataclass(frozen=True, slots=True)
class ExecuteNpcDialogue(TurnPhase):
    """Let each of them answer; the turn ends here."""

    agents: TurnAgents

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Ask the agent of each person, with what the rules allow as suggestions."""
        for npc in context.flags.npc_targets:
            try:
                await context.table.call("talk", {"npc": npc, "words": context.user_message[:500]})
            except ToolError:
                continue  # the refusal is an event
            state = context.table.state
            request = AgentRequest(
                NPC,
                context.user_message,
                context=describe_scene(state),
                suggestions=tuple(one for one in options_of(state) if npc in one.params.values()),
                npc=npc,
                speech="npc",
            )
            context = await self.agents.ask(request, context.with_updates(selected_agent_type=NPC))
        return halt(context, _HALT_AFTER_NPC_DIALOGUE)


async def _say_from(table: GameTable, kind: type[CombatBegan | CombatEnded]) -> None:
    """Say the last event of a kind in this turn, and what came with it of the end of a fight."""
    events = table.turn_events
    at = next((at for at in reversed(range(len(events))) if isinstance(events[at], kind)), None)
    if at is not None:
        count = 1 if kind is CombatBegan else len(events)
        await table.say(ENGINE, describe_events(events[at : at + count], table.state), "system")


class TransitionNarrativeToCombat(TurnPhase):
    """Say that a fight has begun, and in which order."""

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Sum up the begin of the fight."""
        await _say_from(context.table, CombatBegan)
        return proceed(reload_context(context))


@dataclass(frozen=True, slots=True)
class InitialCombatPrompt(TurnPhase):
    """Let the combat agent open the fight."""

    agents: TurnAgents

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Prompt it with whose turn it is; an enemy may act at once, the player is only told."""
        combat = context.table.state.combat
        if combat is None:
            return proceed(context)
        current = context.table.state.creatures[combat.current]
        is_players = combat.current == PLAYER
        done = (
            "Describe the scene; the player has not acted yet." if is_players else "Play this turn."
        )
        text = f"The fight begins, and it is the turn of {current.name}. {done}"
        request = _engine_request(COMBAT, text, context.table.state, may_act=not is_players)
        return proceed(await self.agents.ask(request, context))


@dataclass(frozen=True, slots=True)
class CombatAutoRun(TurnPhase):
    """Play the turns of enemies until the player or an ally acts, or the fight is over."""

    agents: TurnAgents
    cap: int
    """Most turns of enemies in one turn of the player."""

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
        combat = context.table.state.combat
        assert combat is not None
        request = _engine_request(COMBAT, prompt, context.table.state, combat.current)
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
            context=_context_text(context.table.state),
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
class TransitionCombatToNarrative(TurnPhase):
    """Say how the fight ended, and let the narrative agent tell what comes of it."""

    agents: TurnAgents

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Sum up the fight and prompt for its aftermath."""
        await _say_from(context.table, CombatEnded)
        text = "The fight is over. Tell what comes of it; do not act."
        request = _engine_request(NARRATIVE, text, context.table.state, may_act=False)
        context = await self.agents.ask(request, context)
        if context.game_state.is_won:
            await context.table.say(ENGINE, context.game_state.ending, "system")
        return proceed(reload_context(context))
