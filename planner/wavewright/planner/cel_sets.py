"""Search lists that are searched again and again.

A list of the run that is asked for a member for the second time in one evaluation is kept as a set, so that a loop
that looks every element up in a list takes linear time.
"""

from __future__ import annotations

from typing import cast

from wavewright.planner.cel_meter import Meter
from wavewright.planner.cel_operators import as_number, contains

_FEWEST = 16
"""Elements of a list that is worth a set."""
_MOST = 200_000
"""Elements of all sets of one evaluation; one takes about 72 bytes."""


class SearchedLists:
    """The lists of the run that one evaluation has searched, by identity."""

    __slots__ = ("_room", "_sets")

    def __init__(self) -> None:
        self._sets: dict[int, frozenset[object] | None] = {}
        self._room = _MOST

    def holds(self, container: object, member: object, meter: Meter) -> bool:
        """Answer `member in container` for a container that stays as it is during the evaluation.

        Raises:
            ExpressionFault: the container is neither list nor object.
        """
        if container.__class__ is not list or not _is_plain(member):
            return contains(container, member, meter)
        elements = cast("list[object]", container)
        known = self._sets.get(id(elements))
        if known is None:
            if len(elements) < _FEWEST or id(elements) not in self._sets or len(elements) > self._room:
                self._sets[id(elements)] = None
                return contains(elements, member, meter)
            meter.work(len(elements))
            self._room -= len(elements)
            known = frozenset(map(_key, filter(_is_plain, elements)))
            self._sets[id(elements)] = known
        return _key(member) in known


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _key(value: object) -> object:
    return as_number(value) if isinstance(value, int | float) else value
