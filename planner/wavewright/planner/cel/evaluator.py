"""Evaluate an expression over plain values.

An *evaluator* is an expression prepared once and called often: a plain path is a walk through
dictionaries, anything else an *evaluation*, a tree of closures over the nodes of the expression.
Values go in as JSON and come out as JSON; whatever is wrong is raised as an `ExpressionError`.

Whatever an evaluation reads is passed on and never copied; whatever a function makes is counted by the
cost tracker of its scope first, and what a macro makes by its iterations.
"""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias, cast

from wavewright.planner.cel.errors import (
    MAX_KEY_LENGTH_SHOWN,
    SUPPRESSED_ERROR_COST,
    CostTracker,
    ExpressionError,
    too_large_error,
)
from wavewright.planner.cel.functions import GLOBAL_FUNCTIONS, METHODS
from wavewright.planner.cel.functions.catalogue import check_function_exists
from wavewright.planner.cel.functions.lists import MIN_MAX_FUNCTIONS
from wavewright.planner.cel.functions.scalars import duration_text, timestamp_text
from wavewright.planner.cel.macros import CompiledMacro
from wavewright.planner.cel.nodes import (
    Binary,
    Conditional,
    ExpressionNode,
    FunctionCall,
    Has,
    Index,
    ListLiteral,
    LiteralValue,
    LogicalOperation,
    Macro,
    MapLiteral,
    Select,
    Unary,
    children,
)
from wavewright.planner.cel.operators import (
    OPERATORS,
    MembershipIndex,
    Operator,
    are_equal,
    class_of,
    contains,
    evaluation_error,
    negate,
    no_overload_error,
)
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.cel.paths import (
    Evaluation,
    EvaluationScope,
    Variables,
    compile_index,
    compile_select,
    evaluate_path,
    kind_name,
    not_an_object_error,
    path_exists,
    plain_path,
)
from wavewright.planner.types import Json

Evaluator: TypeAlias = Callable[[Variables, dt.datetime], Json]
"""Gives the value of one expression for variables by root and the run's instant."""

_MAX_RESULT_PARTS = 2**20
"""Parts of one result, each as often as it is written."""
_CHARACTERS_A_PART = 32
"""Characters that count as one part."""
_COPIED_PART_COST = 4
_NOT_FINITE = ExpressionError(
    "evaluation_failed", "the result is no finite number", None, "guard against division by zero"
)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


@lru_cache(maxsize=8192)
def compile_expression(expression: str) -> Evaluator:
    """Return an evaluator of an expression.

    Raises:
        ExpressionError: it is no expression, is too large, or calls what does not exist.
    """
    tree = parse_expression(expression)
    path = plain_path(tree, {})
    if path is not None:
        return lambda variables, _now: evaluate_path(path, variables)
    evaluation = compile_node(tree)

    def evaluate(variables: Variables, now: dt.datetime) -> Json:
        cost = CostTracker()
        try:
            value = evaluation(
                EvaluationScope(cast("dict[str, Json]", variables), now, cost, MembershipIndex())
            )
            return result_of(value, cost)
        except RecursionError:
            raise ExpressionError("evaluation_failed", "a value is nested too deep") from None
        except MemoryError:
            raise too_large_error("the expression takes more memory than there is") from None

    return evaluate


def result_of(value: object, cost: CostTracker) -> Json:
    """Return a value as JSON: what is JSON already is passed on, and all of it is counted.

    Raises:
        ExpressionError: it is too large, or holds what JSON has not.
    """
    left, is_json = _left(value, _MAX_RESULT_PARTS, _CHARACTERS_A_PART)
    if left < 0:
        raise too_large_error(
            "the result of the expression is too large: it repeats what it is given"
        )
    cost.count_operations(_MAX_RESULT_PARTS - left)
    if is_json:
        return cast("Json", value)
    cost.count_operations((_MAX_RESULT_PARTS - left) * _COPIED_PART_COST)
    return _to_json(value)


def exceeds_length(value: Json, characters: int) -> bool:
    """Return whether a value takes more than so many characters as JSON, at a low estimate.

    Raises:
        ExpressionError: it holds a number that is not finite, or text that is no Unicode.
    """
    return _left(value, characters, 1)[0] < 0


def _left(value: object, left: int, characters: int) -> tuple[int, bool]:
    """Return what is left when a value's parts and characters are taken, and whether all of it is
    JSON.

    So many characters count as one; less than none ends the count.
    """
    is_json, waiting = True, [value]
    while waiting and left >= 0:
        item = waiting.pop()
        left -= 1
        kind = item.__class__
        if kind is str:
            left -= _length(cast("str", item)) // characters
        elif kind is float:
            if not math.isfinite(cast("float", item)):
                raise _NOT_FINITE
        elif kind is list:
            inner = cast("list[object]", item)
            if len(inner) > left:
                return -1, is_json
            waiting += inner
        elif kind is dict:
            fields = cast("dict[object, object]", item)
            if len(fields) > left:
                return -1, is_json
            for name in fields:
                if isinstance(name, str):
                    left -= len(name) // characters
                else:
                    is_json = False
            waiting += fields.values()
        elif kind is not int and kind is not bool and item is not None:
            is_json = False
    return left, is_json


