"""Turn a tree into what evaluates it.

An *evaluation* is a tree of closures over the nodes of an expression, prepared once and called often. Whatever it
reads is passed on and never copied; whatever it makes is counted by the meter of its scope first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, cast

from wavewright.planner.cel_calls import CONVERSIONS, FUNCTIONS_OF_OURS, METHODS_OF_OURS, TYPES, Signatures
from wavewright.planner.cel_faults import SHOWN, ExpressionFault
from wavewright.planner.cel_fields import indexed, no_object, selected
from wavewright.planner.cel_functions import EXTREMES, check_call
from wavewright.planner.cel_leaves import ask_library, evaluate_text
from wavewright.planner.cel_macros import SORT, Loop
from wavewright.planner.cel_meter import PASSED_FAULT
from wavewright.planner.cel_nodes import (
    Binary,
    Call,
    Has,
    Index,
    ListOf,
    LiteralValue,
    Logic,
    Macro,
    MapOf,
    Name,
    Node,
    Select,
    Ternary,
    Unary,
    children,
    without_parens,
)  # fmt: skip
from wavewright.planner.cel_operators import (
    OPERATORS,
    Operator,
    are_equal,
    class_of,
    contains,
    failed,
    negate,
    no_overload,
)
from wavewright.planner.cel_paths import Path, compile_path, is_there, kind_of, plain_path
from wavewright.planner.cel_scope import Evaluation, Scope
from wavewright.planner.types import Json

Locals: TypeAlias = frozenset[str]
"""Names that macros gave to elements."""

_ELEMENT = "\0element"


def prepare(node: Node, local_names: Locals = frozenset()) -> Evaluation:  # noqa: C901, PLR0912 - one case a kind
    """Return what evaluates a tree.

    Raises:
        ExpressionFault: the tree calls a function that does not exist.
    """
    node = without_parens(node)
    path = plain_path(node, {})
    if path is not None:
        return _path(path)
    match node:
        case LiteralValue():
            return _constant(node)
        case Select():
            return selected(prepare(node.operand, local_names), node.field)
        case Index():
            return indexed(prepare(node.operand, local_names), prepare(node.key, local_names))
        case Call():
            return _call(node, local_names)
        case Macro():
            return _loop(node, local_names)
        case Has():
            return _presence(node, local_names)
        case Unary():
            return _unary(node, local_names)
        case Binary():
            return _binary(node, local_names)
        case Logic():
            return _logic(node, local_names)
        case Ternary():
            return _choice(node, local_names)
        case ListOf():
            return _list(tuple(prepare(item, local_names) for item in node.items))
        case MapOf():
            return _object(node, local_names)
        case _:
            msg = f"{type(node).__name__} is a plain path"
            raise AssertionError(msg)


def _path(path: Path) -> Evaluation:
    if path.root in TYPES and not path.keys:
        named = cast("Json", TYPES[path.root])
        return lambda _scope: named
    walk = compile_path(path)
    return lambda scope: walk(scope.variables)


def _constant(literal: LiteralValue) -> Evaluation:
    value = _value_of(literal)
    return lambda _scope: value


def _value_of(literal: LiteralValue) -> Json:
    match literal.kind:
        case "string":
            return literal.string
        case "int":
            return int(literal.text, 0 if "x" in literal.text else 10)
        case "double":
            return float(literal.text)
        case "bool":
            return literal.text == "true"
        case "null":
            return None
        case _:
            return cast("Json", evaluate_text(literal.text, {}))


def _call(node: Call, local_names: Locals) -> Evaluation:
    check_call(node)
    function, target = node.function, node.target
    if target is not None and function == "sort" and not node.arguments:
        element = Name(node.start, node.end, 1, _ELEMENT)
        sort = Macro(node.start, node.end, node.depth, SORT, target, _ELEMENT, (element,), node.name_start)
        return _loop(sort, local_names)
    arguments = tuple(prepare(argument, local_names) for argument in node.arguments)
    if target is None:
        if function == "now" and not arguments:
            return lambda scope: cast("Json", scope.now)
        if function in EXTREMES:
            function = EXTREMES[function]
            if len(arguments) > 1:
                arguments = (_list(arguments),)
        return _applied(function, arguments, node, FUNCTIONS_OF_OURS.get(function))
    return _applied(function, (prepare(target, local_names), *arguments), node, METHODS_OF_OURS.get(function))


def _applied(
    function: str, arguments: tuple[Evaluation, ...], node: Call, ours: Signatures | None
) -> Evaluation:
    is_method = node.target is not None
    if ours is None:
        return _of_library(function, arguments, is_method=is_method)
    says_of = is_method and function != "size"
    shown = function if says_of else f"{function}()"
    offset = (node.target or node.arguments[0]).start if function == "size" and arguments else None

    def evaluate(scope: Scope) -> Json:
        values = tuple([argument(scope) for argument in arguments])
        run = ours.get(tuple([value.__class__ for value in values])) or ours.get(tuple(map(class_of, values)))
        if run is None and len(values) == 1:
            run = ours.get((object,))
        if run is None:
            fault = no_overload(shown, values, is_method=says_of)
            raise ExpressionFault(fault.kind, fault.message, offset)
        try:
            return cast("Json", run(scope.meter, *values))
        except OverflowError:
            raise failed("a number is too large") from None
        except ValueError as refused:
            raise failed(str(refused)) from None

    return evaluate


def _of_library(function: str, arguments: tuple[Evaluation, ...], *, is_method: bool) -> Evaluation:
    shortcuts = CONVERSIONS.get(function, {})

    def evaluate(scope: Scope) -> Json:
        values = tuple([argument(scope) for argument in arguments])
        run = shortcuts.get(tuple([value.__class__ for value in values]))
        if run is not None:
            return cast("Json", run(scope.meter, *values))
        return cast("Json", ask_library(function, scope.meter, values, is_method=is_method))

    return evaluate


def _loop(node: Macro, local_names: Locals) -> Evaluation:
    inner = local_names | {node.variable}
    bodies = tuple(prepare(argument, inner) for argument in node.arguments)
    size = 2 + sum(map(_size, node.arguments))
    return Loop(node, prepare(node.range, local_names), bodies, size).run


def _size(node: Node) -> int:
    """Return the operations of one evaluation of a tree; a loop inside counts its own turns."""
    if isinstance(node, Macro):
        return 4 + _size(node.range)
    return (3 if isinstance(node, Call) else 1) + sum(map(_size, children(node)))


def _presence(node: Has, local_names: Locals) -> Evaluation:
    path = plain_path(node.selection, {})
    if path is not None:
        return lambda scope: is_there(path, scope.variables)
    return _is_present(node.selection, local_names)


def _is_present(selection: Select | Index, local_names: Locals) -> Evaluation:
    """Return what asks for a field after asking for everything on the way to it."""
    operand = without_parens(selection.operand)
    on_the_way = (
        _is_present(operand, local_names)
        if isinstance(operand, Select) or (isinstance(operand, Index) and _names_field(operand))
        else None
    )
    read = prepare(operand, local_names)
    name = selection.field if isinstance(selection, Select) else _key_of(selection)

    def evaluate(scope: Scope) -> Json:
        if on_the_way is not None and not on_the_way(scope):
            return False
        owner = read(scope)
        if owner is None and on_the_way is not None:
            return False
        if not isinstance(owner, Mapping):
            raise no_object()
        return name in owner

    return evaluate


def _names_field(node: Index) -> bool:
    key = without_parens(node.key)
    return isinstance(key, LiteralValue) and key.kind == "string"


def _key_of(node: Index) -> str:
    key = without_parens(node.key)
    assert isinstance(key, LiteralValue)
    return key.string


def _unary(node: Unary, local_names: Locals) -> Evaluation:
    operand = prepare(node.operand, local_names)
    if node.operator == "-":
        return lambda scope: cast("Json", negate(operand(scope)))

    def turn_round(scope: Scope) -> Json:
        value = operand(scope)
        if isinstance(value, bool):
            return not value
        raise ExpressionFault("no_overload", "'!' turns a condition round, and was given none")

    return turn_round


def _binary(node: Binary, local_names: Locals) -> Evaluation:
    left, right = prepare(node.left, local_names), prepare(node.right, local_names)
    match node.operator:
        case "==":
            return lambda scope: are_equal(left(scope), right(scope), scope.meter)
        case "!=":
            return lambda scope: not are_equal(left(scope), right(scope), scope.meter)
        case "in":
            path = plain_path(node.right, {})
            # What a macro gives may be gone in the next turn, and another list stand at its address.
            if path is not None and path.root not in local_names:
                return lambda scope: scope.searched.holds(right(scope), left(scope), scope.meter)
            return lambda scope: contains(right(scope), left(scope), scope.meter)
        case _:
            return _computed(node.operator, OPERATORS[node.operator], left, right)


def _computed(
    symbol: str, table: Mapping[tuple[type, type], Operator], left: Evaluation, right: Evaluation
) -> Evaluation:
    def evaluate(scope: Scope) -> Json:
        one, other = left(scope), right(scope)
        run = table.get((one.__class__, other.__class__)) or table.get((class_of(one), class_of(other)))
        if run is None:
            raise no_overload(f"'{symbol}'", (one, other))
        return cast("Json", run(scope.meter, one, other))

    return evaluate


def _logic(node: Logic, local_names: Locals) -> Evaluation:
    operands = [prepare(operand, local_names) for operand in node.operands]
    decisive = node.operator == "||"

    def evaluate(scope: Scope) -> Json:
        met: ExpressionFault | None = None
        for operand in operands:
            try:
                value = operand(scope)
            except ExpressionFault as fault:
                if fault.kind == "expression_too_large":
                    raise
                scope.meter.work(PASSED_FAULT)
                met = met or fault
                continue
            if value is decisive:
                return decisive
            if not isinstance(value, bool):
                met = met or ExpressionFault(
                    "no_overload",
                    f"'{node.operator}' joins conditions, and one of its sides is neither true nor false",
                )
        if met is not None:
            raise met
        return not decisive

    return evaluate


def _choice(node: Ternary, local_names: Locals) -> Evaluation:
    condition, yes, no = (prepare(part, local_names) for part in (node.condition, node.yes, node.no))

    def evaluate(scope: Scope) -> Json:
        chosen = condition(scope)
        if not isinstance(chosen, bool):
            raise ExpressionFault(
                "no_overload",
                f"'?' follows a condition, and was given {kind_of(chosen)}",
                node.condition.start,
            )
        return yes(scope) if chosen else no(scope)

    return evaluate


_EMPTY_LIST = 88
"""Bytes of a list that a literal makes, with the room it keeps for more."""
_ITEM = 41
"""Bytes of a place in it and of the number that stands there; what is larger is counted where it is made."""


def _list(items: tuple[Evaluation, ...]) -> Evaluation:
    size = _EMPTY_LIST + _ITEM * len(items)

    def evaluate(scope: Scope) -> Json:
        scope.meter.make(size)
        return [item(scope) for item in items]

    return evaluate


_ENTRY = 64
"""Bytes of an entry of an object; an empty one takes as much."""


def _object(node: MapOf, local_names: Locals) -> Evaluation:
    entries = [(prepare(key, local_names), prepare(value, local_names)) for key, value in node.entries]
    start, size = node.start, (len(entries) + 2) * _ENTRY

    def evaluate(scope: Scope) -> Json:
        scope.meter.make(size)
        made: dict[str, Json] = {}
        for key, value in entries:
            name = key(scope)
            if not isinstance(name, str | int):
                raise ExpressionFault("evaluation_failed", f"{kind_of(name)} cannot be a key", start)
            if name in made:
                raise ExpressionFault(
                    "evaluation_failed", f"the key '{str(name)[:SHOWN]}' is given twice", start
                )
            made[cast("str", name)] = value(scope)
        return made

    return evaluate
