"""Functions of text: its parts, conversion to it, regular expressions and `format`."""

# Annotations are not deferred: they are the signatures of expressions.

import datetime as dt
import importlib
import math
import re
from collections.abc import Callable
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple, cast

from wavewright.planner.cel.errors import CostTracker, ExpressionError, too_large_error
from wavewright.planner.cel.functions import GLOBAL_FUNCTIONS, METHODS
from wavewright.planner.cel.functions.lists import Number
from wavewright.planner.cel.functions.scalars import duration_text, timestamp_text
from wavewright.planner.cel.operators import as_number, evaluation_error

_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_UPPER = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_ESCAPES = str.maketrans(
    {
        "\\": r"\\",
        '"': r"\"",
        "\a": r"\a",
        "\b": r"\b",
        "\f": r"\f",
        "\n": r"\n",
        "\r": r"\r",
        "\t": r"\t",
        "\v": r"\v",
    }
)
_WRITING_COST = 12
"""Operations that it takes to write a double, an instant or a duration."""
_ELEMENT_COST = 4
"""Operations of a short text in a list."""


def _declare_text_test(name: str, compute: Callable[[str, str], bool]) -> None:
    def run(cost: CostTracker, text: str, part: str) -> bool:
        cost.count_search(text, part)
        return compute(text, part)

    METHODS.declare(name)(run)


_declare_text_test("contains", lambda text, part: part in text)
_declare_text_test("startsWith", str.startswith)
_declare_text_test("endsWith", str.endswith)


@METHODS.declare("indexOf")
def _index(cost: CostTracker, text: str, part: str, start: int = 0) -> int:
    _check_text_index(text, start)
    cost.count_search(text, part)
    return text.find(part, start)


@METHODS.declare("lastIndexOf")
def _last_index(cost: CostTracker, text: str, part: str, start: int | None = None) -> int:
    cost.count_operations(
        len(text) * (len(part) + 2) // 1024
    )  # Python searches in linear time from the left only
    if start is None:
        return text.rfind(part)
    _check_text_index(text, start)
    return text.rfind(part, 0, start + len(part))


def _check_text_index(text: str, place: int) -> None:
    if not 0 <= place <= len(text):
        raise evaluation_error(f"there is no place {place} in a text of {len(text)} characters")


@METHODS.declare("charAt")
def _char_at(cost: CostTracker, text: str, place: int) -> str:
    _check_text_index(text, place)
    cost.count_text(64, text[place : place + 1])
    return text[place : place + 1]


@METHODS.declare("substring")
def _substring(cost: CostTracker, text: str, start: int, end: int | None = None) -> str:
    _check_text_index(text, start)
    end = len(text) if end is None else end
    _check_text_index(text, end)
    if end < start:
        raise evaluation_error(f"substring() ends at {end}, before it starts at {start}")
    cost.count_text(end - start, text)
    return text[start:end]