def _length(text: str) -> int:
    if not text.isascii() and _LONE_SURROGATE.search(text):
        raise ExpressionError("evaluation_failed", "a value holds text that is no Unicode")
    return len(text)


def _to_json(value: object) -> Json:
    """Return a value with instants in ISO 8601 and durations in seconds, as the results of tools
    have them.

    Raises:
        ExpressionError: two keys are one text, so that one would be lost.
    """
    match value:
        case None | bool() | int() | float() | str():
            return value
        case list():
            return [_to_json(item) for item in cast("list[object]", value)]
        case dict():
            fields = cast("dict[object, object]", value)
            written = {
                name if isinstance(name, str) else str(name).lower(): _to_json(item)
                for name, item in fields.items()
            }
            if len(written) < len(fields):
                raise evaluation_error("an object has two keys that are one text in JSON")
            return written
        case dt.datetime():
            return timestamp_text(value)
        case dt.timedelta():
            return duration_text(value)
        case _:
            return str(value)


Locals: TypeAlias = frozenset[str]
"""Names that macros gave to elements."""


def compile_node(node: ExpressionNode, local_names: Locals = frozenset()) -> Evaluation:  # noqa: C901, PLR0912 - one case a kind
    """Return what evaluates a tree.

    Raises:
        ExpressionError: the tree calls a function that does not exist.
    """
    path = plain_path(node, {})
    if path is not None:
        return lambda scope: evaluate_path(path, scope.variables)
    match node:
        case LiteralValue():
            value = cast("Json", node.value)
            return lambda _scope: value
        case Select():
            return compile_select(compile_node(node.operand, local_names), node.field)
        case Index():
            return compile_index(
                compile_node(node.operand, local_names), compile_node(node.key, local_names)
            )
        case FunctionCall():
            return _compile_call(node, local_names)
        case Macro():
            return _compile_macro(node, local_names)
        case Has():
            return _compile_has(node, local_names)
        case Unary():
            return _compile_unary(node, local_names)
        case Binary():
            return _compile_binary(node, local_names)
        case LogicalOperation():
            return _compile_logical(node, local_names)
        case Conditional():
            return _compile_conditional(node, local_names)
        case ListLiteral():
            return _compile_list(tuple(compile_node(item, local_names) for item in node.items))
        case MapLiteral():
            return _compile_object(node, local_names)
        case _:
            msg = f"{type(node).__name__} is a plain path"
            raise AssertionError(msg)


def _compile_call(node: FunctionCall, local_names: Locals) -> Evaluation:
    check_function_exists(node)
    function, target = node.function, node.target
    if target is None and function == "now" and not node.arguments:
        return lambda scope: cast("Json", scope.now)
    operands = node.arguments if target is None else (target, *node.arguments)
    arguments = tuple(compile_node(operand, local_names) for operand in operands)
    if target is None and function in MIN_MAX_FUNCTIONS and len(arguments) > 1:
        arguments = (_compile_list(arguments),)
    overloads = (GLOBAL_FUNCTIONS if target is None else METHODS).overloads(function)
    is_method = target is not None and function != "size"
    shown = function if is_method else f"{function}()"
    offset = operands[0].start if function == "size" and operands else None

    def evaluate(scope: EvaluationScope) -> Json:
        values = tuple([argument(scope) for argument in arguments])
        run = overloads.get(tuple([value.__class__ for value in values])) or overloads.get(
            tuple(map(class_of, values))
        )
        if run is None and len(values) == 1:
            run = overloads.get((object,))
        if run is None:
            error = no_overload_error(shown, values, is_method=is_method)
            raise ExpressionError(error.kind, error.message, offset)
        try:
            return cast("Json", run(scope.cost, *values))
        except OverflowError:
            raise evaluation_error("a number is too large") from None
        except UnicodeError:
            raise evaluation_error("a value holds text that is no Unicode") from None
        except ValueError as refused:
            raise evaluation_error(str(refused)) from None

    return evaluate


def _compile_macro(node: Macro, local_names: Locals) -> Evaluation:
    inner = local_names.union(node.variables)
    bodies = tuple(compile_node(argument, inner) for argument in node.arguments)
    size = 2 + sum(map(_operation_count, node.arguments))
    return CompiledMacro(node, compile_node(node.range, local_names), bodies, size).run


def _operation_count(node: ExpressionNode) -> int:
    """Return the operations of one evaluation of a tree, and of the list, object or scalar that it
    makes; a macro inside counts its own iterations.
    """
    match node:
        case Macro():
            return 4 + _operation_count(node.range)
        case ListLiteral():
            own = 6
        case MapLiteral():
            own = 8 + 4 * len(node.entries)
        case FunctionCall():
            own = 3
        case _:
            own = 1
    return own + sum(map(_operation_count, children(node)))


