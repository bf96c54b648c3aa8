"""Phases of a message that is said to somebody."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from wavewright.engine import PhaseResult, halt, proceed
from wavewright.tools.functions.tool import ToolError
from wavewright.tools.tabletop.game.events import DialogueBegan, DialogueEnded
from wavewright.tools.tabletop.game.options import options_of
from wavewright.tools.tabletop.game.state import GameState
from wavewright.tools.tabletop.game.wording import describe_scene
from wavewright.tools.tabletop.turn.agents import NPC, AgentRequest, TurnAgents
from wavewright.tools.tabletop.turn.context import TurnContext, reload_context
from wavewright.tools.tabletop.turn.machine import TurnEvent

HALT_AFTER_NPC_DIALOGUE: Final = "HALT_AFTER_NPC_DIALOGUE"
_ADDRESS: Final = r"@{0}\b|^{0}\s*[,:]|^(?:talk|speak|say)\s+(?:to|with)\s+{0}\b|^(?:ask|tell)\s+{0}\b"
_NEXT_NAME: Final = r"\band\s+@?{0}\b"


def addressed_people(message: str, state: GameState) -> tuple[str, ...]:
    """Return the people at the player's place to whom a message is said, such as `@Mira` or `ask Mira about …`."""
    text, found = message.strip().lower(), list[str]()
    here = [*state.standing("neutral"), *(one for one in state.standing("party") if one != state.player)]
    for pattern in (_ADDRESS, _NEXT_NAME):
        for person in here:
            named = any(
                re.search(pattern.format(re.escape(name)), text) for name in (person.id, person.name.lower())
            )
            if named and person.id not in found and (found or pattern is _ADDRESS):
                found.append(person.id)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class DetectNpcDialogueTargets:
    """Find out whether the message is said to somebody, outside a fight."""

    name: str = "DetectNpcDialogueTargets"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Take the event of the turn, and end a dialogue that the message does not continue."""
        state, machine = context.game_state, context.machine
        targets = () if state.combat is not None else addressed_people(context.user_message, state)
        if not targets and state.dialogue:
            await context.table.record("dialogue_ended", lambda _: [DialogueEnded()])
        event = TurnEvent.NPC_TARGETED if targets else TurnEvent.PLAYER_ACTION
        flags = replace(context.flags, npc_targets=targets)
        context = reload_context(context)
        return proceed(context.with_updates(flags=flags, machine=machine.after(event)))


@dataclass(frozen=True, slots=True)
class BeginDialogueSession:
    """Turn the player to the people that it speaks to."""

    name: str = "BeginDialogueSession"

    async def run(self, context: TurnContext) -> PhaseResult[TurnContext]:
        """Begin the dialogue, unless it goes on already."""
        targets = context.flags.npc_targets
        await context.table.record(
            "dialogue", lambda state: [] if state.dialogue == targets else [DialogueBegan(targets)]
        )
        return proceed(reload_context(context))


@dataclass(frozen=True, slots=True)
class ExecuteNpcDialogue:
    """Let each of them answer; the turn ends here."""

    agents: TurnAgents
    name: str = "ExecuteNpcDialogue"

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
        return halt(context, HALT_AFTER_NPC_DIALOGUE)
