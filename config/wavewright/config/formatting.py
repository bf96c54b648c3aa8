"""How a document is formatted: its indentation and its spaces, and nothing else.

Keys, their order, quotes, numbers as they are written, and comments stay. Of YAML that is what a
round trip through ruamel.yaml gives; JSON is written anew from its nodes.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from wavewright.config.documents import Document, read_document
from wavewright.config.sources import DocumentError, ListNode, Node, ObjectNode, ScalarNode

_WIDTH: Final = 100
"""Columns within which a list or an object of JSON stays on its line."""
_ANY_WIDTH: Final = 1_000_000


def formatted_text(document: Document) -> str:
    """Return a document as it is formatted; as it is, where that would change more than spaces.

    The line breaks of its text stay, too.
    """
    text, name = document.source.text, document.source.name
    try:
        for candidate in _candidates(document):
            is_same = "".join(candidate.split()) == "".join(text.split())
            if is_same and read_document(candidate, name).value == document.value:
                return candidate.replace("\n", "\r\n") if "\r\n" in text else candidate
    except DocumentError:
        pass
    return text


def _candidates(document: Document) -> Iterator[str]:
    """Yield what a document may become, the best first."""
    text = document.source.text.replace("\r\n", "\n")
    if PurePath(document.source.name).suffix == ".json":
        yield _json_text(document.source.text, document.root, "") + "\n"
        return
    try:
        written = _yaml_text(text)
    except YAMLError:
        written = text
    yield _trimmed(written)
    yield written
    yield _trimmed(text)


def _yaml_text(text: str) -> str:
    # Tags and aliases have been refused by the reader of documents, before this is called.
    round_trip = YAML(typ="rt")
    round_trip.preserve_quotes = True
    round_trip.brace_single_entry_mapping_in_flow_sequence = True
    round_trip.width = _ANY_WIDTH
    round_trip.indent(mapping=2, sequence=4, offset=2)
    written = io.StringIO()
    round_trip.dump(round_trip.load(text), written)  # pyright: ignore[reportUnknownMemberType]
    return written.getvalue()


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.split("\n")).rstrip("\n") + "\n"


def _json_text(text: str, node: Node, indent: str) -> str:
    """Return a node of JSON; one that stood on one line stays there as long as it fits."""
    if isinstance(node, ScalarNode):
        return text[node.start : node.end]
    opening, closing, parts = _parts(text, node)
    if not parts:
        return opening + closing
    if "\n" not in text[node.start : node.end]:
        line = _json_line(text, node)
        if len(indent) + len(line) < _WIDTH:
            return line
    inner = indent + "  "
    lines = ",\n".join(inner + key + _json_text(text, part, inner) for key, part in parts)
    return f"{opening}\n{lines}\n{indent}{closing}"


def _json_line(text: str, node: Node) -> str:
    """Return a node of JSON on one line, of whatever length."""
    if isinstance(node, ScalarNode):
        return text[node.start : node.end]
    opening, closing, parts = _parts(text, node)
    return opening + ", ".join(key + _json_line(text, part) for key, part in parts) + closing


def _parts(text: str, node: ObjectNode | ListNode) -> tuple[str, str, list[tuple[str, Node]]]:
    """Return the brackets of a node, and what stands in it: each with its key, if it has one."""
    if isinstance(node, ListNode):
        return "[", "]", [("", item) for item in node.items]
    members = node.members.values()
    return (
        "{",
        "}",
        [(f"{text[member.key.start : member.key.end]}: ", member.node) for member in members],
    )
