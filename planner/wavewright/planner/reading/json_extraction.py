"""Find the JSON values in a model's raw answer: prose, code fences, several objects, broken ones.

A *found value* has its place in the text. Prose is skipped. Inside a broken value its complete
parts are found and marked, and the report says what was not read and why. A broken value that holds
any part of a plan is never skipped: its remains must not be taken for a whole plan. The time is
linear in the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from wavewright.config.documents import decode
from wavewright.config.readers.json_cursor import FENCE, JsonDeparture, ScanError
from wavewright.config.readers.json_scanner import JsonScanner
from wavewright.config.sources import (
    DocumentError,
    DocumentFault,
    Node,
    ObjectNode,
    ReadLimits,
    ScalarNode,
    Source,
    Span,
    iterate_nodes,
    plain_value,
)
from wavewright.planner.reading.thinking import (
    THINKING_BEGINS,
    THINKING_ENDS,
    end_of_thinking,
)
from wavewright.planner.types import Json

_GAP = "(?:[ \t\n\r\ufeff\u200b-\u200d\u2060\u00a0\u202f]++|(?:#|//)[^\n]{0,400}+\n|/\\*[^*]{0,400}+\\*/)*"
_QUOTE = "[\"'\u201c\u201d\u201e\u2018\u2019]"
_NO_QUOTE = "[^\"'\u201c\u201d\u201e\u2018\u2019\n]"
_KEY = f"(?:{_QUOTE}{_NO_QUOTE}{{0,80}}+{_QUOTE}|[A-Za-z_$][A-Za-z0-9_$]{{0,80}}+)"
_START = re.compile(
    # reasoning
    rf"(?P<think>{THINKING_BEGINS})"
    # an object: `{` with a key and its colon, or nothing, behind it, or the end of the answer
    rf"|\{{(?={_GAP}(?:\}}|{_KEY}{_GAP}(?::|\Z)|{_QUOTE}{_NO_QUOTE}{{0,400}}+\Z|\Z))"
    # a list: `[` with what may begin a value behind it
    rf"|\[(?={_GAP}(?:[\[\]{{0-9tfnTFN-]|{_QUOTE}|\Z))"
    # JSON in a string
    r'|"(?=[ \t\n\r]*+[\[{][ \t\n\r]*+\\")',
    re.IGNORECASE,
)
_THINK_END = re.compile(THINKING_ENDS, re.IGNORECASE)
_FIRST = re.compile(rf"\s*+(?!{THINKING_BEGINS})(?=[\[{{\"])")
_PLAN_WORD = re.compile(r"steps|tool|depends|params", re.IGNORECASE)
_ELIDED = re.compile(r"\.\.\.|…")
_SURPLUS = re.compile(r"(?:[ \t\n\r]*+[}\]])+")
_CONTINUES = re.compile(
    rf"{_GAP},{_GAP}(?:{_QUOTE}|[\[{{]|[A-Za-z_$][A-Za-z0-9_$]{{0,80}}+{_GAP}:)"
)
_KEY_BEFORE = re.compile(rf"(?:{_QUOTE}|\bsteps)[ \t\n\r]*+:[ \t\n\r]*+\Z", re.IGNORECASE)

MAX_VALUES = 1000
"""Maximum number of pieces of JSON, whole or broken, in an answer; it bounds the time for a hostile
one.
"""


@dataclass(frozen=True, slots=True)
class JsonMatch:
    """One JSON value of an answer."""

    node: Node
    start: int
    end: int
    notes: tuple[JsonDeparture, ...]
    faults: tuple[DocumentFault, ...]
    unclosed: tuple[ObjectNode, ...]
    """Objects that the end of the answer, or of its code fence, closed; innermost first."""
    surplus: int | None
    """Position of closing brackets after the value that match no opening one."""

    @property
    def resembles_plan(self) -> bool:
        """Whether one of its keys is a key of plans."""
        return any(
            _PLAN_WORD.search(key)
            for node in iterate_nodes(self.node)
            if isinstance(node, ObjectNode)
            for key in node.members
        )


@dataclass(frozen=True, slots=True)
class BrokenJson:
    """Text that begins like a JSON value and is none."""

    start: int
    fault: DocumentFault
    faults: tuple[DocumentFault, ...]
    """Faults before that place."""
    broken_at: int
    read_until: int
    """How far it was read."""


@dataclass(slots=True)
class AnswerJson:
    """The JSON values of an answer."""

    matches: list[JsonMatch]
    reasoning_starts: list[int]
    """Where reasoning begins."""
    broken: DocumentFault | None = None
    """Why the last broken value could not be read; it holds no part of a plan."""


def parse_answer(source: Source, max_depth: int) -> AnswerJson:
    """Find the JSON values of an answer.

    Raises:
        DocumentError: something of a plan cannot be read to its end, or anything is nested too
            deeply.
    """
    answer = AnswerJson([], [])
    values = _values_in(source, max_depth, answer.reasoning_starts, looks_inside_broken=False)
    for number, read in enumerate(values):
        if number == MAX_VALUES:
            message = f"the answer holds more than {MAX_VALUES} pieces of JSON"
            place = Span(read.start, read.start + 1)
            raise DocumentError(source, (DocumentFault("not_json", message, place),))
        if isinstance(read, BrokenJson):
            if read.fault.kind == "too_deep" or _is_broken_plan(source.text, read):
                raise DocumentError(source, (*read.faults, read.fault))
            answer.broken = read.fault
            continue
        if read.resembles_plan:
            _check_surroundings(source, read)
        answer.matches.append(read)
    return answer


def _values_in(
    source: Source, max_depth: int, thoughts: list[int], *, looks_inside_broken: bool
) -> Iterator[JsonMatch | BrokenJson]:
    """Yield what begins like a value, outside of reasoning, whose places are added to `thoughts`.

    Behind a broken value comes what is inside of it, or what follows it.

    Raises:
        DocumentError: the text ends inside its reasoning.
    """
    position = end_of_thinking(source.text)
    if position:
        thoughts.append(0)
    # What stands at the very beginning is read whatever its first key is.
    first = _FIRST.match(source.text, position)
    start = None if first is None else first.end()
    while True:
        if start is None:
            start = _next_start(source, position, thoughts)
        if start is None:
            return
        read = read_value(source, start, max_depth)
        yield read
        if isinstance(read, JsonMatch):
            position = read.end
        elif looks_inside_broken:
            position = start + 1
        else:
            position = max(start + 1, read.read_until)
        start = None


def _next_start(source: Source, position: int, thoughts: list[int]) -> int | None:
    """Return where the next value may begin, passing over reasoning, whose places are added to
    `thoughts`.

    Raises:
        DocumentError: the answer ends inside its reasoning.
    """
    while (match := _START.search(source.text, position)) is not None:
        if not match["think"]:
            return match.start()
        end = _THINK_END.search(source.text, match.end())
        if end is None:
            fault = DocumentFault(
                "truncated", "the answer ends inside its reasoning", Span(*match.span())
            )
            raise DocumentError(source, (fault,))
        thoughts.append(match.start())
        position = end.end()
    return None


def read_value(source: Source, start: int, max_depth: int) -> JsonMatch | BrokenJson:
    """Read the one value that begins at a place of an answer, with the closing brackets behind it."""
    scanner = JsonScanner(source.text, start=start, max_depth=max_depth, lenient=True)
    try:
        node = scanner.value()
    except ScanError as error:
        reached = max(error.offset, scanner.position)
        return BrokenJson(start, error.fault, tuple(scanner.faults), error.offset, reached)
    surplus = _SURPLUS.match(source.text, scanner.position)
    return JsonMatch(
        node,
        start,
        surplus.end() if surplus is not None else scanner.position,
        tuple(scanner.notes),
        tuple(scanner.faults),
        tuple(scanner.unclosed),
        surplus.start() if surplus is not None else None,
    )


def _is_broken_plan(text: str, broken: BrokenJson) -> bool:
    if _PLAN_WORD.search(text, broken.start, broken.read_until) is None:
        return False
    # `{"steps": [...]}` only shows the shape of a plan; it holds no step.
    before = text[broken.start : broken.broken_at].rstrip()[-1:]
    is_outline = _ELIDED.match(text, broken.broken_at) is not None and before in {"[", "{", ":"}
    return not is_outline


def _check_surroundings(source: Source, find: JsonMatch) -> None:
    """Refuse a value that is a part of a larger one whose brackets do not match."""
    text = source.text
    if _CONTINUES.match(text, find.end):
        message = (
            "the answer goes on behind a bracket that closes everything: part of it would be lost"
        )
        raise DocumentError(
            source, (DocumentFault("not_json", message, Span(find.end, find.end + 1)),)
        )
    if _KEY_BEFORE.search(text, max(0, find.start - 100), find.start):
        message = "the beginning of the plan is missing: a key stands before its first bracket"
        raise DocumentError(
            source, (DocumentFault("not_json", message, Span(find.start, find.start + 1)),)
        )
    if find.unclosed and text[find.end :].replace(FENCE, "").strip():
        message = "the plan is not closed, and the answer goes on behind it"
        raise DocumentError(
            source, (DocumentFault("truncated", message, Span(find.end, find.end + 1)),)
        )


TEXT_LIMITS = ReadLimits(max_bytes=256 * 2**10, max_depth=32)
"""Limits of what is read from a model's answer."""

