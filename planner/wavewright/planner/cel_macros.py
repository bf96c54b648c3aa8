"""Run the loops of expressions.

A *macro* is `list.map(x, …)` and its like. The library's own macros build lists by copying them at every turn: nine
thousand elements take three seconds and a gigabyte. So macros are lifted out of their expression and run here, one
prepared evaluation of the body a turn; their results stand in the scope under the macro's own text. Turns are
counted over the whole evaluation, whatever is inside what.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from wavewright.planner.cel_faults import ExpressionFault
from wavewright.planner.cel_functions import HEAVIEST_ELEMENT, Refused, check_weight, in_order_of, sorted_keys
from wavewright.planner.cel_nodes import children
from wavewright.planner.cel_paths import Variables, kind_of, plain_path
from wavewright.planner.cel_tree import (
    Binary,
    Call,
    Has,
    Index,
    ListOf,
    Logic,
    Macro,
    MapOf,
    Name,
    Node,
    Paren,
    Select,
    Ternary,
    Unary,
)
from wavewright.planner.types import Json

MAX_TURNS = 100_000
"""Turns of loops in one evaluation, and what long values cost in their place."""

Evaluation: TypeAlias = Callable[[Variables, dt.datetime], Json]
"""Gives a value that may hold instants and durations, which JSON has not: it goes on to other evaluations."""
Prepare: TypeAlias = Callable[[Node, str], Evaluation]

_PARTS_A_TURN = 16
_CHARACTERS_A_TURN = 4096
_TURNS = "\0turns"
_ELEMENT = "\0element"
_GIVEN = frozenset({"steps", "inputs", "item", "output", "goal"})
"""Roots whose values came from outside, at the size that they have."""
_GROWING = frozenset({"join", "replace", "format"})


@dataclass(frozen=True, slots=True)
class Lifted:
    """A tree without macros, and the macros that its new names stand for."""

    tree: Node
    macros: Mapping[str, Macro]


def lift_macros(tree: Node, text: str) -> Lifted:
    """Take the outermost macros out of a tree; `text` is the expression that it was read from."""
    macros: dict[str, Macro] = {}
    return Lifted(_lifted(tree, text, macros) if _holds_macro(tree) else tree, macros)


def _holds_macro(node: Node) -> bool:
    return isinstance(node, Macro) or _is_sort(node) or any(_holds_macro(child) for child in children(node))


def _is_sort(node: Node) -> bool:
    return (
        isinstance(node, Call) and node.function == "sort" and node.target is not None and not node.arguments
    )


def _lifted(node: Node, text: str, macros: dict[str, Macro]) -> Node:  # noqa: C901, PLR0912 - one case a kind
    def inner(child: Node) -> Node:
        return _lifted(child, text, macros)

    match node:
        case Macro():
            return _named(node._replace(range=inner(node.range)), text, macros)
        case Call() if node.target is not None and _is_sort(node):
            element = Name(node.start, node.end, 1, _ELEMENT)
            over = inner(node.target)
            sort = Macro(
                node.start, node.end, node.depth, "sortBy", over, _ELEMENT, (element,), node.name_start
            )
            return _named(sort, text, macros)
        case Call():
            target = None if node.target is None else inner(node.target)
            return node._replace(target=target, arguments=tuple(map(inner, node.arguments)))
        case Select():
            return node._replace(operand=inner(node.operand))
        case Index():
            return node._replace(operand=inner(node.operand), key=inner(node.key))
        case Has():
            return node._replace(selection=cast("Select | Index", inner(node.selection)))
        case Unary():
            return node._replace(operand=inner(node.operand))
        case Binary():
            return node._replace(left=inner(node.left), right=inner(node.right))
        case Logic():
            return node._replace(operands=tuple(map(inner, node.operands)))
        case Ternary():
            return node._replace(condition=inner(node.condition), yes=inner(node.yes), no=inner(node.no))
        case ListOf():
            return node._replace(items=tuple(map(inner, node.items)))
        case MapOf():
            return node._replace(entries=tuple((inner(key), inner(value)) for key, value in node.entries))
        case Paren():
            return node._replace(inner=inner(node.inner))
        case _:
            return node


def _named(macro: Macro, text: str, macros: dict[str, Macro]) -> Name:
    """Give a macro its text for a name: no root is called so, and a fault that speaks of it reads well."""
    name = " ".join(text[macro.start : macro.end].split())
    macros[name] = macro
    return Name(macro.start, macro.end, 1, name)


class _Scope(dict[str, Json]):
    """Variables, and the results of macros from the moment that they are asked for."""

    def __init__(self, variables: Variables, macros: Mapping[str, Evaluation], now: dt.datetime) -> None:
        super().__init__(variables)
        self._macros = macros
        self._now = now

    def __missing__(self, name: str) -> Json:
        if name not in self._macros:
            raise KeyError(name)
        self[name] = value = self._macros[name](self, self._now)
        return value


def with_macros(base: Evaluation, lifted: Lifted, text: str, prepare: Prepare) -> Evaluation:
    """Return an evaluation that runs the lifted macros where `base` asks for them."""
    if not lifted.macros:
        return base
    macros = {name: _prepared(macro, text, prepare) for name, macro in lifted.macros.items()}

    def evaluate(variables: Variables, now: dt.datetime) -> Json:
        scope = _Scope(variables, macros, now)
        scope.setdefault(_TURNS, [MAX_TURNS])
        return base(scope, now)

    return evaluate


def charge(variables: Variables, cost: int) -> None:
    """Count turns; outside a loop nothing is counted.

    Raises:
        ExpressionFault: there are none left.
    """
    left = variables.get(_TURNS)
    if left is None:
        return
    turns = cast("list[int]", left)
    turns[0] -= cost
    if turns[0] < 0:
        raise ExpressionFault(
            "expression_too_large",
            f"the expression takes more than {MAX_TURNS:,} turns of its loops",
            None,
            "filter first, or leave the work to a tool",
        )


def turns_of(value: object) -> int:
    """Return how many turns it counts for that the library makes or copies a value."""
    if isinstance(value, list | dict):
        return len(cast("list[object]", value)) // _PARTS_A_TURN
    return len(value) // _CHARACTERS_A_TURN if isinstance(value, str) else 0


def _prepared(macro: Macro, text: str, prepare: Prepare) -> Evaluation:
    """Return what runs a macro: its range, its body, and a rule for what comes of the turns."""
    over = prepare(macro.range, text)
    bodies = [prepare(argument, text) for argument in macro.arguments]
    finish = _FINISHES[macro.function]
    path = plain_path(macro.range, {})
    is_made = path is None or path.root not in _GIVEN
    made = any(plain_path(argument, {}) is None for argument in macro.arguments)
    checked = is_made and any(_grows(argument) for argument in macro.arguments)

    def run(variables: Variables, now: dt.datetime) -> Json:
        turns = _turns(macro, over(variables, now), variables)
        if checked:
            turns = _light(turns)
        inner = dict(variables)

        def of(body: Evaluation, element: Json) -> Json:
            inner[macro.variable] = element
            value = body(inner, now)
            if made and (cost := turns_of(value)):
                charge(variables, cost)
            return value

        return finish(macro, bodies, turns, of)

    return run


def _turns(macro: Macro, over: Json, variables: Variables) -> Iterator[Json]:
    elements: Sequence[Json]
    if isinstance(over, list):
        elements = over
    elif isinstance(over, Mapping) and macro.function != "sortBy":
        elements = sorted_keys(over)
    else:
        raise ExpressionFault(
            "no_overload",
            f"{_shown(macro)} goes over a list, and was given {kind_of(over)}",
            macro.name_start,
        )
    for element in elements:
        charge(variables, 1)
        yield element


def _shown(macro: Macro) -> str:
    return "sort()" if macro.variable == _ELEMENT else f"{macro.function}()"


def _light(elements: Iterator[Json]) -> Iterator[Json]:
    for element in elements:
        check_weight(element, HEAVIEST_ELEMENT)
        yield element


_Of: TypeAlias = Callable[[Evaluation, Json], Json]
_Finish: TypeAlias = Callable[[Macro, list[Evaluation], Iterator[Json], _Of], Json]


def _holds(macro: Macro, value: Json) -> bool:
    if isinstance(value, bool):
        return value
    raise ExpressionFault(
        "no_overload",
        f"{_shown(macro)} wants a condition, and got {kind_of(value)}",
        macro.arguments[0].start,
    )


def _map(macro: Macro, bodies: list[Evaluation], turns: Iterator[Json], of: _Of) -> Json:
    if len(bodies) == 1:
        return [of(bodies[0], element) for element in turns]
    return [of(bodies[1], element) for element in turns if _holds(macro, of(bodies[0], element))]


def _filter(macro: Macro, bodies: list[Evaluation], turns: Iterator[Json], of: _Of) -> Json:
    return [element for element in turns if _holds(macro, of(bodies[0], element))]


def _all(macro: Macro, bodies: list[Evaluation], turns: Iterator[Json], of: _Of) -> Json:
    return _decided(macro, bodies[0], turns, of, by=False)


def _exists(macro: Macro, bodies: list[Evaluation], turns: Iterator[Json], of: _Of) -> Json:
    return _decided(macro, bodies[0], turns, of, by=True)


def _decided(macro: Macro, body: Evaluation, turns: Iterator[Json], of: _Of, *, by: bool) -> bool:
    """Return `by` if any turn gives it; as in CEL, a fault counts only where no turn decides."""
    met: ExpressionFault | None = None
    for element in turns:
        try:
            if _holds(macro, of(body, element)) is by:
                return by
        except ExpressionFault as fault:
            if fault.kind == "expression_too_large":
                raise
            met = met or fault
    if met is not None:
        raise met
    return not by


def _exists_one(macro: Macro, bodies: list[Evaluation], turns: Iterator[Json], of: _Of) -> Json:
    return [_holds(macro, of(bodies[0], element)) for element in turns].count(True) == 1


def _sort_by(macro: Macro, bodies: list[Evaluation], turns: Iterator[Json], of: _Of) -> Json:
    elements = list(turns)
    try:
        return in_order_of([of(bodies[0], element) for element in elements], elements)
    except Refused as refused:
        raise ExpressionFault("no_overload", str(refused), macro.name_start) from None


_FINISHES: dict[str, _Finish] = {
    "map": _map,
    "filter": _filter,
    "all": _all,
    "exists": _exists,
    "exists_one": _exists_one,
    "existsOne": _exists_one,
    "sortBy": _sort_by,
}


def _grows(node: Node) -> bool:
    """Return whether what a node gives can be longer than what it is given."""
    match node:
        case ListOf() | MapOf():
            return True
        case Binary() if node.operator == "+":
            return True
        case Call() if node.function in _GROWING:
            return True
        case _:
            return any(_grows(child) for child in children(node))
