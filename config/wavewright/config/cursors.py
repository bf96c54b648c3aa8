"""What stands at a place of a text, and what is being written there, in one that need not be a whole
document yet.

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
    ObjectNode,
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
    if text.lstrip().startswith(("{", "[")):
        # What stands behind is thrown away with what it would have closed.
        yield from _cursor(f"{text[:offset]}{_WORD}{_closers(text[:offset])}")


def _closers(before: str) -> str:
    """Return what closes the string, the lists and the objects that JSON has open at its end."""
    outside, quote, _ = _STRING.sub("", before).partition('"')
    closing = {"{": "}", "[": "]"}
    waiting: list[str] = []
    for character in outside:
        if character in closing:
            waiting.insert(0, closing[character])
        elif waiting and character == waiting[0]:
            waiting.pop(0)
    return quote + "".join(waiting)


_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')


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


@dataclass(frozen=True, slots=True)
class NodeAt:
    """The innermost node around an offset."""

    pointer: str
    node: Node
    is_key: bool = False
    """Whether the offset is in the key, and the node is what stands behind it."""


def node_at(root: Node, offset: int) -> NodeAt | None:
    """Return the innermost node around an offset; None outside of all."""
    pointer, node = "", root
    while True:
        below: tuple[str, Node] | None = None
        if isinstance(node, ObjectNode):
            for key, member in node.members.items():
                inner = pointer + pointer_token(key)
                if member.key.start <= offset <= member.key.end:
                    return NodeAt(inner, member.node, is_key=True)
                if member.node.start <= offset <= member.node.end:
                    below = inner, member.node
        elif isinstance(node, ListNode):
            for place, item in enumerate(node.items):
                if item.start <= offset <= item.end:
                    below = pointer + pointer_token(place), item
        if below is None:
            return NodeAt(pointer, node) if node.start <= offset <= node.end else None
        pointer, node = below


def offset_in_string(text: str, node: Node, offset: int) -> int | None:
    """Return where an offset of the source is in the string of a node; None where it is in none.

    In a folded string, or one with escapes, it is told by the words of the line.
    """
    value = getattr(node, "value", None)
    if not isinstance(value, str) or not node.start <= offset <= node.end:
        return None
    quoted = text[node.start : node.start + 1] in {'"', "'"}
    start, end = (node.start + 1, node.end - 1) if quoted else (node.start, node.end)
    if text[start:end] == value:
        return max(offset - start, 0)
    line = max(text.rfind("\n", 0, offset) + 1, start)
    line_end = text.find("\n", offset)
    words = text[line : end if line_end < 0 else min(line_end, end)]
    stripped = words.strip()
    offset_of_text = value.find(stripped) if stripped else -1
    if offset_of_text < 0:
        return None
    return offset_of_text + max(offset - line - (len(words) - len(words.lstrip())), 0)