_MAX_REREAD = 2**18
"""Characters that are read again inside of broken values, at most, each attempt counted as so many
at least:
"""
_MIN_REREAD = 200


@dataclass(frozen=True, slots=True)
class FoundValue:
    """One list or object."""

    value: Json
    span: Span
    is_inside_broken: bool
    """Whether it is a part of something that could not be read, so that its context is unknown."""
    is_certain: bool
    """Whether it was closed and holds neither a key twice nor a number that readers disagree on."""


@dataclass(frozen=True, slots=True)
class FoundJson:
    """The JSON of a text, in the order of the text."""

    source: Source
    values: tuple[FoundValue, ...]
    unreadable: tuple[DocumentFault, ...] = ()
    """What began like a value and could not be read, or was not searched."""

    @property
    def is_prose(self) -> bool:
        """Whether the text is not empty and nothing in it is JSON, nor began like it."""
        return not self.values and not self.unreadable and bool(self.source.text.strip())


def find_json(
    content: str | bytes, name: str = "<model>", *, limits: ReadLimits = TEXT_LIMITS
) -> FoundJson:
    """Return all JSON of a text; never raises: nothing is read of a text that is too large or not
    UTF-8.

    >>> from wavewright.planner import find_json
    >>> find_json('Here it is: {"a": 1}. Good luck!').values[0].value
    {'a': 1}
    """
    try:
        source = Source(name, decode(content, name, limits))
    except DocumentError as error:
        return FoundJson(error.source, (), error.faults)
    search = _JsonSearch(source, limits.max_depth)
    try:
        search.run()
    except DocumentError as error:
        search.unread += error.faults
    return FoundJson(source, tuple(search.values), tuple(search.unread))


