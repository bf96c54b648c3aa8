"""Find the type of an expression's result.

*Inference* goes up the tree from the schemas of what is read: fields, elements, macros, conditions,
lists and maps are followed in the schemas themselves, so their names and nulls are kept. An error
names the author's own words and lists what there is instead.

Whoever shows or completes an expression asks for the types of its parts. What is known stays known
where the expression is faulty: inference goes up the tree, so the parts before the fault have their
types.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import NoReturn, cast

from wavewright.config.errors import cut_end, did_you_mean
from wavewright.planner.cel.errors import ExpressionError, join_names
from wavewright.planner.cel.failing_literals import find_failing_literal
from wavewright.planner.cel.functions.catalogue import (
    LENGTH_ALIASES,
    check_function_exists,
    function_usage,
)
from wavewright.planner.cel.functions.lists import MIN_MAX_FUNCTIONS
from wavewright.planner.cel.functions.text import FormatClause, text_format_clauses
from wavewright.planner.cel.nodes import (
    Binary,
    Conditional,
    ExpressionNode,
    FunctionCall,
    Has,
    Identifier,
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
from wavewright.planner.cel.paths import owner_name, plain_path, unknown_root_error
from wavewright.planner.schemas import views as s
from wavewright.planner.schemas.conditions import Conditions, is_known
from wavewright.planner.schemas.operator_types import (
    NUMERIC,
    are_comparable,
    call_result,
    describe_kind,
    is_number,
    is_orderable,
    kind_with_article,
    negation_result,
    operator_hint,
    operator_result,
    supports_membership,
)
from wavewright.planner.schemas.views import (
    SchemaView,
    ScopedSchema,
    self_contained_schema,
    view_schema,
)
from wavewright.planner.types import Json, JsonSchema

_MAX_SNIPPET_LENGTH = 40
_NAMES_OF_OUTPUTS = frozenset({"data", "output", "outputs", "result", "results", "value"})
"""What other systems put between a step and what it gave."""
_ORDERING = frozenset({"sort", *MIN_MAX_FUNCTIONS})
_OF_ONE_KIND = _ORDERING | {"join", "sum", "avg"}
"""Functions of a list, or of several values, that take elements of one kind."""


@dataclass(frozen=True, slots=True)
class LocalVariable:
    """A name that a macro gave: what it stands for, and how to say so."""

    place: ScopedSchema
    meaning: str


_Locals = Mapping[str, LocalVariable]


class TypeInference:
    """Types of the expressions of one place in a plan: which roots it sees, and their schemas."""

    def __init__(self, roots: Mapping[str, JsonSchema], steps: Mapping[str, JsonSchema]) -> None:
        self._roots = roots
        self._steps = steps
        self._text = ""

    def infer(self, tree: ExpressionNode, text: str) -> ScopedSchema:
        """Return the schema of the result of an expression.

        Raises:
            ExpressionError: it names what does not exist, or joins what does not fit.
        """
        self._text = text
        place = self._infer(tree, {})
        if (fault := find_failing_literal(tree)) is not None:
            raise fault
        return place

    def _infer(self, node: ExpressionNode, scope: _Locals) -> ScopedSchema:  # noqa: C901, PLR0912 - one case a kind
        match node:
            case Identifier():
                return self._name(node, scope)
            case Select():
                return self._field(node, scope)
            case Index():
                return self._index(node, scope)
            case LiteralValue():
                return _literal(node)
            case Binary():
                return self._binary(node, scope)
            case FunctionCall():
                return self._call(node, scope)
            case Macro():
                return self._macro(node, scope)
            case Has():
                self._infer(node.selection, scope)
                return s.BOOLEAN
            case Unary():
                return self._unary(node, scope)
            case LogicalOperation():
                for operand in node.operands:
                    self._condition(operand, scope, f"'{node.operator}' joins conditions")
                return s.BOOLEAN
            case Conditional():
                self._condition(node.condition, scope, "'?' follows a condition")
                yes = self._chosen(node.yes, node.condition, scope, holds=True)
                no = self._chosen(node.no, node.condition, scope, holds=False)
                return s.union_schema(yes, no)
            case ListLiteral():
                return self._list(node, scope)
            case MapLiteral():
                return self._map(node, scope)

    def _chosen(
        self, node: ExpressionNode, condition: ExpressionNode, scope: _Locals, *, holds: bool
    ) -> ScopedSchema:
        """Return the type of what is chosen where a condition holds, or where it does not."""
        place = self._infer(node, scope)
        conditions = Conditions(self._text)
        is_there = is_known(conditions.source(node), conditions.facts(condition, holds=holds))
        return s.without_null(place) if is_there else place

    def _name(self, node: Identifier, scope: _Locals) -> ScopedSchema:
        if node.name in scope:
            return scope[node.name].place
        if node.name in self._roots:
            return s.scoped_schema(self._roots[node.name])
        if node.name == "steps":
            raise ExpressionError(
                "bad_expression",
                "'steps' must be followed by the name of a step",
                node.start,
                f"there are: {join_names(self._steps)}" if self._steps else None,
            )
        raise unknown_root_error(node.name, node.start, {**self._known(), **dict.fromkeys(scope)})

    def _known(self) -> dict[str, object]:
        inputs = self._roots.get("inputs", {})
        return {
            **self._roots,
            "inputs": s.field_schemas(view_schema(s.scoped_schema(inputs))),
            "steps": self._steps,
        }

    def _is_steps(self, node: ExpressionNode, scope: _Locals) -> bool:
        return isinstance(node, Identifier) and node.name == "steps" and "steps" not in scope

    def _field(self, node: Select, scope: _Locals) -> ScopedSchema:
        name, offset = node.field, node.field_start
        if self._is_steps(node.operand, scope):
            known = self._steps
            if name in known:
                return s.scoped_schema(known[name])
            raise ExpressionError(
                "unknown_step",
                f"no step is called '{name}'",
                offset,
                lambda: (
                    did_you_mean(name, known) or f"there are: {join_names(known) or 'no steps'}"
                ),
            )
        owner = view_schema(self._infer(node.operand, scope))
        place = s.field_schema(owner, name)
        if place is None:
            raise self._no_field(node.operand, owner, name, offset, scope)
        return place

    def _no_field(
        self, operand: ExpressionNode, asked: SchemaView, name: str, offset: int, scope: _Locals
    ) -> ExpressionError:
        known = s.field_schemas(asked)

        def similar() -> str | None:
            return self._in_brackets(operand, known, name, offset) or did_you_mean(name, known)

        if isinstance(operand, Identifier) and operand.name == "inputs" and "inputs" not in scope:
            others = f"there are: {join_names(known)}" if known else "there are no inputs"
            message = f"no input is called '{name}'"
            return ExpressionError("unknown_input", message, offset, lambda: similar() or others)
        called = self._called(operand, scope)
        written = self._snippet(operand)
        is_step = isinstance(operand, Select) and self._is_steps(operand.operand, scope)
        names_output = is_step and name in _NAMES_OF_OUTPUTS
        of_step = f"{written} is the output of the step" if names_output else None
        if asked.kind in ("object", "union") and known:
            shown = join_names(
                f"{field}: {describe_kind(view_schema(s.subschema(schema, asked.root)))}"
                for field, schema in known.items()
            )
            message = f"{called} has no field '{name}'; it has: {shown}"
            length = f"its length: {written}.size()" if name in LENGTH_ALIASES else None
            return ExpressionError(
                "unknown_name_or_field", message, offset, lambda: similar() or length or of_step
            )
        lists = f"take one element, {written}[0].{name}, or all: {written}.map(x, x.{name})"
        hint = lists if asked.kind == "array" else None
        if name in LENGTH_ALIASES and asked.kind in ("array", "string"):
            hint = f"its length: {written}.size()"
        message = f"{called} is {kind_with_article(asked)} and has no field '{name}'"
        return ExpressionError("unknown_name_or_field", message, offset, of_step or hint)

    def _in_brackets(
        self, operand: ExpressionNode, known: Iterable[str], name: str, offset: int
    ) -> str | None:
        """Return how a field is read of whose name an expression takes only the beginning."""
        for field in known:
            if field.startswith(name) and self._text.startswith(field, offset):
                key = json.dumps(field, ensure_ascii=False)
                return f"write {self._snippet(operand)}[{key}]: only words stand behind a dot"
        return None

    def _called(self, node: ExpressionNode, scope: _Locals) -> str:
        """Return what an author would call the value of a node."""
        if isinstance(node, Identifier) and node.name in scope:
            return f"'{node.name}' ({scope[node.name].meaning})"
        path = plain_path(node, scope)
        return owner_name(path, len(path.keys)) if path is not None else f"'{self._snippet(node)}'"

    def _snippet(self, node: ExpressionNode) -> str:
        return cut_end(" ".join(self._text[node.start : node.end].split()), _MAX_SNIPPET_LENGTH)

    def _index(self, node: Index, scope: _Locals) -> ScopedSchema:
        key = node.key
        if self._is_steps(node.operand, scope):
            return self._infer(node.operand, scope)
        owner = view_schema(self._infer(node.operand, scope))
        by = view_schema(self._infer(node.key, scope))
        place = key.value if isinstance(key, LiteralValue) and isinstance(key.value, int) else None
        if place is not None and place < 0:
            raise ExpressionError(
                "bad_expression",
                "places in a list are counted from 0 and never from the end",
                node.key.start,
                "the last element: list[list.size() - 1]",
            )
        kinds = owner.kinds
        keys = by.kinds
        if "open" in kinds or ("open" in keys and kinds & {"array", "object"}):
            return s.OPEN if kinds != {"array"} else s.element_schema(owner) or s.OPEN
        if "array" in kinds and keys & NUMERIC:
            return s.element_schema(owner, place) or self._refuse(
                f"{self._called(node.operand, scope)} never has an element [{place}]",
                node.key.start,
                "the first element is [0]",
            )
        if "object" in kinds and "string" in keys:
            return self._any_field(owner)
        return self._refuse(
            f"{self._called(node.operand, scope)} is {kind_with_article(owner)} and has no element "
            f"[{self._snippet(node.key)}]",
            node.key.start,
            f"a character of it: {self._snippet(node.operand)}.charAt({self._snippet(node.key)})"
            if owner.kind == "string" and keys & NUMERIC
            else "a list is asked by place, an object by field",
        )

    def _any_field(self, asked: SchemaView) -> ScopedSchema:
        rest = asked.schema.get("additionalProperties")
        if not s.field_schemas(asked) and isinstance(rest, dict):
            return s.subschema(rest, asked.root)
        return s.OPEN

    def _condition(self, node: ExpressionNode, scope: _Locals, rule: str) -> None:
        view = view_schema(self._infer(node, scope))
        if not view.kinds & {"boolean", "open"}:
            self._refuse(
                f"{rule}, and '{self._snippet(node)}' is {kind_with_article(view)}",
                node.start,
                "compare it with something: == != < <= > >= in",
            )

    def _unary(self, node: Unary, scope: _Locals) -> ScopedSchema:
        if node.operator == "!":
            self._condition(node.operand, scope, "'!' turns a condition round")
            return s.BOOLEAN
        view = view_schema(self._infer(node.operand, scope))
        return negation_result(view) or self._refuse(
            f"'-' does not take {kind_with_article(view)} ('{self._snippet(node.operand)}')",
            node.start,
            operator_hint("-", view, view),
        )

    def _binary(self, node: Binary, scope: _Locals) -> ScopedSchema:
        left = view_schema(self._infer(node.left, scope))
        right = view_schema(self._infer(node.right, scope))
        match node.operator:
            case "==" | "!=":
                result = s.BOOLEAN if are_comparable(left, right) else None
            case "in":
                result = s.BOOLEAN if supports_membership(right, left) else None
            case _:
                result = operator_result(node.operator, left, right)
        return result or self._refuse(
            f"'{node.operator}' does not take {kind_with_article(left)} ('{self._snippet(node.left)}') "
            f"and {kind_with_article(right)} ('{self._snippet(node.right)}')",
            node.operator_start,
            operator_hint(node.operator, left, right),
        )

    def _call(self, node: FunctionCall, scope: _Locals) -> ScopedSchema:
        check_function_exists(node)
        target = view_schema(self._infer(node.target, scope)) if node.target is not None else None
        arguments = [view_schema(self._infer(argument, scope)) for argument in node.arguments]
        if node.function == "now" and not arguments:
            return s.TIMESTAMP
        self._check_clauses(node, scope)
        if node.function == "zip" and target is None:
            elements = [place for place in map(s.element_schema, arguments) if place is not None]
            if len(elements) == len(arguments) and len(arguments) in (2, 3):
                return s.array_schema(s.tuple_schema(elements))
        result = call_result(node.function, target, arguments)
        if result is not None:
            self._check_elements(node, scope)
            return result
        given = " and ".join(kind_with_article(argument) for argument in arguments) or "nothing"
        if target is not None:
            message = f"{node.function}() of {kind_with_article(target)} ('{self._snippet(node.target or node)}')"
            message += f" with {given}" if arguments else ""
            message += " does not exist"
        else:
            message = f"{node.function}() does not take {given}"
        hint = function_usage(node.function)
        if target is not None and target.kind == "string" and node.function.startswith("get"):
            # What begins so asks for a part of a time.
            hint = f"make it a timestamp: timestamp({self._snippet(node.target or node)})"
        return self._refuse(message, node.name_start, hint)

    def _check_elements(self, node: FunctionCall, scope: _Locals) -> None:
        """Refuse values that are written out side by side where one is not taken, or where they have
        no order among them: of the type of a list it is known only that some of them may be taken.
        """
        operands = children(node)
        listed = operands[0] if operands else None
        is_list = isinstance(listed, ListLiteral)
        items = listed.items if isinstance(listed, ListLiteral) else node.arguments
        if node.function not in _OF_ONE_KIND or len(items) < 2:
            return
        rest = [view_schema(self._infer(other, scope)) for other in operands[1:] if is_list]
        kinds = [self._infer(item, scope) for item in items]
        for item, kind in zip(items, kinds, strict=True):
            taken = [view_schema(s.array_schema(kind)), *rest]
            target = taken.pop(0) if node.target is not None else None
            if call_result(node.function, target, taken) is None:
                self._refuse(
                    f"{node.function}() does not take {kind_with_article(view_schema(kind))} "
                    f"('{self._snippet(item)}')",
                    item.start,
                    function_usage(node.function),
                )
        if node.function in _ORDERING and not is_orderable(
            view_schema(reduce(s.union_schema, kinds))
        ):
            self._refuse(
                f"{node.function}() orders values of one kind, and not these together",
                items[0].start,
                function_usage(node.function),
            )

    def _check_clauses(self, node: FunctionCall, scope: _Locals) -> None:
        """Refuse a format whose values are too few, too many, or no numbers where it wants some."""
        clauses = written_clauses(node)
        if clauses is None:
            return
        listed = node.arguments[0]
        if isinstance(listed, ListLiteral):
            if len(listed.items) != len(clauses):
                self._refuse(
                    f"format() is given {len(listed.items)} values, and its text asks for {len(clauses)}",
                    listed.start,
                    "write one %s or %d for each value, and %% for a percent sign",
                )
            values = [(item, self._infer(item, scope)) for item in listed.items]
        else:
            element = s.element_schema(view_schema(self._infer(listed, scope)))
            values = [] if element is None else [(listed, element)] * len(clauses)
        for clause, (part, place) in zip(clauses, values, strict=False):
            if clause.takes_numbers_only and not is_number(view_schema(place)):
                kind = kind_with_article(view_schema(place))
                self._refuse(
                    f"'{clause.text}' of format() does not take {kind} ('{self._snippet(part)}')",
                    part.start,
                    "write %s for a text, or make it a number with int(…) or double(…)",
                )

    def _macro(self, node: Macro, scope: _Locals) -> ScopedSchema:
        over = self._infer(node.range, scope)
        if node.function == "bind":
            meaning = f"the value of '{self._snippet(node.range)}'"
            return self._infer(
                node.arguments[0], {**scope, node.variables[0]: LocalVariable(over, meaning)}
            )
        *keys, element = self._elements(node, view_schema(over))
        meaning = f"each of {self._snippet(node.range)}"
        inner = {**scope, node.variables[-1]: LocalVariable(element, meaning)}
        if keys:
            inner[node.variables[0]] = LocalVariable(
                keys[0], f"each place in {self._snippet(node.range)}"
            )
        if len(node.arguments) == 2 and node.function != "sortBy":
            rule = f"{node.function}() with {len(node.variables) + 2} arguments wants a condition"
            self._condition(node.arguments[0], inner, rule)
        match node.function:
            case "map" | "transformList":
                return s.array_schema(self._infer(node.arguments[-1], inner))
            case "transformMap" | "transformMapEntry":
                made = self._infer(node.arguments[-1], inner)
                if node.function == "transformMapEntry" and view_schema(made).kind not in (
                    "object",
                    "open",
                ):
                    self._refuse(
                        "transformMapEntry() wants an object of entries", node.arguments[-1].start
                    )
                return s.OBJECT
            case "filter":
                self._condition(node.arguments[0], inner, "filter() wants a condition")
                facts = Conditions(self._text).facts(node.arguments[0], holds=True)
                if is_known(node.variables[-1], facts):
                    element = s.without_null(element)
                return s.array_schema(element)
            case "sortBy":
                for argument in node.arguments:
                    key = view_schema(self._infer(argument, inner))
                    if not is_orderable(key):
                        self._refuse(
                            f"sortBy() wants numbers, strings or timestamps, and "
                            f"'{self._snippet(argument)}' is {kind_with_article(key)}",
                            argument.start,
                        )
                return s.array_schema(element)
            case _:
                self._condition(node.arguments[0], inner, f"{node.function}() wants a condition")
                return s.BOOLEAN

    def _elements(self, node: Macro, over: SchemaView) -> tuple[ScopedSchema, ...]:
        """Return the types of a macro's variables."""
        element = s.element_schema(over)
        if over.kind == "object" and node.function != "sortBy":
            types = s.STRING, self._any_field(over)
        elif element is not None:
            types = s.OPEN if over.kind == "open" else s.INTEGER, element
        else:
            self._refuse(
                f"{node.function}() goes over a list, and '{self._snippet(node.range)}' is {kind_with_article(over)}",
                node.name_start,
            )
        if len(node.variables) == 2:
            return types
        return (types[0] if over.kind == "object" else types[1],)

    def _list(self, node: ListLiteral, scope: _Locals) -> ScopedSchema:
        return s.tuple_schema([self._infer(item, scope) for item in node.items])

    def _map(self, node: MapLiteral, scope: _Locals) -> ScopedSchema:
        places: dict[str, ScopedSchema] = {}
        for key, value_node in node.entries:
            value = self._infer(value_node, scope)
            if not (isinstance(key, LiteralValue) and isinstance(key.value, str)):
                self._check_key(key, scope)
            elif key.value in places:
                self._refuse(f"the key '{key.value}' is given twice", key.start)
            else:
                places[key.value] = value
        if len(places) < len(node.entries):
            return s.OBJECT
        return s.object_schema(places, list[Json](places), closed=True)

    def _check_key(self, node: ExpressionNode, scope: _Locals) -> None:
        view = view_schema(self._infer(node, scope))
        if view.kind not in ("string", "integer", "boolean", "open", "union"):
            self._refuse(
                f"{kind_with_article(view)} cannot be a key ('{self._snippet(node)}')", node.start
            )

    def _refuse(self, message: str, offset: int, hint: str | None = None) -> NoReturn:
        raise ExpressionError("no_overload", message, offset, hint)


