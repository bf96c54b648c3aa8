"""The state machine of a turn: what the game is about, and the transitions that guards read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from wavewright.tools.tabletop.game.state import Mode


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
