"""Bound what one evaluation takes.

A *meter* counts the operations and the bytes of one evaluation. Whatever computes or makes a value asks it first,
so an expression that would take too much ends with a fault before it does. The counts depend on the expression and
its values alone: what is refused on one machine is refused on all.
"""

from __future__ import annotations

import sys
from typing import Final

from wavewright.planner.cel_faults import ExpressionFault

MAX_TURNS: Final = 100_000
"""Turns of the loops of one evaluation."""
MAX_OPERATIONS: Final = 3_000_000
"""Operations of one evaluation: a node of the tree, an element of a list or a stretch of text is one."""
MAX_MEMORY: Final = 48 * 2**20
"""Bytes that the values made by one evaluation may take at a time."""
LONGEST_TEXT: Final = 2**22
"""Characters of a text that an expression makes."""
SCALAR: Final = 64
"""Bytes of an instant, a duration or an unsigned integer."""
PASSED_FAULT: Final = 16
"""Operations of a fault that `||`, `&&`, all() or exists() passes over."""

_BYTES_AN_OPERATION = 512
_HINT = "filter first, or leave the work to a tool"


class Meter:
    """What is left of the operations and bytes of one evaluation.

    Every method raises ExpressionFault (`expression_too_large`) where nothing is left.
    """

    __slots__ = ("memory", "operations", "turns")

    def __init__(self) -> None:
        self.turns = MAX_TURNS
        self.operations = MAX_OPERATIONS
        self.memory = MAX_MEMORY

    def turn(self, operations: int) -> None:
        """Count one turn of a loop whose body has so many nodes."""
        self.turns -= 1
        self.operations -= operations
        if self.turns < 0:
            raise too_large(f"the expression takes more than {MAX_TURNS:,} turns of its loops")
        if self.operations < 0:
            raise _too_long()

    def work(self, operations: int) -> None:
        """Count operations."""
        self.operations -= operations
        if self.operations < 0:
            raise _too_long()

    def read(self, *texts: str | bytes) -> None:
        """Count that texts are searched or compared from end to end."""
        self.work(sum(map(len, texts)) // _BYTES_AN_OPERATION)

    def search(self, text: str, part: str) -> None:
        """Count that a text is searched for a part; a short text is searched in the naive way."""
        self.work(len(text) * min(len(part) + 2, 100) // 700)

    def make(self, size: int) -> None:
        """Count a value of so many bytes that is about to be made."""
        self.memory -= size
        if self.memory < 0:
            raise too_large(
                f"the expression makes values of more than {MAX_MEMORY // 2**20} MiB out of what it is given"
            )
        self.work(size // _BYTES_AN_OPERATION)

    def make_list(self, length: int) -> None:
        """Count a list of so many elements that are there already."""
        self.make(56 + 8 * length)

    def make_text(self, length: int, *sources: str) -> None:
        """Count a text of so many characters, all of them from the sources."""
        if length > LONGEST_TEXT:
            raise too_large(f"the expression makes a text of more than {LONGEST_TEXT:,} characters")
        self.make(64 + length * (1 if all(map(str.isascii, sources)) else 4))

    def keep(self, value: object, before: int) -> None:
        """Give back what a turn took beyond its value; `before` is the memory that was left before the turn."""
        if value is None or isinstance(value, int | float):
            self.memory = before - 32
        elif isinstance(value, str):
            self.memory = max(self.memory, before - sys.getsizeof(value))


def too_large(message: str) -> ExpressionFault:
    """Return the fault of an expression that takes too much."""
    return ExpressionFault("expression_too_large", message, None, _HINT)


def _too_long() -> ExpressionFault:
    return too_large(f"the expression takes more than {MAX_OPERATIONS:,} operations")