def written_clauses(node: FunctionCall) -> list[FormatClause] | None:
    """Return the clauses of the text that a call fills values into; nothing where it is no such
    call, or the text is not written out.

    Raises:
        ExpressionError: there is no such clause.
    """
    text = node.target
    if node.function != "format" or not isinstance(text, LiteralValue) or len(node.arguments) != 1:
        return None
    try:
        return text_format_clauses(str(text.value))
    except ExpressionError as fault:
        raise ExpressionError("no_overload", fault.message, text.start, fault.hint) from None


def _literal(node: LiteralValue) -> ScopedSchema:
    match node.kind:
        case "string" | "int":
            kind = "string" if node.kind == "string" else "integer"
            return s.scoped_schema({"type": kind, "const": cast("Json", node.value)})
        case "double":
            return s.NUMBER
        case "bool":
            return s.BOOLEAN
        case "null":
            return s.NULL


class PartTypes(TypeInference):
    """Infers one expression and keeps what it learns on the way."""

    def __init__(self, roots: Mapping[str, JsonSchema], steps: Mapping[str, JsonSchema]) -> None:
        super().__init__(roots, steps)
        self.roots = roots
        self.steps = steps
        self._types: dict[tuple[int, int], ScopedSchema] = {}
        self._locals: dict[int, Mapping[str, LocalVariable]] = {}

    def learn(self, tree: ExpressionNode, text: str) -> None:
        """Infer an expression, as far as it is sound."""
        try:
            self.infer(tree, text)
        except ExpressionError:
            return

    def type_of(self, start: int, end: int) -> JsonSchema | None:
        """Return the type of the part that stands there, if it is known."""
        known = self._types.get((start, end))
        return None if known is None else self_contained_schema(known)

    def names_at(self, start: int) -> dict[str, JsonSchema]:
        """Return what a name that begins there may be, with its type: roots, and names of macros."""
        own = self._locals.get(start, {})
        types = {name: self_contained_schema(local.place) for name, local in own.items()}
        return {**self.roots, **types}

    def _infer(self, node: ExpressionNode, scope: Mapping[str, LocalVariable]) -> ScopedSchema:
        if isinstance(node, Identifier):
            self._locals[node.start] = scope
        place = super()._infer(node, scope)
        self._types[node.start, node.end] = place
        return place
