"""Every JSON value in a text that is not all JSON: prose, code fences, several objects, broken ones.

A *found value* is a value with its place in the text. Where a value is broken, the values inside of it are looked
for, and the text's author can be told what was not read and why. Whoever must know that nothing is missing (a plan
is never put together from pieces) asks the reader of plans instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wavewright.config.documents import DocumentError, DocumentFault, ReadLimits, Source, Span, decode
from wavewright.config.nodes import ScalarNode, plain_value
from wavewright.planner.answers import MAX_VALUES, BrokenJson, JsonMatch, first_start, next_start, read_value
from wavewright.planner.types import Json, JsonObject

__all__ = ["FoundJson", "FoundValue", "find_json"]

TEXT_LIMITS = ReadLimits(max_bytes=256 * 2**10, max_depth=32)
"""What is read of a model's answer."""

_MAX_REREAD = 2**18
"""Characters that are read again inside of broken values, at most, each attempt counted as so many at least:"""
_MIN_REREAD = 200


@dataclass(frozen=True, slots=True)
class FoundValue:
    """One list or object."""

    value: Json
    span: Span
    is_inside_broken: bool
    """Whether it is a part of something that could not be read: what stood around it is not known."""
    is_certain: bool
    """Whether it was closed and holds neither a key twice nor a number that readers disagree on."""


@dataclass(frozen=True, slots=True)
class FoundJson:
    """What a text holds of JSON, in the order of the text."""

    source: Source
    values: tuple[FoundValue, ...]
    unreadable: tuple[DocumentFault, ...] = ()
    """What began like a value and could not be read, or was not searched."""

    @property
    def objects(self) -> tuple[JsonObject, ...]:
        """All objects: those found, and those that are items of a list that was found."""
        return tuple(_objects(self.values))

    @property
    def is_prose(self) -> bool:
        """Whether the text is not empty and nothing in it is JSON, nor began like it."""
        return not self.values and not self.unreadable and bool(self.source.text.strip())


def find_json(content: str | bytes, name: str = "<model>", *, limits: ReadLimits = TEXT_LIMITS) -> FoundJson:
    """Return all JSON of a text; never raises: a text that is too large or no UTF-8 holds nothing that was read."""
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


class _JsonSearch:
    """One pass over a text, that goes back into what is broken."""

    def __init__(self, source: Source, max_depth: int) -> None:
        self.values: list[FoundValue] = []
        self.unread: list[DocumentFault] = []
        self._source = source
        self._max_depth = max_depth
        self._broken_until = 0
        self._effort = 0

    def run(self) -> None:
        """Find what there is.

        Raises:
            DocumentError: the text ends inside its reasoning.
        """
        start = first_start(self._source.text)
        position = 0
        while True:
            if start is None:
                start = next_start(self._source, position, [])
            if start is None:
                return
            if self._effort > _MAX_REREAD or len(self.values) + len(self.unread) >= MAX_VALUES:
                message = "the rest of the text was not searched: too much of it is broken, or too small"
                self.unread.append(DocumentFault("too_large", message, Span(start, start + 1)))
                return
            position = self._take(start)
            start = None

    def _take(self, start: int) -> int:
        """Read the value at a place and return where to look on."""
        read = read_value(self._source, start, self._max_depth)
        is_inside = start < self._broken_until
        if isinstance(read, BrokenJson):
            if not is_inside:
                self.unread.append(read.fault)
            self._broken_until = max(self._broken_until, read.read_until)
            self._effort += max(read.read_until - start, _MIN_REREAD)
            return start + 1
        if is_inside:
            self._effort += max(read.end - start, _MIN_REREAD)
        found = self._inside_string(read) or read
        is_certain = all(not one.faults and not one.unclosed and one.surplus is None for one in (read, found))
        value = plain_value(found.node)
        if isinstance(value, list | dict):
            place = Span(start, read.end)
            self.values.append(FoundValue(value, place, is_inside, is_certain))
        return read.end

    def _inside_string(self, read: JsonMatch) -> JsonMatch | None:
        """Return the value that a string holds as JSON, where it does."""
        text = read.node.value if isinstance(read.node, ScalarNode) else None
        start = first_start(text) if isinstance(text, str) else None
        if not isinstance(text, str) or start is None:
            return None
        inner = read_value(Source(self._source.name, text), start, self._max_depth)
        return inner if isinstance(inner, JsonMatch) else None


def _objects(values: tuple[FoundValue, ...]) -> Iterator[JsonObject]:
    for found in values:
        if isinstance(found.value, dict):
            yield found.value
        elif isinstance(found.value, list):
            yield from (item for item in found.value if isinstance(item, dict))