def _compile_has(node: Has, local_names: Locals) -> Evaluation:
    path = plain_path(node.selection, {})
    if path is not None:
        return lambda scope: path_exists(path, scope.variables)
    return _is_present(node.selection, local_names)


def _is_present(selection: Select, local_names: Locals) -> Evaluation:
    """Return what asks for a field after asking for everything on the way to it."""
    operand = selection.operand
    on_the_way = None
    if isinstance(operand, Select):
        on_the_way = _is_present(operand, local_names)
    read = compile_node(operand, local_names)
    name = selection.field

    def evaluate(scope: EvaluationScope) -> Json:
        if on_the_way is not None and not on_the_way(scope):
            return False
        owner = read(scope)
        if owner is None and on_the_way is not None:
            return False
        if not isinstance(owner, Mapping):
            raise not_an_object_error()
        return name in owner

    return evaluate


def _compile_unary(node: Unary, local_names: Locals) -> Evaluation:
    operand = compile_node(node.operand, local_names)
    if node.operator == "-":
        return lambda scope: cast("Json", negate(operand(scope)))

    def turn_round(scope: EvaluationScope) -> Json:
        value = operand(scope)
        if isinstance(value, bool):
            return not value
        raise ExpressionError("no_overload", "'!' turns a condition round, and was given none")

    return turn_round


def _compile_binary(node: Binary, local_names: Locals) -> Evaluation:
    left, right = compile_node(node.left, local_names), compile_node(node.right, local_names)
    match node.operator:
        case "==":
            return lambda scope: are_equal(left(scope), right(scope), scope.cost)
        case "!=":
            return lambda scope: not are_equal(left(scope), right(scope), scope.cost)
        case "in":
            path = plain_path(node.right, {})
            # What a macro gives may be gone in the next iteration, and another list stand at its
            # address.
            if path is not None and path.root not in local_names:
                return lambda scope: scope.membership.contains(
                    right(scope), left(scope), scope.cost
                )
            return lambda scope: contains(right(scope), left(scope), scope.cost)
        case _:
            return _apply_operator(node.operator, OPERATORS[node.operator], left, right)


def _apply_operator(
    symbol: str, table: Mapping[tuple[type, type], Operator], left: Evaluation, right: Evaluation
) -> Evaluation:
    def evaluate(scope: EvaluationScope) -> Json:
        one, other = left(scope), right(scope)
        run = table.get((one.__class__, other.__class__)) or table.get(
            (class_of(one), class_of(other))
        )
        if run is None:
            raise no_overload_error(f"'{symbol}'", (one, other))
        return cast("Json", run(scope.cost, one, other))

    return evaluate


def _compile_logical(node: LogicalOperation, local_names: Locals) -> Evaluation:
    operands = [compile_node(operand, local_names) for operand in node.operands]
    decisive = node.operator == "||"

    def evaluate(scope: EvaluationScope) -> Json:
        met: ExpressionError | None = None
        for operand in operands:
            try:
                value = operand(scope)
            except ExpressionError as fault:
                if fault.kind == "expression_too_large":
                    raise
                scope.cost.count_operations(SUPPRESSED_ERROR_COST)
                met = met or fault
                continue
            if value is decisive:
                return decisive
            if not isinstance(value, bool):
                met = met or ExpressionError(
                    "no_overload",
                    f"'{node.operator}' joins conditions, and one of its sides is neither true nor false",
                )
        if met is not None:
            raise met
        return not decisive

    return evaluate


def _compile_conditional(node: Conditional, local_names: Locals) -> Evaluation:
    condition, yes, no = (
        compile_node(part, local_names) for part in (node.condition, node.yes, node.no)
    )

    def evaluate(scope: EvaluationScope) -> Json:
        chosen = condition(scope)
        if not isinstance(chosen, bool):
            raise ExpressionError(
                "no_overload",
                f"'?' follows a condition, and was given {kind_name(chosen)}",
                node.condition.start,
            )
        return yes(scope) if chosen else no(scope)

    return evaluate


def _compile_list(items: tuple[Evaluation, ...]) -> Evaluation:
    return lambda scope: [item(scope) for item in items]


def _compile_object(node: MapLiteral, local_names: Locals) -> Evaluation:
    entries = [
        (compile_node(key, local_names), compile_node(value, local_names))
        for key, value in node.entries
    ]

    def evaluate(scope: EvaluationScope) -> Json:
        result: dict[str, Json] = {}
        for key, value in entries:
            name = key(scope)
            if not isinstance(name, str | int):
                raise ExpressionError(
                    "evaluation_failed", f"{kind_name(name)} cannot be a key", node.start
                )
            if name in result:
                raise ExpressionError(
                    "evaluation_failed",
                    f"the key '{str(name)[:MAX_KEY_LENGTH_SHOWN]}' is given twice",
                    node.start,
                )
            result[cast("str", name)] = value(scope)
        return result

    return evaluate
