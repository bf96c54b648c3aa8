"""Values that may be null where an expression fails on null.

Whether an operator or a function takes null is asked of the tables that the evaluator uses. What is
known not to be null follows from the conditions around a part: `&&`, `||`, `!`, `? :`, a `filter`,
the `when` of the step. See docs/explanation/semantics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from wavewright.planner.cel.nodes import (
    Binary,
    Conditional,
    ExpressionNode,
    FunctionCall,
    Has,
    Index,
    LiteralValue,
    LogicalOperation,
    Macro,
    Parenthesized,
    Select,
    Unary,
    children,
    without_parens,
)
from wavewright.planner.schemas.inference import PartTypes
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
    scoped_schema,
    view_schema,
)

Facts = frozenset[str]
"""Parts of an expression, as they are written without spaces, that are not null."""

_NO_FACTS: Facts = frozenset()
_NULL = view_schema(NULL)
_LIST_OF_NULL = view_schema(array_schema(NULL))
_KEEP_ELEMENTS = frozenset({"reverse", "slice", "distinct", "sort"})


class NullUse(NamedTuple):
    """A part that may be null, or whose elements may be, and what fails on it."""

    part: str
    reader: str
    """The smallest expression that fails, as it is written; the part itself, where that is one
    that its mend can stand in for.
    """
    fault: str
    """What is done with it: `'close' is read of it`."""
    of_elements: bool = False


def uses_of_null(
    tree: ExpressionNode, text: str, types: PartTypes, known: Facts
) -> Iterator[NullUse]:
    """Yield each use of a part that may be null and may not, the inner ones first."""
    yield from _NullUses(text, types).of(tree, known)


def null_in_text(
    tree: ExpressionNode, text: str, types: PartTypes, known: Facts
) -> Iterator[NullUse]:
    """Yield an expression that is put into text and may be null."""
    yield from _NullUses(text, types).whole(tree, known)


def facts_of(tree: ExpressionNode, text: str, types: PartTypes) -> Facts:
    """Return what is not null where a condition holds."""
    return _NullUses(text, types).facts(tree, holds=True)


def facts_of_elements(tree: ExpressionNode, text: str, types: PartTypes, name: str) -> Facts:
    """Return what is not null of each element of a list that goes by a name."""
    return frozenset(name + field for field in _NullUses(text, types).element_facts(tree))


class _NullUses:
    """The uses in one expression whose types are known."""

    def __init__(self, text: str, types: PartTypes) -> None:
        self._text = text
        self._types = types

    def of(self, node: ExpressionNode, known: Facts) -> Iterator[NullUse]:
        """Yield the uses of null in a part, where some parts are known not to be null."""
        match node:
            case Has():
                return
            case Parenthesized():
                yield from self.of(node.inner, known)
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

    def whole(self, node: ExpressionNode, known: Facts) -> Iterator[NullUse]:
        """Yield the expression itself where it may be null."""
        yield from self._null(node, node, "it is put into text", known)

    def _of_logical(self, node: LogicalOperation, known: Facts) -> Iterator[NullUse]:
        # An operand that fails does not matter where another one decides: each may rely on all
        # the others, on which side they stand.
        for place, operand in enumerate(node.operands):
            others = node.operands[:place] + node.operands[place + 1 :]
            decided = [self.facts(other, holds=node.operator == "&&") for other in others]
            inner = known.union(*decided)
            yield from self.of(operand, inner)
            yield from self._null(operand, operand, f"'{node.operator}' joins conditions", inner)

    def _of_macro(self, node: Macro, known: Facts) -> Iterator[NullUse]:
        yield from self.of(node.range, known)
        outer = frozenset(
            fact for fact in known if not any(_is_of(fact, name) for name in node.variables)
        )
        name = node.variables[-1]
        if node.function == "bind":
            if self._is_known(node.range, known):
                outer |= {name}
            yield from self.of(node.arguments[0], outer)
            return
        yield from self._null(node.range, node, f"{node.function}() goes over it", known)
        inner = outer | {name + field for field in self.element_facts(node.range)}
        for argument in node.arguments:
            yield from self.of(argument, inner)
            if len(node.arguments) > 1 and node.function != "sortBy":
                inner |= self.facts(argument, holds=True)
            if node.function == "sortBy" and not is_orderable(_NULL):
                yield from self._null(argument, argument, "sortBy() orders by it", inner)

    def _of_operation(self, node: ExpressionNode, known: Facts) -> Iterator[NullUse]:
        """Yield the operands of a part that it does not take when they are null."""
        match node:
            case Select():
                fault = f"{node.field!r} is read of it"
                yield from self._null(node.operand, node, fault, known)
            case Index():
                yield from self._null(node.operand, node, "an element is read of it", known)
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
                parts = node.arguments if node.target is None else (node.target, *node.arguments)
                fault = f"{node.function}() does not take it"
                yield from self._of_operands(
                    node, parts, fault, known, lambda views: _takes_arguments(node, views)
                )
            case _:
                return

    def _of_operands(
        self,
        node: ExpressionNode,
        parts: Sequence[ExpressionNode],
        fault: str,
        known: Facts,
        takes: Callable[[Sequence[SchemaView]], bool],
    ) -> Iterator[NullUse]:
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
            if inner is None or not _may_be_null(inner) or "" in self.element_facts(part):
                continue
            if not takes([*before, _LIST_OF_NULL, *after]):
                yield NullUse(self._written(part), self._written(node), fault, of_elements=True)

    def _null(
        self, part: ExpressionNode, reader: ExpressionNode, fault: str, known: Facts
    ) -> Iterator[NullUse]:
        view = self._view(part)
        if view is not None and _may_be_null(view) and not self._is_known(part, known):
            yield NullUse(self._written(without_parens(part)), self._written(reader), fault)

    def _view(self, node: ExpressionNode) -> SchemaView | None:
        schema = self._types.type_of(node.start, node.end)
        return None if schema is None else view_schema(scoped_schema(schema))

    def _is_known(self, part: ExpressionNode, known: Facts) -> bool:
        """Whether a part is known not to be null: it was asked, or the list that it is taken from
        has only elements of which it was asked.
        """
        if self._source(part) in known:
            return True
        fields = ""
        bare = without_parens(part)
        while isinstance(bare, Select):
            fields = f".{bare.field}{fields}"
            bare = without_parens(bare.operand)
        return isinstance(bare, Index) and fields in self.element_facts(bare.operand)

    def element_facts(self, node: ExpressionNode) -> Facts:
        """Return what is not null of each element of a list: `` for the element, `.a` of it."""
        match bare := without_parens(node):
            case Macro(function="filter"):
                name = bare.variables[-1]
                asked = self.facts(bare.arguments[0], holds=True)
                own = {fact[len(name) :] for fact in asked if _is_of(fact, name)}
                return self.element_facts(bare.range) | own
            case Macro(function="sortBy"):
                return self.element_facts(bare.range)
            case FunctionCall(target=target) if bare.function in _KEEP_ELEMENTS and target:
                return self.element_facts(target)
            case _:
                return _NO_FACTS

    def facts(self, condition: ExpressionNode, *, holds: bool) -> Facts:
        """Return what is not null where a condition holds, or where it does not."""
        match bare := without_parens(condition):
            case Unary(operator="!"):
                return self.facts(bare.operand, holds=not holds)
            case LogicalOperation():
                parts = [self.facts(operand, holds=holds) for operand in bare.operands]
                if (bare.operator == "&&") == holds:
                    return _NO_FACTS.union(*parts)
                return parts[0].intersection(*parts[1:])
            case Binary():
                left, right = without_parens(bare.left), without_parens(bare.right)
                facts = self._compared(left, right, bare.operator, holds=holds)
                return facts | self._compared(right, left, bare.operator, holds=holds)
            case Has() if holds:
                return self._owners(bare.selection.operand)
            case _:
                return _NO_FACTS

    def _compared(
        self, part: ExpressionNode, other: ExpressionNode, operator: str, *, holds: bool
    ) -> Facts:
        """Return what a comparison of a part with another tells of the part."""
        if operator not in ("==", "!="):
            return _NO_FACTS
        is_equal = (operator == "==") == holds
        if isinstance(other, LiteralValue):
            is_null = other.kind == "null"
        else:
            view = self._view(other)
            if not is_equal or view is None or view.nullable:
                return _NO_FACTS
            is_null = False
        return frozenset({self._source(part)}) if is_equal != is_null else _NO_FACTS

    def _owners(self, node: ExpressionNode) -> Facts:
        """Return a part and everything on the way to it."""
        facts = {self._source(node)}
        bare = without_parens(node)
        while isinstance(bare, Select | Index):
            bare = without_parens(bare.operand)
            facts.add(self._source(bare))
        return frozenset(facts)

    def _source(self, node: ExpressionNode) -> str:
        return "".join(self._written(without_parens(node)).split())

    def _written(self, node: ExpressionNode) -> str:
        return self._text[node.start : node.end]


def _may_be_null(view: SchemaView) -> bool:
    """Whether somebody declared that a value may be null: what may be anything is no such null."""
    return view.nullable and view.kind != "open"


def _is_of(part: str, name: str) -> bool:
    return part == name or part.startswith((f"{name}.", f"{name}["))


def _takes_operands(operator: str, left: SchemaView, right: SchemaView) -> bool:
    if operator in ("==", "!="):
        return True
    if operator == "in":
        # A list may be asked for null, whatever its elements are.
        in_list = any(view.kind == "array" for view in right.branches or (right,))
        return in_list or supports_membership(right, left)
    return operator_result(operator, left, right) is not None


def _takes_arguments(node: FunctionCall, views: Sequence[SchemaView]) -> bool:
    if node.target is None:
        if node.function == "zip":
            return all(view.kind != "null" for view in views)
        return call_result(node.function, None, views) is not None
    return call_result(node.function, views[0], views[1:]) is not None
