"""What a document says: its kind, its tree, and its plan as far as it can be read.

A *cursor* is the place at which something is being written. What stands there is no whole document
yet, so a word is put in its place, with what may be missing behind it, until the text can be read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from wavewright.config.documents import Document, read_faulty_document
from wavewright.config.model_validation import read_as_model
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
    pointer_keys,
    pointer_token,
)
from wavewright.engine.interfaces.cli.project.init_command import schema_text
from wavewright.engine.run.jobs.documents import (
    is_agent,
    is_job,
    is_settings,
    is_template,
    is_worker,
)
from wavewright.planner.checks.checker import read_partial_plan
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.language.plan import LIMITS_OF_OWN_PLANS, Plan
from wavewright.planner.types import Json, JsonSchema, StepId, as_object

if TYPE_CHECKING:
    from wavewright.planner.language.goals import Goal
    from wavewright.planner.language.signatures import ToolSignature

DocumentKind: TypeAlias = Literal["plan", "job", "goal", "settings", "worker", "agent"]

_LIMITS: Final = ReadLimits()


def kind_of(document: Document) -> DocumentKind:
    """Return what a document is meant as."""
    if is_settings(document):
        return "settings"
    if is_agent(document):
        return "agent"
    if is_worker(document):
        return "worker"
    if is_template(document):
        return "goal"
    return "job" if is_job(document) else "plan"


@lru_cache(maxsize=8)
def schema_of_kind(kind: DocumentKind) -> JsonSchema:
    """Return the schema that is published for documents of a kind, without the rules on which
    fields go together.
    """
    schema: JsonSchema = json.loads(schema_text(kind))
    for definition in (schema, *as_object(schema.get("$defs")).values()):
        if isinstance(definition, dict) and "properties" in definition:
            for rule in ("allOf", "anyOf", "oneOf"):
                definition.pop(rule, None)
    return schema


@dataclass(frozen=True)
class ReadText:
    """A document that could be read."""

    document: Document

    @cached_property
    def kind(self) -> DocumentKind:
        """What it is meant as."""
        return kind_of(self.document)

    @cached_property
    def plan_pointer(self) -> str | None:
        """Where its plan stands; None where it has none of its own."""
        if self.kind == "plan":
            return ""
        value = self.document.value
        for name in ("plan", "fallback_plan"):
            if isinstance(value, dict) and isinstance(value.get(name), dict):
                return f"/{name}"
        return None

    @cached_property
    def _plan(self) -> tuple[Plan, frozenset[StepId]] | None:
        """The plan, or its valid part, and the steps of whose outputs nothing is known."""
        if self.plan_pointer is None:
            return None
        value = value_at(self.document.value, self.plan_pointer)
        part = Document(value, self.document.source, keeps_places=False)
        try:
            return read_as_model(part, Plan), frozenset()
        except DocumentError as error:
            partial = read_partial_plan(value, error.faults)
            return None if partial is None else (partial.plan, partial.untyped)

    def subject(self, tools: Mapping[str, ToolSignature], goal: Goal | None) -> CheckContext | None:
        """Return the plan with what it may use; None where there is no plan to be read."""
        if self._plan is None:
            return None
        plan, untyped = self._plan
        if goal is not None:
            plan = plan.model_copy(update={"inputs": {**plan.inputs, **goal.inputs}})
        return CheckContext(plan, goal, tools, LIMITS_OF_OWN_PLANS, untyped)

    def in_plan(self, pointer: str) -> str | None:
        """Return a pointer of the document as one of its plan; None outside the plan."""
        base = self.plan_pointer
        if base is None or not f"{pointer}/".startswith(f"{base}/"):
            return None
        return pointer[len(base) :]


def read_text(text: str, name: str) -> ReadText | None:
    """Return a document; None where the text is none."""
    try:
        return ReadText(read_faulty_document(text, name))
    except DocumentError:
        return None


def value_at(value: Json, pointer: str) -> Json:
    """Return the part of a value that a pointer names; null where there is none."""
    for key in pointer_keys(pointer):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value


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


def offset_in_text(text: str, node: Node, offset: int) -> int | None:
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
    found = value.find(stripped) if stripped else -1
    if found < 0:
        return None
    return found + max(offset - line - (len(words) - len(words.lstrip())), 0)


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where something is being written."""

    read: ReadText
    """The document with a word at the cursor that stands for what is written there."""
    pointer: str
    """Of the value; of the object, where a key is being written."""
    is_key: bool
    text: str
    """The value or key without that word."""
    offset: int
    """Of the cursor in it."""


_WORD: Final = "cursor0word"
_FRESH_KEY = re.compile(r"\s*(?:- )*[\"']?[\w.-]*\Z")
_SUFFIXES: Final = ("", "}", '}"', "}'", '"', "'", ": ")


def cursors_at(text: str, offset: int, name: str) -> Iterator[Cursor]:
    """Yield what may be being written at an offset, the likeliest first."""
    line_start = text.rfind("\n", 0, offset) + 1
    line_end = text.find("\n", offset)
    line_end = len(text) if line_end < 0 else line_end
    before, rest = text[line_start:offset], text[offset:line_end]
    is_fresh = _FRESH_KEY.match(before) is not None
    if is_fresh and not rest.strip():
        yield from _cursor(f"{text[:offset]}{_WORD}: {text[offset:]}", name)
    for tail in dict.fromkeys((text[offset:], text[line_end:], "")):
        for suffix in _SUFFIXES:
            found = [*_cursor(f"{text[:offset]}{_WORD}{suffix}{tail}", name)]
            if found:
                yield from found
                return


def _cursor(text: str, name: str) -> Iterator[Cursor]:
    source = Source(name, text)
    try:
        root = read_yaml(source, _LIMITS)
    except DocumentError as error:
        if error.root is None:
            return
        root = error.root
    found = _find_word(root, "")
    if found is None:
        return
    pointer, written, is_key = found
    read = ReadText(Document(plain_value(root), source, root=root))
    offset = written.index(_WORD)
    yield Cursor(read, pointer, is_key, written.replace(_WORD, "", 1), offset)


def _find_word(node: Node, pointer: str) -> tuple[str, str, bool] | None:
    """Return the pointer, the text and whether it is a key, of what holds the word."""
    if isinstance(node, ScalarNode):
        held = isinstance(node.value, str) and _WORD in node.value
        return (pointer, str(node.value), False) if held else None
    if isinstance(node, ListNode):
        inside = ((pointer + pointer_token(place), one) for place, one in enumerate(node.items))
    else:
        for key in node.members:
            if _WORD in key:
                return pointer, key, True
        inside = (
            (pointer + pointer_token(key), member.node) for key, member in node.members.items()
        )
    for place, one in inside:
        found = _find_word(one, place)
        if found is not None:
            return found
    return None
