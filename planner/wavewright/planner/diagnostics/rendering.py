"""Render diagnostics as text with a caret, as JSON, and as SARIF 2.1.0.

Control characters, direction marks and other characters that do not print are escaped, so a hostile
plan cannot change what a terminal shows.
"""

from __future__ import annotations

import json
import re
import textwrap
import unicodedata
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Final
from urllib.parse import quote

from wavewright.config.sources import Source, Span
from wavewright.planner.diagnostics.diagnostic import Diagnostic, catalogue
from wavewright.planner.types import Json, JsonObject

_LINE_WIDTH = 100
_TAB = "    "
_ELLIPSIS = "…"


@dataclass(frozen=True, slots=True)
class LineRange:
    """Lines and columns of a span, counted from 1; the end is the column behind the last character."""

    line: int
    column: int
    end_line: int
    end_column: int


class LineIndex:
    """The lines of a source, for finding the place of many spans."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self._starts = [0]
        offset = source.text.find("\n")
        while offset >= 0:
            self._starts.append(offset + 1)
            offset = source.text.find("\n", offset + 1)

    def locate(self, span: Span) -> LineRange:
        """Return where a span stands."""
        line, column = self._position(span.start)
        end_line, end_column = self._position(max(span.start, span.end))
        return LineRange(line, column, end_line, end_column)

    def line_text(self, line: int) -> str:
        """Return a line without its line break."""
        start = self._starts[line - 1]
        end = self._starts[line] if line < len(self._starts) else len(self.source.text)
        return self.source.text[start:end].rstrip("\r\n")

    def _position(self, offset: int) -> tuple[int, int]:
        offset = max(0, min(offset, len(self.source.text)))
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def render_text(diagnostics: Sequence[Diagnostic], source: Source) -> str:
    """Return the diagnostics as text, one block each, with an empty line between.

    >>> from wavewright.planner import check, read_plan, render_text
    >>> text = read_plan('{"steps": [{"id": "a", "tool": "rank"}]}', "plan.json")
    >>> print(render_text(check(text.plan, None, {}), text.source).splitlines()[0])
    error[E201]: step 'a' calls 'rank', and there is no such tool
    """
    lines = LineIndex(source)
    return "\n\n".join(_block(diagnostic, lines) for diagnostic in diagnostics)


def render_json(diagnostics: Sequence[Diagnostic], source: Source) -> list[JsonObject]:
    """Return the diagnostics as values of JSON; places are null where there is no source text.

    >>> from wavewright.config import Source
    >>> from wavewright.planner import Diagnostic, render_json
    >>> [shown] = render_json([Diagnostic("E201", "there is no tool 'rank'")], Source("p.json", "{}"))
    >>> shown["code"], shown["severity"]
    ('E201', 'error')
    """
    lines = LineIndex(source)
    return [_as_json(diagnostic, lines) for diagnostic in diagnostics]


def _as_json(diagnostic: Diagnostic, lines: LineIndex) -> JsonObject:
    place = lines.locate(diagnostic.span) if diagnostic.span is not None else None
    return {
        "code": diagnostic.code,
        "kind": diagnostic.kind,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "file": lines.source.name,
        "pointer": diagnostic.pointer,
        "line": place.line if place else None,
        "column": place.column if place else None,
        "end_line": place.end_line if place else None,
        "end_column": place.end_column if place else None,
        "hint": diagnostic.hint,
    }


def printable(text: str) -> str:
    """Return text in which every character that does not print stands as an escape."""
    return _shown(text, "", _escaped)


def printable_lines(text: str) -> str:
    """Return text as `printable` does, with its line breaks and tabs."""
    return _shown(text, "\n\t", _escaped)


def printable_json(value: object, indent: int | None = None) -> str:
    """Return JSON text in which every character that does not print stands as an escape of JSON.

    Raises:
        TypeError: the value is no JSON.
    """
    return escape_json(json.dumps(value, indent=indent, ensure_ascii=False))


def escape_json(text: str) -> str:
    """Return the same JSON with an escape in place of every character that does not print."""
    return _shown(text, "\n", _escaped_in_json)


def cut_middle(text: str, limit: int) -> str:
    """Return a text of about `limit` characters at most: its beginning and, twice as long, its end."""
    if len(text) <= limit:
        return text
    head = limit // 3
    left_out = len(text) - limit
    return f"{text[:head]}\n… {left_out:,} characters left out …\n{text[head + left_out :]}"


def display_columns(char: str) -> int:
    """Return how many columns of a terminal a character takes."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in {"W", "F"} else 1


