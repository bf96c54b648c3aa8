"""Dice: a generator that is a pure function of the game's seed and the number of the die.

A roll is an event with its result, and a replay reads the event. The number of the next die is part of the state, so a
turn that is undone and played again in the same way throws the same dice: undo is no way to better ones.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Final

from wavewright.tools.functions.tool import ToolError
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
