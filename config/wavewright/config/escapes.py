"""Undoing of escapes in a text, of whatever kinds: JSON, addresses, forms and HTML, one in another."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from wavewright.config.secret_patterns import NAMED_IN_HTML, is_json


@dataclass(frozen=True, slots=True)
class TextAsRead:
    """A text as it reads once its escapes are undone."""

    text: str
    starts: list[int]
    """Where each piece begins, and where the last one ends; a character of an escape is a piece."""
    places: list[int]
    """Where in the text as it is written each of them stands, and its end."""
    apart: TextAsRead | None = None
    """The text with a blank in place of letters and digits that are escaped, if it has any: what such
    a letter is joined to may be a secret. Of some in a row, which may begin the secret, that is the
    first, and each whose escape holds others.
    """

    def place(self, position: int) -> int:
        """Return where in the text as it is written a position stands."""
        piece = bisect_right(self.starts, position) - 1
        return self.places[piece] + position - self.starts[piece]


def unescaped(text: str) -> TextAsRead:
    """Return a text with characters in place of their escapes, the one form in which secrets are
    looked for.

    An escape may hold escapes itself (`%%341` is `%41`, `A`): from the end to the start, all that
    follows one is plain already, so that each is read once. It may also stand for the mark of another
    one: `%252F` is `%2F`, `/`. In JSON, what would end its string or begin an escape is read with a
    backslash before it, so that the strings end where they did.
    """
    signs = _ENCODED.sub(_with_spaces, text) if "+" in text and "%" in text else text
    # Of each: where it stands, where it ends, and the character that is read for it if it is an
    # escape. The last one first.
    pieces: list[tuple[int, int, str]] = []
    holding_others: set[int] = set()
    end = len(text)
    for mark in reversed([*_ESCAPE_MARK.finditer(text)]):
        if mark.end() < end:
            pieces.append((mark.end(), end, ""))
        end, stop = mark.span()
        sign, character, last = mark[0][0], "", ""
        while sign in _MARKS and (escape := _ESCAPED.match(sign + _first_of(pieces, signs))):
            _drop(pieces, escape.end() - 1)
            sign = character = _character(escape)
            last = escape[0]
        next_begin = pieces[-1][0] if pieces else len(text)
        if next_begin - stop + 1 > len(last):
            holding_others.add(end)
        pieces.append((end, stop, character))
    if end:
        pieces.append((0, end, ""))
    pieces.reverse()
    characters = [character for _, _, character in pieces]
    quoted = _OF_JSON_STRINGS.intersection(characters)
    if quoted and not is_json(text):
        quoted = frozenset[str]()
    read = [
        f"\\{character}" if character in quoted else character or signs[begin:stop]
        for begin, stop, character in pieces
    ]
    places = [*(begin for begin, _, _ in pieces), len(text)]
    letters = [*map(str.isalnum, characters)]
    if not any(letters):
        return _text_as_read(read, places)
    apart = [
        " " if is_letter and (begin in holding_others or not is_after_letter) else piece
        for piece, begin, is_letter, is_after_letter in zip(
            read, places, letters, [False, *letters], strict=False
        )
    ]
    return _text_as_read(read, places, _text_as_read(apart, places))


def _text_as_read(
    read: list[str], places: list[int], apart: TextAsRead | None = None
) -> TextAsRead:
    return TextAsRead("".join(read), [*accumulate(map(len, read), initial=0)], places, apart)


def _first_of(pieces: list[tuple[int, int, str]], signs: str) -> str:
    """Return the next characters after a mark, of pieces that were read from the end on."""
    first = ""
    for begin, stop, character in reversed(pieces):
        first += character or signs[begin : min(stop, begin + _MAX_ESCAPED)]
        if len(first) >= _MAX_ESCAPED:
            break
    return first[:_MAX_ESCAPED]


def _drop(pieces: list[tuple[int, int, str]], count: int) -> None:
    """Take the next characters, which belong to an escape, from pieces."""
    while count:
        begin, stop, character = pieces.pop()
        length = 1 if character else stop - begin
        if count < length:
            pieces.append((begin + count, stop, ""))
        count -= min(count, length)


_ESCAPE_MARK = re.compile(
    r"(?<!\\)\\++(?=[%&uUxnrt/])|%(?=[%&\\02-7])|&(?=#[%&\\xX0-9]|[a-z]{2,4};)"
)
"""What begins an escape, if what follows it does not rule that out, as a digit that is escaped
would not.
"""
_MARKS: Final = frozenset("%\\&")
_ESCAPED = re.compile(
    r"(?:\\(?:u00|U000000|x)|%)(?P<code>0[9ADad]|[2-7][0-9A-Fa-f])"
    r"|\\(?P<control>[nrt/])"
    r"|&#(?:[xX]0{0,6}(?P<page>[9ADad]|[2-7][0-9A-Fa-f])"
    r"|0{0,6}(?P<decimal>9|1[03]|3[2-9]|[4-9][0-9]|1[01][0-9]|12[0-7]));"
    rf"|&(?P<name>{'|'.join(NAMED_IN_HTML)});"
)
_MAX_ESCAPED = 10
"""Maximum characters of an escape after its mark."""
_OF_JSON_STRINGS: Final = frozenset('"\\')
_NAMED: Final = {"n": "\n", "r": "\r", "t": "\t", "/": "/", **NAMED_IN_HTML}


def _character(escape: re.Match[str]) -> str:
    """Return what an escape stands for."""
    name = escape["control"] or escape["name"]
    if name:
        return _NAMED[name]
    code = escape["code"] or escape["page"]
    return chr(int(code, 16) if code else int(escape["decimal"]))


_ENCODED = re.compile(r"[A-Za-z0-9_.~*+%-]+")
_ENCODED_CHARACTER = re.compile("%[0-9A-Fa-f]{2}")
_NOT_OF_A_FORM = re.compile("%(?:20|3[0-9]|[46][1-9A-Fa-f]|[57][0-9Aa])")
"""A space, a digit or a letter as a form never encodes it."""


def _with_spaces(part: re.Match[str]) -> str:
    """Return a part of an address with its spaces, where it is encoded as a form is, with signs for
    spaces; elsewhere a sign is one.
    """
    run = part[0]
    is_of_form = "+" in run and _ENCODED_CHARACTER.search(run) and not _NOT_OF_A_FORM.search(run)
    return run.replace("+", " ") if is_of_form else run
