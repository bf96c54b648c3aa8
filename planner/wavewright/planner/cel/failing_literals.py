"""Parts of an expression that fail whatever is read, because of what is written out in them.

A part that reads nothing is computed: `int("x")`, `[1, 2][5]`, `1 / 0`. Where a function is given
more than what is written out, it is tried with a *stand-in* for the rest, one that it can only
refuse because of the other arguments: `steps.mail.text.matches("(")` is tried with an empty text.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from wavewright.planner.cel.errors import CostTracker, ExpressionError
from wavewright.planner.cel.evaluator import compile_node, result_of
from wavewright.planner.cel.functions.catalogue import function_usage
from wavewright.planner.cel.nodes import (
    Binary,
    ExpressionNode,
    FunctionCall,
    Identifier,
    Index,
    ListLiteral,
    LiteralValue,
    Macro,
    children,
)
from wavewright.planner.cel.operators import MembershipIndex
from wavewright.planner.cel.paths import EvaluationScope
from wavewright.planner.types import Json

_MOST_OPERATIONS: Final = 50_000
"""Operations that a part may take to be computed before a run; a larger one is left to the run."""
_MOST_ELEMENTS: Final = 10_000
"""Elements or characters of a stand-in."""
_INSTANT: Final = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
_PARTS_OF_INSTANTS: Final = (
    "getFullYear", "getMonth", "getDate", "getDayOfMonth", "getDayOfWeek", "getDayOfYear",
    "getHours", "getMinutes", "getSeconds", "getMilliseconds",
)  # fmt: skip
_STAND_INS: Final[Mapping[str, Callable[[int], Sequence[object]]]] = {
    "matches": lambda _: ("", ""),
    "format": lambda _: (_INSTANT, "", ""),
    "flatten": lambda _: (_list_of(0), 1),
    "slice": lambda size: (_list_of(size), 0, size),
    "substring": lambda size: ("x" * size, 0, size),
    "charAt": lambda size: ("x" * size, 0),
    "indexOf": lambda size: ("x" * size, "", 0),
    "lastIndexOf": lambda size: ("x" * size, "", 0),
    **dict.fromkeys(_PARTS_OF_INSTANTS, lambda _: (_INSTANT, "")),
}
"""What each function is tried with in place of an argument that is not written out. The text or list
that places are asked of is as long as the greatest of them.
"""


def find_failing_literal(tree: ExpressionNode) -> ExpressionError | None:
    """Return why an expression fails whatever is read, and where; nothing if it depends on that."""
    search = _Search()
    fault = search.fault(tree)
    if fault is None and search.is_written_out(tree):
        return _fault_of(tree, {}, is_result=True)
    return fault


class _Search:
    def __init__(self) -> None:
        self._reads: dict[int, frozenset[str]] = {}
        """By the identity of a node: the names that it reads."""

    def is_written_out(self, node: ExpressionNode) -> bool:
        """Whether nothing is read, so that the value is the same in each run."""
        return not self._names(node)

    def _names(self, node: ExpressionNode) -> frozenset[str]:
        if id(node) not in self._reads:
            names = frozenset[str]().union(*map(self._names, children(node)))
            match node:
                case Identifier():
                    names |= {node.name}
                case FunctionCall(function="now"):
                    names |= {"now"}
                case Macro():
                    body = frozenset[str]().union(*map(self._names, node.arguments))
                    names = self._names(node.range) | (body - {*node.variables})
                case _:
                    pass
            self._reads[id(node)] = names
        return self._reads[id(node)]

    def fault(self, node: ExpressionNode) -> ExpressionError | None:
        """Return the fault of the smallest part that fails."""
        own = None
        if self.is_written_out(node):
            own = _fault_of(node, {})
            if own is None:
                return None
        for child in children(node):
            if (inner := self.fault(child)) is not None:
                return inner
        return own or self._fault_with_stand_ins(node)

    def _fault_with_stand_ins(self, node: ExpressionNode) -> ExpressionError | None:
        match node:
            case Binary(operator="/" | "%") if self.is_written_out(node.right):
                return _fault_of(node._replace(left=_stand_in(0)), {_name(0): 1})
            case Index() if self.is_written_out(node.key):
                return self._fault_of_index(node)
            case FunctionCall(function="zip", target=None):
                lengths = [self._length(argument) for argument in node.arguments]
                known = [_list_of(length) for length in lengths if length is not None]
                return _fault_of_call(node, known) if len(known) == len(lengths) else None
            case FunctionCall() if node.function in _STAND_INS and not _fills_in(node):
                return self._fault_of_function(node)
            case _:
                return None

    def _fault_of_index(self, node: Index) -> ExpressionError | None:
        length, key = self._length(node.operand), _value(node.key)
        if length is None and not (isinstance(key, float) and not key.is_integer()):
            return None
        nothing = LiteralValue(0, 0, 1, "null", None)
        return _fault_of(
            node._replace(operand=ListLiteral(0, 0, 2, (nothing,) * (length or 0))), {}
        )

    def _fault_of_function(self, node: FunctionCall) -> ExpressionError | None:
        operands = children(node)
        values: dict[int, object] = {
            place: _value(operand)
            for place, operand in enumerate(operands)
            if self.is_written_out(operand)
        }
        size = max([value for value in values.values() if isinstance(value, int)], default=0)
        if not values or size > _MOST_ELEMENTS:
            return None
        for place, stand_in in enumerate(_STAND_INS[node.function](size)[: len(operands)]):
            length = self._length(operands[place]) if _is_list(stand_in) else None
            values.setdefault(place, stand_in if length is None else _list_of(length))
        if len(values) < len(operands):
            return None
        return _fault_of_call(node, [values[place] for place in range(len(operands))])

    def _length(self, node: ExpressionNode) -> int | None:
        match node:
            case ListLiteral():
                return len(node.items)
            case Macro(function="map" | "transformList" | "sortBy"):
                has_condition = node.function != "sortBy" and len(node.arguments) > 1
                return None if has_condition else self._length(node.range)
            case FunctionCall(function="reverse" | "sort", target=target) if target is not None:
                return self._length(target)
            case Binary(operator="+"):
                left, right = self._length(node.left), self._length(node.right)
                return None if left is None or right is None else left + right
            case _:
                value = _value(node) if self.is_written_out(node) else None
                return len(cast("list[object]", value)) if isinstance(value, list) else None


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _list_of(length: int) -> list[object]:
    return [None] * length


def _fills_in(node: FunctionCall) -> bool:
    """Whether it is the method that fills values into a text, and not the one that writes a date."""
    return node.function == "format" and node.target is not None


def _name(place: int) -> str:
    return f"an operand {place}"


def _stand_in(place: int) -> Identifier:
    return Identifier(0, 0, 1, _name(place))


def _fault_of_call(node: FunctionCall, values: Sequence[object]) -> ExpressionError | None:
    names = tuple(_stand_in(place) for place in range(len(values)))
    call = (
        node._replace(arguments=names)
        if node.target is None
        else node._replace(target=names[0], arguments=names[1:])
    )
    return _fault_of(call, {_name(place): value for place, value in enumerate(values)})


def _fault_of(
    node: ExpressionNode, values: Mapping[str, object], *, is_result: bool = False
) -> ExpressionError | None:
    try:
        _evaluate(node, values, is_result=is_result)
    except ExpressionError as fault:
        if fault.kind == "expression_too_large":
            return None
        return ExpressionError(
            "no_overload", fault.message, _place(node), fault.hint or _hint(node)
        )
    return None


def _value(node: ExpressionNode) -> object:
    """Return the value of a part that is written out; nothing where it has none."""
    try:
        return _evaluate(node, {})
    except ExpressionError:
        return None


def _evaluate(
    node: ExpressionNode, values: Mapping[str, object], *, is_result: bool = False
) -> object:
    cost = CostTracker()
    cost.operations = _MOST_OPERATIONS
    variables = cast("dict[str, Json]", dict(values))
    scope = EvaluationScope(variables, _INSTANT, cost, MembershipIndex())
    value = compile_node(node, frozenset(values))(scope)
    return result_of(value, cost) if is_result else value


def _hint(node: ExpressionNode) -> str | None:
    match node:
        case FunctionCall() | Macro():
            return function_usage(node.function)
        case Binary(operator="/" | "%"):
            return "divide by what is not 0, or ask first: x != 0 ? … : …"
        case Index() if _value(node.key) == 0:
            return "an empty list has none; ask first: list.size() > 0 ? … : …"
        case Index():
            return "places are counted from 0: the last element is list[list.size() - 1]"
        case _:
            return None


def _place(node: ExpressionNode) -> int:
    """Return the character that a fault of a part speaks of."""
    match node:
        case FunctionCall() | Macro():
            return node.name_start
        case Binary():
            return node.operator_start
        case Index():
            return node.key.start
        case _:
            return node.start
