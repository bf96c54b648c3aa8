"""Run the loops of expressions.

A *macro* is `list.map(x, …)` and its like: a range, a body that is evaluated once a turn, and a rule for what comes
of the turns. The meter counts the turns over the whole evaluation, whatever is inside what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from wavewright.planner.cel.errors import SUPPRESSED_ERROR_COST, ExpressionError
from wavewright.planner.cel.functions import FunctionArgumentError, sort_by_keys, sorted_keys
from wavewright.planner.cel.paths import Evaluation, EvaluationScope, kind_name
from wavewright.planner.cel.syntax import Macro
from wavewright.planner.types import Json

SORT = "sortBy of itself"
"""Function of the macro that `list.sort()` is read as."""


@dataclass(frozen=True, slots=True)
class CompiledMacro:
    """A macro whose parts are prepared; `size` is the number of nodes that one turn evaluates."""

    macro: Macro
    operand: Evaluation
    bodies: tuple[Evaluation, ...]
    size: int

    def run(self, scope: EvaluationScope) -> Json:
        """Return what the macro gives.

        Raises:
            ExpressionFault: its range is no list, or its body fails.
        """
        return _MACROS[self.macro.function](self, self._elements(self.operand(scope), scope), scope.child())

    def evaluate_body(self, body: int, element: Json, inner: EvaluationScope) -> Json:
        """Return what a body gives for an element."""
        inner.variables[self.macro.variable] = element
        before = inner.cost.memory
        value = self.bodies[body](inner)
        inner.cost.release_temporaries(value, before)
        return value

    def evaluate_condition(self, element: Json, inner: EvaluationScope) -> bool:
        """Return what the condition answers for an element."""
        value = self.evaluate_body(0, element, inner)
        if isinstance(value, bool):
            return value
        raise ExpressionError(
            "no_overload",
            f"{self._name()} wants a condition, and got {kind_name(value)}",
            self.macro.arguments[0].start,
        )

    def _elements(self, over: Json, scope: EvaluationScope) -> Iterator[Json]:
        elements: Sequence[Json]
        if isinstance(over, list):
            elements = over
        elif isinstance(over, Mapping) and self.macro.function not in ("sortBy", SORT):
            scope.cost.allocate_list(len(over))
            scope.cost.count_operations(4 * len(over))
            elements = sorted_keys(over)
        else:
            raise ExpressionError(
                "no_overload",
                f"{self._name()} goes over a list, and was given {kind_name(over)}",
                self.macro.name_start,
            )
        turn, size = scope.cost.count_iteration, self.size
        for element in elements:
            turn(size)
            yield element

    def _name(self) -> str:
        return "sort()" if self.macro.function == SORT else f"{self.macro.function}()"


def _map(loop: CompiledMacro, turns: Iterator[Json], inner: EvaluationScope) -> Json:
    make, made = inner.cost.allocate, list[Json]()
    last = len(loop.bodies) - 1
    for element in turns:
        if last and not loop.evaluate_condition(element, inner):
            continue
        make(8)
        made.append(loop.evaluate_body(last, element, inner))
    return made


def _filter(loop: CompiledMacro, turns: Iterator[Json], inner: EvaluationScope) -> Json:
    make, made = inner.cost.allocate, list[Json]()
    for element in turns:
        if loop.evaluate_condition(element, inner):
            make(8)
            made.append(element)
    return made


def _short_circuit(loop: CompiledMacro, turns: Iterator[Json], inner: EvaluationScope, *, by: bool) -> bool:
    """Return `by` if any turn gives it; as in CEL, a fault counts only where no turn decides."""
    met: ExpressionError | None = None
    for element in turns:
        try:
            if loop.evaluate_condition(element, inner) is by:
                return by
        except ExpressionError as fault:
            if fault.kind == "expression_too_large":
                raise
            inner.cost.count_operations(SUPPRESSED_ERROR_COST)
            met = met or fault
    if met is not None:
        raise met
    return not by


def _all(loop: CompiledMacro, turns: Iterator[Json], inner: EvaluationScope) -> Json:
    return _short_circuit(loop, turns, inner, by=False)


def _exists(loop: CompiledMacro, turns: Iterator[Json], inner: EvaluationScope) -> Json:
    return _short_circuit(loop, turns, inner, by=True)


def _exists_one(loop: CompiledMacro, turns: Iterator[Json], inner: EvaluationScope) -> Json:
    return sum(loop.evaluate_condition(element, inner) for element in turns) == 1


def _sort_by(loop: CompiledMacro, turns: Iterator[Json], inner: EvaluationScope) -> Json:
    meter = inner.cost
    elements, keys = list[Json](), list[Json]()
    for element in turns:
        meter.allocate(16)
        elements.append(element)
        keys.append(loop.evaluate_body(0, element, inner))
    levels = len(keys).bit_length()
    meter.allocate(48 * len(keys))
    meter.count_operations(len(keys) * levels // 8)
    meter.count_operations(sum(len(key) for key in keys if isinstance(key, str)) * levels // 2048)
    try:
        return sort_by_keys(keys, elements)
    except FunctionArgumentError as refused:
        raise ExpressionError("no_overload", str(refused), loop.macro.name_start) from None


_MACROS: dict[str, Callable[[CompiledMacro, Iterator[Json], EvaluationScope], Json]] = {
    "map": _map,
    "filter": _filter,
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "sortBy": _sort_by,
    SORT: _sort_by,
}
