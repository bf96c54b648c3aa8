"""Find the type of an expression's result.

*Inference* goes up the tree from the schemas of what is read: fields, elements, macros, conditions, lists and maps
are followed in the schemas themselves, so their names and nulls are kept; operators and functions are asked of the
CEL library. A fault names the author's own words and lists what there is instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wavewright.planner import cel_schemas as s
from wavewright.planner.cel_describe import describe, with_article
from wavewright.planner.cel_faults import ExpressionFault, closest, listed
from wavewright.planner.cel_functions import EXTREMES, LENGTHS, check_call
from wavewright.planner.cel_leaves import ROUNDING
from wavewright.planner.cel_operands import (
    NUMERIC,
    can_hold,
    comparable,
    holds_clock,
    is_ordered,
    operator_hint,
    usage,
)
from wavewright.planner.cel_overloads import call_result, operator_result, sum_result
from wavewright.planner.cel_paths import owner, plain_path, unknown_root
from wavewright.planner.cel_schemas import Located, View, view
from wavewright.planner.cel_tree import (
    TYPE_NAMES,
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
from wavewright.planner.types import Json, JsonSchema

_RENAMED = {"timestamp": "ww_time", "duration": "ww_span", **EXTREMES}
_SHOWN = 40
_CLOCKS_ONLY = "a list of timestamps or durations can only be gone over, by map(), sort() and their like"
_CLOCKS_HINT = "make them strings: list.map(t, string(t))"


@dataclass(frozen=True, slots=True)
class _Local:
    """A name that a macro gave: what it stands for, and how to say so."""

    place: Located
    meaning: str


_Scope = Mapping[str, _Local]


class Inference:
    """Types of the expressions of one place in a plan: which roots it sees, and their schemas."""

    def __init__(self, roots: Mapping[str, JsonSchema], steps: Mapping[str, JsonSchema]) -> None:
        self._roots = roots
        self._steps = steps
        self._text = ""

    def infer(self, tree: Node, text: str) -> Located:
        """Return the schema of the result of an expression.

        Raises:
            ExpressionFault: it names what does not exist, or joins what does not fit.
        """
        self._text = text
        return self._infer(tree, {})

    def _infer(self, node: Node, scope: _Scope) -> Located:  # noqa: C901, PLR0912 - one case a kind
        match node:
            case Name():
                return self._name(node, scope)
            case Select():
                return self._field(node, node.field, node.field_start, scope)
            case Index():
                return self._index(node, scope)
            case LiteralValue():
                return _literal(node)
            case Paren():
                return self._infer(node.inner, scope)
            case Binary():
                return self._binary(node, scope)
            case Call():
                return self._call(node, scope)
            case Macro():
                return self._macro(node, scope)
            case Has():
                self._infer(node.selection, scope)
                return s.BOOLEAN
            case Unary():
                return self._unary(node, scope)
            case Logic():
                for operand in node.operands:
                    self._condition(operand, scope, f"'{node.operator}' joins conditions")
                return s.BOOLEAN
            case Ternary():
                self._condition(node.condition, scope, "'?' follows a condition")
                return s.either(self._infer(node.yes, scope), self._infer(node.no, scope))
            case ListOf():
                return self._list(node, scope)
            case MapOf():
                return self._map(node, scope)

    def _name(self, node: Name, scope: _Scope) -> Located:
        if node.name in scope:
            return scope[node.name].place
        if node.name in self._roots:
            return s.located(self._roots[node.name])
        if node.name == "steps":
            raise ExpressionFault(
                "bad_expression",
                "'steps' must be followed by the name of a step",
                node.start,
                f"there are: {listed(self._steps)}" if self._steps else None,
            )
        if node.name in TYPE_NAMES:
            return s.TYPE
        raise unknown_root(node.name, node.start, {**self._known(), **dict.fromkeys(scope)})

    def _known(self) -> dict[str, object]:
        inputs = self._roots.get("inputs", {})
        return {**self._roots, "inputs": s.fields(view(s.located(inputs))), "steps": self._steps}

    def _is_steps(self, node: Node, scope: _Scope) -> bool:
        bare = without_parens(node)
        return isinstance(bare, Name) and bare.name == "steps" and "steps" not in scope

    def _field(self, node: Select | Index, name: str, offset: int, scope: _Scope) -> Located:
        if self._is_steps(node.operand, scope):
            if name in self._steps:
                return s.located(self._steps[name])
            raise ExpressionFault(
                "unknown_step",
                f"no step is called '{name}'",
                offset,
                closest(name, self._steps) or f"there are: {listed(self._steps) or 'no steps'}",
            )
        asked = view(self._infer(node.operand, scope))
        place = s.field(asked, name)
        if place is None:
            raise self._no_field(node.operand, asked, name, offset, scope)
        return place

    def _no_field(self, operand: Node, asked: View, name: str, offset: int, scope: _Scope) -> ExpressionFault:
        bare = without_parens(operand)
        known = s.fields(asked)
        if isinstance(bare, Name) and bare.name == "inputs" and "inputs" not in scope:
            others = f"there are: {listed(known)}" if known else "there are no inputs"
            message = f"no input is called '{name}'"
            return ExpressionFault("unknown_input", message, offset, closest(name, known) or others)
        called = self._called(operand, scope)
        if asked.kind in ("object", "union") and known:
            shown = listed(
                f"{field}: {describe(view(s.below(schema, asked.root)))}" for field, schema in known.items()
            )
            message = f"{called} has no field '{name}'; it has: {shown}"
            length = f"its length: {self._snippet(operand)}.size()" if name in LENGTHS else None
            return ExpressionFault("unknown_name_or_field", message, offset, closest(name, known) or length)
        written = self._snippet(operand)
        lists = f"take one element, {written}[0].{name}, or all: {written}.map(x, x.{name})"
        hint = lists if asked.kind == "array" else None
        if name in LENGTHS and asked.kind in ("array", "string"):
            hint = f"its length: {written}.size()"
        message = f"{called} is {with_article(asked)} and has no field '{name}'"
        return ExpressionFault("unknown_name_or_field", message, offset, hint)

    def _called(self, node: Node, scope: _Scope) -> str:
        """Return what an author would call the value of a node."""
        bare = without_parens(node)
        if isinstance(bare, Name) and bare.name in scope:
            return f"'{bare.name}' ({scope[bare.name].meaning})"
        path = plain_path(bare, scope)
        return owner(path, len(path.keys)) if path is not None else f"'{self._snippet(node)}'"

    def _snippet(self, node: Node) -> str:
        text = " ".join(self._text[node.start : node.end].split())
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"

    def _index(self, node: Index, scope: _Scope) -> Located:
        key = without_parens(node.key)
        if isinstance(key, LiteralValue) and key.kind == "string":
            return self._field(node, key.string, key.start, scope)
        if self._is_steps(node.operand, scope):
            return self._infer(node.operand, scope)
        asked, by = view(self._infer(node.operand, scope)), view(self._infer(node.key, scope))
        place = int(key.text, 0) if isinstance(key, LiteralValue) and key.kind == "int" else None
        if place is not None and place < 0:
            raise ExpressionFault(
                "bad_expression",
                "places in a list are counted from 0 and never from the end",
                node.key.start,
                "the last element: list[list.size() - 1]",
            )
        kinds = {branch.kind for branch in asked.branches or (asked,)}
        keys = {branch.kind for branch in by.branches or (by,)}
        if "open" in kinds or ("open" in keys and kinds & {"array", "object"}):
            return s.OPEN if kinds != {"array"} else s.element(asked) or s.OPEN
        if "array" in kinds and keys & NUMERIC:
            return s.element(asked, place) or s.OPEN
        if "object" in kinds and "string" in keys:
            return self._any_field(asked)
        raise ExpressionFault(
            "no_overload",
            f"{self._called(node.operand, scope)} is {with_article(asked)} and has no element "
            f"[{self._snippet(node.key)}]",
            node.key.start,
            "a list is asked by place, an object by field",
        )

    def _any_field(self, asked: View) -> Located:
        rest = asked.schema.get("additionalProperties")
        return s.below(rest, asked.root) if not s.fields(asked) and isinstance(rest, dict) else s.OPEN

    def _condition(self, node: Node, scope: _Scope, rule: str) -> None:
        asked = view(self._infer(node, scope))
        if not {branch.kind for branch in asked.branches or (asked,)} & {"boolean", "open"}:
            raise ExpressionFault(
                "no_overload",
                f"{rule}, and '{self._snippet(node)}' is {with_article(asked)}",
                node.start,
                "compare it with something: == != < <= > >= in",
            )

    def _unary(self, node: Unary, scope: _Scope) -> Located:
        if node.operator == "!":
            self._condition(node.operand, scope, "'!' turns a condition round")
            return s.BOOLEAN
        asked = view(self._infer(node.operand, scope))
        return operator_result("-", [asked]) or self._refuse(
            f"'-' does not take {with_article(asked)} ('{self._snippet(node.operand)}')",
            node.start,
            operator_hint("-", asked, asked),
        )

    def _binary(self, node: Binary, scope: _Scope) -> Located:
        left, right = view(self._infer(node.left, scope)), view(self._infer(node.right, scope))
        if holds_clock(left) or holds_clock(right):
            self._refuse(_CLOCKS_ONLY, node.operator_start, _CLOCKS_HINT)
        match node.operator:
            case "==" | "!=":
                result = s.BOOLEAN if comparable(left, right) else None
            case "in":
                result = s.BOOLEAN if can_hold(right, left) else None
            case "+":
                result = sum_result(left, right)
            case _:
                result = operator_result(node.operator, [left, right])
        return result or self._refuse(
            f"'{node.operator}' does not take {with_article(left)} ('{self._snippet(node.left)}') "
            f"and {with_article(right)} ('{self._snippet(node.right)}')",
            node.operator_start,
            operator_hint(node.operator, left, right),
        )

    def _call(self, node: Call, scope: _Scope) -> Located:
        check_call(node)
        target = view(self._infer(node.target, scope)) if node.target is not None else None
        arguments = [view(self._infer(argument, scope)) for argument in node.arguments]
        if node.function != "sort" and any(map(holds_clock, [*arguments, *([target] if target else [])])):
            self._refuse(_CLOCKS_ONLY, node.name_start, _CLOCKS_HINT)
        if node.function == "now" and not arguments:
            return s.TIMESTAMP
        if node.function == "dyn" and len(arguments) == 1:
            return s.OPEN
        if node.function == "type" and len(arguments) == 1:
            return s.TYPE
        if node.target is None and node.function in EXTREMES and len(arguments) > 1:
            joined = arguments[0].located
            for argument in arguments[1:]:
                joined = s.either(joined, argument.located)
            arguments = [view(s.array_of(joined))]
        if node.function == "int" and arguments and arguments[0].kind == "duration":
            # The library declares this and does not implement it.
            self._refuse(
                "int() does not take a duration", node.name_start, "ask it: d.getSeconds(), d.getHours()"
            )
        if node.function in ROUNDING:
            arguments = [view(s.NUMBER) if one.kind == "integer" else one for one in arguments]
        result = call_result(_RENAMED.get(node.function, node.function), target, arguments)
        if result is not None:
            return result
        given = " and ".join(with_article(argument) for argument in arguments) or "nothing"
        if target is not None:
            message = f"{node.function}() of {with_article(target)} ('{self._snippet(node.target or node)}')"
            message += f" with {given}" if arguments else ""
            message += " does not exist"
        else:
            message = f"{node.function}() does not take {given}"
        return self._refuse(message, node.name_start, usage(node.function))

    def _macro(self, node: Macro, scope: _Scope) -> Located:
        over = view(self._infer(node.range, scope))
        elements = self._elements(node, over)
        meaning = f"each of {self._snippet(node.range)}"
        inner = {**scope, node.variable: _Local(elements, meaning)}
        match node.function:
            case "map":
                if len(node.arguments) == 2:
                    self._condition(node.arguments[0], inner, "map() with three arguments wants a condition")
                return s.array_of(self._infer(node.arguments[-1], inner))
            case "filter":
                self._condition(node.arguments[0], inner, "filter() wants a condition")
                return s.array_of(elements)
            case "sortBy":
                key = view(self._infer(node.arguments[0], inner))
                if not is_ordered(key):
                    self._refuse(
                        f"sortBy() wants numbers, strings or timestamps, and "
                        f"'{self._snippet(node.arguments[0])}' is {with_article(key)}",
                        node.arguments[0].start,
                    )
                return s.array_of(elements)
            case _:
                self._condition(node.arguments[0], inner, f"{node.function}() wants a condition")
                return s.BOOLEAN

    def _elements(self, node: Macro, over: View) -> Located:
        if over.kind == "object" and node.function != "sortBy":
            return s.STRING
        place = s.element(over)
        if place is None:
            self._refuse(
                f"{node.function}() goes over a list, and '{self._snippet(node.range)}' is {with_article(over)}",
                node.name_start,
            )
        return place or s.OPEN

    def _list(self, node: ListOf, scope: _Scope) -> Located:
        if not node.items:
            return s.located({"type": "array", "maxItems": 0})
        joined = self._infer(node.items[0], scope)
        for item in node.items[1:]:
            joined = s.either(joined, self._infer(item, scope))
        return s.array_of(joined)

    def _map(self, node: MapOf, scope: _Scope) -> Located:
        places: dict[str, Located] = {}
        for key_node, value_node in node.entries:
            value = self._infer(value_node, scope)
            key = without_parens(key_node)
            if not (isinstance(key, LiteralValue) and key.kind == "string"):
                self._check_key(key_node, scope)
            elif key.string in places:
                self._refuse(f"the key '{key.string}' is given twice", key.start)
            else:
                places[key.string] = value
        if len(places) < len(node.entries):
            return s.OBJECT
        return s.object_of(places, list[Json](places), closed=True)

    def _check_key(self, node: Node, scope: _Scope) -> None:
        asked = view(self._infer(node, scope))
        if asked.kind not in ("string", "integer", "boolean", "uint", "open", "union"):
            self._refuse(f"{with_article(asked)} cannot be a key ('{self._snippet(node)}')", node.start)

    def _refuse(self, message: str, offset: int, hint: str | None = None) -> Located:
        raise ExpressionFault("no_overload", message, offset, hint)


def _literal(node: LiteralValue) -> Located:
    match node.kind:
        case "string":
            return s.located({"type": "string", "const": node.string})
        case "int":
            return s.located({"type": "integer", "const": int(node.text, 0 if "x" in node.text else 10)})
        case "double":
            return s.NUMBER
        case "bool":
            return s.BOOLEAN
        case "null":
            return s.NULL
        case "bytes":
            return s.BYTES
        case "uint":
            return s.UINT
