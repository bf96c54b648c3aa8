"""What untrusted text decides of what an expression gives.

The tree of the expression, in its plain form, is walked with what is known of the roots (`Value`) in
place of their values. A function of which nothing is known here passes everything on that its arguments hold.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

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
    DATE_BITS,
    NOTHING,
    TIME_BITS,
    TRUSTED,
    Influence,
    Level,
    Value,
    choice,
    compounded,
    either,
    in_range,
    influence,
    joined,
    limited,
    list_of,
    number,
    object_of,
    order,
    selection,
    stronger,
    text,
    together,
)
from wavewright.planner.schemas.views import view_schema

Path = tuple[str | int, ...]
"""A root or a name of a macro, and the fields and places that lead on from it."""
Scope = Mapping[Path, Value]
"""Names that macros gave, with what they stand for; and what a condition has narrowed."""
RootReader = Callable[[str, str | None], Value]
"""Returns what is known of a root, or of a field of it: `steps`, `inputs`, `item`."""

_NUMBER_KINDS: Final = frozenset({"integer", "number", "timestamp", "duration"})
_MARKS: Final = re.compile(r"[-/. :T]+")
_DIRECTIVE: Final = re.compile(r"%[a-zA-Z]")
_MOST_KEPT: Final = 1024
"""Numbers that are told apart of how many trusted values are kept, where there is no telling."""
_MOST_PARTS: Final = 1000
"""Values that a part of an instant can have, such as its milliseconds."""
_MOST_ZONES: Final = 4096
"""Time zones that a text can name."""
_CLAUSE: Final = re.compile(r"%(?:\.\d*)?[a-zA-Z]|%%")
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
                return _answer([operand]) if node.operator == "!" else _number_from([operand])
            case LogicalOperation():
                return _answer([self.value(operand, scope) for operand in node.operands])
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
        chooser: ExpressionNode = node
        match node.key:
            case LiteralValue(kind="int", value=int() as place):
                # Which element is the first one follows from which elements there are.
                by = owner.shape if owner.items is None else NOTHING
                element = owner.element(place)
            case key:
                by = stronger(self.value(key, scope).total(), _as_choice(owner.shape))
                element = owner.element()
                # With one key the element of any list is chosen.
                chooser = node if owner.shape else key
        chosen = _as_choice(by, owner.most())
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
            return Value(_as_choice(self.value(selection, scope).floor, 2))
        if isinstance(operand, Identifier) and operand.name == "previous":
            # Whether there was a run before is not what it has read.
            return TRUSTED
        return _answer([self.value(operand, scope)])

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
        return {**scope, path: replace(_rearranged(owner, NOTHING), elements=element)}

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
        return {**scope, path: _chosen_at(path, equal, _as_choice(chosen, size))}

    # -- operators

    def _binary(self, node: Binary, scope: Scope) -> Value:
        if node.operator == "+":
            return self._sum(node, scope)
        values = [self.value(node.left, scope), self.value(node.right, scope)]
        return _number_from(values) if node.operator in {"-", "*", "/", "%"} else _answer(values)

    def _sum(self, node: Binary, scope: Scope) -> Value:
        """Return what is known of a sum: of numbers, of lists, or of texts put together.

        All its operands are seen at once: what stands beside a date decides what it is.
        """
        operands = [(operand, self.value(operand, scope)) for operand in summed_terms(node)]
        values = [value for _, value in operands]
        if any(value.is_list for value in values):
            return _all_lists(values)
        if any(value.is_text for value in values):
            return Value(joined([_part_of_text(*operand) for operand in operands]), is_text=True)
        whole = stronger(*(value.total() for value in values))
        is_of_numbers = any(_is_number(*operand) for operand in operands)
        if whole.level is Level.TEXT and not is_of_numbers:
            # Of values that nothing types, '+' joins texts or lists as well.
            return Value(whole)
        return _number_from(values)

    # -- macros

    def _macro(self, node: Macro, scope: Scope) -> Value:
        owner = self.value(node.range, scope)
        if node.function == "bind":
            return self.value(node.arguments[0], _bound(scope, {node.variables[0]: owner}))
        count_of_items = 0 if owner.items is None else len(owner.items)
        is_unrolled = owner.items is not None and count_of_items <= min(_MOST_UNROLLED, self._left)
        self._left -= count_of_items if is_unrolled else 0
        elements = list(owner.items or ()) if is_unrolled else [owner.key()]
        if is_unrolled:
            elements = [element.raised(owner.floor) for element in elements]
        bodies = [self._bodies(node, owner, element, scope) for element in elements]
        count = owner.count()
        size = owner.most()
        match node.function:
            case "filter":
                condition = stronger(*(body[-1].total() for body in bodies))
                kept = _rearranged(owner, _kept(condition, size))
                return replace(kept, elements=self._fitting(node, owner, scope))
            case "sortBy":
                keys = stronger(*(key.total() for body in bodies for key in body))
                return _rearranged(owner, _order(keys, size))
            case "map" | "transformList":
                results, conditions = [body[-1] for body in bodies], [body[:-1] for body in bodies]
                condition = stronger(*(part.total() for body in conditions for part in body))
                if is_unrolled and not condition:
                    return list_of(results, owner.floor)
                shape = compounded(count, _kept(condition, size))
                return Value(elements=either(results), shape=shape, size=size)
            case "transformMap" | "transformMapEntry":
                condition = stronger(*(part.total() for body in bodies for part in body[:-1]))
                return self._new_map(
                    node, owner, [body[-1] for body in bodies], _kept(condition, size)
                )
            case _:
                asked = [body[-1] for body in bodies]
                return Value(_as_choice(stronger(count, *(answer.total() for answer in asked)), 2))

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
        values = [self.value(operand, scope) for operand in children(node)]
        whole = stronger(*(value.total() for value in values))
        if not whole and node.function != "lists.range":
            return _trusted_result(node, values)
        return RULES.get(node.function, _whatever)(_InfluencedCall(node, values, whole))


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
        case Select():
            return _path_on(node.operand, node.field)
        case Index(operand=operand, key=LiteralValue(value=int() as place)):
            return _path_on(operand, place)
        case _:
            return ()


def _path_on(operand: ExpressionNode, last: str | int) -> Path:
    above = _path_of(operand)
    return (*above, last) if above else ()


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


def _as_choice(by: Influence, among: int | None = None) -> Influence:
    """Return the influence of what something decides on which of several values is taken."""
    if not by:
        return NOTHING
    bits = min(choice(by.origin, among).bits, by.bits)
    return influence(Level.CHOICE, bits, by.origin)


def _counted(influences: Sequence[Influence], most: Influence) -> Influence:
    """Return the influence on what is computed of choices: a choice, unless there are too many."""
    whole = compounded(*influences)
    return whole if whole.bits <= most.bits else most


def _spelled(whole: Influence) -> Influence:
    """Return the influence on a text made of numbers or dates in a way that is not known."""
    return text(whole.origin) if whole.level in {Level.DATE, Level.NUMBER} else whole


def _part_of_text(node: ExpressionNode, value: Value) -> Influence | str:
    return str(node.value) if isinstance(node, LiteralValue) else value.as_text()


def _literal_text(node: ExpressionNode | None) -> str | None:
    """Return the text that a node is; None where it is computed or read."""
    if isinstance(node, LiteralValue) and isinstance(node.value, str):
        return node.value
    return None


def _is_number(node: ExpressionNode, value: Value) -> bool:
    """Whether a value is known to be a number, an instant or a duration."""
    if isinstance(node, LiteralValue):
        return not isinstance(node.value, str)
    kind = None if value.place is None else view_schema(value.place).kind
    return value.total().level in {Level.DATE, Level.NUMBER} or kind in _NUMBER_KINDS


def _count(value: Value) -> Influence:
    return stronger(value.count(), _as_choice(value.total()))


def _all_lists(values: Sequence[Value]) -> Value:
    known = [value.items for value in values if value.items is not None]
    if len(known) == len(values):
        return list_of([item for items in known for item in items])
    return Value(
        elements=either([value.key() for value in values]),
        shape=compounded(*(value.count() for value in values)),
    )


def _kept(by: Influence, among: int | None) -> Influence:
    return selection(by.origin, among) if by else NOTHING


def _order(by: Influence, among: int | None) -> Influence:
    return order(by.origin, among) if by else NOTHING


def _rearranged(owner: Value, how: Influence) -> Value:
    """Return elements of a list in another order, or some of them."""
    shape = compounded(owner.count_of_this(), how)
    return Value(elements=owner.key(), shape=shape, floor=owner.floor, size=owner.most())


class _InfluencedCall(NamedTuple):
    """A call of a function of which untrusted text decides something."""

    node: FunctionCall
    values: Sequence[Value]
    """What is known of the operands; what a method is asked of comes first."""
    whole: Influence
    """The strongest influence on any of them."""


def _whatever(call: _InfluencedCall) -> Value:
    """Return the value of a function that may hold all that it was made of."""
    return Value(_spelled(call.whole), is_text=_gives_text(call.node.function, call.values))


def _itself(call: _InfluencedCall) -> Value:
    return call.values[0]


def _same_text(call: _InfluencedCall) -> Value:
    return Value(call.values[0].total(), is_text=True)


def _as_text(call: _InfluencedCall) -> Value:
    return Value(call.values[0].as_text(), is_text=True)


def _answered(call: _InfluencedCall) -> Value:
    return _answer(call.values)


def _answer(values: Sequence[Value]) -> Value:
    """Return true or false, which follows from values."""
    return Value(_as_choice(stronger(*(value.total() for value in values)), 2))


def _number_from(values: Sequence[Value]) -> Value:
    """Return a number, or an instant, that follows from numbers and instants."""
    influences = [value.total() for value in values]
    strongest = stronger(*influences)
    match strongest.level:
        case Level.NOTHING:
            return TRUSTED
        case Level.CHOICE | Level.RANGE:
            return Value(_counted(influences, number(strongest.origin)))
        case Level.DATE:
            return Value(strongest)
        case _:
            # What is computed of one number, and of what is known, comes from that number.
            whole, most = compounded(*influences), number(strongest.origin)
            return Value(limited(whole, most) if whole.is_known else most)


def _measured(call: _InfluencedCall) -> Value:
    return Value(_number_of(call.values[0]))


def _made_number(call: _InfluencedCall) -> Value:
    """Return a number that is made of anything: of one of few values, one of few numbers; of a
    number, that number.
    """
    if call.whole.level is Level.NUMBER:
        return _computed(call)
    is_one_of_few = call.whole.level <= Level.RANGE
    return Value(call.whole if is_one_of_few else number(call.whole.origin))


def _computed(call: _InfluencedCall) -> Value:
    """Return what is computed of numbers: no more than a number."""
    return Value(limited(call.whole, number(call.whole.origin)))


def _instant(call: _InfluencedCall) -> Value:
    return Value(limited(call.whole, influence(Level.DATE, DATE_BITS + TIME_BITS)))


def _year(call: _InfluencedCall) -> Value:
    return Value(limited(call.whole, influence(Level.DATE, DATE_BITS)))


def _part_of_instant(call: _InfluencedCall) -> Value:
    """Return a part of a timestamp, which is one of a few numbers; of a duration it is a number."""
    match call.whole.level:
        case Level.DATE:
            return Value(in_range(call.whole.origin, _MOST_PARTS))
        case Level.NUMBER | Level.TEXT:
            return _computed(call)
        case _:
            return Value(call.whole)


def _same_elements(call: _InfluencedCall) -> Value:
    """Return a list of the same elements in another order, or of some of them."""
    first, *places = call.values
    if not first.is_list or first.is_text:
        return _whatever(call)
    size, by = first.most(), stronger(*(place.total() for place in places))
    match call.node.function:
        case "slice":
            slices = None if size is None else size * (size + 1) // 2 + 1
            return _rearranged(first, _as_choice(by, slices))
        case "reverse":
            return _rearranged(first, NOTHING)
        case _:
            return _rearranged(first, _order(first.key().total(), size))


def _extreme(call: _InfluencedCall) -> Value:
    values = call.values
    if len(values) > 1:
        return either([*values]).chosen(_as_choice(call.whole, len(values)))
    return values[0].key().chosen(_as_choice(call.whole, values[0].most()))


def _flattened(call: _InfluencedCall) -> Value:
    return Value(elements=call.values[0].key().key(), shape=_count(call.values[0]))


def _joined(call: _InfluencedCall) -> Value:
    node, listed = call.node, call.values[0]
    between: Influence | str = ""
    if len(call.values) > 1:
        between = _part_of_text(node.arguments[0], call.values[1])
    if listed.items is not None:
        parts = list[Influence | str]()
        for place, item in enumerate(listed.items):
            source = node.target.items[place] if isinstance(node.target, ListLiteral) else None
            parts += [between] if place else []
            parts.append(item.as_text() if source is None else _part_of_text(source, item))
        return Value(stronger(joined(parts), listed.floor), is_text=True)
    whole = listed.as_text()
    if isinstance(between, Influence) and between:
        whole = joined([whole, between])
    return Value(_spelled(whole), is_text=True)


def _formatted(call: _InfluencedCall) -> Value:
    """Return a text that values are filled into; or a date as a format writes it, of the function."""
    target = call.node.target
    if target is None:
        return _formatted_instant(call)
    form, listed = _literal_text(target), call.values[1]
    if form is None:
        return Value(joined([*(value.as_text() for value in call.values), " "]), is_text=True)
    filled = [_spelled(listed.as_text())]
    if listed.items is not None:
        filled = [item.as_text() for item in listed.items]
    return Value(joined([*filled, *_CLAUSE.split(form)]), is_text=True)


def _range(call: _InfluencedCall) -> Value:
    literal, count = call.node.arguments[0], call.whole
    size = None
    if isinstance(literal, LiteralValue) and isinstance(literal.value, int):
        size = literal.value
    return Value(elements=TRUSTED, shape=limited(count, number(count.origin)), size=size)


def _split(call: _InfluencedCall) -> Value:
    whole, *others = (value.total() for value in call.values)
    if not whole:
        # A trusted text, cut at places that are chosen: one of the lists that it can be cut into.
        return Value(elements=Value(is_text=True), floor=_chosen_parts(call.node, others))
    together_ = together([whole, *others])
    return Value(
        elements=Value(together_, is_text=True),
        shape=limited(together_, number(together_.origin)),
    )


def _zipped(call: _InfluencedCall) -> Value:
    """Return the list of what stands at one place of several lists of one length."""
    values = call.values
    known = [value.items for value in values if value.items is not None]
    lengths = {len(items) for items in known}
    if len(known) == len(values) and len(lengths) == 1:
        rows = zip(*known, strict=True)
        floor = stronger(*(value.floor for value in values))
        return list_of([list_of(row) for row in rows], floor)
    sizes = [size for size in (value.most() for value in values) if size is not None]
    return Value(
        elements=list_of([value.key() for value in values]),
        shape=compounded(*(value.count() for value in values)),
        size=min(sizes, default=None),
    )


def _cut(call: _InfluencedCall) -> Value:
    """Return a part of a text: of a trusted one, one of the parts that it has."""
    node, values = call.node, call.values
    whole = values[0].total()
    places = stronger(*(value.total() for value in values[1:]))
    if whole or not places:
        if places and Level.NOTHING < whole.level < Level.TEXT:
            return Value(_counted([whole, _as_choice(places)], text(whole.origin)), is_text=True)
        return Value(whole, is_text=True)
    cut_text = _literal_text(node.target)
    # Beyond its last character there is one more place, where nothing is read.
    cut = _as_choice(places, None if cut_text is None else len(cut_text) + 1)
    ends = 1 if node.function == "charAt" else len(values) - 1
    return Value(compounded(*[cut] * ends), is_text=True)


def _replaced(call: _InfluencedCall) -> Value:
    node = call.node
    whole, old, new, *limit = (value.total() for value in call.values)
    if whole.level <= Level.RANGE and new.level <= Level.RANGE:
        # Both texts are trusted, so what is searched for only chooses where one becomes the other.
        return Value(joined([whole, _chosen_parts(node, [old, *limit]), new]), is_text=True)
    marks = map(_literal_text, node.arguments[:2])
    are_marks = all(mark is not None and _MARKS.fullmatch(mark) for mark in marks)
    is_date = whole.level is Level.DATE and are_marks
    worst = text(stronger(whole, old, new, *limit).origin)
    return Value(whole if is_date else worst, is_text=True)


def _chosen_parts(node: FunctionCall, choosers: Sequence[Influence]) -> Influence:
    """Return the influence on a trusted text of what chooses which part of it is meant, wherever it
    stands, and how often: one of the parts that the text has.
    """
    cut_text, parts = _literal_text(node.target), None
    if cut_text is not None:
        length = len(cut_text)
        parts = length * (length + 1) // 2 + 2
    return compounded(*(_as_choice(chooser, parts) for chooser in choosers))


def _formatted_instant(call: _InfluencedCall) -> Value:
    """Return a date as a format writes it: a date, where its parts stand apart as those of a date."""
    instant, form, *zone = (value.total() for value in call.values)
    zones = [_as_choice(part, _MOST_ZONES) for part in zone if part]
    written = _literal_text(call.node.arguments[1])
    if written is None:
        return Value(stronger(_spelled(instant), _spelled(form), *zones), is_text=True)
    day = limited(instant, influence(Level.DATE, DATE_BITS + TIME_BITS))
    chosen = [part for part in (day, *zones) if part]
    constants = _DIRECTIVE.split(written)
    if not all(constants[1:-1]):
        # Digits side by side are a number.
        return Value(_spelled(joined(chosen)), is_text=True)
    return Value(joined([*chosen, *constants]), is_text=True)


def _number_of(value: Value) -> Influence:
    """Return the influence on how many elements there are: less than which of them are there."""
    count = value.count()
    if count.level in {Level.CHOICE, Level.RANGE}:
        return in_range(count.origin, _MOST_KEPT if value.size is None else value.size + 1)
    return count


def _trusted_result(node: FunctionCall, values: Sequence[Value]) -> Value:
    """Return what a function gives whose arguments nothing outside decides."""
    if node.function == "split":
        cut, by = _literal_text(node.target), _literal_text(node.arguments[0])
        is_whole = cut is not None and by is not None and len(node.arguments) == 1
        if cut is not None and by is not None and is_whole:
            return Value(elements=TRUSTED, size=len(cut.split(by)) if by else len(cut))
    return Value(is_text=_gives_text(node.function, values))


def _gives_text(name: str, values: Sequence[Value]) -> bool:
    if name in {"reverse", "min", "max"}:
        return any(value.is_text for value in values)
    return name in {
        "string", "join", "format", "charAt", "substring", "lowerAscii", "upperAscii", "trim",
        "replace", "strings.quote",
    }  # fmt: skip


_FUNCTIONS: Final[Mapping[Callable[[_InfluencedCall], Value], str]] = {
    _answered: "contains startsWith endsWith matches bool math.isNaN math.isInf math.isFinite "
    "sets.contains sets.equivalent sets.intersects",
    _measured: "size",
    _made_number: "indexOf lastIndexOf int double duration",
    _computed: "sum avg math.abs math.round math.floor math.ceil math.trunc math.sqrt math.sign",
    _instant: "timestamp",
    _year: "getFullYear",
    _part_of_instant: "getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear getHours getMinutes "
    "getSeconds getMilliseconds",
    _itself: "dyn",
    _as_text: "string",
    _same_text: "lowerAscii upperAscii trim",
    _cut: "charAt substring",
    _replaced: "replace",
    _split: "split",
    _joined: "join",
    _formatted: "format",
    _extreme: "min max math.least math.greatest",
    _same_elements: "reverse distinct slice sort",
    _flattened: "flatten",
    _zipped: "zip",
    _range: "lists.range",
}
"""What each function does to what its operands hold, by the rules of `docs/explanation/trust.md`. One
that is not here passes on all that it was given.
"""
RULES: Final = {name: rule for rule, names in _FUNCTIONS.items() for name in names.split()}
