"""Write a tree as text for the library's dynamic environment.

Every plain path becomes a *binding*: a short variable whose value is walked to in Python when the expression is
evaluated. What the library does otherwise than our expressions promise (see `cel_functions`) is written with a
function of ours. The text of two expressions that differ in paths only is therefore the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from wavewright.planner.cel_faults import ExpressionFault, closest
from wavewright.planner.cel_functions import GLOBAL_FUNCTIONS, METHODS, sorted_keys
from wavewright.planner.cel_paths import Path, Variables, compile_path, is_there, plain_path
from wavewright.planner.cel_tree import (
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
    Paren,
    Select,
    Ternary,
    Unary,
    without_parens,
)
from wavewright.planner.types import Json

Binding: TypeAlias = Callable[[Variables], Json]

TYPE_NAMES = frozenset(
    {"int", "uint", "double", "bool", "string", "bytes", "list", "map", "null_type", "type"}
)
"""Names that stand for types, for comparing with `type(x)`."""
NOW = "now"
"""Variable of the text that holds the run's instant."""

_RENAMED = {"timestamp": "ww_time", "duration": "ww_span", "lists.range": "ww_upto"}
ROUNDING = frozenset(
    {"math.ceil", "math.floor", "math.round", "math.trunc", "math.isNaN", "math.isInf", "math.isFinite"}
)
"""Functions that CEL has for doubles only."""
EXTREMES = {"math.greatest": "max", "math.least": "min", "max": "max", "min": "min"}
"""Functions of one list or of several values; CEL's own take neither strings nor what is no literal list."""
_LISTS = frozenset({"map", "filter", "sortBy"})
_LIST_CALLS = frozenset({"split", "distinct", "flatten", "slice", "sort", "lists.range", "reverse"})


@dataclass(frozen=True, slots=True)
class DynamicText:
    """Text for the dynamic environment, with what its variables are bound to."""

    text: str
    bindings: tuple[tuple[str, Binding], ...]
    reads_now: bool


