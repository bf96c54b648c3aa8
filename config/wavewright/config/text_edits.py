"""Edits of a document's text that change nothing else.

An *edit* replaces a span of the text. Edits are computed from the spans of the document's nodes,
for JSON and for both notations of YAML; where a span cannot be separated from what surrounds it,
`NotEditable` is raised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from wavewright.config.errors import WavewrightError
from wavewright.config.sources import ListNode, Node, ObjectNode, Span

if TYPE_CHECKING:
    from pydantic import JsonValue


class Edit(NamedTuple):
    """A text that replaces a span of the document."""

    start: int
    end: int
    text: str = ""


class NotEditable(WavewrightError):
    """A node's text cannot be changed alone; the message says why."""


class WordRename(NamedTuple):
    """One word of a string, by its place in the string's value, and the word that it becomes."""

    start: int
    old: str
    new: str


_WORD = "[A-Za-z0-9_]"


def rename_words(text: str, node: Node, value: str, renamings: Sequence[WordRename]) -> list[Edit]:
    """Return the edits that rename words of a string, however the string is quoted or folded.

    Raises:
        NotEditable: the words of the value cannot be found in what is written.
    """
    edits: list[Edit] = []
    for old in {renaming.old for renaming in renamings}:
        of_word = [renaming for renaming in renamings if renaming.old == old]
        spans = word_spans(text, node, value, old, [renaming.start for renaming in of_word])
        edits += [Edit(*span, renaming.new) for span, renaming in zip(spans, of_word, strict=True)]
    return edits


def word_spans(text: str, node: Node, value: str, word: str, starts: Sequence[int]) -> list[Span]:
    """Return where a word of a string stands in the text, by its places in the string's value.

    Raises:
        NotEditable: the words of the value cannot be found in what is written.
    """
    pattern = re.compile(rf"(?<!{_WORD}){re.escape(word)}(?!{_WORD})")
    written = [match.start() for match in pattern.finditer(text, node.start, node.end)]
    meant = [match.start() for match in pattern.finditer(value)]
    if starts and len(written) != len(meant):
        raise NotEditable(f"{word!r} is written with escapes")
    places = [written[meant.index(start)] for start in starts]
    return [Span(place, place + len(word)) for place in places]


def remove_items(text: str, node: ListNode, places: Collection[int]) -> list[Edit]:
    """Return the edits that take some items, but not all, out of a list.

    Raises:
        NotEditable: an item shares its lines with something else.
    """
    spans = [Span(item.start, item.end) for item in node.items]
    if _is_flow(text, node):
        return _without_flow_items(text, spans, places)
    return [_without_block_item(text, spans[place]) for place in sorted(places)]


def remove_member(text: str, node: ObjectNode, key: str) -> list[Edit]:
    """Return the edits that take a member, one of several, out of an object.

    Raises:
        NotEditable: the member shares its lines with something else.
    """
    names = list(node.members)
    place = names.index(key)
    spans = [Span(member.key.start, member.node.end) for member in node.members.values()]
    if len(spans) == 1:
        raise NotEditable("nothing would be left of what it stands in")
    if _is_flow(text, node):
        return _without_flow_items(text, spans, {place})
    start = _line_start(text, spans[place].start)
    if not text[start : spans[place].start].strip():
        return [Edit(start, _rest_of_line(text, spans[place].end))]
    # It shares its line with the dash of its step: the next member takes its place.
    if place + 1 == len(spans) or "#" in text[spans[place].end : spans[place + 1].start]:
        raise NotEditable("a comment stands behind it")
    return [Edit(spans[place].start, spans[place + 1].start)]


def add_member(text: str, node: ObjectNode, key: str, value: JsonValue) -> Edit:
    """Return the edit that adds a member behind the others of an object.

    Raises:
        NotEditable: nothing in the text says how the object is indented.
    """
    written = json.dumps(value, ensure_ascii=False)
    is_json = text.lstrip().startswith(("{", "["))
    name = key if key.isidentifier() and not is_json else json.dumps(key, ensure_ascii=False)
    last = next(reversed(node.members.values()), None)
    if _is_flow(text, node):
        place = node.start + 1 if last is None else last.node.end
        separator = "" if last is None else ", "
        return Edit(place, place, f"{separator}{name}: {written}")
    if last is None:
        raise NotEditable("it is empty")
    first = next(iter(node.members.values())).key.start
    indent = " " * (first - _line_start(text, first))
    end = _line_end(text, last.node.end)
    line_break = "\r\n" if "\r\n" in text else "\n"
    line = f"{indent}{name}: {written}"
    has_break = text[end - 1 : end] == "\n"
    return Edit(end, end, line + line_break if has_break else line_break + line)


def rewrite(text: str, span: Span, value: str) -> Edit:
    """Return the edit that writes another string in the place of one, quoted as that was."""
    quote = text[span.start : span.start + 1]
    if quote == '"' or (quote != "'" and _NEEDS_QUOTES.search(value)):
        written = json.dumps(value, ensure_ascii=False)
    elif quote == "'":
        written = "'" + value.replace("'", "''") + "'"
    else:
        written = value
    return Edit(span.start, span.end, written)


_NEEDS_QUOTES = re.compile(r"^[-?:,\[\]{}#&*!|>'\"%@`\s]|: | #|[\n:]$|\s$")
"""What a plain string of YAML may not begin with, hold, or end in."""


def _is_flow(text: str, node: Node) -> bool:
    return text[node.start : node.start + 1] in {"[", "{"}


def _without_flow_items(text: str, spans: Sequence[Span], places: Collection[int]) -> list[Edit]:
    kept = [place for place in range(len(spans)) if place not in places]
    last_kept = kept[-1]
    edits = [
        Edit(_start_with_separator(text, spans, place), spans[place + 1].start)
        for place in sorted(places)
        if place < last_kept
    ]
    if last_kept + 1 < len(spans):
        for place in range(last_kept, len(spans) - 1):
            _start_with_separator(text, spans, place)
        edits.append(Edit(spans[last_kept].end, spans[-1].end))
    return edits


def _start_with_separator(text: str, spans: Sequence[Span], place: int) -> int:
    """Return where an item starts, if nothing but a comma stands between it and the next one."""
    if text[spans[place].end : spans[place + 1].start].strip() != ",":
        raise NotEditable("a comment stands between it and what follows")
    return spans[place].start


def _without_block_item(text: str, span: Span) -> Edit:
    dash = len(text[: span.start].rstrip()) - 1
    start = _line_start(text, max(dash, 0))
    if text[dash : dash + 1] != "-" or text[start:dash].strip():
        raise NotEditable("its line holds something else as well")
    end = _rest_of_line(text, span.end)
    before_is_blank = not text[_line_start(text, max(start - 1, 0)) : start].strip()
    after = _line_end(text, end)
    if before_is_blank and not text[end:after].strip():
        end = after  # one of the two blank lines that stood around it
    return Edit(start, end)


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _line_end(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end + 1


def _rest_of_line(text: str, place: int) -> int:
    """Return where the next line begins, if nothing but blanks and a comment stand on this one from
    here on.
    """
    end = _line_end(text, place)
    rest = text[place:end].strip()
    if rest and not rest.startswith("#"):
        raise NotEditable("something else stands behind it on its line")
    return end
