"""Write a tree as text for the library's dynamic environment.

Every plain path becomes a *binding*: a short variable whose value is walked to in Python when the expression is
evaluated. What the library does otherwise than our expressions promise (see `cel_functions`) is written with a
function of ours. The text of two expressions that differ in paths only is therefore the same text.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from wavewright.planner.cel_faults import ExpressionFault, closest
from wavewright.planner.cel_functions import GLOBAL_FUNCTIONS, METHODS, contains
from wavewright.planner.cel_paths import Path, Variables, compile_path, is_there, kind_of, plain_path
from wavewright.planner.cel_tree import (
    TYPE_NAMES,
    Binary,
    Call,
    Has,
    Index,
    ListOf,
    LiteralValue,
    Logic,
    MapOf,
    Node,
    Paren,
    Select,
    Ternary,
    Unary,
    without_parens,
)
from wavewright.planner.types import Json

Binding: TypeAlias = Callable[[Variables], Json]

NOW = "now"
"""Variable of the text that holds the run's instant."""

_RENAMED = {"timestamp": "ww_time", "duration": "ww_span", "lists.range": "ww_upto"}
ROUNDING = frozenset(
    {"math.ceil", "math.floor", "math.round", "math.trunc", "math.isNaN", "math.isInf", "math.isFinite"}
)
"""Functions that CEL has for doubles only."""
EXTREMES = {"math.greatest": "max", "math.least": "min", "max": "max", "min": "min"}
"""Functions of one list or of several values; CEL's own take neither strings nor what is no literal list."""
_BOUNDED = frozenset({"join", "replace"})


@dataclass(frozen=True, slots=True)
class DynamicText:
    """Text for the dynamic environment, with what its variables are bound to."""

    pieces: tuple[str, ...]
    bindings: tuple[tuple[str, Binding], ...]
    reads_now: bool

    def text(self, bound: dict[str, object] | None = None) -> str:
        """Return the text; a variable that is bound to an instant or a duration is read from its text.

        The library cannot be given either, though it can give both.
        """
        if bound is None:
            return "".join(self.pieces)
        wraps = {name: _reading(value) for name, value in bound.items()}
        return "".join(f"{wraps[piece]}({piece})" if wraps.get(piece) else piece for piece in self.pieces)


def _reading(value: object) -> str:
    if isinstance(value, dt.datetime):
        return "timestamp"
    return "duration" if isinstance(value, dt.timedelta) else ""


def write_dynamic(tree: Node) -> DynamicText:
    """Return the text of a tree for evaluation; its macros have been taken out before.

    Raises:
        ExpressionFault: the tree calls a function that does not exist.
    """
    writer = _Writer()
    writer.write(tree)
    return DynamicText(tuple(writer.pieces), tuple(writer.bindings.values()), writer.reads_now)


def check_call(call: Call) -> None:
    """Refuse a call of a function or method that does not exist.

    Raises:
        ExpressionFault: it does not exist.
    """
    known = GLOBAL_FUNCTIONS if call.target is None else METHODS
    if call.function in known:
        return
    word = "function" if call.target is None else "method"
    hint = closest(call.function, known)
    if call.target is None and call.function in METHODS:
        hint = f"it is a method: value.{call.function}(…)"
    elif call.target is not None and call.function in GLOBAL_FUNCTIONS:
        hint = f"it is a function: {call.function}(value)"
    raise ExpressionFault(
        "unknown_name_or_field", f"there is no {word} '{call.function}'", call.name_start, hint
    )


