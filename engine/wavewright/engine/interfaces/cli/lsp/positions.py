"""Places of a text as the protocol counts them: lines, and units of an encoding within a line."""

from __future__ import annotations

from bisect import bisect_right

from lsprotocol import types

from wavewright.config import Span
from wavewright.engine.interfaces.cli.planning.broken_texts import line_starts

_BYTES_OF_UNIT = {"utf-8": 1, "utf-16": 2, "utf-32": 4}


class TextPositions:
    """The places of one text, in the encoding that the editor counts in."""

    def __init__(self, text: str, encoding: str) -> None:
        self.text = text
        self.encoding = encoding
        self._codec = "utf-8" if encoding == "utf-8" else f"{encoding}-le"
        self._unit = _BYTES_OF_UNIT[encoding]
        self._starts = line_starts(text)
        self._is_ascii = text.isascii()

    def range(self, span: Span) -> types.Range:
        """Return where a span stands."""
        return types.Range(self.position(span.start), self.position(max(span.start, span.end)))

    def position(self, offset: int) -> types.Position:
        """Return where a character stands, by its offset."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(self._starts, offset) - 1
        before = self.text[self._starts[line] : offset]
        units = len(before) if self._is_ascii else len(before.encode(self._codec)) // self._unit
        return types.Position(line, units)

    def offset(self, position: types.Position) -> int:
        """Return the offset of a place; one behind the end of its line is that end."""
        if position.line >= len(self._starts):
            return len(self.text)
        start, end = self.line_span(position.line)
        if self._is_ascii:
            return min(start + position.character, end)
        written = self.text[start:end].encode(self._codec)
        before = written[: position.character * self._unit].decode(self._codec, "ignore")
        return start + len(before)

    def changed(self, change: types.TextDocumentContentChangeEvent) -> str:
        """Return the text after a change in the editor."""
        if not isinstance(change, types.TextDocumentContentChangePartial):
            return change.text
        start, end = self.offset(change.range.start), self.offset(change.range.end)
        return self.text[:start] + change.text + self.text[end:]

    def line_span(self, line: int) -> Span:
        """Return a line without its line break."""
        start = self._starts[line]
        end = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.text)
        return Span(start, start + len(self.text[start:end].rstrip("\r\n")))