THOUGHT_FIELDS: Final = frozenset(
    {"reasoning", "thinking", "thought", "thoughts", "analysis", "scratchpad", "draft", "example"}
)
"""Fields that models write beside an answer, and that are none."""
_MAX_WRAPPERS: Final = 3
ARGUMENT_FIELDS: Final = ("arguments", "params", "parameters", "args", "input")
"""Names that models give to the arguments of a call that they write down."""
_CALL_FIELDS: Final = frozenset({"name", "id", "call_id", "type", "index"})


def arguments_field(fields: Collection[str]) -> str | None:
    """Return which of an object's fields holds arguments, where the object is a call of a tool that
    was written down, and can be nothing else; else None.
    """
    arguments = [name for name in ARGUMENT_FIELDS if name in fields]
    is_call = "name" in fields and len(arguments) == 1
    return arguments[0] if is_call and {*fields} <= _CALL_FIELDS | {*arguments} else None


def is_named_function(fields: Collection[str]) -> bool:
    """Whether an object with such fields holds a call of a tool under `function`."""
    return "function" in fields and {*fields} <= _CALL_FIELDS - {"name"} | {"function"}


def wrapped_values(value: Json, depth: int = _MAX_WRAPPERS) -> Iterator[Json]:
    """Yield an answer, and what it wraps: its only item, its only field beside thoughts, the
    arguments of a call, the JSON in its text; the outermost first.
    """
    yield value
    inner = _wrapped(value) if depth else None
    if inner is not None:
        yield from wrapped_values(inner, depth - 1)


