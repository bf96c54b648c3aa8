"""What an evaluation sees and may take.

A *scope* holds the variables by root, the run's instant and the meter of one evaluation; the scopes of loops share
the meter.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import TypeAlias

from wavewright.planner.cel_meter import CostTracker
from wavewright.planner.cel_sets import MembershipIndex
from wavewright.planner.types import Json


class EvaluationScope:
    """Variables, instant and meter of one evaluation."""

    __slots__ = ("cost", "membership", "now", "variables")

    def __init__(
        self,
        variables: dict[str, Json],
        now: dt.datetime,
        meter: CostTracker,
        searched: MembershipIndex,
    ) -> None:
        self.variables = variables
        self.now = now
        self.cost = meter
        self.membership = searched

    def child(self) -> EvaluationScope:
        """Return the scope of a loop, which can be given further variables."""
        return EvaluationScope(dict(self.variables), self.now, self.cost, self.membership)


Evaluation: TypeAlias = Callable[[EvaluationScope], Json]
"""Gives a value that may hold instants, durations, bytes, unsigned integers and types, which JSON has not."""