def display_width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return sum(map(display_columns, text))


def cut_line(text: str, width: int) -> str:
    """Return a line of so many columns at most, with `…` where it is cut."""
    ends = [*accumulate(map(display_columns, text))]
    if not ends or ends[-1] <= width:
        return text
    return text[: bisect_right(ends, width - 1)] + "…"


_SECOND_HALF = "\x00"
"""Stands for a character's second column while lines are wrapped; `printable` leaves none in a
text.
"""
_AFTER_WIDE_CHARACTER = re.compile(f"(?<={_SECOND_HALF})")


def wrap_paragraph(
    text: str, *, indent: str = "", rest: str = "", width: int = 80, breaks_words: bool = False
) -> list[str]:
    """Return a paragraph as `wrap_line` does, with one space between its words."""
    joined = " ".join(text.split())
    return wrap_line(joined, indent=indent, rest=rest, width=width, breaks_words=breaks_words)


def wrap_line(
    text: str, *, indent: str = "", rest: str = "", width: int = 80, breaks_words: bool = False
) -> list[str]:
    """Return a text as printable lines of so many columns, the first with one indent, the others
    with another.

    A Latin letter takes a column, a Chinese character two. Lines break at spaces and between wide
    characters; a word longer than a line is broken on demand only.
    """
    measured = "".join(
        char + _SECOND_HALF * (display_columns(char) - 1) for char in printable(text)
    )
    wrapper = _ColumnWrapper(
        width,
        initial_indent=indent,
        subsequent_indent=rest,
        break_long_words=breaks_words,
    )
    return [line.replace(_SECOND_HALF, "") for line in wrapper.wrap(measured)] or [indent.rstrip()]


class _ColumnWrapper(textwrap.TextWrapper):
    """May break a line after each wide character."""

    def _split(self, text: str) -> list[str]:
        return [
            part
            for word in super()._split(text)
            for part in _AFTER_WIDE_CHARACTER.split(word)
            if part
        ]


_VARIANTS: Final = (*range(0x180B, 0x1810), *range(0xFE00, 0xFE0E), *range(0xE0100, 0xE01F0))
UNSEEN: Final = frozenset(
    {*"\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0", *map(chr, _VARIANTS)}
)
"""Characters that count as printed and show nothing: fillers, a blank, and selectors of variants other
than those that emoji have.
"""


def _shown(text: str, kept: str, escaped: Callable[[str], str]) -> str:
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        char if char in kept or (char.isprintable() and char not in UNSEEN) else escaped(char)
        for char in text
    )


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _escaped_in_json(char: str) -> str:
    return "".join(f"\\u{unit[0]:02x}{unit[1]:02x}" for unit in _utf16_units(char))


def _utf16_units(char: str) -> list[bytes]:
    encoded = char.encode("utf-16-be", "surrogatepass")
    return [encoded[start : start + 2] for start in range(0, len(encoded), 2)]


def _block(diagnostic: Diagnostic, lines: LineIndex) -> str:
    head = f"{diagnostic.severity}[{diagnostic.code}]: {printable(diagnostic.message)}"
    name = printable(lines.source.name)
    if diagnostic.span is None:
        where = f" (at {printable(diagnostic.pointer)})" if diagnostic.pointer else ""
        margin = "  "
        body = [f"{margin}--> {name}{where}"]
    else:
        place = lines.locate(diagnostic.span)
        margin = " " * len(str(place.line))
        body = [f"{margin}--> {name}:{place.line}:{place.column}", *_excerpt(place, lines, margin)]
    if diagnostic.hint:
        body.append(f"{margin} = help: {printable(diagnostic.hint)}")
    return "\n".join([head, *body])