def _wrapped(value: Json) -> Json:
    """Return what an answer wraps; None where it wraps nothing."""
    match value:
        case str():
            inside = find_json(value).values if value.lstrip()[:1] in {"{", "["} else ()
            return inside[0].value if len(inside) == 1 and inside[0].is_certain else None
        case [only]:
            return only
        case dict():
            if isinstance(value.get("function"), dict) and is_named_function(value):
                return value["function"]
            arguments = arguments_field(value)
            if arguments is not None and isinstance(value["name"], str):
                return value[arguments]
            fields = [name for name in value if name.lower() not in THOUGHT_FIELDS]
            return value[fields[0]] if len(fields) == 1 else None
        case _:
            return None


class _JsonSearch:
    """One pass over a text that searches broken values again for complete parts."""

    def __init__(self, source: Source, max_depth: int) -> None:
        self.values: list[FoundValue] = []
        self.unread: list[DocumentFault] = []
        self._source = source
        self._max_depth = max_depth
        self._broken_until = 0
        self._effort = 0

    def run(self) -> None:
        """Find the values.

        Raises:
            DocumentError: the text ends inside its reasoning.
        """
        for read in _values_in(self._source, self._max_depth, [], looks_inside_broken=True):
            if self._effort > _MAX_REREAD or len(self.values) + len(self.unread) >= MAX_VALUES:
                message = (
                    "the rest of the text was not searched: too much of it is broken, or too small"
                )
                place = Span(read.start, read.start + 1)
                self.unread.append(DocumentFault("too_large", message, place))
                return
            self._take(read)

    def _take(self, read: JsonMatch | BrokenJson) -> None:
        is_inside = read.start < self._broken_until
        if isinstance(read, BrokenJson):
            if not is_inside:
                self.unread.append(read.fault)
            self._broken_until = max(self._broken_until, read.read_until)
            self._effort += max(read.read_until - read.start, _MIN_REREAD)
            return
        if is_inside:
            self._effort += max(read.end - read.start, _MIN_REREAD)
        inner = self._inside_string(read) or read
        is_certain = all(
            not match.faults and not match.unclosed and match.surplus is None
            for match in (read, inner)
        )
        value = plain_value(inner.node)
        if isinstance(value, list | dict):
            place = Span(read.start, read.end)
            self.values.append(FoundValue(value, place, is_inside, is_certain))

    def _inside_string(self, read: JsonMatch) -> JsonMatch | None:
        """Return the value that a string holds as JSON, where it does."""
        text = read.node.value if isinstance(read.node, ScalarNode) else None
        first = _FIRST.match(text) if isinstance(text, str) else None
        if not isinstance(text, str) or first is None:
            return None
        inner = read_value(Source(self._source.name, text), first.end(), self._max_depth)
        return inner if isinstance(inner, JsonMatch) else None
