"""Sources of documents: texts with positions, faults in them, and nodes that know their positions.

A *source* is text with a name, a *span* a range of it; a *pointer* (RFC 6901) names a node of the
value that was read. A *fault* keeps a text from being a valid document; it has a message, a place
and a fix. A *node* is a scalar, a list or an object with its span, and an object also has the spans
of its keys.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError, cut_end

if TYPE_CHECKING:
    from pydantic import JsonValue


_MAX_SHOWN = 40
_TRUE_WORDS = frozenset({"yes", "on", "y", "true", "1"})
_FALSE_WORDS = frozenset({"no", "off", "n", "false", "0"})


def json_excerpt(value: JsonValue) -> str:
    """Return a value as JSON, truncated if it is long."""
    return cut_end(json.dumps(value, ensure_ascii=False), _MAX_SHOWN)


def describe_value(value: JsonValue) -> str:
    """Return a value with its type for a message: `the string 'x'`."""
    if isinstance(value, str):
        return f"the string {cut_end(value, _MAX_SHOWN)!r}"
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
    """Return a hint on how to write the value in the expected type, if that is obvious."""
    text = value if isinstance(value, str) else ""
    if "true or false" in expected and text.lower() in _TRUE_WORDS | _FALSE_WORDS:
        return f"write {'true' if text.lower() in _TRUE_WORDS else 'false'}"
    if {"a number", "an integer"} & set(expected) and _reads_as_number(text):
        return f"remove the quotes: {text}"
    if isinstance(value, bool):
        return None
    if isinstance(value, (int, float)) and "a string" in expected:
        return f'put it in quotes: "{json_excerpt(value)}"'
    if isinstance(value, (str, int, float)) and "a list" in expected:
        return f"write a list: [{json_excerpt(value)}]"
    if isinstance(value, dict) and "a list" in expected:
        return "write a list, with `- ` before each of its entries"
    if isinstance(value, list) and "an object" in expected:
        return "write an object, with a name for each of its entries: {NAME: …}"
    if text.endswith((".yaml", ".yml", ".json")) and "an object" in expected:
        return "write what the file holds in place of its name: no file is read here"
    return None


def _reads_as_number(text: str) -> bool:
    try:
        number = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(number, (int, float)) and not isinstance(number, bool)


MAX_EXACT_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader reads exactly."""
EMPTY_DOCUMENT = "the document is empty"
"""Message for a text without a value, apart from comments."""