@METHODS.declare("split")
def _split(cost: CostTracker, text: str, separator: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    cost.count_search(text, separator)
    count = len(text) - 1 if not separator else text.count(separator)
    cuts = max(count if limit < 0 else min(limit - 1, count), 0)
    cost.count_operations((cuts + 1) * _ELEMENT_COST)
    cost.count_text(len(text), text)
    if separator:
        return text.split(separator, cuts)
    return [*text[:cuts], text[cuts:]]


@METHODS.declare("replace")
def _replace(cost: CostTracker, text: str, old: str, new: str, limit: int = -1) -> str:
    cost.count_search(text, old)
    count = text.count(old) if limit < 0 else min(limit, text.count(old))
    cost.count_text(max(len(text), len(text) + count * (len(new) - len(old))), text, new)
    cost.count_operations(count // 8)
    return text.replace(old, new, limit)


@METHODS.declare("join")
def _join(cost: CostTracker, values: list[str], separator: str = "") -> str:
    cost.count_list(len(values))
    if not all(isinstance(value, str) for value in cast("list[object]", values)):
        raise evaluation_error("join() takes strings only: list.map(x, string(x)).join()")
    cost.count_text(sum(map(len, values)) + len(separator) * len(values), separator, *values)
    return separator.join(values)


@METHODS.declare("trim")
def _trim(cost: CostTracker, text: str) -> str:
    cost.count_text(len(text), text)
    trimmed = text.strip(_SPACE)
    cost.count_operations((len(text) - len(trimmed)) // 50)
    return trimmed


def _declare_translation(name: str, table: dict[int, int]) -> None:
    def run(cost: CostTracker, text: str) -> str:
        cost.count_text(len(text), text)
        return text.translate(table)

    METHODS.declare(name)(run)


_declare_translation("upperAscii", _UPPER)
_declare_translation("lowerAscii", _LOWER)


@METHODS.declare("reverse")
def _reverse(cost: CostTracker, text: str) -> str:
    cost.count_text(len(text), text)
    return text[::-1]


@GLOBAL_FUNCTIONS.declare("strings.quote")
def _quote(cost: CostTracker, text: str) -> str:
    cost.count_text(2 * len(text) + 2, text)
    return f'"{text.translate(_ESCAPES)}"'


@GLOBAL_FUNCTIONS.declare("string")
def _string(
    cost: CostTracker,
    value: str | Number | bool | dt.datetime | dt.timedelta,  # noqa: FBT001
) -> str:
    match value:
        case str():
            return value
        case float():
            cost.count_operations(_WRITING_COST)
            return _double_text(value)
        case _:
            return _display(cost, value)


def _double_text(value: float) -> str:
    """Return the shortest text that reads as a double; with an exponent where C's `%g` has one."""
    if not math.isfinite(value):
        return str(value)
    _, digits, last = Decimal(repr(value)).normalize().as_tuple()
    exponent = len(digits) + cast("int", last) - 1
    if -4 <= exponent < 6:
        return f"{value:.{max(len(digits) - 1 - exponent, 0)}f}"
    return f"{value:.{len(digits) - 1}e}"


def _integer_text(cost: CostTracker, value: int) -> str:
    words = value.bit_length() // 64
    if words > _MAX_INTEGER_WORDS:
        raise too_large_error("an integer of more than 4,000 digits is not written")
    cost.count_operations(2 * words + words * words // 64)  # quadratic time, in Python
    return str(int(value))


def _display(cost: CostTracker, value: object) -> str:
    """Return what `%s` shows."""
    cost.count_operations(1)
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return value
        case int():
            return _integer_text(cost, value)
        case float():
            return f"{value:g}" if math.isfinite(value) else _special_double(value)
        case list():
            texts = [_display(cost, item) for item in cast("list[object]", value)]
            return _bracketed(cost, "[", texts, "]")
        case dict():
            fields = cast("dict[object, object]", value)
            cost.count_operations(8 * len(fields))
            shown = sorted(
                f"{_display(cost, key)}: {_display(cost, item)}" for key, item in fields.items()
            )
            return _bracketed(cost, "{", shown, "}")
        case dt.datetime():
            cost.count_operations(_WRITING_COST)
            return timestamp_text(value)
        case dt.timedelta():
            cost.count_operations(_WRITING_COST)
            return duration_text(value)
        case _:
            return str(value)


def _bracketed(cost: CostTracker, opening: str, texts: list[str], closing: str) -> str:
    cost.count_list(len(texts))
    cost.count_text(sum(map(len, texts)) + 2 * len(texts) + 2, *texts)
    return f"{opening}{', '.join(texts)}{closing}"


def _special_double(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


_CLAUSE = re.compile(
    r"%(?P<flags>[-0]*)(?P<width>\d*)(?:\.(?P<precision>\d*))?(?P<kind>.?)", re.DOTALL
)
_CLAUSE_KINDS: Final = frozenset("sdfe")
_MAX_INTEGER_WORDS = 200
_MAX_PRECISION = 1000
_CLAUSE_COST = 4


@METHODS.declare("format")
def _format(cost: CostTracker, text: str, values: list[object]) -> str:
    cost.count_search(text, "%")
    pieces: list[str] = []
    end = used = 0
    for match in _CLAUSE.finditer(text):
        cost.count_operations(_CLAUSE_COST)
        pieces.append(text[end : match.start()])
        end = match.end()
        if match[0] == "%%":
            pieces.append("%")
            continue
        if used == len(values):
            raise evaluation_error(
                f"format() is given {len(values)} values, and '{match[0]}' asks for one more"
            )
        pieces.append(_padded(cost, match, _clause(cost, match, values[used])))
        used += 1
    pieces.append(text[end:])
    cost.count_list(len(pieces))
    cost.count_text(sum(map(len, pieces)), *pieces)
    return "".join(pieces)


class FormatClause(NamedTuple):
    """One place of a format that a value is filled into."""

    text: str
    """Such as `%05d`."""
    takes_numbers_only: bool


def text_format_clauses(text: str) -> list[FormatClause]:
    """Return the clauses of a format.

    Raises:
        ExpressionError: there is no such clause.
    """
    clauses = list[FormatClause]()
    for match in _CLAUSE.finditer(text):
        if match[0] == "%%":
            continue
        precision, width = match["precision"], match["width"]
        if match["kind"] not in _CLAUSE_KINDS or precision == "":
            raise _no_clause_error(match[0])
        if int((precision or "0")[:5]) > _MAX_PRECISION or int((width or "0")[:5]) > _MAX_PRECISION:
            raise evaluation_error(f"'{match[0][:20]}' of format() is wider than {_MAX_PRECISION}")
        clauses.append(FormatClause(match[0], match["kind"] != "s"))
    return clauses


def _no_clause_error(clause: str) -> ExpressionError:
    return evaluation_error(f"format() has no clause '{clause[:20]}': %s %d %f %e %%")


def _padded(cost: CostTracker, found: re.Match[str], text: str) -> str:
    """Return the text of a clause as wide as it asks for: `%5d` on the right, `%-5s` on the left,
    `%05d` with zeros.
    """
    if not found["width"]:
        return text
    width = int(found["width"][:5])
    if width > _MAX_PRECISION:
        raise evaluation_error(f"'{found[0][:20]}' of format() is wider than {_MAX_PRECISION}")
    cost.count_text(width, text)
    if "-" in found["flags"]:
        return text.ljust(width)
    return text.zfill(width) if "0" in found["flags"] else text.rjust(width)


def _clause(cost: CostTracker, found: re.Match[str], value: object) -> str:
    """Return what one clause of a format shows for a value."""
    digits = found["precision"]
    kind, precision = found["kind"], digits or ("" if digits is None else "?")
    if precision == "?" or len(precision) > 4 or int(precision or 0) > _MAX_PRECISION:
        raise evaluation_error(
            f"'{found[0][:20]}' of format() has no precision from 0 to {_MAX_PRECISION}"
        )
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    if kind == "s":
        return _display(cost, value)
    if kind and kind in "fed" and isinstance(value, float) and not math.isfinite(value):
        return _special_double(value)
    if kind == "d" and is_integer:
        return _integer_text(cost, cast("int", value))
    if kind and kind in "fed" and (is_integer or isinstance(value, float)):
        number = float(as_number(cast("float", value)))
        cost.count_operations(int(precision or 0) // 4 + (8 if 1e-22 < abs(number) < 1e22 else 48))
        text = f"{number:.{precision or 6}{'f' if kind == 'd' else kind}}"
        cost.count_text(len(text))
        return text
    if kind and kind in "fed":
        raise evaluation_error(
            f"'{found[0]}' of format() does not take {_display(cost, value)[:60]!r}"
        )
    raise _no_clause_error(found[0])


MAX_MATCHED_LENGTH: Final = 2**20
"""Characters that matches() searches at most."""
_MAX_PATTERN_MEMORY: Final = 2**21
"""Bytes of a compiled regular expression; the library keeps 128 of them."""
_MAX_COMPILED = 16
"""Regular expressions that are kept."""
_REPEATED = re.compile(r"\{(\d+)(?:,(\d*))?\}")
_COMPILED = 150
"""Operations that it takes to compile a regular expression, whatever it says."""
_CLASS = 8
"""Operations that it takes to compile a class of a regular expression."""
_WIDE_CLASS = 4000
"""The same for a class of Unicode, such as `\\pL`."""
_MAX_REPEATS = 1000
"""Repetitions, in repetitions too, that RE2 takes."""


@GLOBAL_FUNCTIONS.declare("matches")
@METHODS.declare("matches")
def _matches(cost: CostTracker, text: str, pattern: str) -> bool:
    length = len(text) + len(pattern)
    if length > MAX_MATCHED_LENGTH:
        raise too_large_error(f"matches() takes up to {MAX_MATCHED_LENGTH:,} characters at once")
    if pattern not in cost.patterns:
        if len(cost.patterns) == _MAX_COMPILED:
            cost.patterns.clear()
        cost.patterns.add(pattern)
        cost.count_operations(_COMPILED)
    _charge_pattern(cost, pattern, length)
    return _compiled(pattern).search(text.encode()) is not None


@lru_cache(maxsize=_MAX_COMPILED)  # the library has a cache, too, which takes 40 us to ask
def _compiled(pattern: str) -> Any:
    re2: Any = importlib.import_module("re2")
    options = re2.Options()
    options.max_mem, options.never_capture, options.log_errors = _MAX_PATTERN_MEMORY, True, False
    try:
        return re2.compile(pattern.encode(), options)
    except re2.error as fault:
        reason = fault.args[0] if fault.args else b""
        shown = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise evaluation_error(f"invalid regular expression: {shown[:200]}") from None


def _charge_pattern(cost: CostTracker, pattern: str, characters: int) -> None:
    """Count that a regular expression is compiled, and how it goes over so many characters at
    worst.
    """
    repeats = 1
    for match in _REPEATED.finditer(pattern):
        most = (match[2] or match[1])[:4]
        repeats = min(repeats * max(int(most), 1), _MAX_REPEATS)
    classes = sum(map(pattern.count, (".", "[", "\\")))
    wide = pattern.count("\\p") + pattern.count("\\P")
    cost.count_operations((len(pattern) + _CLASS * classes + _WIDE_CLASS * wide) * repeats)
    cost.count_operations(characters * len(pattern) * repeats // 300)
