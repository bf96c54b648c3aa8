"""How values of JSON are spoken of in messages.

Texts and the places in them.

A *source* is text with a name, a *span* a stretch of it, a *pointer* (RFC 6901) names a node of the value that was
read. A *fault* is something that keeps a text from being a document at all, or a document from being what was asked
for; whoever reports one says where it is and what would mend it.

Nodes: values that know where they stand.

A *node* is a scalar, a list or an object together with the stretch of text that it was read from; an object also
knows where each key stands. Readers that keep positions build nodes, everybody else works on the plain value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError

if TYPE_CHECKING:
    from pydantic import JsonValue


_MAX_SHOWN = 40
_TRUE_WORDS = frozenset({"yes", "on", "y", "true", "1"})
_FALSE_WORDS = frozenset({"no", "off", "n", "false", "0"})


def json_excerpt(value: JsonValue) -> str:
    """Write a value as JSON, cut where it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_SHOWN else text[: _MAX_SHOWN - 1] + "…"


def describe_value(value: JsonValue) -> str:
    """Name a value with its type: `the string 'x'`."""
    if isinstance(value, str):
        text = value if len(value) <= _MAX_SHOWN else value[: _MAX_SHOWN - 1] + "…"
        return f"the string {text!r}"
    if isinstance(value, bool) or value is None:
        return json_excerpt(value)
    if isinstance(value, (int, float)):
        return f"the number {json_excerpt(value)}"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    return "an object" if value else "an empty object"


def join_alternatives(words: Sequence[str]) -> str:
    """Join alternatives: `a, b or c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def type_hint(value: JsonValue, expected: Sequence[str]) -> str | None:
    """Say how the value would be written in the type wanted, where that is plain."""
    if isinstance(value, str) and "true or false" in expected and value.lower() in _TRUE_WORDS | _FALSE_WORDS:
        return f"write {'true' if value.lower() in _TRUE_WORDS else 'false'}"
    if isinstance(value, str) and {"a number", "an integer"} & set(expected) and _reads_as_number(value):
        return f"remove the quotes: {value}"
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)) and "a string" in expected:
        return f'put it in quotes: "{json_excerpt(value)}"'
    if isinstance(value, (str, int, float)) and "a list" in expected:
        return f"write a list: [{json_excerpt(value)}]"
    return None


def _reads_as_number(text: str) -> bool:
    try:
        number = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(number, (int, float)) and not isinstance(number, bool)


MAX_EXACT_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps exact."""
EMPTY_DOCUMENT = "the document is empty"
"""What is said of a text without a value; comments are none."""


@dataclass(frozen=True, slots=True)
class Source:
    """Text with the name a reader knows it by: a file's path, or `<model>`."""

    name: str
    text: str

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column of a character offset, both counted from 1."""
        before = self.text[: max(0, min(offset, len(self.text)))]
        line = before.count("\n") + 1
        return line, len(before) - (before.rfind("\n") + 1) + 1


class Span(NamedTuple):
    """A half-open stretch of a source's text, in characters."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DocumentFault:
    """What is wrong: a kind from a fixed list, a message, a place and a way out."""

    kind: str
    message: str
    span: Span | None = None
    pointer: str = ""
    hint: str | None = None


class DocumentError(WavewrightError):
    """A text that could not be read as a document; `faults` says why, in the order of the text."""

    exit_code = exit_codes.MISUSE

    def __init__(
        self, source: Source, faults: tuple[DocumentFault, ...], others: tuple[DocumentError, ...] = ()
    ) -> None:
        self.source = source
        self.faults = faults
        self.others = others
        """What is wrong with other texts that were read with this one."""
        texts = [f"{source.name}: {fault.message}" for fault in faults]
        super().__init__("; ".join([*texts, *map(str, others)]))


def combine_errors(errors: Sequence[DocumentError]) -> DocumentError:
    """Return one error that tells what is wrong with several texts, the first of them before the others."""
    first, *rest = (
        part for error in errors for part in (DocumentError(error.source, error.faults), *error.others)
    )
    return DocumentError(first.source, first.faults, tuple(rest))


class ReadLimits(NamedTuple):
    """What a reader is willing to take in."""

    max_bytes: int = 16 * 2**20
    max_depth: int = 64
    """How deep lists and objects may be nested."""


def pointer_token(key: str | int) -> str:
    """Return one step of a pointer, with its slash."""
    return f"/{key}" if isinstance(key, int) else "/" + key.replace("~", "~0").replace("/", "~1")


def pointer_keys(pointer: str) -> list[str]:
    """Return the keys that a pointer leads along."""
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


Scalar: TypeAlias = str | int | float | bool | None


@dataclass(slots=True)
class ScalarNode:
    """A text, number, truth value or null."""

    value: Scalar
    start: int
    end: int


@dataclass(slots=True)
class ListNode:
    """A list."""

    start: int
    end: int
    items: list[Node] = field(default_factory=list["Node"])


@dataclass(slots=True)
class Member:
    """A key of an object, with what it stands for."""

    key: Span
    node: Node


@dataclass(slots=True)
class ObjectNode:
    """An object; its members stand in the order of the text."""

    start: int
    end: int
    members: dict[str, Member] = field(default_factory=dict[str, Member])


Node: TypeAlias = ScalarNode | ListNode | ObjectNode


def plain_value(node: Node) -> JsonValue:
    """Return the value without its places. Recursive: readers bound the depth."""
    if isinstance(node, ObjectNode):
        return {key: plain_value(member.node) for key, member in node.members.items()}
    if isinstance(node, ListNode):
        return [plain_value(item) for item in node.items]
    return node.value


def find_node(root: Node, pointer: str) -> tuple[Node, Span | None] | None:
    """Return the node that a pointer names and where its key stands, if there is such a node."""
    node, key_span = root, None
    for key in pointer_keys(pointer):
        if isinstance(node, ObjectNode):
            member = node.members.get(key)
            if member is None:
                return None
            node, key_span = member.node, member.key
        elif isinstance(node, ListNode) and key.isdecimal() and int(key) < len(node.items):
            node, key_span = node.items[int(key)], None
        else:
            return None
    return node, key_span


def iterate_nodes(node: Node) -> Iterator[Node]:
    """Yield a node and all nodes in it."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if isinstance(current, ObjectNode):
            stack.extend(member.node for member in reversed(current.members.values()))
        elif isinstance(current, ListNode):
            stack.extend(reversed(current.items))
