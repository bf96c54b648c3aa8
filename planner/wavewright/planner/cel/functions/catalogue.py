"""The functions of expressions: which exist, and how the documentation shows them.

The modules imported here declare them. On top of CEL's own functions, dates may be written plainly,
`/` always divides as numbers (JSON does not tell 3 from 3.0, so neither does a quotient), integers
and doubles mix, and lists can be summed up. `FUNCTIONS` is the list that the documentation prints.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from wavewright.config.errors import did_you_mean
from wavewright.planner.cel.errors import NO_TYPES_HINT, ExpressionError
from wavewright.planner.cel.functions import GLOBAL_FUNCTIONS, METHODS, lists, scalars, text
from wavewright.planner.cel.nodes import NAMESPACES, FunctionCall

__all__ = [
    "FUNCTIONS", "LENGTH_ALIASES", "check_function_exists", "filter_hint", "function_usage", "lists",
    "scalars", "text",
]  # fmt: skip

FUNCTIONS: Final[dict[str, str]] = {
    "now()": "the instant of the run, a timestamp",
    "has(steps.x)": "whether a field, and everything on the way to it, is there",
    'timestamp("2010-03-01")': (
        "a date or date-time (ISO 8601), or seconds since 1970, as timestamp; UTC where no zone is given"
    ),
    'duration("7d")': 'a duration; units ns, us, ms, s, m, h, d: duration("1h30m")',
    "size(x), x.size()": "length of a string, list or object",
    "x in list": "membership; for an object, whether it has the key",
    "list.all(x, c), list.exists(x, c), list.exists_one(x, c)": (
        "whether c holds for all, some, exactly one; list.all(i, x, c) has the place or key as well"
    ),
    "list.filter(x, c), list.map(x, e), list.map(x, c, e)": "a list of what passes, or of what e makes of it",
    "list.transformList(i, x, e), object.transformMap(k, v, e), object.transformMapEntry(k, v, {k: v})": (
        "a list or an object made of places (or keys) and values; a condition may stand before the last argument"
    ),
    "cel.bind(x, value, e)": "e with x in place of a value that is computed once",
    "list.sort(), list.sortBy(x, e), list.reverse()": (
        "the same elements in another order; sortBy(x, -x.score, x.name) takes several keys, '-' turns an order round"
    ),
    "list.maxBy(x, e), list.minBy(x, e)": "the element with the greatest, the least e; the first of equals",
    "zip(a, b), zip(a, b, c)": "lists of one length joined by place: [[a[0], b[0]], …]",
    "list.distinct(), list.flatten(), list.slice(from, to)": "parts of lists",
    "sum(list), avg(list)": "of numbers; also as methods: list.sum()",
    "min(list), max(list), min(a, b), max(a, b)": "of numbers or of strings; also as methods: list.max()",
    "lists.range(n)": "[0, 1, …, n-1]",
    "math.abs(x), math.round(x), math.floor(x), math.ceil(x), math.trunc(x), math.sqrt(x), math.sign(x)": "of a number",
    "math.greatest(a, b), math.least(a, b)": "other names of max and min",
    "math.isNaN(x), math.isInf(x), math.isFinite(x)": "of a number",
    "sets.contains(a, b), sets.equivalent(a, b), sets.intersects(a, b)": "lists taken as sets",
    "s.contains(t), s.startsWith(t), s.endsWith(t), s.matches(re)": "questions about a string (RE2 syntax)",
    "s.split(t), list.join(t), s.replace(a, b), s.substring(from, to), s.trim()": "parts of strings",
    "s.lowerAscii(), s.upperAscii(), s.reverse(), s.charAt(i), s.indexOf(t), s.lastIndexOf(t)": "of a string",
    "s.format([a, b]), strings.quote(s)": "%s %d %05d %f %.2f %-8s %e filled in; a quoted string",
    "format(t, '%Y-%m-%d'), format(t, '%d %B %Y, %H:%M', 'Europe/Berlin')": (
        "a timestamp, or a date as text, written as strftime does, in English; UTC where no zone is given"
    ),
    "string(x), int(x), double(x), bool(x), dyn(x)": (
        "conversion; int() cuts the fraction off, and gives the seconds since 1970 of a timestamp"
    ),
    "t.getFullYear(), t.getMonth(), t.getDate(), t.getDayOfMonth(), t.getDayOfWeek(), t.getDayOfYear()": (
        'parts of a timestamp, in UTC or in a time zone: t.getDate("Europe/Berlin"); only getDate() counts from 1'
    ),
    "t.getHours(), t.getMinutes(), t.getSeconds(), t.getMilliseconds()": (
        "parts of a timestamp; of a duration, all of it in whole units, and the milliseconds beyond seconds"
    ),
}
"""What expressions can call, with one line each."""


class FunctionEntry(NamedTuple):
    """One way to call a function, as the documentation shows it."""

    call: str
    """Such as `s.split(t)`."""
    meaning: str
    """What all that stand in one line of the documentation do."""

    @property
    def owner(self) -> str | None:
        """What a method is asked of, in the documentation's word; None for a function."""
        head, dot, _ = self.call.partition("(")[0].rpartition(".")
        return head if dot and head not in NAMESPACES else None

    @property
    def name(self) -> str:
        """The name that is called; that of a method without what it is asked of."""
        head = self.call.partition("(")[0]
        return head if self.owner is None else head.rpartition(".")[2]


