"""Values put into few words.

Records and reports say what was looked at; a value there is *brief*: short, on one line, and recognisable. Nothing
here changes a value, and no text from outside keeps a character that could steer a terminal.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Final

from wavewright.planner.types import Json

ABSENT: Final = "absent"
"""What stands for a value that is not there, which is something else than null."""

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
    """Return what kind of value it is and how large, without any of its text but field names."""
    match value:
        case None:
            return "null"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return _counted(len(value), "character")
        case list():
            return _counted(len(value), "entry", "entries")
        case dict():
            return "{" + shorten(", ".join(value), most - 2) + "}"


def shorten(text: str, most: int) -> str:
    """Return the text on one line, cut to `most` characters with an ellipsis."""
    line = " ".join(text[: most * 4 + 1].split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def path_text(path: Sequence[str | int]) -> str:
    """Return a path into a value as it is written in a program: `rows[3].close`."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".") or "the top"


def visible(text: str) -> str:
    """Return the text with every control, format and surrogate character shown as its code point.

    Escape sequences, bidirectional overrides and zero-width characters let a text look like another one; line
    breaks and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_visible_character(character) for character in text)


def is_empty(value: Json) -> bool:
    """Whether a value says nothing: null, `""`, `[]` or `{}`."""
    return value is None or (isinstance(value, (str, list, dict)) and not value)


def look_up(value: Json, path: Sequence[str]) -> Iterator[tuple[str, Json | None, bool]]:
    """Yield place, value and presence for each node that a dotted path reaches.

    A list on the way is read entry by entry, unless the path gives a position.
    """
    yield from _look_up(value, tuple(path), "")


def _look_up(value: Json, path: tuple[str, ...], place: str) -> Iterator[tuple[str, Json | None, bool]]:
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
    """Whether a value may be short enough to be written out; looks at a handful of nodes only."""
    if isinstance(value, str):
        return len(value) <= _MAX_CHARS
    if isinstance(value, list):
        return depth > 0 and len(value) <= 8 and all(_is_small(entry, depth - 1) for entry in value)
    if isinstance(value, dict):
        return depth > 0 and len(value) <= 4 and all(_is_small(entry, depth - 1) for entry in value.values())
    return True


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def _visible_character(character: str) -> str:
    if character in "\n\t" or unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Zl", "Zp"}:
        return character
    return character.encode("unicode_escape").decode("ascii")
