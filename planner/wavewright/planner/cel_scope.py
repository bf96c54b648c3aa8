"""What an evaluation sees and may take.

A *scope* holds the variables by root, the run's instant and the meter of one evaluation; the scopes of loops share
the meter.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TypeAlias

from wavewright.planner.cel_meter import Meter
from wavewright.planner.cel_sets import SearchedLists
from wavewright.planner.types import Json


class Scope:
    """Variables, instant and meter of one evaluation."""

    __slots__ = ("meter", "now", "searched", "variables")

    def __init__(
        self,
        variables: dict[str, Json],
        now: dt.datetime,
        meter: Meter,
        searched: SearchedLists,
    ) -> None:
        self.variables = variables
        self.now = now
        self.meter = meter
        self.searched = searched

    def inner(self) -> Scope:
        """Return the scope of a loop, which can be given further variables."""
        return Scope(dict(self.variables), self.now, self.meter, self.searched)


Evaluation: TypeAlias = Callable[[Scope], Json]
"""Gives a value that may hold instants, durations, bytes, unsigned integers and types, which JSON has not."""
