"""A JSON scanner that keeps the span of every node.

It reads strict JSON (RFC 8259) and reports faults in terms of the text. A *lenient* scanner also
accepts a fixed list of departures that language models make, records a *note* for each, and never
adds anything that the text does not hold. Faults that do not prevent further reading (a duplicate
key, a number out of range) are collected, so that all are reported at once. Time is linear in the
text, and nesting is limited.
"""

from __future__ import annotations

import re

from wavewright.config.readers.json_cursor import IDENTIFIER, NUMBER, ScalarScanner, ScanError
from wavewright.config.sources import (
    DocumentError,
    DocumentFault,
    ListNode,
    Member,
    Node,
    ObjectNode,
    ReadLimits,
    ScalarNode,
    Source,
    Span,
)

_COMMON_SCALAR = re.compile(r'"([^"\\\x00-\x1f]*+)"|(-?(?:0|[1-9][0-9]{0,14}+))(?=[ \t\n\r,\]}])')
"""Matches most values: a string without escapes, or an integer that is certainly exact."""


class JsonScanner(ScalarScanner):
    """Reads one JSON value from a position in a text."""

    def __init__(
        self,
        text: str,
        *,
        start: int = 0,
        max_depth: int = 64,
        lenient: bool = False,
        takes_large_integers: bool = False,
    ) -> None:
        super().__init__(
            text, start=start, lenient=lenient, takes_large_integers=takes_large_integers
        )
        self.unclosed: list[ObjectNode] = []
        """Objects that the end of the text closed, innermost first (lenient only)."""
        self._max_depth = max_depth

    def value(self) -> Node:
        """Read the value at the position.

        Raises:
            ScanError: the text is not JSON from some position on, or is nested too deeply.
        """
        self.skip_gap()
        return self._value(0)

    def document(self) -> Node:
        """Read the value that the rest of the text consists of.

        Raises:
            ScanError: the text is not JSON from some position on, or has text after the value.
        """
        node = self.value()
        self.skip_gap()
        if self.position < len(self.text):
            self._expected("the end of the text")
        return node

    # --- values
    # -------------------------------------------------------------------------------------------

    def _value(self, depth: int) -> Node:
        start = self.position
        common = _COMMON_SCALAR.match(self.text, start)
        if common is not None:
            self.position = common.end()
            return ScalarNode(
                common[1] if common.lastindex == 1 else int(common[2]), start, self.position
            )
        char = self.text[start : start + 1]
        if char == "{":
            return self._object(depth + 1)
        if char == "[":
            return self._list(depth + 1)
        if self._opens_string(char):
            text = self._string()
            return ScalarNode(text, start, self.position)
        number = NUMBER.match(self.text, start)
        if number is not None:
            return ScalarNode(self._number(number), start, self.position)
        return ScalarNode(self._word(), start, self.position)

    def _object(self, depth: int) -> ObjectNode:
        node = ObjectNode(self.position, self.position)
        self._open(depth)
        comma: int | None = None
        while not self._closes(node, "}", comma):
            self._member(node, depth)
            self.skip_gap()
            comma = self._comma()
            if comma is None and self._closes(node, "}", None):
                return node
            if comma is None and self._at_end():
                self._close_at_end(node)
                return node
            if comma is None:
                self._expected("',' or '}' after the value")
        return node

    def _list(self, depth: int) -> ListNode:
        node = ListNode(self.position, self.position)
        self._open(depth)
        comma: int | None = None
        while not self._closes(node, "]", comma):
            node.items.append(self._value(depth))
            self.skip_gap()
            comma = self._comma()
            if comma is None and self._closes(node, "]", None):
                return node
            if comma is None and not self._comma_is_missing(node):
                self._expected("',' or ']' after the value")
        return node

    def _member(self, node: ObjectNode, depth: int) -> None:
        start = self.position
        key = self._key()
        span = Span(start, self.position)
        self.skip_gap()
        if self.text[self.position : self.position + 1] != ":":
            self._expected(f"':' after the key {key!r}")
        self.position += 1
        self.skip_gap()
        value = self._value(depth)
        if key in node.members:
            hint = "remove one of them: which of the two counts would be a guess"
            self._note_fault(
                "duplicate_key", f"the key {key!r} stands twice in one object", span, hint
            )
        else:
            node.members[key] = Member(span, value)

    def _key(self) -> str:
        common = _COMMON_SCALAR.match(self.text, self.position)
        if common is not None and common.lastindex == 1:
            self.position = common.end()
            return common[1]
        if self._opens_string(self.text[self.position : self.position + 1]):
            return self._string()
        identifier = IDENTIFIER.match(self.text, self.position)
        if identifier is None or not self._lenient:
            self._expected("a key in double quotes")
        self._note("unquoted_key", self.position)
        self.position = identifier.end()
        return identifier[0]

    # --- brackets and commas
    # ------------------------------------------------------------------------------

    def _open(self, depth: int) -> None:
        if depth > self._max_depth:
            message = f"lists and objects are nested more than {self._max_depth} deep"
            self._stop("too_deep", message, hint="flatten the structure")
        self.position += 1
        self.skip_gap()

    def _closes(self, node: ListNode | ObjectNode, closer: str, comma: int | None) -> bool:
        if self.text[self.position : self.position + 1] != closer:
            return False
        if comma is not None:
            if not self._lenient:
                self._stop(
                    "not_json", f"a comma stands before {closer!r}", comma, hint="remove the comma"
                )
            self._note("trailing_comma", comma)
        self.position += 1
        node.end = self.position
        return True

    def _comma(self) -> int | None:
        if self.text[self.position : self.position + 1] != ",":
            return None
        comma = self.position
        self.position += 1
        self.skip_gap()
        return comma

    def _comma_is_missing(self, node: ListNode) -> bool:
        """Whether only a comma is missing here: between two objects of a list."""
        if not self._lenient or self.text[self.position : self.position + 1] != "{":
            return False
        if not isinstance(node.items[-1], ObjectNode):
            return False
        self._note("missing_comma", self.position)
        return True

    def _close_at_end(self, node: ObjectNode) -> None:
        """Close an object at the end of the text, unless its last value may be cut off."""
        last = next(reversed(node.members.values())).node
        may_be_cut = (
            isinstance(last, ScalarNode)
            and last.end == self.position
            and not isinstance(last.value, str)
        )
        if not self._lenient or may_be_cut:
            self._expected("',' or '}' after the value")
        self._note("missing_closer", self.position)
        node.end = self.position
        self.unclosed.append(node)


def scan_json(source: Source, limits: ReadLimits) -> Node:
    """Read strict JSON into nodes.

    Raises:
        DocumentError: with every fault of the text, in text order.
    """
    scanner = JsonScanner(
        source.text,
        max_depth=limits.max_depth,
        takes_large_integers=limits.takes_large_integers,
    )
    try:
        node = scanner.document()
    except ScanError as stopped:
        scanner.faults.append(stopped.fault)
        raise DocumentError(source, tuple(scanner.faults)) from stopped
    if scanner.faults:
        raise DocumentError(source, tuple(sorted(scanner.faults, key=_fault_position)), root=node)
    return node


def _fault_position(fault: DocumentFault) -> int:
    return fault.span.start if fault.span is not None else 0
