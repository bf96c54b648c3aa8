"""A position in a JSON text, with the faults and departures found so far; strings, numbers and
words from there.

A *lenient* cursor accepts a fixed list of departures from JSON that language models make, and
records a *note* for each. Faults that do not prevent further reading are collected, so that all are
reported at once.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple, NoReturn, TypeAlias

from wavewright.config.errors import WavewrightError
from wavewright.config.sources import MAX_EXACT_INTEGER, DocumentFault, Scalar, Span

NoteKind: TypeAlias = Literal[
    "comment",
    "invisible_character",
    "missing_closer",
    "missing_comma",
    "python_literal",
    "quotes",
    "raw_control_character",
    "trailing_comma",
    "escaped_apostrophe",
    "unknown_escape",
    "unquoted_key",
]
"""Departures from JSON that a lenient scanner accepts."""

FENCE = "```"
MAX_FAULTS = 100
"""Maximum faults before the scanner stops."""

_SPACE = re.compile(r"[ \t\n\r]*+")
_DEPARTURES = frozenset("#/\ufeff\u200b\u200c\u200d\u2060\u00a0\u202f")
_INVISIBLE = re.compile("[\ufeff\u200b-\u200d\u2060\u00a0\u202f]++")
_LINE_COMMENT = re.compile(r"(?:#|//)[^\n]*+")
WORD = re.compile(r"[-+]?[A-Za-z_$][A-Za-z0-9_$]*+")
WORD_CHARACTERS = re.compile(r"[0-9A-Za-z_.+-]*+")
PYTHON_LITERALS: dict[str, Scalar] = {"True": True, "False": False, "None": None}


@dataclass(frozen=True, slots=True)
class JsonDeparture:
    """One accepted departure from JSON, with its position."""

    kind: str
    """A `NoteKind`, or a kind that a reader of the nodes adds."""
    offset: int


class ScanError(WavewrightError):
    """The scanner cannot continue."""

    def __init__(self, fault: DocumentFault, offset: int) -> None:
        self.fault = fault
        self.offset = offset
        super().__init__(fault.message)


class TextCursor:
    """A position that moves forward in a text; the base of the scanner."""

    def __init__(
        self,
        text: str,
        *,
        start: int = 0,
        lenient: bool = False,
        takes_large_integers: bool = False,
    ) -> None:
        self.text = text
        self.position: int = start
        self.faults: list[DocumentFault] = []
        self.notes: list[JsonDeparture] = []
        self._lenient = lenient
        self._takes_large_integers = takes_large_integers
        self._fence_in_string = False

    def skip_gap(self) -> None:
        """Skip to the next significant character."""
        self._skip_space()
        while self._lenient and self.text[self.position : self.position + 1] in _DEPARTURES:
            if not self._skip_departure():
                return
            self._skip_space()

    # --- gaps
    # ---------------------------------------------------------------------------------------------

    def _skip_space(self) -> None:
        self.position = end_of(_SPACE, self.text, self.position)

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

    # --- reports
    # ------------------------------------------------------------------------------------------

    def _note(self, kind: NoteKind, offset: int) -> None:
        self.notes.append(JsonDeparture(kind, offset))

    def _note_fault(self, kind: str, message: str, span: Span, hint: str) -> None:
        fault = DocumentFault(kind, message, span, hint=hint)
        if len(self.faults) == MAX_FAULTS:
            raise ScanError(fault, span.start)
        self.faults.append(fault)

    def _expected(self, what: str) -> NoReturn:
        if self._at_end():
            self._stop("truncated", f"the text ends where {what} is expected")
        word = WORD.match(self.text, self.position)
        next_word = word[0] if word is not None else self.text[self.position]
        hint = None
        if next_word in PYTHON_LITERALS:
            hint = f"write {str(PYTHON_LITERALS[next_word]).lower().replace('none', 'null')}"
        elif next_word == "'":
            hint = "write strings of JSON in double quotes"
        elif what.startswith("',' or") and next_word in ('"', "{", "["):
            hint = "put a comma before it"
        self._stop("not_json", f"expected {what}, found {escape_for_message(next_word)}", hint=hint)

    def _stop(
        self, kind: str, message: str, offset: int | None = None, *, hint: str | None = None
    ) -> NoReturn:
        where = self.position if offset is None else offset
        if kind == "not_json" and self._fence_in_string:
            # The string runs past the end of its code fence: it was cut off, and the rest is prose.
            kind = "truncated"
        if kind == "truncated" and hint is None:
            hint = "a bracket or quote is not closed, or the text was cut: what is missing cannot be guessed"
        end = max(end_of(WORD_CHARACTERS, self.text, where), min(where + 1, len(self.text)))
        raise ScanError(DocumentFault(kind, message, Span(where, end), hint=hint), where)


def end_of(pattern: re.Pattern[str], text: str, offset: int) -> int:
    match = pattern.match(text, offset)
    return offset if match is None else match.end()


def escape_for_message(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "…")


IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*+")
# No possessive quantifier on a group: before 3.11.5 it takes half of one, https://github.com/python/cpython/issues/106052.
NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*+)(?P<fraction>\.[0-9]++)?(?P<exponent>[eE][-+]?[0-9]++)?")
_MAX_INTEGER_DIGITS = 4_000
"""Digits of an integer that Python converts at once."""
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_LITERALS: dict[str, Scalar] = {"true": True, "false": False, "null": None}
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
_CHUNKS = {
    opener: re.compile(rf"[^\\{closers}\x00-\x1f]*+") for opener, closers in _CLOSERS.items()
}
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_FINITE = "write a finite number, or null where there is none"
_REMOVE = "remove the character"


_FOLDER_OF_WINDOWS = re.compile(
    r"(?<![A-Za-z])[A-Za-z]:\\(?:(?![bfnrt]\\)\S{0,260}\\)?[^\s\"\\/bfnrtu]"
)
"""A drive, and without a blank between an escape that there is not; a path has 260 characters, and
what would be a first folder of one letter that is an escape is one.
"""


class _Escape(NamedTuple):
    """An escape of a string."""

    part: int
    """Which part of the string it gave."""
    offset: int
    """Where its backslash stands."""


class ScalarScanner(TextCursor):
    """Reads the scalars of a JSON text."""

    # --- scalars
    # ------------------------------------------------------------------------------------------

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
        escapes: list[_Escape] = []
        while True:
            end = end_of(chunk, self.text, self.position)
            parts.append(self.text[self.position : end])
            self.position = end
            char = self.text[self.position : self.position + 1]
            if not char:
                self._stop("truncated", "the text ends inside a string", start)
            if char in closers:
                self.position += 1
                if escapes:
                    self._read_as_unescaped(parts, escapes, self.text[start : self.position])
                return "".join(parts)
            if char == "\\":
                escapes.append(_Escape(len(parts), self.position))
                parts.append(self._escape())
            else:
                parts.append(self._control_character(char))

    def _read_as_unescaped(self, parts: list[str], escapes: list[_Escape], written: str) -> None:
        r"""Read the escapes of a string as backslashes where another one shows that its author
        wrote backslashes as they are: `C:\Users\name` holds no line break, `\bword\d` no backspace.
        """
        letters = [(escape, self.text[escape.offset + 1]) for escape in escapes]
        if all(parts[escape.part] != "\\" + letter for escape, letter in letters):
            return
        # Nobody means a backspace or a form feed. A line break or a tab is one in a text, and in a
        # pattern it matches what its escape does; no folder of Windows has one in its name.
        as_written = "bfnrt" if _FOLDER_OF_WINDOWS.search(written) else "bf"
        for escape, letter in letters:
            if letter in as_written:
                self._note("unknown_escape", escape.offset)
                parts[escape.part] = "\\" + letter

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
        if char == "'":
            self._note("escaped_apostrophe", offset)
            return char
        # A backslash that JSON does not know is meant as one: `\d` of a pattern, `C:\Users`.
        self._note("unknown_escape", offset)
        return "\\" + char

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
            self._note_fault(
                "bad_unicode", f"a string holds {what}", Span(offset, self.position), _REMOVE
            )
            return _REPLACEMENT
        return chr(code)

    def _hex(self, offset: int) -> int:
        digits = _HEX.match(self.text, offset)
        if digits is None:
            kind = "truncated" if offset + 4 > len(self.text) else "not_json"
            self._stop(
                kind, r"'\u' is followed by four hexadecimal digits, and here it is not", offset - 2
            )
        return int(digits[0], 16)

    def _number(self, match: re.Match[str]) -> int | float:
        start, end = match.span()
        tail = end_of(WORD_CHARACTERS, self.text, end)
        if tail > end:
            self.position = tail
            kind = "truncated" if self._at_end() else "not_json"
            self._stop(
                kind, f"{escape_for_message(self.text[start:tail])} is no number of JSON", start
            )
        self.position = end
        return self._integer(start, end) if match.lastgroup is None else self._fraction(start, end)

    def _integer(self, start: int, end: int) -> int:
        # The length is looked at first: converting 200,000 digits takes seconds, and Python
        # refuses.
        longest = _MAX_INTEGER_DIGITS if self._takes_large_integers else 17
        if end - start <= longest:
            number = int(self.text[start:end])
            if self._takes_large_integers or abs(number) <= MAX_EXACT_INTEGER:
                return number
        digits = escape_for_message(self.text[start:end])
        message = f"the integer {digits} is beyond 2^53 - 1, so readers disagree on its value"
        self._note_fault(
            "number_out_of_range", message, Span(start, end), "write an identifier as a string"
        )
        return 0

    def _fraction(self, start: int, end: int) -> float:
        number = float(self.text[start:end])
        if math.isfinite(number):
            return number
        message = f"the number {escape_for_message(self.text[start:end])} is too large and would become infinite"
        self._note_fault("nonfinite_number", message, Span(start, end), _FINITE)
        return 0.0

    def _word(self) -> Scalar:
        word = WORD.match(self.text, self.position)
        if word is None:
            cut = self.text[self.position : self.position + 1] == "-" and self.position + 1 >= len(
                self.text
            )
            if cut:
                self._stop("truncated", "the text ends inside a number")
            self._expected("a value")
        start, end, name = word.start(), word.end(), word[0]
        if name in _LITERALS:
            self.position = end
            return _LITERALS[name]
        if name.lstrip("+-").lower() in _NONFINITE:
            self.position = end
            self._note_fault(
                "nonfinite_number", f"{name} is no finite number", Span(start, end), _FINITE
            )
            return 0.0
        if name in PYTHON_LITERALS and self._lenient:
            self.position = end
            self._note("python_literal", start)
            return PYTHON_LITERALS[name]
        if end == len(self.text) and any(
            literal.startswith(name) for literal in (*_LITERALS, *PYTHON_LITERALS)
        ):
            self._stop(
                "truncated", f"the text ends inside the word {escape_for_message(name)}", start
            )
        return self._expected("a value")
