"""Search lists that are searched again and again.

A list of the run that is asked for a member for the second time in one evaluation is kept as a set, so that a loop
that looks every element up in a list takes linear time.
"""

from __future__ import annotations

from typing import cast

from wavewright.planner.cel_meter import CostTracker
from wavewright.planner.cel_operators import as_number, contains

_MIN_INDEXED_LENGTH = 16
"""Elements of a list that is worth a set."""
_MAX_INDEXED_ELEMENTS = 200_000
"""Elements of all sets of one evaluation; one takes about 72 bytes."""


class MembershipIndex:
    """The lists of the run that one evaluation has searched, by identity."""

    __slots__ = ("_capacity", "_sets")

    def __init__(self) -> None:
        self._sets: dict[int, frozenset[object] | None] = {}
        self._capacity = _MAX_INDEXED_ELEMENTS

    def contains(self, container: object, member: object, meter: CostTracker) -> bool:
        """Answer `member in container` for a container that stays as it is during the evaluation.

        Raises:
            ExpressionFault: the container is neither list nor object.
        """
        if container.__class__ is not list or not _is_indexable(member):
            return contains(container, member, meter)
        elements = cast("list[object]", container)
        known = self._sets.get(id(elements))
        if known is None:
            if (
                len(elements) < _MIN_INDEXED_LENGTH
                or id(elements) not in self._sets
                or len(elements) > self._capacity
            ):
                self._sets[id(elements)] = None
                return contains(elements, member, meter)
            meter.count_operations(len(elements))
            self._capacity -= len(elements)
            known = frozenset(map(_index_key, filter(_is_indexable, elements)))
            self._sets[id(elements)] = known
        return _index_key(member) in known


def _is_indexable(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _index_key(value: object) -> object:
    return as_number(value) if isinstance(value, int | float) else value
