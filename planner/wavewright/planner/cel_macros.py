"""Run the loops of expressions.

A *macro* is `list.map(x, …)` and its like: a range, a body that is evaluated once a turn, and a rule for what comes
of the turns. The meter counts the turns over the whole evaluation, whatever is inside what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wavewright.planner.cel_faults import ExpressionFault
from wavewright.planner.cel_functions import Refused, in_order_of, sorted_keys
from wavewright.planner.cel_meter import PASSED_FAULT
from wavewright.planner.cel_nodes import Macro
from wavewright.planner.cel_paths import kind_of
from wavewright.planner.cel_scope import Evaluation, Scope
from wavewright.planner.types import Json

SORT = "sortBy of itself"
"""Function of the macro that `list.sort()` is read as."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A macro whose parts are prepared; `size` is the number of nodes that one turn evaluates."""

    macro: Macro
    over: Evaluation
    bodies: tuple[Evaluation, ...]
    size: int

    def run(self, scope: Scope) -> Json:
        """Return what the macro gives.

        Raises:
            ExpressionFault: its range is no list, or its body fails.
        """
        return _FINISHES[self.macro.function](self, self._turns(self.over(scope), scope), scope.inner())

    def of(self, body: int, element: Json, inner: Scope) -> Json:
        """Return what a body gives for an element."""
        inner.variables[self.macro.variable] = element
        before = inner.meter.memory
        value = self.bodies[body](inner)
        inner.meter.keep(value, before)
        return value

    def holds(self, element: Json, inner: Scope) -> bool:
        """Return what the condition answers for an element."""
        value = self.of(0, element, inner)
        if isinstance(value, bool):
            return value
        raise ExpressionFault(
            "no_overload",
            f"{self._shown()} wants a condition, and got {kind_of(value)}",
            self.macro.arguments[0].start,
        )

    def _turns(self, over: Json, scope: Scope) -> Iterator[Json]:
        elements: Sequence[Json]
        if isinstance(over, list):
            elements = over
        elif isinstance(over, Mapping) and self.macro.function not in ("sortBy", SORT):
            scope.meter.make_list(len(over))
            scope.meter.work(4 * len(over))
            elements = sorted_keys(over)
        else:
            raise ExpressionFault(
                "no_overload",
                f"{self._shown()} goes over a list, and was given {kind_of(over)}",
                self.macro.name_start,
            )
        turn, size = scope.meter.turn, self.size
        for element in elements:
            turn(size)
            yield element

    def _shown(self) -> str:
        return "sort()" if self.macro.function == SORT else f"{self.macro.function}()"


def _map(loop: Loop, turns: Iterator[Json], inner: Scope) -> Json:
    make, made = inner.meter.make, list[Json]()
    last = len(loop.bodies) - 1
    for element in turns:
        if last and not loop.holds(element, inner):
            continue
        make(8)
        made.append(loop.of(last, element, inner))
    return made


def _filter(loop: Loop, turns: Iterator[Json], inner: Scope) -> Json:
    make, made = inner.meter.make, list[Json]()
    for element in turns:
        if loop.holds(element, inner):
            make(8)
            made.append(element)
    return made


def _decided(loop: Loop, turns: Iterator[Json], inner: Scope, *, by: bool) -> bool:
    """Return `by` if any turn gives it; as in CEL, a fault counts only where no turn decides."""
    met: ExpressionFault | None = None
    for element in turns:
        try:
            if loop.holds(element, inner) is by:
                return by
        except ExpressionFault as fault:
            if fault.kind == "expression_too_large":
                raise
            inner.meter.work(PASSED_FAULT)
            met = met or fault
    if met is not None:
        raise met
    return not by


def _all(loop: Loop, turns: Iterator[Json], inner: Scope) -> Json:
    return _decided(loop, turns, inner, by=False)


def _exists(loop: Loop, turns: Iterator[Json], inner: Scope) -> Json:
    return _decided(loop, turns, inner, by=True)


def _exists_one(loop: Loop, turns: Iterator[Json], inner: Scope) -> Json:
    return sum(loop.holds(element, inner) for element in turns) == 1


def _sort_by(loop: Loop, turns: Iterator[Json], inner: Scope) -> Json:
    meter = inner.meter
    elements, keys = list[Json](), list[Json]()
    for element in turns:
        meter.make(16)
        elements.append(element)
        keys.append(loop.of(0, element, inner))
    levels = len(keys).bit_length()
    meter.make(48 * len(keys))
    meter.work(len(keys) * levels // 8)
    meter.work(sum(len(key) for key in keys if isinstance(key, str)) * levels // 2048)
    try:
        return in_order_of(keys, elements)
    except Refused as refused:
        raise ExpressionFault("no_overload", str(refused), loop.macro.name_start) from None


_FINISHES: dict[str, Callable[[Loop, Iterator[Json], Scope], Json]] = {
    "map": _map,
    "filter": _filter,
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "sortBy": _sort_by,
    SORT: _sort_by,
}
