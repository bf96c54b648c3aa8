"""What untrusted text decides of what a function gives.

| what a function makes | what is decided of it |
|---|---|
| an answer: true or false | a choice between two |
| a number of a text, or how many there are | a number; one of a few where few values were chosen from |
| an instant of a text, or a part of one | a date; one of a few numbers |
| a part of a trusted text, at places that are chosen | a choice among its parts |
| the same elements, fewer or in another order | what each holds, and which are there, or their order |
| a text of several parts | a choice or a date where all parts are that, else text |

A function that has no rule passes on all that it was given. A rule sees calls of which something is
decided; a call of trusted values gives a trusted value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from wavewright.planner.cel.nodes import ExpressionNode, FunctionCall, LiteralValue
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
    order,
    stronger,
    text,
    together,
)

_MARKS_OF_DATES: Final = re.compile(r"[-/. :T]+")
_DIRECTIVE: Final = re.compile(r"%[a-zA-Z]")
_CLAUSE: Final = re.compile(r"%(?:\.\d*)?[a-zA-Z]|%%")
_MOST_KEPT: Final = 1024
"""Numbers that are told apart of how many trusted values are kept, where there is no telling."""
_MOST_PARTS: Final = 1000
"""Values that a part of an instant can have, such as its milliseconds."""
_INSTANT: Final = influence(Level.DATE, DATE_BITS + TIME_BITS)


class _InfluencedCall(NamedTuple):
    """A call of a function of which untrusted text decides something."""

    node: FunctionCall
    values: Sequence[Value]
    """What is known of the operands; what a method is asked of comes first."""
    whole: Influence
    """The strongest influence on any of them."""


_Rule: TypeAlias = Callable[[_InfluencedCall], Value]
RULES: Final[dict[str, _Rule]] = {}
"""What each function does to what its operands hold, by the rules of `docs/explanation/trust.md`."""


def called(node: FunctionCall, values: Sequence[Value]) -> Value:
    """Return what is known of what a function gives, of what is known of its operands."""
    whole = stronger(*(value.total() for value in values))
    # A trusted number still says how long a list of `lists.range` can be.
    if not whole and node.function != "lists.range":
        return _trusted_result(node, values)
    return RULES.get(node.function, _whatever)(_InfluencedCall(node, values, whole))


def _trusted_result(node: FunctionCall, values: Sequence[Value]) -> Value:
    """Return what a function gives whose arguments nothing outside decides."""
    if node.function == "split" and len(node.arguments) == 1:
        cut, by = _literal_text(node.target), _literal_text(node.arguments[0])
        if cut is not None and by is not None:
            return Value(elements=TRUSTED, size=len(cut.split(by)) if by else len(cut))
    return Value(is_text=_gives_text(node.function, values))


def _gives_text(name: str, values: Sequence[Value]) -> bool:
    if name in {"reverse", "min", "max"}:
        return any(value.is_text for value in values)
    return name in {
        "string", "join", "format", "charAt", "substring", "lowerAscii", "upperAscii", "trim",
        "replace", "strings.quote",
    }  # fmt: skip


def _whatever(call: _InfluencedCall) -> Value:
    """Return the value of a function that may hold all that it was made of."""
    return Value(_spelled(call.whole), is_text=_gives_text(call.node.function, call.values))


def _rule_of(names: str) -> Callable[[_Rule], _Rule]:
    """Make a rule that of some functions."""

    def add(rule: _Rule) -> _Rule:
        RULES.update(dict.fromkeys(names.split(), rule))
        return rule

    return add


# -- answers


@_rule_of("contains startsWith endsWith matches bool")
@_rule_of("math.isNaN math.isInf math.isFinite sets.contains sets.equivalent sets.intersects")
def _answered(call: _InfluencedCall) -> Value:
    return answer(call.values)


def answer(values: Sequence[Value]) -> Value:
    """Return true or false, which follows from values."""
    return Value(as_choice(stronger(*(value.total() for value in values)), 2))


def as_choice(by: Influence, among: int | None = None) -> Influence:
    """Return the influence of what something decides on which of several values is taken."""
    if not by:
        return NOTHING
    bits = min(choice(by.origin, among).bits, by.bits)
    return influence(Level.CHOICE, bits, by.origin)


# -- numbers


@_rule_of("sum avg math.abs math.round math.floor math.ceil math.trunc math.sqrt math.sign")
def _computed(call: _InfluencedCall) -> Value:
    """Return what is computed of numbers: no more than a number."""
    return Value(limited(call.whole, number(call.whole.origin)))


@_rule_of("indexOf lastIndexOf int double duration")
def _made_number(call: _InfluencedCall) -> Value:
    """Return a number that is made of anything: of one of few values, one of few numbers; of a
    number, that number.
    """
    if call.whole.level is Level.NUMBER:
        return _computed(call)
    is_one_of_few = call.whole.level <= Level.RANGE
    return Value(call.whole if is_one_of_few else number(call.whole.origin))


def number_from(values: Sequence[Value]) -> Value:
    """Return a number, or an instant, that follows from numbers and instants."""
    influences = [value.total() for value in values]
    strongest = stronger(*influences)
    whole, most = compounded(*influences), number(strongest.origin)
    match strongest.level:
        case Level.NOTHING | Level.DATE:
            return Value(strongest)
        case Level.CHOICE | Level.RANGE:
            return Value(whole if whole.bits <= most.bits else most)
        case Level.NUMBER | Level.TEXT:
            # What is computed of one number, and of what is known, comes from that number.
            return Value(limited(whole, most) if whole.is_known else most)


@_rule_of("size")
def _measured(call: _InfluencedCall) -> Value:
    """Return how many elements there are: less than which of them are there."""
    (value,) = call.values
    count = value.count()
    if count.level in {Level.CHOICE, Level.RANGE}:
        return Value(in_range(count.origin, _MOST_KEPT if value.size is None else value.size + 1))
    return Value(count)


@_rule_of("lists.range")
def _range(call: _InfluencedCall) -> Value:
    shape = limited(call.whole, number(call.whole.origin))
    match call.node.arguments[0]:
        case LiteralValue(value=int() as most):
            return Value(elements=TRUSTED, shape=shape, size=most)
        case _:
            return Value(elements=TRUSTED, shape=shape)


# -- instants


@_rule_of("timestamp getFullYear")
def _instant(call: _InfluencedCall) -> Value:
    return Value(limited(call.whole, _INSTANT))


@_rule_of("getMonth getDate getDayOfMonth getDayOfWeek getDayOfYear getHours getMinutes")
@_rule_of("getSeconds getMilliseconds")
def _part_of_instant(call: _InfluencedCall) -> Value:
    """Return a part of a timestamp, which is one of a few numbers; of a duration it is a number."""
    if call.whole.level is Level.DATE:
        return Value(in_range(call.whole.origin, _MOST_PARTS))
    return _computed(call)


def _formatted_instant(call: _InfluencedCall) -> Value:
    """Return a date as a format writes it: a date, where its parts stand apart as those of a date."""
    instant, form, *zone = (value.total() for value in call.values)
    zones = [as_choice(part) for part in zone if part]
    written = _literal_text(call.node.arguments[1])
    if written is None:
        return Value(stronger(_spelled(instant), _spelled(form), *zones), is_text=True)
    chosen = [part for part in (limited(instant, _INSTANT), *zones) if part]
    constants = _DIRECTIVE.split(written)
    if not all(constants[1:-1]):
        # Digits side by side are a number.
        return Value(_spelled(joined(chosen)), is_text=True)
    return Value(joined([*chosen, *constants]), is_text=True)


# -- texts


@_rule_of("string")
def _as_text(call: _InfluencedCall) -> Value:
    return Value(call.values[0].as_text(), is_text=True)


@_rule_of("lowerAscii upperAscii trim")
def _same_text(call: _InfluencedCall) -> Value:
    return Value(call.values[0].total(), is_text=True)


@_rule_of("dyn")
def _itself(call: _InfluencedCall) -> Value:
    return call.values[0]


def part_of_text(node: ExpressionNode, value: Value) -> Influence | str:
    """Return a part of a text that is joined: what is decided of it, or the constant that it is."""
    return str(node.value) if isinstance(node, LiteralValue) else value.as_text()


@_rule_of("join")
def _joined(call: _InfluencedCall) -> Value:
    listed, *between = call.values
    separator = part_of_text(call.node.arguments[0], between[0]) if between else ""
    if listed.items is not None:
        parts = [part for item in listed.items for part in (separator, item.as_text())][1:]
        return Value(stronger(joined(parts), listed.floor), is_text=True)
    whole = listed.as_text()
    if isinstance(separator, Influence) and separator:
        whole = joined([whole, separator])
    return Value(_spelled(whole), is_text=True)


@_rule_of("format")
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


@_rule_of("charAt substring")
def _cut(call: _InfluencedCall) -> Value:
    """Return a part of a text: of a trusted one, one of the parts that it has."""
    whole, *ends = (value.total() for value in call.values)
    places = stronger(*ends)
    if Level.NOTHING < whole.level < Level.TEXT:
        return Value(compounded(whole, as_choice(places)), is_text=True)
    if whole:
        return Value(whole, is_text=True)
    cut = _literal_text(call.node.target)
    # Beyond its last character there is one more place, where nothing is read.
    place = as_choice(places, None if cut is None else len(cut) + 1)
    return Value(compounded(*[place] * len(ends)), is_text=True)


@_rule_of("replace")
def _replaced(call: _InfluencedCall) -> Value:
    whole, old, new, *limit = (value.total() for value in call.values)
    if whole.level <= Level.RANGE and new.level <= Level.RANGE:
        # Both texts are trusted, so what is searched for only chooses where one becomes the other.
        parts = [whole, _chosen_parts(call.node, [old, *limit]), new]
        return Value(joined(parts), is_text=True)
    marks = map(_literal_text, call.node.arguments[:2])
    are_marks = all(mark is not None and _MARKS_OF_DATES.fullmatch(mark) for mark in marks)
    if whole.level is Level.DATE and are_marks:
        return Value(whole, is_text=True)
    return Value(text(call.whole.origin), is_text=True)


@_rule_of("split")
def _split(call: _InfluencedCall) -> Value:
    whole, *others = (value.total() for value in call.values)
    if not whole:
        # A trusted text, cut at places that are chosen: one of the lists that it can be cut into.
        return Value(elements=Value(is_text=True), floor=_chosen_parts(call.node, others))
    parts = together([whole, *others])
    shape = limited(parts, number(parts.origin))
    return Value(elements=Value(parts, is_text=True), shape=shape)


def _chosen_parts(node: FunctionCall, choosers: Sequence[Influence]) -> Influence:
    """Return the influence on a trusted text of what chooses which part of it is meant, wherever it
    stands, and how often: one of the parts that the text has.
    """
    cut, parts = _literal_text(node.target), None
    if cut is not None:
        parts = len(cut) * (len(cut) + 1) // 2 + 2
    return compounded(*(as_choice(chooser, parts) for chooser in choosers))


def _spelled(whole: Influence) -> Influence:
    """Return the influence on a text made of numbers or dates in a way that is not known."""
    return text(whole.origin) if whole.level in {Level.DATE, Level.NUMBER} else whole


def _literal_text(node: ExpressionNode | None) -> str | None:
    """Return the text that a node is; None where it is computed or read."""
    if isinstance(node, LiteralValue) and isinstance(node.value, str):
        return node.value
    return None


# -- lists


@_rule_of("reverse distinct slice sort")
def _same_elements(call: _InfluencedCall) -> Value:
    """Return a list of the same elements in another order, or of some of them."""
    listed, *places = call.values
    if not listed.is_list or listed.is_text:
        return _whatever(call)
    size = listed.most()
    match call.node.function:
        case "slice":
            slices = None if size is None else size * (size + 1) // 2 + 1
            by = stronger(*(place.total() for place in places))
            return rearranged(listed, as_choice(by, slices))
        case name:
            return reordered(listed, NOTHING if name == "reverse" else listed.key().total())


def reordered(owner: Value, by: Influence) -> Value:
    """Return the elements of a list in an order that something decides."""
    # How many there are decides which of them comes first, as of a list that is turned round.
    turned = as_choice(owner.count_of_this())
    return rearranged(owner, compounded(order(by, owner.most()), turned))


def rearranged(owner: Value, how: Influence) -> Value:
    """Return elements of a list in another order, or some of them."""
    shape = compounded(owner.count_of_this(), how)
    return Value(elements=owner.key(), shape=shape, floor=owner.floor, size=owner.most())


@_rule_of("min max math.least math.greatest")
def _extreme(call: _InfluencedCall) -> Value:
    first, *others = call.values
    if others:
        return either(call.values).chosen(as_choice(call.whole, len(call.values)))
    return first.key().chosen(as_choice(call.whole, first.most()))


@_rule_of("flatten")
def _flattened(call: _InfluencedCall) -> Value:
    (listed,) = call.values
    shape = stronger(listed.count(), as_choice(listed.total()))
    return Value(elements=listed.key().key(), shape=shape)


@_rule_of("zip")
def _zipped(call: _InfluencedCall) -> Value:
    """Return the list of what stands at one place of several lists of one length."""
    sizes = [size for value in call.values if (size := value.most()) is not None]
    return Value(
        elements=list_of([value.key() for value in call.values]),
        shape=compounded(*(value.count() for value in call.values)),
        size=min(sizes, default=None),
    )
