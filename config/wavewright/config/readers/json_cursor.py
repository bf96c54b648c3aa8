"""A position in a JSON text, with the faults and departures found so far.

A *lenient* cursor accepts a fixed list of departures from JSON that language models make, and records a *note* for
each. Faults that do not prevent further reading are collected, so that all are reported at once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias

from wavewright.config.errors import WavewrightError
from wavewright.config.sources import DocumentFault, Scalar, Span

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

    def __init__(self, text: str, *, start: int = 0, lenient: bool = False) -> None:
        self.text = text
        self.position: int = start
        self.faults: list[DocumentFault] = []
        self.notes: list[JsonDeparture] = []
        self._lenient = lenient
        self._fence_in_string = False

    def skip_gap(self) -> None:
        """Skip to the next significant character."""
        self._skip_space()
        while self._lenient and self.text[self.position : self.position + 1] in _DEPARTURES:
            if not self._skip_departure():
                return
            self._skip_space()

    # --- gaps ---------------------------------------------------------------------------------------------

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

    # --- reports ------------------------------------------------------------------------------------------

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
        found = word[0] if word is not None else self.text[self.position]
        hint = None
        if found in PYTHON_LITERALS:
            hint = f"write {str(PYTHON_LITERALS[found]).lower().replace('none', 'null')}"
        elif found == "'":
            hint = "write strings of JSON in double quotes"
        elif what.startswith("',' or") and found in ('"', "{", "["):
            hint = "put a comma before it"
        self._stop("not_json", f"expected {what}, found {escape_for_message(found)}", hint=hint)

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