def function_entries() -> Iterator[FunctionEntry]:
    """Yield every way to call a function; operators are none."""
    for calls, meaning in FUNCTIONS.items():
        for call in re.findall(r"[\w.]+\((?:[^()]|\([^()]*\))*\)", calls):
            yield FunctionEntry(call, meaning)


def function_usage(function: str) -> str | None:
    """Return the lines of the reference that show a function; None where there are none."""
    called = re.compile(rf"\b{re.escape(function.rsplit('.', 1)[-1])}\(")
    lines = [f"{usage}: {meaning}" for usage, meaning in FUNCTIONS.items() if called.search(usage)]
    return "; ".join(lines) or None


LENGTH_ALIASES: Final = frozenset({"length", "len", "count"})
"""What other languages call size()."""
_FOREIGN_FUNCTIONS: Final = {
    **dict.fromkeys(LENGTH_ALIASES, "write x.size()"),
    "upper": "write s.upperAscii()", "toUpperCase": "write s.upperAscii()",
    "lower": "write s.lowerAscii()", "toLowerCase": "write s.lowerAscii()",
    "str": "write string(x)", "toString": "write string(x)", "float": "write double(x)",
    "includes": "write s.contains(t), or x in list", "strip": "write s.trim()",
    "round": "write math.round(x)", "abs": "write math.abs(x)", "unique": "write list.distinct()",
    "first": "write list[0]", "last": "write list[list.size() - 1]",
    "default": "write has(steps.x.field) ? steps.x.field : other",
    "joined": "write joined(steps.NAME)", "now": "write now()",
    "every": "write list.all(x, x.n > 1)",
    "uint": "JSON has no unsigned integers: write int(x)",
    "bytes": "JSON has no bytes: leave them to a tool",
    **dict.fromkeys(("encode", "decode"), "JSON has no bytes: leave them to a tool"),
    **dict.fromkeys(
        ("groupBy", "group_by", "countBy"),
        "write list.map(x, x.key).distinct() for its keys, and filter() for what has one of them",
    ),
    **dict.fromkeys(("type", "typeof", "isinstance"), NO_TYPES_HINT),
    **dict.fromkeys(
        ("math.bitAnd", "math.bitOr", "math.bitXor", "math.bitNot", "math.bitShiftLeft", "math.bitShiftRight"),
        "integers of JSON have no bits: leave them to a tool",
    ),
}  # fmt: skip
"""What functions, methods and filters of other languages are here."""


def filter_hint(name: str) -> str | None:
    """Return what is written in place of a filter of a template language, such as `| length`."""
    written = _FOREIGN_FUNCTIONS.get(name, f"write x.{name}(…)" if name in METHODS else None)
    return None if written is None else f"there are no filters: {written}"


def check_function_exists(call: FunctionCall) -> None:
    """Refuse a call of a function or method that does not exist.

    Raises:
        ExpressionError: it does not exist.
    """
    if call.target is None and call.function == "joined":
        # A plan's `joined(steps.NAME)` was put in where it names a step that has items.
        raise ExpressionError(
            "unknown_name_or_field",
            "joined() takes a step with `for_each`, and this is none",
            call.name_start,
            "write joined(steps.NAME), or zip(a, b) for two lists of one length",
        )
    known = {*GLOBAL_FUNCTIONS, "now"} if call.target is None else METHODS
    if call.function in known:
        return
    word = "function" if call.target is None else "method"
    hint = _FOREIGN_FUNCTIONS.get(call.function) or did_you_mean(call.function, known)
    if call.target is None and call.function in METHODS:
        hint = f"it is a method: value.{call.function}(…)"
    elif call.target is not None and call.function in GLOBAL_FUNCTIONS:
        hint = f"it is a function: {call.function}(value)"
    raise ExpressionError(
        "unknown_name_or_field", f"there is no {word} '{call.function}'", call.name_start, hint
    )
