"""Short texts for values, violations, times and durations; entries in groups.

A *brief* value is short, on one line and recognisable, without characters that could control a
terminal. A time in an output is an ISO 8601 date or date-time, in UTC if it has no offset; a date
stands for its whole day.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from wavewright.config.sources import path_of_keys, pointer_keys
from wavewright.planner import Json
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.diagnostics.rendering import UNSEEN
from wavewright.planner.schemas.validation import SchemaViolation

_T = TypeVar("_T")
_K = TypeVar("_K", bound=Hashable)

ABSENT: Final = "absent"
"""The text for a value that is not there, as distinct from null."""

_MAX_CHARS = 60


def brief(value: Json, most: int = _MAX_CHARS) -> str:
    """Return a value on one line: in full where it is short, else its shape."""
    if isinstance(value, str):
        return json.dumps(shorten(value, most - 2), ensure_ascii=False)
    if isinstance(value, (list, dict)):
        if _is_small(value):
            text = json.dumps(value, ensure_ascii=False)
            if len(text) <= most:
                return text
        return shape(value, most)
    return json.dumps(value)


def shape(value: Json, most: int = _MAX_CHARS) -> str:
    """Return the type and size of a value, without any of its text but field names."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return counted(len(value), "character")
        case list():
            return counted(len(value), "entry", "entries")
        case dict():
            return "{" + shorten(", ".join(value), most - 2) + "}"


def shorten(text: str, most: int) -> str:
    """Return the text on one line, cut to `most` characters with an ellipsis."""
    line = " ".join(text[: most * 4 + 1].split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def listing(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Return the first `most` texts on one line, then the number of the others."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return f"{separator.join(texts[:most])}{more}"


def grouped(entries: Iterable[_T], key: Callable[[_T], _K]) -> dict[_K, list[_T]]:
    """Return entries by their key, the keys in the order in which they first occur."""
    groups: dict[_K, list[_T]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    return groups


def shorten_middle(text: str, most: int) -> str:
    """Return the text cut to `most` characters with an ellipsis in the middle; the ends tell names
    apart.
    """
    if len(text) <= most:
        return text
    end = max(0, (most - 1) // 2)
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


def visible(text: str) -> str:
    """Return the text with every control, format and surrogate character shown as its code point.

    Escape sequences, bidirectional overrides and characters that show nothing make a text look like
    another one; line breaks and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible_character(character) for character in text)


def look_up(value: Json, path: Sequence[str]) -> Iterator[tuple[str, Json | None, bool]]:
    """Yield path, value and presence of each node that a dotted path reaches.

    A list on the way is read entry by entry, unless the path gives a position.
    """
    yield from _look_up(value, tuple(path), "")


def _look_up(
    value: Json, path: tuple[str, ...], place: str
) -> Iterator[tuple[str, Json | None, bool]]:
    if not path:
        yield place, value, True
        return
    name, rest = path[0], path[1:]
    if isinstance(value, list):
        if name.isdecimal():
            position = int(name)
            if position < len(value):
                yield from _look_up(value[position], rest, f"{place}[{position}]")
            else:
                yield f"{place}[{position}]", None, False
            return
        if not value:
            yield f"{place}[].{'.'.join(path)}", None, False
        for position, entry in enumerate(value):
            yield from _look_up(entry, path, f"{place}[{position}]")
        return
    here = f"{place}.{name}" if place else name
    if isinstance(value, dict) and name in value:
        yield from _look_up(value[name], rest, here)
    else:
        yield here, None, False


def _is_small(value: Json, depth: int = 3) -> bool:
    """Whether a value may be short enough to be shown whole; inspects a handful of nodes only."""
    if isinstance(value, str):
        return len(value) <= _MAX_CHARS
    if isinstance(value, list):
        return depth > 0 and len(value) <= 8 and all(_is_small(entry, depth - 1) for entry in value)
    if isinstance(value, dict):
        return (
            depth > 0
            and len(value) <= 4
            and all(_is_small(entry, depth - 1) for entry in value.values())
        )
    return True


def _visible_character(character: str) -> str:
    is_hidden = unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    if character in "\n\t" or not (is_hidden or character in UNSEEN):
        return character
    return character.encode("unicode_escape").decode("ascii")


_MAX_MISFITS = 3


def misfit_texts(misfits: Sequence[SchemaViolation], value: Json) -> Iterator[str]:
    """Yield the first violations of a value with their paths, then the number of the others."""
    for misfit in misfits[:_MAX_MISFITS]:
        path = path_of_keys(pointer_keys(misfit.pointer), value) or "the top"
        yield f"{path} {shorten(misfit.message, 120)}"
    if len(misfits) > _MAX_MISFITS:
        yield f"and {len(misfits) - _MAX_MISFITS} more"


_DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The time of a datum: one instant for a date-time, a day for a date."""

    begin: dt.datetime
    end: dt.datetime

    def age(self, now: dt.datetime) -> float:
        """Return the minimum age in seconds, counted from the end of the span; never below zero."""
        return max(0.0, (now - self.end).total_seconds())

    def is_after(self, now: dt.datetime, leeway: float = 0.0) -> bool:
        """Whether it begins after `now` by more than the leeway in seconds."""
        return (self.begin - now).total_seconds() > leeway


def read_time(value: Json) -> TimeSpan | None:
    """Return the span of an ISO 8601 date or date-time; None for anything else."""
    if not isinstance(value, str) or len(value) > 64:
        return None
    text = value.strip()
    with contextlib.suppress(ValueError, OverflowError):
        day = dt.datetime.combine(dt.date.fromisoformat(text), dt.time(), dt.UTC)
        return TimeSpan(day, day + _DAY)
    with contextlib.suppress(ValueError, OverflowError):
        instant = _in_utc(dt.datetime.fromisoformat(text))
        return TimeSpan(instant, instant)
    return None


def _in_utc(instant: dt.datetime) -> dt.datetime:
    """Return the instant in UTC; one without an offset counts as UTC."""
    return instant.replace(tzinfo=dt.UTC) if instant.tzinfo is None else instant.astimezone(dt.UTC)


def iso(instant: dt.datetime) -> str:
    """Return an instant as ISO 8601 in UTC, to the second."""
    return _in_utc(instant).isoformat(timespec="seconds").replace("+00:00", "Z")


def iso_of_epoch(seconds: float) -> str:
    """Return seconds since the epoch as ISO 8601 in UTC, to the millisecond where there are any."""
    text = dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z").replace(".000Z", "Z")


def has_value(result: Json) -> bool:
    """Whether there is anything in a result."""
    match result:
        case None:
            return False
        case dict():
            return not result or any(map(has_value, result.values()))
        case _:
            return True


def duration_text(seconds: float) -> str:
    """Return a duration in the largest fitting unit: `0.4 s`, `45 min`, `24 h`, `16.7 years`."""
    for unit, size, least in (
        ("years", 31_557_600.0, 2),
        ("days", 86_400.0, 2),
        ("h", 3600.0, 2),
        ("min", 60.0, 2),
    ):
        if seconds >= least * size:
            return f"{_short_number(seconds / size)} {unit}"
    if seconds >= 1 or seconds == 0:
        return f"{_short_number(seconds)} s"
    return f"{_short_number(seconds * 1000)} ms"


def _short_number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 or abs(value - round(value)) < 0.05 else f"{value:.1f}"
