"""What one call of a tool does: dice, events, and the state that they make of the one before."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import Final

from wavewright.config.errors import did_you_mean
from wavewright.tools.functions.tool import ToolError
from wavewright.tools.tabletop.game.events import GameEvent, Rolled
from wavewright.tools.tabletop.game.fold import apply
from wavewright.tools.tabletop.game.state import Creature, GameState
from wavewright.tools.tabletop.game.world import DICE_PATTERN

D20: Final = 20
_PARTS: Final = re.compile(r"([0-9]+)d([0-9]+)([+-][0-9]+)?")


@dataclass(frozen=True, slots=True)
class DiceExpression:
    """Dice such as `2d6+3`."""

    count: int
    sides: int
    modifier: int


def read_dice(text: str) -> DiceExpression:
    """Return the dice that a text such as `2d6+3` means.

    Raises:
        ToolError: it means none.
    """
    compact = "".join(text.lower().split())
    compact = f"1{compact}" if compact.startswith("d") else compact
    found = _PARTS.fullmatch(compact) if re.match(DICE_PATTERN, compact) else None
    if found is None or int(found[2]) < 2:
        raise ToolError(f"{text!r} is no dice", hint="write dice such as d20 or 2d6+3, 99 at most")
    return DiceExpression(int(found[1]), int(found[2]), int(found[3] or 0))


def die(seed: str, number: int, sides: int) -> int:
    """Return the face, from 1, of the die of this number in the game of this seed."""
    digest = hashlib.blake2b(f"{seed}/{number}".encode(), digest_size=8).digest()
    return int.from_bytes(digest) % sides + 1


@dataclass(slots=True)
class Play:
    """Collects the events of a call; they count once they are journaled, and not at all if the call is refused."""

    state: GameState
    events: list[GameEvent] = field(default_factory=list[GameEvent])

    def emit(self, *events: GameEvent) -> None:
        """Let events happen, one after the other."""
        for event in events:
            self.events.append(event)
            self.state = apply(self.state, event)

    def roll(self, who: str, dice: DiceExpression, reason: str) -> Rolled:
        """Throw dice and return the result."""
        first, seed = self.state.dice, self.state.seed
        faces = tuple(die(seed, first + number, dice.sides) for number in range(dice.count))
        rolled = Rolled(who, reason, dice.sides, faces, dice.modifier)
        self.emit(rolled)
        return rolled

    def check(self, who: str, modifier: int, reason: str) -> Rolled:
        """Throw a die of twenty sides with a modifier."""
        return self.roll(who, DiceExpression(1, D20, modifier), reason)

    def creature(self, name: str) -> Creature:
        """Return the creature that an id or a name means.

        Raises:
            ToolError: there is none.
        """
        wanted = name.strip().lower()
        for creature in self.state.creatures.values():
            if wanted in (creature.id, creature.name.lower()):
                return creature
        known = self.state.creatures
        raise ToolError(
            f"nobody is called {name!r}", hint=did_you_mean(wanted, known) or f"there are {', '.join(known)}"
        )