def _excerpt(place: LineRange, lines: LineIndex, margin: str) -> list[str]:
    text = lines.line_text(place.line)
    if not text.strip():
        return []
    start = min(place.column - 1, len(text))
    end = place.end_column - 1 if place.end_line == place.line else len(text)
    text, start, end = _trimmed(text, start, min(max(end, start + 1), max(len(text), start + 1)))
    before, marked = _text_columns(text[:start]), _text_columns(text[start:end])
    caret = " " * before + "^" * max(1, marked)
    return [f"{margin} |", f"{place.line} | {_display_text(text)}", f"{margin} | {caret}"]


def _trimmed(text: str, start: int, end: int) -> tuple[str, int, int]:
    """Cut a long line to what stands around the marked stretch; also that stretch is cut to fit."""
    if len(text) <= _LINE_WIDTH:
        return text, start, end
    end = min(end, start + _LINE_WIDTH - 30)
    left = max(0, min(start - 20, len(text) - _LINE_WIDTH))
    right = min(len(text), left + _LINE_WIDTH)
    head, tail = (_ELLIPSIS if left else ""), (_ELLIPSIS if right < len(text) else "")
    shift = len(head) - left
    return f"{head}{text[left:right]}{tail}", start + shift, end + shift


def _display_text(text: str) -> str:
    return printable(text.replace("\t", _TAB))


def _text_columns(text: str) -> int:
    """Return how many columns of a terminal a stretch of a line takes."""
    return display_width(_display_text(text))


SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def sarif_log(found: Sequence[tuple[Sequence[Diagnostic], Source]]) -> JsonObject:
    """Return the diagnostics of any number of texts as one SARIF log; its rules are those that were
    broken.

    >>> from wavewright.config import Source
    >>> from wavewright.planner import Diagnostic, sarif_log
    >>> log = sarif_log([([Diagnostic("E201", "there is no tool 'rank'")], Source("p.json", "{}"))])
    >>> log["version"]
    '2.1.0'
    """
    codes = sorted({diagnostic.code for diagnostics, _ in found for diagnostic in diagnostics})
    results: list[Json] = []
    for diagnostics, source in found:
        lines = LineIndex(source)
        results += [_result(diagnostic, codes, lines) for diagnostic in diagnostics]
    rules: list[Json] = [_rule(code) for code in codes]
    driver: JsonObject = {"name": "wavewright", "rules": rules}
    run: JsonObject = {
        "tool": {"driver": driver},
        # Columns are counted in characters, as everywhere else in this project, not in UTF-16
        # units.
        "columnKind": "unicodeCodePoints",
        "results": results,
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(code: str) -> JsonObject:
    entry = catalogue()[code]
    return {
        "id": code,
        "name": entry.kind,
        "shortDescription": {"text": entry.title},
        "fullDescription": {"text": entry.meaning},
        "help": {"text": entry.fix},
        "defaultConfiguration": {"level": entry.severity},
    }


def _result(diagnostic: Diagnostic, codes: list[str], lines: LineIndex) -> JsonObject:
    hint = f"\nHelp: {diagnostic.hint}" if diagnostic.hint else ""
    location: JsonObject = {"physicalLocation": _physical(diagnostic, lines)}
    if diagnostic.pointer:
        location["logicalLocations"] = [{"fullyQualifiedName": diagnostic.pointer, "kind": "value"}]
    return {
        "ruleId": diagnostic.code,
        "ruleIndex": codes.index(diagnostic.code),
        "level": diagnostic.severity,
        "message": {"text": f"{diagnostic.message}{hint}"},
        "locations": [location],
    }


def _physical(diagnostic: Diagnostic, lines: LineIndex) -> JsonObject:
    physical: JsonObject = {"artifactLocation": {"uri": _uri(lines.source.name)}}
    if diagnostic.span is not None:
        place = lines.locate(diagnostic.span)
        physical["region"] = {
            "startLine": place.line,
            "startColumn": place.column,
            "endLine": place.end_line,
            "endColumn": place.end_column,
        }
    return physical


def _uri(name: str) -> str:
    path = Path(name)
    return path.as_uri() if path.is_absolute() else quote(path.as_posix())