def write_dynamic(tree: Node) -> DynamicText:
    """Return the text of a tree for evaluation.

    Raises:
        ExpressionFault: the tree calls a function that does not exist.
    """
    writer = _Writer()
    writer.write(tree, {})
    bindings = tuple((name, binding) for name, binding in writer.bindings.values())
    return DynamicText("".join(writer.pieces), bindings, writer.reads_now)


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
        self.bindings: dict[tuple[str, Path], tuple[str, Binding]] = {}
        self.reads_now = False
        self._local_count = 0

    def write(self, node: Node, local_names: Mapping[str, str]) -> None:  # noqa: C901, PLR0912 - one case a kind
        """Append a node; `local_names` gives the written name of each macro's variable in scope."""
        path = plain_path(node, local_names)
        if path is not None:
            self._write_path(path)
            return
        out = self.pieces.append
        match node:
            case LiteralValue():
                out(node.text)
            case Name():
                out(local_names[node.name])
            case Paren():
                self._between("(", ")", (node.inner,), local_names)
            case Select():
                self.write(node.operand, local_names)
                out(f".{node.field}")
            case Index():
                self.write(node.operand, local_names)
                self._between("[", "]", (node.index,), local_names)
            case Call():
                self._write_call(node, local_names)
            case Macro():
                self._write_macro(node, local_names)
            case Has():
                self._write_has(node, local_names)
            case Unary():
                out(node.operator)
                self.write(node.operand, local_names)
            case Binary():
                self._write_binary(node, local_names)
            case Logic():
                self._joined(f" {node.operator} ", node.operands, local_names)
            case Ternary():
                self.write(node.condition, local_names)
                out(" ? ")
                self.write(node.yes, local_names)
                out(" : ")
                self.write(node.no, local_names)
            case ListOf():
                self._between("[", "]", node.items, local_names)
            case MapOf():
                self._write_map(node, local_names)

    def _write_path(self, path: Path) -> None:
        if path.root in TYPE_NAMES and not path.keys:
            self.pieces.append(path.root)
            return
        self.pieces.append(self._bound("v", path, lambda: compile_path(path)))

    def _bound(self, prefix: str, path: Path, make: Callable[[], Binding]) -> str:
        # Two mentions of one path stand at two places, so places take no part in being the same binding.
        identity = (prefix + path.text(), Path(path.root, path.keys, (), 0))
        if identity not in self.bindings:
            self.bindings[identity] = (f"{prefix}{len(self.bindings)}", make())
        return self.bindings[identity][0]

    def _between(
        self, opening: str, closing: str, nodes: tuple[Node, ...], local_names: Mapping[str, str]
    ) -> None:
        self.pieces.append(opening)
        self._joined(", ", nodes, local_names)
        self.pieces.append(closing)

    def _joined(self, separator: str, nodes: tuple[Node, ...], local_names: Mapping[str, str]) -> None:
        for place, node in enumerate(nodes):
            if place:
                self.pieces.append(separator)
            self.write(node, local_names)

    def _write_binary(self, node: Binary, local_names: Mapping[str, str]) -> None:
        if node.operator == "/":
            self._between("ww_div(", ")", (node.left, node.right), local_names)
            return
        self.write(node.left, local_names)
        self.pieces.append(f" {node.operator} ")
        self.write(node.right, local_names)

    def _write_call(self, node: Call, local_names: Mapping[str, str]) -> None:
        check_call(node)
        if node.function == "now" and node.target is None and not node.arguments:
            self.reads_now = True
            self.pieces.append(f"timestamp({NOW})")
            return
        if node.target is not None and node.function == "sort" and not node.arguments:
            self._between("ww_sort(", ")", (node.target,), local_names)
            return
        if node.target is not None:
            self.write(node.target, local_names)
            self._between(f".{node.function}(", ")", node.arguments, local_names)
            return
        if node.function in EXTREMES:
            several = len(node.arguments) > 1
            opening, closing = ("([", "])") if several else ("(", ")")
            self._between(EXTREMES[node.function] + opening, closing, node.arguments, local_names)
            return
        if node.function in ROUNDING:
            # These exist for doubles only, and a JSON number may have come as an integer.
            self._between(f"{node.function}(double(", "))", node.arguments, local_names)
            return
        self._between(f"{_RENAMED.get(node.function, node.function)}(", ")", node.arguments, local_names)

    def _write_map(self, node: MapOf, local_names: Mapping[str, str]) -> None:
        self.pieces.append("{")
        for place, (key, value) in enumerate(node.entries):
            if place:
                self.pieces.append(", ")
            self.write(key, local_names)
            self.pieces.append(": ")
            self.write(value, local_names)
        self.pieces.append("}")

    def _write_macro(self, node: Macro, local_names: Mapping[str, str]) -> None:
        written = f"x{self._local_count}"
        self._local_count += 1
        inner = {**local_names, node.variable: written}
        if node.function == "sortBy":
            self.pieces.append("ww_sorted(")
            self._write_range(node.range, local_names)
            self.pieces.append(f".map({written}, [")
            self.write(node.arguments[0], inner)
            self.pieces.append(f", {written}]))")
            return
        self._write_range(node.range, local_names)
        function = "exists_one" if node.function == "existsOne" else node.function
        self.pieces.append(f".{function}({written}, ")
        self._joined(", ", node.arguments, inner)
        self.pieces.append(")")

    def _write_range(self, node: Node, local_names: Mapping[str, str]) -> None:
        """Append the range of a macro; over an object that is its keys, in a fixed order."""
        path = plain_path(node, local_names)
        if path is not None:
            self.pieces.append(self._bound("r", path, lambda: _range_of(path)))
            return
        bare = without_parens(node)
        if isinstance(bare, ListOf) or _gives_list(bare):
            self.write(node, local_names)
            return
        self._between("ww_range(", ")", (node,), local_names)

    def _write_has(self, node: Has, local_names: Mapping[str, str]) -> None:
        path = plain_path(node.selection, local_names)
        if path is not None:
            self.pieces.append(self._bound("h", path, lambda: lambda variables: is_there(path, variables)))
            return
        self.pieces.append("(")
        self._write_presence(node.selection, local_names)
        self.pieces.append(")")

    def _write_presence(self, selection: Select | Index, local_names: Mapping[str, str]) -> None:
        """Append what asks for a field after asking for everything on the way to it."""
        operand = without_parens(selection.operand)
        if isinstance(operand, Select) or (isinstance(operand, Index) and _string_key(operand) is not None):
            self._write_presence(operand, local_names)
            self.pieces.append(" && ")
            self.write(selection.operand, local_names)
            self.pieces.append(" != null && ")
        if isinstance(selection, Select):
            self.pieces.append("has(")
            self.write(selection.operand, local_names)
            self.pieces.append(f".{selection.field})")
        else:
            self.write(selection.index, local_names)
            self.pieces.append(" in ")
            self.write(selection.operand, local_names)


def _range_of(path: Path) -> Binding:
    read = compile_path(path)

    def read_range(variables: Variables) -> Json:
        value = read(variables)
        return list[Json](sorted_keys(value)) if isinstance(value, dict) else value

    return read_range


def _gives_list(node: Node) -> bool:
    if isinstance(node, Macro):
        return node.function in _LISTS
    return isinstance(node, Call) and node.function in _LIST_CALLS


def _string_key(node: Index) -> str | None:
    key = without_parens(node.index)
    return key.string if isinstance(key, LiteralValue) and key.kind == "string" else None