class _Writer:
    """Collects the text and the bindings of one tree."""

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.bindings: dict[tuple[str, Path, str], tuple[str, Binding]] = {}
        self.reads_now = False

    def write(self, node: Node) -> None:  # noqa: C901, PLR0912 - one case a kind
        """Append a node."""
        path = plain_path(node, {})
        if path is not None:
            self._write_path(path)
            return
        out = self.pieces.append
        match node:
            case LiteralValue():
                out(node.text)
            case Paren():
                self._between("(", ")", (node.inner,))
            case Select():
                self.write(node.operand)
                out(f".{node.field}")
            case Index():
                self.write(node.operand)
                self._between("[", "]", (node.key,))
            case Call():
                self._write_call(node)
            case Has():
                self._write_has(node)
            case Unary():
                out(node.operator)
                self.write(node.operand)
            case Binary():
                self._write_binary(node)
            case Logic():
                self._joined(f" {node.operator} ", node.operands)
            case Ternary():
                self.write(node.condition)
                self._between(" ? ", " : ", (node.yes,))
                self.write(node.no)
            case ListOf():
                self._between("[", "]", node.items)
            case MapOf():
                self._write_map(node)
            case _:
                msg = f"{type(node).__name__} is no part of the text"
                raise AssertionError(msg)

    def _write_path(self, path: Path) -> None:
        if path.root in TYPE_NAMES and not path.keys:
            self.pieces.append(path.root)
        else:
            self._bind("v", path, lambda: compile_path(path))

    def _bind(self, prefix: str, path: Path, make: Callable[[], Binding], more: str = "") -> None:
        # Two mentions of one path stand at two places, so places take no part in being the same binding.
        identity = (prefix, Path(path.root, path.keys, (), 0), more)
        if identity not in self.bindings:
            self.bindings[identity] = (f"{prefix}{len(self.bindings)}", make())
        self.pieces.append(self.bindings[identity][0])

    def _between(self, opening: str, closing: str, nodes: tuple[Node, ...]) -> None:
        self.pieces.append(opening)
        self._joined(", ", nodes)
        self.pieces.append(closing)

    def _joined(self, separator: str, nodes: tuple[Node, ...]) -> None:
        for place, node in enumerate(nodes):
            if place:
                self.pieces.append(separator)
            self.write(node)

    def _write_binary(self, node: Binary) -> None:
        if node.operator == "/":
            self._between("ww_div(", ")", (node.left, node.right))
            return
        if node.operator == "in" and (container := plain_path(node.right, {})) is not None:
            member = _member(node.left)
            if member is not None:
                self._bind("i", container, lambda: _membership(member, container), more=repr(node.left))
                return
        self.write(node.left)
        self.pieces.append(f" {node.operator} ")
        self.write(node.right)

    def _write_call(self, node: Call) -> None:
        check_call(node)
        function = node.function
        if function == "now" and node.target is None and not node.arguments:
            self.reads_now = True
            self.pieces.append(f"timestamp({NOW})")
        elif function == "size" and (measured := _measured(node)) is not None:
            self._bind("s", measured, lambda: _size(measured))
        elif node.target is not None and function in _BOUNDED:
            self._between(f"ww_{function}(", ")", (node.target, *node.arguments))
        elif node.target is not None:
            self.write(node.target)
            self._between(f".{function}(", ")", node.arguments)
        elif function in EXTREMES:
            several = len(node.arguments) > 1
            opening, closing = ("([", "])") if several else ("(", ")")
            self._between(EXTREMES[function] + opening, closing, node.arguments)
        elif function in ROUNDING:
            # A JSON number may have come as an integer.
            self._between(f"{function}(double(", "))", node.arguments)
        else:
            self._between(f"{_RENAMED.get(function, function)}(", ")", node.arguments)

    def _write_map(self, node: MapOf) -> None:
        self.pieces.append("{")
        for place, (key, value) in enumerate(node.entries):
            if place:
                self.pieces.append(", ")
            self.write(key)
            self.pieces.append(": ")
            self.write(value)
        self.pieces.append("}")

    def _write_has(self, node: Has) -> None:
        path = plain_path(node.selection, {})
        if path is not None:
            self._bind("h", path, lambda: lambda variables: is_there(path, variables))
            return
        self.pieces.append("(")
        self._write_presence(node.selection)
        self.pieces.append(")")

    def _write_presence(self, selection: Select | Index) -> None:
        """Append what asks for a field after asking for everything on the way to it."""
        operand = without_parens(selection.operand)
        if isinstance(operand, Select) or (isinstance(operand, Index) and _is_field(operand)):
            self._write_presence(operand)
            self.pieces.append(" && ")
            self.write(selection.operand)
            self.pieces.append(" != null && ")
        if isinstance(selection, Select):
            self.pieces.append("has(")
            self.write(selection.operand)
            self.pieces.append(f".{selection.field})")
        else:
            self.write(selection.key)
            self.pieces.append(" in ")
            self.write(selection.operand)


def _measured(node: Call) -> Path | None:
    """Return the path whose value is measured; it is done without a copy for the library."""
    operands = (*node.arguments, *((node.target,) if node.target is not None else ()))
    path = plain_path(operands[0], {}) if len(operands) == 1 else None
    return None if path is None or path.root in TYPE_NAMES else path


def _size(path: Path) -> Binding:
    read = compile_path(path)

    def measure(variables: Variables) -> Json:
        value = read(variables)
        if isinstance(value, str | list | Mapping):
            return len(value)
        raise ExpressionFault("no_overload", f"size() does not take {kind_of(value)}", path.start)

    return measure


def _is_field(node: Index) -> bool:
    key = without_parens(node.key)
    return isinstance(key, LiteralValue) and key.kind == "string"


def _member(node: Node) -> Binding | None:
    """Return what reads the left side of `in`, where that is a path or a string."""
    bare = without_parens(node)
    if isinstance(bare, LiteralValue) and bare.kind == "string":
        return lambda _variables: bare.string
    path = plain_path(bare, {})
    return None if path is None or path.root in TYPE_NAMES else compile_path(path)


def _membership(member: Binding, container: Path) -> Binding:
    """Return what answers `in` without handing the container to the library, which would copy it each time."""
    read = compile_path(container)

    def ask(variables: Variables) -> Json:
        held = contains(read(variables), member(variables))
        if held is None:
            raise ExpressionFault(
                "no_overload",
                f"'in' asks a list for an element, or an object for a field; '{container.text()}' is neither",
                container.start,
            )
        return held

    return ask
