"""The context that the phases of a turn pass on, its state machine, and the guards that read its
transitions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Final, TypeAlias

from typing_extensions import TypedDict, Unpack

from wavewright.engine import DoneEffects, Effects
from wavewright.packs.tabletop.game.events import CombatBegan, CombatEnded, GameEvent, Option
from wavewright.packs.tabletop.game.state import GameState, Mode
from wavewright.packs.tabletop.turn.table import GameTable

_ALLY_ACTION: Final = "[ALLY_ACTION]"
"""What a message begins with that says what an ally does."""


class TurnEvent(Enum):
    """What can change what the game is about."""

    PLAYER_ACTION = "PLAYER_ACTION"
    COMBAT_STARTED = "COMBAT_STARTED"
    COMBAT_ENDED = "COMBAT_ENDED"
    ALLY_TURN = "ALLY_TURN"
    NPC_TARGETED = "NPC_TARGETED"


TRANSITIONS: Final[Mapping[tuple[Mode, TurnEvent], Mode]] = {
    ("narrative", TurnEvent.PLAYER_ACTION): "narrative",
    ("dialogue", TurnEvent.PLAYER_ACTION): "narrative",
    ("combat", TurnEvent.PLAYER_ACTION): "combat",
    ("narrative", TurnEvent.NPC_TARGETED): "dialogue",
    ("dialogue", TurnEvent.NPC_TARGETED): "dialogue",
    ("narrative", TurnEvent.COMBAT_STARTED): "combat",
    ("dialogue", TurnEvent.COMBAT_STARTED): "combat",
    ("combat", TurnEvent.ALLY_TURN): "combat",
    ("combat", TurnEvent.COMBAT_ENDED): "narrative",
}


@dataclass(frozen=True, slots=True)
class TurnMachine:
    """What the game is about, and every event of the turn that was taken."""

    mode: Mode = "narrative"
    taken: tuple[TurnEvent, ...] = ()

    def after(self, event: TurnEvent) -> TurnMachine:
        """Return the machine after an event.

        Raises:
            ValueError: the event cannot happen now, which the rules have to prevent.
        """
        mode = TRANSITIONS.get((self.mode, event))
        if mode is None:
            msg = f"{event.value} cannot happen in {self.mode}"
            raise ValueError(msg)
        return TurnMachine(mode, (*self.taken, event))

    def has_taken(self, event: TurnEvent) -> bool:
        """Whether an event was taken in this turn."""
        return event in self.taken


@dataclass(frozen=True, slots=True)
class TurnFlags:
    """What phases have found out."""

    is_ally_turn: bool = False
    """Whether the message is about what an ally does."""
    npc_targets: tuple[str, ...] = ()
    """People whom the message is said to."""
    combat_was_active: bool = False
    """Whether a fight went on when the turn began."""


class ContextUpdates(TypedDict, total=False):
    """Fields of a context that a phase may replace."""

    user_message: str
    game_state: GameState
    selected_agent_type: str | None
    context_text: str
    suggestions: tuple[Option, ...]
    flags: TurnFlags
    machine: TurnMachine
    events: tuple[GameEvent, ...]
    errors: tuple[str, ...]
    reloads: int


@dataclass(frozen=True, slots=True)
class TurnContext:
    """State of a turn between two phases."""

    user_message: str
    game_id: str
    game_state: GameState
    """As it was at the last reload."""
    incoming_agent_hint: str | None = None
    selected_agent_type: str | None = None
    context_text: str = ""
    """What the agent is told of the game."""
    suggestions: tuple[Option, ...] = ()
    """Calls of tools that the rules allow."""
    flags: TurnFlags = TurnFlags()
    machine: TurnMachine = field(default_factory=TurnMachine)
    events: tuple[GameEvent, ...] = ()
    """Of this turn, up to the last reload."""
    errors: tuple[str, ...] = ()
    """Why agents gave no answer."""
    table: GameTable = field(kw_only=True, repr=False, compare=False)
    """Where what phases do is recorded: the game's own, or that of a twin run."""
    effects: Effects = field(default_factory=DoneEffects, kw_only=True, repr=False, compare=False)
    """How models are asked."""
    reloads: int = field(default=0, kw_only=True, compare=False)
    """How often the state was read again."""

    def with_updates(self, **updates: Unpack[ContextUpdates]) -> TurnContext:
        """Return the context with some fields replaced."""
        return replace(self, **updates)

    @property
    def labels(self) -> Mapping[str, str]:
        """What log, metrics and traces say of a phase."""
        return {
            "game_id": self.game_id,
            "agent_type": self.selected_agent_type or "",
            "reloads": str(self.reloads),
        }


class TurnPhase:
    """Base of the phases of a turn: each is named as its class."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """The name of the class."""
        return type(self).__name__


Guard: TypeAlias = Callable[[TurnContext], bool]


def combat_just_started(context: TurnContext) -> bool:
    """Whether a fight began in this turn, also one that is over again."""
    return context.machine.has_taken(TurnEvent.COMBAT_STARTED)


def combat_active(context: TurnContext) -> bool:
    """Whether a fight goes on."""
    return context.machine.mode == "combat"


def combat_just_ended(context: TurnContext) -> bool:
    """Whether a fight ended in this turn."""
    return context.machine.has_taken(TurnEvent.COMBAT_ENDED)


def has_npc_targets(context: TurnContext) -> bool:
    """Whether the message is said to somebody."""
    return context.machine.has_taken(TurnEvent.NPC_TARGETED)


def needs_initial_prompt(context: TurnContext) -> bool:
    """Whether a fight goes on in which somebody other than an ally acts next."""
    return combat_active(context) and not context.game_state.is_ally_turn


def is_selected(agent: str) -> Guard:
    """Return the guard of phases that belong to one agent."""

    def guard(context: TurnContext) -> bool:
        return context.selected_agent_type == agent

    guard.__name__ = f"{agent}_is_selected"
    return guard


def reload_context(context: TurnContext) -> TurnContext:
    """Return the context with the state of now, and the transitions of the events since the last
    reload.
    """
    machine, table = context.machine, context.table
    for event in table.turn_events[len(context.events) :]:
        if isinstance(event, CombatBegan):
            machine = machine.after(TurnEvent.COMBAT_STARTED)
        elif isinstance(event, CombatEnded):
            machine = machine.after(TurnEvent.COMBAT_ENDED)
    state = table.state
    if state.is_ally_turn and machine.taken[-1:] != (TurnEvent.ALLY_TURN,):
        machine = machine.after(TurnEvent.ALLY_TURN)
    return context.with_updates(
        game_state=state,
        machine=machine,
        events=tuple(table.turn_events),
        reloads=context.reloads + 1,
    )


def wrap_ally_action(message: str, ally: str) -> str:
    """Return a message as what an ally does; one that is wrapped already stays as it is."""
    return message if message.startswith(_ALLY_ACTION) else f"{_ALLY_ACTION} {ally}: {message}"


def unwrapped_action(message: str) -> str:
    """Return a message as the player said it."""
    return message.partition(": ")[2] if message.startswith(_ALLY_ACTION) else message