@dataclass(frozen=True, slots=True)
class Source:
    """Text with its name: a file's path, or `<model>`.

    >>> from wavewright.config import Source
    >>> Source("plan.json", "{}").name
    'plan.json'
    """

    name: str
    text: str

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column of a character offset, both counted from 1."""
        before = self.text[: max(0, min(offset, len(self.text)))]
        line = before.count("\n") + 1
        return line, len(before) - (before.rfind("\n") + 1) + 1


class Span(NamedTuple):
    """A half-open range of a source's text, in characters.

    >>> from wavewright.config import Span
    >>> span = Span(2, 5)
    >>> "a name"[span.start : span.end]
    'nam'
    """

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class DocumentFault:
    """A fault: a kind from a fixed list, a message, a place and a fix.

    >>> from wavewright.config import DocumentError, read_document
    >>> try:
    ...     read_document('{"a": 1, "a": 2}', "plan.json")
    ... except DocumentError as error:
    ...     print(error.faults[0].message)
    the key 'a' stands twice in one object
    """

    kind: str
    message: str
    span: Span | None = None
    pointer: str = ""
    hint: str | None = None


class DocumentError(WavewrightError):
    """A text is no valid document; `faults` lists why, in text order."""

    exit_code = exit_codes.MISUSE

    def __init__(
        self,
        source: Source,
        faults: tuple[DocumentFault, ...],
        others: tuple[DocumentError, ...] = (),
        root: Node | None = None,
    ) -> None:
        self.source = source
        self.faults = faults
        self.others = others
        """Errors of other texts that were read with this one."""
        self.root = root
        """The nodes, where only single values are faulty."""
        texts = [
            f"{source.name}: {fault.message}" + (f" ({fault.hint})" if fault.hint else "")
            for fault in faults
        ]
        super().__init__("; ".join([*texts, *map(str, others)]))


def combine_errors(errors: Sequence[DocumentError]) -> DocumentError:
    """Return one error with the faults of several texts, in their order."""
    first, *rest = (
        part
        for error in errors
        for part in (DocumentError(error.source, error.faults), *error.others)
    )
    return DocumentError(first.source, first.faults, tuple(rest))


class ReadLimits(NamedTuple):
    """Limits of what a reader accepts.

    >>> from wavewright.config import DocumentError, ReadLimits, read_document
    >>> try:
    ...     read_document("[[[1]]]", "deep.json", limits=ReadLimits(max_depth=2))
    ... except DocumentError as error:
    ...     print(error.faults[0].kind)
    too_deep
    """

    max_bytes: int = 16 * 2**20
    max_depth: int = 64
    """Maximum nesting of lists and objects."""
    takes_large_integers: bool = False
    """Whether integers beyond 2^53 - 1 are read, as a program of Python writes them; readers of other
    languages disagree on them.
    """


def pointer_token(key: str | int) -> str:
    """Return one step of a pointer, with its slash."""
    if isinstance(key, int) or ("~" not in key and "/" not in key):
        return f"/{key}"
    return "/" + key.replace("~", "~0").replace("/", "~1")


def pointer_keys(pointer: str) -> list[str]:
    """Return the keys of a pointer."""
    return [key.replace("~1", "/").replace("~0", "~") for key in pointer.split("/")[1:]]


def path_of_keys(keys: Iterable[str], value: JsonValue) -> str:
    """Return keys that lead to a part of a value as a program writes them: `filters[0].tag`.

    Digits are a place in a list, and a name in an object:

    >>> path_of_keys(["born", "2020", "0"], {"born": {"2020": ["Ada"]}})
    'born.2020[0]'
    """
    path: list[str | int] = []
    for key in keys:
        if isinstance(value, list) and key.isdecimal():
            path.append(int(key))
            value = value[int(key)] if int(key) < len(value) else None
        else:
            path.append(key)
            value = value.get(key) if isinstance(value, dict) else None
    return path_text(path)


def path_text(path: Iterable[str | int]) -> str:
    """Return names and places in lists as a program writes them.

    >>> path_text(["filters", 0, "tag"])
    'filters[0].tag'
    """
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")


Scalar: TypeAlias = str | int | float | bool | None


@dataclass(slots=True)
class ScalarNode:
    """A string, number, boolean or null."""

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
    """A key of an object, with its value."""

    key: Span
    node: Node


@dataclass(slots=True)
class ObjectNode:
    """An object with its members in text order."""

    start: int
    end: int
    members: dict[str, Member] = field(default_factory=dict[str, Member])


Node: TypeAlias = ScalarNode | ListNode | ObjectNode


def plain_value(node: Node) -> JsonValue:
    """Return the value without positions. Recursive: readers limit the depth."""
    if isinstance(node, ObjectNode):
        return {key: plain_value(member.node) for key, member in node.members.items()}
    if isinstance(node, ListNode):
        return [plain_value(item) for item in node.items]
    return node.value


def scalar_pointers(root: Node, pointer: str = "") -> Iterator[tuple[int, str]]:
    """Yield where each string, number, boolean and null begins, with its pointer."""
    if isinstance(root, ObjectNode):
        for key, member in root.members.items():
            yield from scalar_pointers(member.node, pointer + pointer_token(key))
    elif isinstance(root, ListNode):
        for place, item in enumerate(root.items):
            yield from scalar_pointers(item, pointer + pointer_token(place))
    else:
        yield root.start, pointer


def find_node(root: Node, pointer: str) -> tuple[Node, Span | None] | None:
    """Return the node that a pointer names and the span of its key, if there is such a node."""
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
