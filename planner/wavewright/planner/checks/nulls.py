"""Values that may be null, fields that may be absent and lists that may be too short, where an
expression fails on that.

Whether an operator or a function takes null is asked of the tables that the evaluator uses. What is
known to be there, not to be null, and how many elements a list has at least, follows from the
conditions around a part: `&&`, `||`, `!`, `? :`, a `filter`, the `when` of the step. See
docs/explanation/values.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from wavewright.planner.cel.embedded import field_name
from wavewright.planner.cel.functions.lists import MIN_MAX_FUNCTIONS
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
    Select,
    Unary,
    children,
)
from wavewright.planner.schemas.conditions import (
    NO_FACTS,
    Conditions,
    Facts,
    KnownPart,
    is_known,
    is_there,
)
from wavewright.planner.schemas.inference import PartTypes, written_clauses
from wavewright.planner.schemas.operator_types import (
    call_result,
    is_orderable,
    negation_result,
    operator_result,
    supports_membership,
)
from wavewright.planner.schemas.views import (
    NULL,
    SchemaView,
    array_schema,
    element_schema,
    field_schema,
    field_schemas,
    required_fields,
    view_of,
    view_schema,
)

_NULL = view_schema(NULL)
_LIST_OF_NULL = view_schema(array_schema(NULL))
_KEEP_ELEMENTS = frozenset({"reverse", "slice", "distinct", "sort"})
_KEEP_LENGTH = frozenset({"reverse", "sort", "map", "transformList", "sortBy"})
_NEED_ELEMENTS = frozenset({"avg", *MIN_MAX_FUNCTIONS})
"""Functions of a list that fail where it is empty."""


class Misuse(NamedTuple):
    """A part that may be null, be absent, or have too few elements, and what fails on it."""

    part: str
    reader: str
    """The smallest expression that fails, as it is written; the part itself, where that is one
    that its mend can stand in for.
    """
    fault: str
    """What is done with it: `'close' is read of it`."""
    kind: Literal["null", "absent", "null elements", "too few elements"] = "null"
    needed: int = 0
    """The elements that it needs."""


def misuses(tree: ExpressionNode, text: str, types: PartTypes, known: Facts) -> Iterator[Misuse]:
    """Yield each use of a part that may be null, be absent, or have too few elements, and may not;
    the inner ones first.
    """
    yield from _Misuses(text, types).of(tree, known)


def null_in_text(
    tree: ExpressionNode, text: str, types: PartTypes, known: Facts
) -> Iterator[Misuse]:
    """Yield an expression that is put into text and may be null."""
    yield from _Misuses(text, types).whole(tree, known)


def facts_of(tree: ExpressionNode, text: str, types: PartTypes) -> Facts:
    """Return what is known where a condition holds."""
    return _Misuses(text, types).facts(tree, holds=True)


def facts_of_elements(tree: ExpressionNode, text: str, types: PartTypes, name: str) -> Facts:
    """Return what is known of each element of a list that goes by a name, and of the list itself
    where there is such an element.
    """
    misuses_in_list = _Misuses(text, types)
    elements = _below(name, misuses_in_list.element_facts(tree))
    return elements | {KnownPart(misuses_in_list.source(tree), 1)}


def least_length(tree: ExpressionNode, text: str, types: PartTypes, known: Facts) -> int:
    """Return how many elements a list has at least."""
    return _Misuses(text, types).least(tree, known)


class _Misuses:
    """The misuses in one expression whose types are known."""

    def __init__(self, text: str, types: PartTypes) -> None:
        self._text = text
        self._types = types
        conditions = Conditions(text, self._is_never_null)
        self.facts = conditions.facts
        self.source = conditions.source

    def of(self, node: ExpressionNode, known: Facts) -> Iterator[Misuse]:
        """Yield the misuses in a part, with what is known around it."""
        match node:
            case Has():
                return
            case LogicalOperation():
                yield from self._of_logical(node, known)
            case Conditional():
                yield from self.of(node.condition, known)
                yield from self._null(
                    node.condition, node.condition, "'?' follows a condition", known
                )
                yield from self.of(node.yes, known | self.facts(node.condition, holds=True))
                yield from self.of(node.no, known | self.facts(node.condition, holds=False))
            case Macro():
                yield from self._of_macro(node, known)
            case _:
                for child in children(node):
                    yield from self.of(child, known)
                yield from self._of_operation(node, known)

    def whole(self, node: ExpressionNode, known: Facts) -> Iterator[Misuse]:
        """Yield the expression itself where it may be null."""
        yield from self._null(node, node, "it is put into text", known)

    def _of_logical(self, node: LogicalOperation, known: Facts) -> Iterator[Misuse]:
        # An operand that fails does not matter where another one decides: each may rely on all
        # the others, on which side they stand.
        for place, operand in enumerate(node.operands):
            others = node.operands[:place] + node.operands[place + 1 :]
            decided = [self.facts(other, holds=node.operator == "&&") for other in others]
            inner = known.union(*decided)
            yield from self.of(operand, inner)
            yield from self._null(operand, operand, f"'{node.operator}' joins conditions", inner)

    def _of_macro(self, node: Macro, known: Facts) -> Iterator[Misuse]:
        yield from self.of(node.range, known)
        name, least = node.variables[-1], self.least(node.range, known)
        if node.function == "bind":
            outer = _without(known, node.variables)
            if least > 0 or self._is_known(node.range, known):
                outer |= {KnownPart(name, least)}
            yield from self.of(node.arguments[0], outer)
            return
        yield from self._null(node.range, node, f"{node.function}() goes over it", known)
        # The body is evaluated only where there is an element.
        has_element = KnownPart(self.source(node.range), max(least, 1))
        inner = _without(known | {has_element}, node.variables)
        inner |= _below(name, self.element_facts(node.range))
        for argument in node.arguments:
            yield from self.of(argument, inner)
            if len(node.arguments) > 1 and node.function != "sortBy":
                inner |= self.facts(argument, holds=True)
            if node.function == "sortBy" and not is_orderable(_NULL):
                yield from self._null(argument, argument, "sortBy() orders by it", inner)

    def _of_operation(self, node: ExpressionNode, known: Facts) -> Iterator[Misuse]:
        """Yield the operands of a part that it does not take as they may be."""
        match node:
            case Select():
                fault = f"{node.field!r} is read of it"
                yield from self._null(node.operand, node, fault, known)
                yield from self._absent(node, known)
            case Index():
                yield from self._null(node.operand, node, "an element is read of it", known)
                yield from self._too_short(node, known)
            case Unary():
                if node.operator == "!" or negation_result(_NULL) is None:
                    fault = f"'{node.operator}' does not take it"
                    yield from self._null(node.operand, node, fault, known)
            case Binary():
                fault = f"'{node.operator}' does not take it"
                yield from self._of_operands(
                    node,
                    (node.left, node.right),
                    fault,
                    known,
                    lambda views: _takes_operands(node.operator, *views),
                )
            case FunctionCall():
                parts = children(node)
                fault = f"{node.function}() does not take it"
                yield from self._of_operands(
                    node, parts, fault, known, lambda views: _takes_arguments(node, views)
                )
                yield from self._of_format(node, known)
                if node.function in _NEED_ELEMENTS and len(parts) == 1:
                    fault = f"{node.function}() takes one of its elements"
                    yield from self._too_few(parts[0], 1, node, fault, known)
            case _:
                return

    def _of_operands(
        self,
        node: ExpressionNode,
        parts: Sequence[ExpressionNode],
        fault: str,
        known: Facts,
        takes: Callable[[Sequence[SchemaView]], bool],
    ) -> Iterator[Misuse]:
        views = [self._view(part) for part in parts]
        complete = [view for view in views if view is not None]
        if len(complete) < len(views):
            return
        for place, (part, view) in enumerate(zip(parts, complete, strict=True)):
            before, after = complete[:place], complete[place + 1 :]
            if view.nullable and not takes([*before, _NULL, *after]):
                yield from self._null(part, node, fault, known)
            element = element_schema(view) if view.kind == "array" else None
            inner = None if element is None else view_schema(element)
            if inner is None or not _may_be_null(inner):
                continue
            if is_known("", self.element_facts(part)):
                # A filter has left out the elements that are null.
                continue
            if not takes([*before, _LIST_OF_NULL, *after]):
                yield Misuse(self._written(part), self._written(node), fault, "null elements")

    def _of_format(self, node: FunctionCall, known: Facts) -> Iterator[Misuse]:
        """Yield the values that a format writes as numbers, which null is none of."""
        clauses = written_clauses(node) or []
        listed = node.arguments[0] if clauses else None
        if isinstance(listed, ListLiteral):
            for clause, item in zip(clauses, listed.items, strict=False):
                if clause.takes_numbers_only:
                    fault = f"'{clause.text}' of format() does not take it"
                    yield from self._null(item, node, fault, known)

    def _too_short(self, node: Index, known: Facts) -> Iterator[Misuse]:
        """Yield a list of which an element is read that it may not have."""
        key, listed = node.key, node.operand
        if not isinstance(key, LiteralValue) or key.kind != "int" or not isinstance(key.value, int):
            return
        fault = f"its element [{key.value}] is read"
        if key.start == key.end and isinstance(listed, Macro):
            # maxBy() and minBy() are the first element in an order.
            listed, fault = listed.range, "one of its elements is taken"
        yield from self._too_few(listed, key.value + 1, node, fault, known)

    def _too_few(
        self, listed: ExpressionNode, needed: int, node: ExpressionNode, fault: str, known: Facts
    ) -> Iterator[Misuse]:
        view = self._view(listed)
        if view is not None and view.kind == "array" and self.least(listed, known) < needed:
            part, reader = self._written(listed), self._written(node)
            yield Misuse(part, reader, fault, "too few elements", needed)

    def least(self, node: ExpressionNode, known: Facts) -> int:
        """Return how many elements a list has at least."""
        source, view = self.source(node), self._view(node)
        least = max((fact.least for fact in known if fact.part == source), default=0)
        declared = None if view is None else view.schema.get("minItems")
        by_type = declared if isinstance(declared, int) else 0
        return max(least, by_type, self._least_made(node, known))

    def _least_made(self, node: ExpressionNode, known: Facts) -> int:
        """Return how many elements a list has at least by how it is made."""
        match node:
            case ListLiteral():
                return len(node.items)
            case Binary(operator="+"):
                return self.least(node.left, known) + self.least(node.right, known)
            case Conditional():
                yes = self.least(node.yes, known | self.facts(node.condition, holds=True))
                no = self.least(node.no, known | self.facts(node.condition, holds=False))
                return min(yes, no)
            case Macro() if node.function in _KEEP_LENGTH:
                leaves_out = node.function != "sortBy" and len(node.arguments) > 1
                return 0 if leaves_out else self.least(node.range, known)
            case FunctionCall(function="split"):
                return 1
            case FunctionCall(function="distinct", target=target) if target is not None:
                return min(self.least(target, known), 1)
            case FunctionCall(target=target) if node.function in _KEEP_LENGTH and target:
                return self.least(target, known)
            case FunctionCall(function="zip"):
                # All of them are of one length, or there is no list.
                return max(self.least(argument, known) for argument in node.arguments)
            case _:
                return 0

    def _null(
        self, part: ExpressionNode, reader: ExpressionNode, fault: str, known: Facts
    ) -> Iterator[Misuse]:
        view = self._view(part)
        if view is not None and _may_be_null(view) and not self._is_known(part, known):
            yield Misuse(self._written(part), self._written(reader), fault)

    def _absent(self, node: Select, known: Facts) -> Iterator[Misuse]:
        """Yield a field that its owner need not have, and that is read without asking for it."""
        owner = self._view(node.operand)
        if owner is None or not _may_lack(owner, node.field) or self._holds(is_there, node, known):
            return
        if owner.kind != "union" or not _is_told_apart(self.source(node.operand), known):
            yield Misuse(self._written(node), self._written(node), "it is read", "absent")

    def _view(self, node: ExpressionNode) -> SchemaView | None:
        schema = self._types.type_of(node.start, node.end)
        return None if schema is None else view_of(schema)

    def _is_never_null(self, node: ExpressionNode) -> bool:
        view = self._view(node)
        return view is not None and not view.nullable

    def _is_known(self, part: ExpressionNode, known: Facts) -> bool:
        return self._holds(is_known, part, known)

    def _holds(
        self, rule: Callable[[str, Facts], bool], part: ExpressionNode, known: Facts
    ) -> bool:
        """Whether a rule holds of a part by what is known: it was asked, or the list that it is
        taken from has only elements of which it was asked.
        """
        if rule(self.source(part), known):
            return True
        fields = ""
        while isinstance(part, Select):
            fields = f".{field_name(part.field)}{fields}"
            part = part.operand
        return isinstance(part, Index) and rule(fields, self.element_facts(part.operand))

    def element_facts(self, node: ExpressionNode) -> Facts:
        """Return what is known of each element of a list: of `` the element, of `.a` a field."""
        match node:
            case Macro(function="filter"):
                name = node.variables[-1]
                facts = self.facts(node.arguments[0], holds=True)
                own = (fact for fact in facts if _is_of(fact.part, name))
                of_element = (fact._replace(part=fact.part[len(name) :]) for fact in own)
                return self.element_facts(node.range).union(of_element)
            case Macro(function="sortBy"):
                return self.element_facts(node.range)
            case FunctionCall(target=target) if node.function in _KEEP_ELEMENTS and target:
                return self.element_facts(target)
            case _:
                return NO_FACTS

    def _written(self, node: ExpressionNode) -> str:
        return self._text[node.start : node.end]


def _may_be_null(view: SchemaView) -> bool:
    """Whether somebody declared that a value may be null: what may be anything is no such null."""
    return view.nullable and view.kind != "open"


def _may_lack(owner: SchemaView, field: str) -> bool:
    """Whether somebody declared that an object may be without a field: one that names the fields
    which are required leaves out the others. Where nothing is said, nothing is known. A member of a
    union may have no such field at all.
    """
    if owner.kind == "union":
        return any(
            field_schema(member, field) is None or _may_lack(member, field)
            for member in owner.branches
        )
    return (
        owner.kind == "object"
        and "required" in owner.schema
        and field in field_schemas(owner)
        and field not in required_fields(owner)
    )


def _is_told_apart(owner: str, known: Facts) -> bool:
    """Whether a condition asks for a field beside what is read, or beside what holds it: it may tell
    which member of a union there is, as `x.kind == "cat"` does.
    """
    for fact in known:
        holder = fact.part.rpartition(".")[0]
        # Steps and inputs are no fields of one value.
        if holder in ("", "steps", "inputs"):
            continue
        if f"{owner}.".startswith(f"{holder}.") and not f"{owner}.".startswith(f"{fact.part}."):
            return True
    return False


def _below(part: str, facts: Facts) -> Facts:
    """Return facts of the parts of a value as those of the value that goes by this name."""
    return frozenset(fact._replace(part=part + fact.part) for fact in facts)


def _without(facts: Facts, names: Sequence[str]) -> Facts:
    """Return the facts that are not about something else that goes by one of these names."""
    return frozenset(fact for fact in facts if not any(_is_of(fact.part, name) for name in names))


def _is_of(part: str, name: str) -> bool:
    return part == name or part.startswith((f"{name}.", f"{name}["))


def _takes_operands(operator: str, left: SchemaView, right: SchemaView) -> bool:
    if operator in ("==", "!="):
        return True
    if operator == "in":
        # A list may be asked for null, whatever its elements are.
        in_list = any(view.kind == "array" for view in right.alternatives)
        return in_list or supports_membership(right, left)
    return operator_result(operator, left, right) is not None


def _takes_arguments(node: FunctionCall, views: Sequence[SchemaView]) -> bool:
    if node.target is None:
        if node.function == "zip":
            return all(view.kind != "null" for view in views)
        return call_result(node.function, None, views) is not None
    return call_result(node.function, views[0], views[1:]) is not None
