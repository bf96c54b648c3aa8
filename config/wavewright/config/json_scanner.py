"""JSON scanned token by token, keeping the place of every node.

The scanner reads strict JSON (RFC 8259) and names what is wrong with the author's own text. A *lenient* scanner
also reads a fixed list of departures that language models make, and leaves a *note* for each; nothing is ever read
into the text that it does not hold. Faults that do not hinder reading (a duplicate key, a number out of range) are
gathered, so that all are reported at once. Time is linear in the text, and nesting is bounded before it is followed.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from wavewright.config.errors import WavewrightError
from wavewright.config.sources import (
    MAX_EXACT_INTEGER,
    DocumentError,
    DocumentFault,
    ListNode,
    Member,
    Node,
    ObjectNode,
    ReadLimits,
    Scalar,
    ScalarNode,
    Source,
    Span,
)

NoteKind: TypeAlias = Literal[
    "comment",
    "invisible_character",
    "missing_closer",
    "missing_comma",
    "python_literal",
    "quotes",
    "raw_control_character",
    "trailing_comma",
    "unknown_escape",
    "unquoted_key",
]
"""What a lenient scanner reads although it is no JSON."""

FENCE = "```"
MAX_FAULTS = 100
"""Faults that are gathered before the scanner gives up."""

_SPACE = re.compile(r"[ \t\n\r]*+")
_COMMON_SCALAR = re.compile(r'"([^"\\\x00-\x1f]*+)"|(-?(?:0|[1-9][0-9]{0,14}+))(?=[ \t\n\r,\]}])')
"""Most values: a string without escapes, or an integer that is certainly exact."""
_DEPARTURES = frozenset("#/\ufeff\u200b\u200c\u200d\u2060\u00a0\u202f")
_INVISIBLE = re.compile("[\ufeff\u200b-\u200d\u2060\u00a0\u202f]++")
_LINE_COMMENT = re.compile(r"(?:#|//)[^\n]*+")
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*+")
_WORD = re.compile(r"[-+]?[A-Za-z_$][A-Za-z0-9_$]*+")
# No possessive quantifier on a group: before 3.11.5 it takes half of one, https://github.com/python/cpython/issues/106052.
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?P<fraction>\.[0-9]++)?(?P<exponent>[eE][-+]?[0-9]++)?")
_WORD_CHARACTERS = re.compile(r"[0-9A-Za-z_.+-]*+")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS: dict[str, Scalar] = {"true": True, "false": False, "null": None}
_PYTHON_LITERALS: dict[str, Scalar] = {"True": True, "False": False, "None": None}
_NONFINITE = frozenset({"nan", "inf", "infinity"})

_CLOSERS = {
    '"': '"',
    "'": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": "\N{RIGHT DOUBLE QUOTATION MARK}",
    "\N{RIGHT DOUBLE QUOTATION MARK}": "\N{RIGHT DOUBLE QUOTATION MARK}",
    "\N{DOUBLE LOW-9 QUOTATION MARK}": "\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}",
    "\N{LEFT SINGLE QUOTATION MARK}": "\N{RIGHT SINGLE QUOTATION MARK}",
    "\N{RIGHT SINGLE QUOTATION MARK}": "\N{RIGHT SINGLE QUOTATION MARK}",
}
_CHUNKS = {opener: re.compile(rf"[^\\{closers}\x00-\x1f]*+") for opener, closers in _CLOSERS.items()}
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


@dataclass(frozen=True, slots=True)
class Note:
    """One departure from JSON that was read, and where."""

    kind: str
    """A `NoteKind`, or what a reader of the nodes adds."""
    offset: int


class ScanError(WavewrightError):
    """The scanner could not read on."""

    def __init__(self, fault: DocumentFault, offset: int) -> None:
        self.fault = fault
        self.offset = offset
        super().__init__(fault.message)


class JsonScanner:
    """Reads one JSON value from a place in a text."""

    def __init__(self, text: str, *, start: int = 0, max_depth: int = 64, lenient: bool = False) -> None:
        self.text = text
        self.position: int = start
        self.faults: list[DocumentFault] = []
        self.notes: list[Note] = []
        self.unclosed: list[ObjectNode] = []
        """Objects that the end of the text closed, innermost first (lenient only)."""
        self._max_depth = max_depth
        self._lenient = lenient
        self._fence_in_string = False

    def value(self) -> Node:
        """Read the value that begins here.

        Raises:
            ScanError: the text cannot be read on, or is nested too deeply.
        """
        self.skip_gap()
        return self._value(0)

    def document(self) -> Node:
        """Read the value that the rest of the text consists of.

        Raises:
            ScanError: the text cannot be read on, or something stands behind the value.
        """
        node = self.value()
        self.skip_gap()
        if self.position < len(self.text):
            self._expected("the end of the text")
        return node

    def skip_gap(self) -> None:
        """Go to the next character that means something."""
        self._skip_space()
        while self._lenient and self.text[self.position : self.position + 1] in _DEPARTURES:
            if not self._skip_departure():
                return
            self._skip_space()

    # --- values -------------------------------------------------------------------------------------------

    def _value(self, depth: int) -> Node:
        start = self.position
        common = _COMMON_SCALAR.match(self.text, start)
        if common is not None:
            self.position = common.end()
            return ScalarNode(common[1] if common.lastindex == 1 else int(common[2]), start, self.position)
        char = self.text[start : start + 1]
        if char == "{":
            return self._object(depth + 1)
        if char == "[":
            return self._list(depth + 1)
        if self._opens_string(char):
            text = self._string()
            return ScalarNode(text, start, self.position)
        number = _NUMBER.match(self.text, start)
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
            self._note_fault("duplicate_key", f"the key {key!r} stands twice in one object", span, hint)
        else:
            node.members[key] = Member(span, value)

    def _key(self) -> str:
        common = _COMMON_SCALAR.match(self.text, self.position)
        if common is not None and common.lastindex == 1:
            self.position = common.end()
            return common[1]
        if self._opens_string(self.text[self.position : self.position + 1]):
            return self._string()
        identifier = _IDENTIFIER.match(self.text, self.position)
        if identifier is None or not self._lenient:
            self._expected("a key in double quotes")
        self._note("unquoted_key", self.position)
        self.position = identifier.end()
        return identifier[0]

    # --- brackets and commas ------------------------------------------------------------------------------

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
                self._stop("not_json", f"a comma stands before {closer!r}", comma, hint="remove the comma")
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
        """Let the end of the text close an object, unless what stands last may itself be cut."""
        last = next(reversed(node.members.values())).node
        may_be_cut = (
            isinstance(last, ScalarNode) and last.end == self.position and not isinstance(last.value, str)
        )
        if not self._lenient or may_be_cut:
            self._expected("',' or '}' after the value")
        self._note("missing_closer", self.position)
        node.end = self.position
        self.unclosed.append(node)

    # --- scalars ------------------------------------------------------------------------------------------

    def _opens_string(self, char: str) -> bool:
        return char == '"' or (self._lenient and char in _CLOSERS)

    def _string(self) -> str:
        start = self.position
        opener = self.text[start]
        if opener != '"':
            self._note("quotes", start)
        closers, chunk = _CLOSERS[opener], _CHUNKS[opener]
        self.position += 1
        parts: list[str] = []
        while True:
            end = _end_of(chunk, self.text, self.position)
            parts.append(self.text[self.position : end])
            self.position = end
            char = self.text[self.position : self.position + 1]
            if not char:
                self._stop("truncated", "the text ends inside a string", start)
            if char in closers:
                self.position += 1
                return "".join(parts)
            parts.append(self._escape() if char == "\\" else self._control_character(char))

    def _control_character(self, char: str) -> str:
        offset = self.position
        self.position += 1
        if char == "\0":
            self._note_fault(
                "bad_unicode", "a string holds a NUL character", Span(offset, offset + 1), _REMOVE
            )
            return _REPLACEMENT
        if not self._lenient or char not in "\n\r\t":
            hint = f"write it as \\u{ord(char):04x}"
            self._stop("not_json", "a string holds a raw control character", offset, hint=hint)
        self._note("raw_control_character", offset)
        self._fence_in_string |= self.text.startswith(FENCE, self.position)
        return char

    def _escape(self) -> str:
        offset = self.position
        char = self.text[offset + 1 : offset + 2]
        if not char:
            self._stop("truncated", "the text ends inside a string", offset)
        if char == "u":
            return self._unicode_escape(offset)
        self.position += 2
        if char in _ESCAPES:
            return _ESCAPES[char]
        if not self._lenient:
            hint = "write a backslash itself as two backslashes"
            self._stop("not_json", f"'\\{char}' is no escape of JSON", offset, hint=hint)
        self._note("unknown_escape", offset)
        return char

    def _unicode_escape(self, offset: int) -> str:
        code = self._hex(offset + 2)
        self.position = offset + 6
        if 0xD800 <= code < 0xDC00 and self.text.startswith("\\u", self.position):
            low = self._hex(self.position + 2)
            if 0xDC00 <= low < 0xE000:
                self.position += 6
                return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00))
        if code == 0 or 0xD800 <= code < 0xE000:
            what = "a NUL character" if code == 0 else "half of a surrogate pair"
            self._note_fault("bad_unicode", f"a string holds {what}", Span(offset, self.position), _REMOVE)
            return _REPLACEMENT
        return chr(code)

    def _hex(self, offset: int) -> int:
        digits = _HEX.match(self.text, offset)
        if digits is None:
            kind = "truncated" if offset + 4 > len(self.text) else "not_json"
            self._stop(kind, r"'\u' is followed by four hexadecimal digits, and here it is not", offset - 2)
        return int(digits[0], 16)

    def _number(self, match: re.Match[str]) -> int | float:
        start, end = match.span()
        tail = _end_of(_WORD_CHARACTERS, self.text, end)
        if tail > end:
            self.position = tail
            kind = "truncated" if self._at_end() else "not_json"
            self._stop(kind, f"{_escape_for_message(self.text[start:tail])} is no number of JSON", start)
        self.position = end
        return self._integer(start, end) if match.lastgroup is None else self._fraction(start, end)

    def _integer(self, start: int, end: int) -> int:
        # The length is looked at first: converting 200,000 digits takes seconds, and Python refuses.
        number = int(self.text[start:end]) if end - start <= 17 else MAX_EXACT_INTEGER + 1
        if abs(number) <= MAX_EXACT_INTEGER:
            return number
        digits = _escape_for_message(self.text[start:end])
        message = f"the integer {digits} is beyond 2^53 - 1, so readers disagree on its value"
        self._note_fault("number_out_of_range", message, Span(start, end), "write an identifier as a string")
        return 0

    def _fraction(self, start: int, end: int) -> float:
        number = float(self.text[start:end])
        if math.isfinite(number):
            return number
        message = (
            f"the number {_escape_for_message(self.text[start:end])} is too large and would become infinite"
        )
        self._note_fault("nonfinite_number", message, Span(start, end), _FINITE)
        return 0.0

    def _word(self) -> Scalar:
        word = _WORD.match(self.text, self.position)
        if word is None:
            cut = self.text[self.position : self.position + 1] == "-" and self.position + 1 >= len(self.text)
            if cut:
                self._stop("truncated", "the text ends inside a number")
            self._expected("a value")
        start, end, name = word.start(), word.end(), word[0]
        if name in _LITERALS:
            self.position = end
            return _LITERALS[name]
        if name.lstrip("+-").lower() in _NONFINITE:
            self.position = end
            self._note_fault("nonfinite_number", f"{name} is no finite number", Span(start, end), _FINITE)
            return 0.0
        if name in _PYTHON_LITERALS and self._lenient:
            self.position = end
            self._note("python_literal", start)
            return _PYTHON_LITERALS[name]
        if end == len(self.text) and any(
            literal.startswith(name) for literal in (*_LITERALS, *_PYTHON_LITERALS)
        ):
            self._stop("truncated", f"the text ends inside the word {_escape_for_message(name)}", start)
        return self._expected("a value")

    # --- gaps ---------------------------------------------------------------------------------------------

    def _skip_space(self) -> None:
        self.position = _end_of(_SPACE, self.text, self.position)

    def _skip_departure(self) -> bool:
        offset = self.position
        invisible = _INVISIBLE.match(self.text, offset)
        if invisible is not None:
            self._note("invisible_character", offset)
            self.position = invisible.end()
            return True
        comment = _LINE_COMMENT.match(self.text, offset)
        if comment is not None:
            self._note("comment", offset)
            self.position = comment.end()
            return True
        if self.text.startswith("/*", offset):
            end = self.text.find("*/", offset + 2)
            if end < 0:
                self._stop("truncated", "the text ends inside a comment")
            self._note("comment", offset)
            self.position = end + 2
            return True
        return False

    def _at_end(self) -> bool:
        return self.position >= len(self.text) or (
            self._lenient and self.text.startswith(FENCE, self.position)
        )

    # --- reports ------------------------------------------------------------------------------------------

    def _note(self, kind: NoteKind, offset: int) -> None:
        self.notes.append(Note(kind, offset))

    def _note_fault(self, kind: str, message: str, span: Span, hint: str) -> None:
        fault = DocumentFault(kind, message, span, hint=hint)
        if len(self.faults) == MAX_FAULTS:
            raise ScanError(fault, span.start)
        self.faults.append(fault)

    def _expected(self, what: str) -> NoReturn:
        if self._at_end():
            self._stop("truncated", f"the text ends where {what} is expected")
        word = _WORD.match(self.text, self.position)
        found = word[0] if word is not None else self.text[self.position]
        hint = None
        if found in _PYTHON_LITERALS:
            hint = f"write {str(_PYTHON_LITERALS[found]).lower().replace('none', 'null')}"
        elif found == "'":
            hint = "strings of JSON stand in double quotes"
        elif what.startswith("',' or") and found in ('"', "{", "["):
            hint = "put a comma before it"
        self._stop("not_json", f"expected {what}, found {_escape_for_message(found)}", hint=hint)

    def _stop(
        self, kind: str, message: str, offset: int | None = None, *, hint: str | None = None
    ) -> NoReturn:
        where = self.position if offset is None else offset
        if kind == "not_json" and self._fence_in_string:
            # The string ran over the end of its code fence: it was cut, and what was read after it is prose.
            kind = "truncated"
        if kind == "truncated" and hint is None:
            hint = "a bracket or quote is not closed, or the text was cut: what is missing cannot be guessed"
        end = max(_end_of(_WORD_CHARACTERS, self.text, where), min(where + 1, len(self.text)))
        raise ScanError(DocumentFault(kind, message, Span(where, end), hint=hint), where)


_FINITE = "write a finite number, or null where there is none"
_REMOVE = "remove the character"


def _end_of(pattern: re.Pattern[str], text: str, offset: int) -> int:
    match = pattern.match(text, offset)
    return offset if match is None else match.end()


def _escape_for_message(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "…")


def scan_json(source: Source, limits: ReadLimits) -> Node:
    """Read strict JSON into nodes.

    Raises:
        DocumentError: with every fault of the text, in its order.
    """
    scanner = JsonScanner(source.text, max_depth=limits.max_depth)
    try:
        node = scanner.document()
    except ScanError as stopped:
        scanner.faults.append(stopped.fault)
        raise DocumentError(source, tuple(scanner.faults)) from stopped
    if scanner.faults:
        raise DocumentError(source, tuple(sorted(scanner.faults, key=_fault_position)))
    return node


def _fault_position(fault: DocumentFault) -> int:
    return fault.span.start if fault.span is not None else 0
