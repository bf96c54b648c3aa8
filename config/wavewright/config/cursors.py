"""What is being written at a place of a text that need not be a whole document yet.

A word is put at the cursor, with what may be missing behind it, until the text can be read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wavewright.config.documents import Document
from wavewright.config.readers.yaml_and_toml import read_yaml
from wavewright.config.sources import (
    DocumentError,
    ListNode,
    Node,
    ReadLimits,
    ScalarNode,
    Source,
    plain_value,
    pointer_token,
)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where something is being written."""

    source: Source
    """With a word at the cursor that stands for what is written there."""
    root: Node
    pointer: str
    """Of the value; of the object, where a key is being written."""
    is_key: bool
    text: str
    """The value or key without that word."""
    offset: int
    """Of the cursor in it."""

    def document_of(self, name: str) -> Document:
        """Return the document that the text is with that word, under a name."""
        source = Source(name, self.source.text)
        return Document(plain_value(self.root), source, root=self.root)


_WORD: Final = "cursor0word"
_FRESH_KEY = re.compile(r"\s*(?:- )*[\"']?[\w.-]*\Z")
_SUFFIXES: Final = ("", "}", '}"', "}'", '"', "'", ": ")


def cursors_at(text: str, offset: int) -> Iterator[Cursor]:
    """Yield what may be being written at an offset, the likeliest first."""
    line_start = text.rfind("\n", 0, offset) + 1
    line_end = text.find("\n", offset)
    line_end = len(text) if line_end < 0 else line_end
    before, rest = text[line_start:offset], text[offset:line_end]
    is_fresh = _FRESH_KEY.match(before) is not None
    if is_fresh and not rest.strip():
        yield from _cursor(f"{text[:offset]}{_WORD}: {text[offset:]}")
    for tail in dict.fromkeys((text[offset:], text[line_end:], "")):
        for suffix in _SUFFIXES:
            cursors = [*_cursor(f"{text[:offset]}{_WORD}{suffix}{tail}")]
            if cursors:
                yield from cursors
                return


def _cursor(text: str) -> Iterator[Cursor]:
    source = Source("", text)
    try:
        root = read_yaml(source, ReadLimits())
    except DocumentError as error:
        if error.root is None:
            return
        root = error.root
    found = _find_word(root, "")
    if found is None:
        return
    pointer, written, is_key = found
    offset = written.index(_WORD)
    yield Cursor(source, root, pointer, is_key, written.replace(_WORD, "", 1), offset)


def _find_word(node: Node, pointer: str) -> tuple[str, str, bool] | None:
    """Return the pointer, the text and whether it is a key, of what holds the word."""
    if isinstance(node, ScalarNode):
        held = isinstance(node.value, str) and _WORD in node.value
        return (pointer, str(node.value), False) if held else None
    if isinstance(node, ListNode):
        inside = ((pointer + pointer_token(place), inner) for place, inner in enumerate(node.items))
    else:
        for key in node.members:
            if _WORD in key:
                return pointer, key, True
        inside = (
            (pointer + pointer_token(key), member.node) for key, member in node.members.items()
        )
    for place, inner in inside:
        cursor = _find_word(inner, place)
        if cursor is not None:
            return cursor
    return None
