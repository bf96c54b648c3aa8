"""What untrusted text decides of what an expression gives.

The tree of the expression, in its plain form, is walked with what is known of the roots (`Value`) in
place of their values. A function of which nothing is known here passes everything on that its arguments hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

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
    names_in,
    summed_terms,
)
from wavewright.planner.cel.plain_form import plain_form, without_places
from wavewright.planner.checks.influence import (
    NOTHING,
    TRUSTED,
    Influence,
    Level,
    Value,
    choice,
    compounded,
    either,
    influence,
    joined,
    list_of,
    object_of,
    selection,
    stronger,
    text,
    together,
)
from wavewright.planner.checks.influenced_functions import (
    answer,
    as_choice,
    called,
    number_from,
    part_of_text,
    rearranged,
    reordered,
)
from wavewright.planner.schemas.views import view_schema

Path = tuple[str | int, ...]
"""A root or a name of a macro, and the fields and places that lead on from it."""
Scope = Mapping[Path, Value]
"""Names that macros gave, with what they stand for; and what a condition has narrowed."""
RootReader = Callable[[str, str | None], Value]
"""Returns what is known of a root, or of a field of it: `steps`, `inputs`, `item`."""

_NUMBER_KINDS: Final = frozenset({"integer", "number", "timestamp", "duration"})
_MOST_EVALUATIONS: Final = 2000
_MAX_COMPARED: Final = 8
"""Levels of what a condition compares with: it is followed twice, and so is each one within it."""
_SOME_FIT: Final = frozenset({"exists", "exists_one", "existsOne"})
_NONE_FITS: Final = frozenset({"exists"})
_ALL_FIT: Final = frozenset({"all"})
"""Macros that are true where some, or all, of the elements of a list fulfil a condition, and those
that are false where none does.
"""
_MOST_UNROLLED: Final = 64
"""Elements of a literal list that a macro is followed over one by one."""


def influenced_value(
    tree: ExpressionNode,
    read: RootReader,
    condition: ExpressionNode | None = None,
    *,
    equals_count: bool = False,
) -> Value:
    """Return what is known of the value of an expression.

    Args:
        tree: The expression.
        read: What is known of its roots.
        condition: What holds where it is evaluated.
        equals_count: Whether a value that a condition has found equal to one that nothing outside
            decides is as good as that one.
    """
    walk = _Walk(read, equals_count=equals_count)
    scope: Scope = {}
    if condition is not None:
        scope = walk.narrowed(plain_form(condition), scope)
    return walk.value(plain_form(tree), scope)


class _Walk:
    def __init__(self, read: RootReader, *, equals_count: bool) -> None:
        self._read = read
        self._equals_count = equals_count
        self._left = _MOST_EVALUATIONS
        """Bodies of macros that may still be followed one by one."""

    def value(self, node: ExpressionNode, scope: Scope) -> Value:  # noqa: C901, PLR0912 - one case a kind
        known = scope.get(_path_of(node)) if scope else None
        if known is not None:
            return known
        match node:
            case LiteralValue():
                return Value(is_text=isinstance(node.value, str))
            case Identifier():
                return _at_its_place(node, self._read(node.name, None))
            case Select():
                return _at_its_place(node, self._select(node, scope))
            case Index():
                return _at_its_place(node, self._index(node, scope))
            case Has():
                return self._has(node, scope)
            case Unary():
                operand = self.value(node.operand, scope)
                return answer([operand]) if node.operator == "!" else number_from([operand])
            case LogicalOperation():
                return answer([self.value(operand, scope) for operand in node.operands])
            case Binary():
                return self._binary(node, scope)
            case Conditional():
                return self._conditional(node, scope)
            case ListLiteral():
                return list_of([self.value(item, scope) for item in node.items])
            case MapLiteral():
                return self._map(node, scope)
            case Macro():
                return self._macro(node, scope)
            case FunctionCall():
                return self._call(node, scope)

    # -- parts

    def _select(self, node: Select, scope: Scope) -> Value:
        if isinstance(node.operand, Identifier) and (node.operand.name,) not in scope:
            return self._read(node.operand.name, node.field)
        return self.value(node.operand, scope).field(node.field)

    def _index(self, node: Index, scope: Scope) -> Value:
        owner = self.value(node.operand, scope)
        # Which element is the first one follows from which elements are kept, and in which order; how
        # many somebody outside has sent is not counted.
        arranged = owner.shape.of_choices()
        chooser: ExpressionNode = node
        match node.key:
            case LiteralValue(kind="int", value=int() as place):
                by, element = arranged, owner.element(place)
            case key:
                by = stronger(self.value(key, scope).total(), arranged)
                element = owner.element()
                # With one key the element of any list is chosen.
                chooser = node if arranged else key
        chosen = as_choice(by, owner.most())
        if _is_one_choice(chooser, scope):
            this_choice = repr(without_places(chooser))
            chosen = chosen.coming_from(this_choice)
            if owner.elements is not None and isinstance(node.key, LiteralValue):
                # All of what a step has given for one item follows from what it was asked with.
                element = element.coming_from(this_choice)
        return element.chosen(chosen)

    def _has(self, node: Has, scope: Scope) -> Value:
        selection = node.selection
        operand = selection.operand
        if isinstance(operand, Identifier) and operand.name == "steps":
            # The step is there unless a condition has left it out.
            return Value(as_choice(self.value(selection, scope).floor, 2))
        if isinstance(operand, Identifier) and operand.name == "previous":
            # Whether there was a run before is not what it has read.
            return TRUSTED
        return answer([self.value(operand, scope)])

    def _map(self, node: MapLiteral, scope: Scope) -> Value:
        fields, computed = dict[str, Value](), list[Influence]()
        for key, entry in node.entries:
            value = self.value(entry, scope)
            if isinstance(key, LiteralValue):
                fields[str(key.value)] = value
            else:
                computed += [self.value(key, scope).total(), value.total()]
        if not computed:
            return object_of(fields)
        # A field whose name is computed may be any of them.
        return Value(together([*computed, *(value.total() for value in fields.values())]))

    def _conditional(self, node: Conditional, scope: Scope) -> Value:
        condition = self.value(node.condition, scope).total()
        yes = self.value(node.yes, self.narrowed(node.condition, scope))
        no = self.value(node.no, self.narrowed(node.condition, scope, is_true=False))
        chosen = either([yes, no])
        if condition:
            # All that it may be is what either of them may be: of `a ? 1 : b ? 2 : 3` three values.
            bits = math.log2(math.exp2(-abs(yes.floor.bits - no.floor.bits)) + 1)
            bits += max(yes.floor.bits, no.floor.bits)
            chosen = chosen.raised(influence(Level.CHOICE, bits, condition.origin))
        if not (yes.floor.is_known and no.floor.is_known and _is_one_choice(node.condition, scope)):
            return chosen
        # What is read of the one or the other follows from the condition and from both choices.
        choices = (without_places(node.condition), yes.floor.choices, no.floor.choices)
        return replace(chosen, floor=chosen.floor.coming_from(repr(choices)))

    # -- operators

    def _binary(self, node: Binary, scope: Scope) -> Value:
        if node.operator == "+":
            return self._sum(node, scope)
        values = [self.value(node.left, scope), self.value(node.right, scope)]
        return number_from(values) if node.operator in {"-", "*", "/", "%"} else answer(values)

    def _sum(self, node: Binary, scope: Scope) -> Value:
        """Return what is known of a sum: of numbers, of lists, or of texts put together.

        All its operands are seen at once: what stands beside a date decides what it is.
        """
        operands = [(operand, self.value(operand, scope)) for operand in summed_terms(node)]
        values = [value for _, value in operands]
        if any(value.is_list for value in values):
            return _all_lists(values)
        if any(value.is_text for value in values):
            return Value(joined([part_of_text(*operand) for operand in operands]), is_text=True)
        whole = stronger(*(value.total() for value in values))
        is_of_numbers = any(_is_number(*operand) for operand in operands)
        if whole.level is Level.TEXT and not is_of_numbers:
            # Of values that nothing types, '+' joins texts or lists as well.
            return Value(whole)
        return number_from(values)

    # -- macros

    def _macro(self, node: Macro, scope: Scope) -> Value:
        owner = self.value(node.range, scope)
        if node.function == "bind":
            return self.value(node.arguments[0], _bound(scope, {node.variables[0]: owner}))
        count_of_items = 0 if owner.items is None else len(owner.items)
        is_unrolled = owner.items is not None and count_of_items <= min(_MOST_UNROLLED, self._left)
        elements = [owner.key()]
        if is_unrolled:
            self._left -= count_of_items
            elements = [element.raised(owner.floor) for element in owner.items or ()]
        bodies = [self._bodies(node, owner, element, scope) for element in elements]
        count = owner.count()
        size = owner.most()
        match node.function:
            case "filter":
                condition = stronger(*(body[-1].total() for body in bodies))
                kept = rearranged(owner, selection(condition, size))
                return replace(kept, elements=self._fitting(node, owner, scope))
            case "sortBy":
                keys = stronger(*(key.total() for body in bodies for key in body))
                return reordered(owner, keys)
            case "map" | "transformList":
                results, conditions = [body[-1] for body in bodies], [body[:-1] for body in bodies]
                condition = stronger(*(part.total() for body in conditions for part in body))
                if is_unrolled and not condition:
                    return list_of(results, owner.floor)
                shape = compounded(count, selection(condition, size))
                return Value(elements=either(results), shape=shape, size=size)
            case "transformMap" | "transformMapEntry":
                condition = stronger(*(part.total() for body in bodies for part in body[:-1]))
                return self._new_map(
                    node, owner, [body[-1] for body in bodies], selection(condition, size)
                )
            case _:
                asked = [body[-1] for body in bodies]
                return Value(as_choice(stronger(count, *(answer.total() for answer in asked)), 2))

    def _fitting(self, node: Macro, owner: Value, scope: Scope, *, is_true: bool = True) -> Value:
        """Return what is known of an element for which the condition of a macro is true, or false."""
        element = owner.key()
        within = _bound(scope, _variables(node, owner, element))
        narrowed = self.narrowed(node.arguments[-1], within, is_true=is_true)
        variable = node.variables[-1]
        for path in sorted(narrowed, key=len):
            if path[0] == variable and narrowed[path] is not within.get(path):
                element = element.with_field(path[1:], narrowed[path])
        return element

    def _bodies(self, node: Macro, owner: Value, element: Value, scope: Scope) -> list[Value]:
        *conditions, result = node.arguments
        within = _bound(scope, _variables(node, owner, element))
        values = [self.value(condition, within) for condition in conditions]
        for condition in conditions:
            within = self.narrowed(condition, within)
        return [*values, self.value(result, within)]

    @staticmethod
    def _new_map(node: Macro, owner: Value, results: Sequence[Value], kept: Influence) -> Value:
        keys = owner.key().total() if owner.items is None else NOTHING
        value = either(results)
        if node.function == "transformMap" and owner.fields is not None:
            shape = compounded(owner.shape, kept)
            same_keys = object_of(dict.fromkeys(owner.fields, value))
            return replace(same_keys, shape=shape, floor=owner.floor)
        if node.function == "transformMapEntry":
            # Each result is an object of one entry.
            keys = stronger(*(result.shape for result in results), value.total())
            value = value.element()
        whole = value.total()
        worst = text(whole.origin) if whole else keys
        return Value(compounded(stronger(worst, keys, owner.count()), kept))

    def _call(self, node: FunctionCall, scope: Scope) -> Value:
        return called(node, [self.value(operand, scope) for operand in children(node)])

    # -- conditions

    def narrowed(self, condition: ExpressionNode, scope: Scope, *, is_true: bool = True) -> Scope:
        """Return the names where a condition is true, or false: what is equal to a value, or to one
        that a list has, is that value.
        """
        if not self._equals_count:
            return scope
        match condition:
            case Unary(operator="!", operand=operand):
                return self.narrowed(operand, scope, is_true=not is_true)
            case LogicalOperation(operands=operands) if (condition.operator == "&&") == is_true:
                for operand in operands:
                    scope = self.narrowed(operand, scope, is_true=is_true)
            case LogicalOperation(operands=operands):
                ways = [self.narrowed(operand, scope, is_true=is_true) for operand in operands]
                return _one_of(ways, scope)
            case Binary(left=left, right=right) if condition.operator == (
                "==" if is_true else "!="
            ):
                return self._equal(right, left, self._equal(left, right, scope))
            case Binary(operator="in", left=left, right=right) if is_true:
                return self._equal(left, right, scope, is_member=True)
            case Macro(function=function) if function in (_SOME_FIT if is_true else _ALL_FIT):
                return self._narrowed_by_one(condition, scope, is_true=is_true)
            case Macro(function=function) if function in (_ALL_FIT if is_true else _NONE_FITS):
                return self._narrowed_by_all(condition, scope, is_true=is_true)
            case FunctionCall(
                function="sets.contains", arguments=(others, ListLiteral(items=members))
            ) if is_true:
                for member in members:
                    scope = self._equal(member, others, scope, is_member=True)
            case _:
                pass
        return scope

    def _narrowed_by_one(self, node: Macro, scope: Scope, *, is_true: bool) -> Scope:
        """Return the names where a condition is true, or false, of one of the elements of a list."""
        if node.depth > _MAX_COMPARED:
            return scope
        owner = self.value(node.range, scope)
        within = _bound(scope, _variables(node, owner, owner.key()))
        narrowed = self.narrowed(node.arguments[-1], within, is_true=is_true)
        equal = {
            path: _chosen_at(path, value, choice(value.total().origin, owner.most()))
            for path, value in narrowed.items()
            if value is not within.get(path) and path[0] not in node.variables
        }
        return {**scope, **equal}

    def _narrowed_by_all(self, node: Macro, scope: Scope, *, is_true: bool) -> Scope:
        """Return the names where a condition is true, or false, of every element of a list."""
        path = _path_of(node.range)
        owner = self.value(node.range, scope)
        if not path or not owner.is_list or node.depth > _MAX_COMPARED:
            return scope
        element = self._fitting(node, owner, scope, is_true=is_true)
        return {**scope, path: replace(rearranged(owner, NOTHING), elements=element)}

    def _equal(
        self,
        asked: ExpressionNode,
        others: ExpressionNode,
        scope: Scope,
        *,
        is_member: bool = False,
    ) -> Scope:
        """Return the names where one is equal to another value, or to one of its members."""
        path = _path_of(asked)
        if not path or others.depth > _MAX_COMPARED:
            return scope
        chosen, among = self.value(asked, scope).total(), self.value(others, scope)
        if chosen.level is not Level.TEXT or among.total().level is Level.TEXT:
            return scope
        equal = among.key() if is_member else among
        size = among.most() if is_member else 1
        return {**scope, path: _chosen_at(path, equal, as_choice(chosen, size))}


def _is_one_choice(node: ExpressionNode, scope: Scope) -> bool:
    """Whether an element is the same one wherever a call takes it: not where it is another one for each
    element of a macro. The item of a step is the same in all of a call.
    """
    return names_in(node).isdisjoint(path[0] for path in scope if _is_of_macro(path))


def _is_of_macro(path: Path) -> bool:
    """Whether a path leads on from a name that a macro gave, as the plain form writes it."""
    return "." in str(path[0])


def _at_its_place(node: ExpressionNode, value: Value) -> Value:
    """Return a value that is read, which is one value wherever a call reads it."""
    path = _path_of(node)
    return value.read_at(repr(path)) if path and not _is_of_macro(path) else value


def _chosen_at(path: Path, value: Value, by: Influence) -> Value:
    """Return what stands at a path as one that was chosen among several."""
    chosen = value.chosen(by)
    return chosen if _is_of_macro(path) else chosen.coming_from(repr(path))


def _path_of(node: ExpressionNode) -> Path:
    """Return the path that a node is; an empty one where it is more than a path."""
    match node:
        case Identifier():
            return (node.name,)
        case (
            Select(operand=operand, field=last)
            | Index(operand=operand, key=LiteralValue(value=int() as last))
        ):
            above = _path_of(operand)
            return (*above, last) if above else ()
        case _:
            return ()


def _one_of(ways: Sequence[Scope], scope: Scope) -> Scope:
    """Return the names where one of several conditions holds, of which each has narrowed a scope."""
    shared = set(ways[0]).intersection(*ways[1:])
    narrowed = dict[Path, Value]()
    for path in shared:
        values = [way[path] for way in ways]
        value = either(values)
        if any(other is not scope.get(path) for other in values):
            value = _chosen_at(path, value, choice(value.total().origin, len(ways)))
        narrowed[path] = value
    return {**scope, **narrowed}


def _variables(node: Macro, owner: Value, element: Value) -> dict[str, Value]:
    """Return what the names of a macro stand for, for one element of what it runs over."""
    names = node.variables
    values = {names[-1]: element}
    if len(names) > 1:
        is_map = owner.fields is not None or not owner.is_list
        values[names[0]] = owner.key() if is_map else TRUSTED
        values[names[1]] = owner.element() if is_map else element
    return values


def _bound(scope: Scope, names: Mapping[str, Value]) -> Scope:
    """Return a scope with names of a macro, which hide what had them before."""
    outer = {path: value for path, value in scope.items() if path[0] not in names}
    return {**outer, **{(name,): value for name, value in names.items()}}


def text_of_parts(parts: Sequence[Value | str]) -> Influence:
    """Return the influence on a text with values in it, such as `status ${steps.page.status}`."""
    return joined([part if isinstance(part, str) else part.as_text() for part in parts])


def _is_number(node: ExpressionNode, value: Value) -> bool:
    """Whether a value is known to be a number, an instant or a duration."""
    if isinstance(node, LiteralValue):
        return not isinstance(node.value, str)
    kind = None if value.place is None else view_schema(value.place).kind
    return value.total().level in {Level.DATE, Level.NUMBER} or kind in _NUMBER_KINDS


def _all_lists(values: Sequence[Value]) -> Value:
    known = [value.items for value in values if value.items is not None]
    if len(known) == len(values):
        return list_of([item for items in known for item in items])
    return Value(
        elements=either([value.key() for value in values]),
        shape=compounded(*(value.count() for value in values)),
    )
