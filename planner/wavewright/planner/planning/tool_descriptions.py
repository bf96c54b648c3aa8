"""Tools and types as text for a planning model.

A *type text* such as `{code: string, prices: [{date: string, close: number}]}` lists fields and
their types as deep as there is room; a field with `?` may be absent, and `any` is any value. A
*tool line* is a tool's contract on one line: `name(params) -> {field: type}`, its purpose, its
effects and whether it needs an approval. Notes on parameters follow it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import SUB_PLAN
from wavewright.planner.language.signatures import ToolSignature, ToolSignatures
from wavewright.planner.plans.binding import terminal_params
from wavewright.planner.schemas.validation import COUNTED_NOUNS, look_up_reference
from wavewright.planner.types import (
    Json,
    JsonObject,
    JsonSchema,
    as_list,
    as_object,
    properties_of,
)
from wavewright.prompts.values import one_line, prompt_json

MAX_TYPE_TEXT_LENGTH = 1200
"""Maximum characters of one type; a longer one is shown with fewer levels."""

_MAX_DEPTH = 6
_MAX_CHOICES = 12
_MAX_FIELDS = 60
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def type_text(schema: JsonSchema, most: int = MAX_TYPE_TEXT_LENGTH) -> str:
    """Return a schema as a type, with as many levels of fields as fit into so many characters."""
    renderer = _TypeTextRenderer(schema)
    return _as_deep_as_fits(lambda depth: renderer.text(schema, depth), most)


def fields_text(
    schema: JsonSchema, *, hidden: frozenset[str] = frozenset(), most: int = MAX_TYPE_TEXT_LENGTH
) -> str:
    """Return the properties of an object schema as `name: type, other?: type`."""
    renderer = _TypeTextRenderer(schema)
    return _as_deep_as_fits(lambda depth: ", ".join(renderer.fields(schema, depth, hidden)), most)


def _as_deep_as_fits(render: Callable[[int], str], most: int) -> str:
    texts = (render(depth) for depth in range(_MAX_DEPTH, 0, -1))
    return next((text for text in texts if len(text) <= most), None) or render(0)


class _TypeTextRenderer:
    """The types of one schema, whose references stay inside it."""

    def __init__(self, root: JsonSchema) -> None:
        self._root = root

    def text(self, schema: Json, depth: int, followed: frozenset[str] = frozenset()) -> str:
        """Return a part of the schema as a type, `depth` levels of fields deep."""
        if not isinstance(schema, dict):
            return "any" if schema is not False else "nothing"
        reference = schema.get("$ref")
        if isinstance(reference, str):
            target = look_up_reference(reference, self._root)
            if reference in followed or target is None:
                return "any"
            return self.text(target, depth, followed | {reference})
        choices = _choices(schema)
        if choices is not None:
            return choices
        for keyword in ("anyOf", "oneOf"):
            if branches := as_list(schema.get(keyword)):
                return _union(self.text(branch, depth, followed) for branch in branches)
        return self._plain(schema, depth, followed)

    def fields(
        self,
        schema: JsonObject,
        depth: int,
        hidden: frozenset[str],
        followed: frozenset[str] = frozenset(),
    ) -> list[str]:
        """Return each property of an object with its type."""
        needed = as_list(schema.get("required"))
        lines = [
            f"{_key(name)}{'' if name in needed else '?'}: {self.text(part, depth - 1, followed)}"
            for name, part in properties_of(schema).items()
            if name not in hidden
        ]
        return lines if len(lines) <= _MAX_FIELDS else [*lines[:_MAX_FIELDS], "…"]

    def _plain(self, schema: JsonObject, depth: int, followed: frozenset[str]) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            return _union(self._plain({**schema, "type": one}, depth, followed) for one in kind)
        if kind == "array":
            if prefix := as_list(schema.get("prefixItems")):
                return "[" + ", ".join(self.text(item, depth, followed) for item in prefix) + "]"
            return f"[{self.text(schema.get('items', {}), depth, followed)}]"
        if kind == "object" or "properties" in schema:
            fields = self.fields(schema, depth, frozenset(), followed) if depth > 0 else []
            return "{" + ", ".join(fields) + "}" if fields else self._map(schema, depth, followed)
        form = schema.get("format")
        if kind == "string" and isinstance(form, str):
            # To an expression it is a text all the same: it has no methods of a time.
            return f"string ({one_line(form, 100)})"
        return kind if isinstance(kind, str) else "any"

    def _map(self, schema: JsonObject, depth: int, followed: frozenset[str]) -> str:
        values = schema.get("additionalProperties")
        if isinstance(values, dict) and values and depth > 0:
            return "{[key]: " + self.text(values, depth - 1, followed) + "}"
        return "object"


def _choices(schema: JsonObject) -> str | None:
    """Return the values that a schema lists, where it does."""
    if "const" in schema:
        return _literal(schema["const"])
    options = as_list(schema.get("enum"))
    if not options:
        return None
    shown = [_literal(option) for option in options[:_MAX_CHOICES]]
    return " | ".join([*shown, "…"] if len(options) > _MAX_CHOICES else shown)


def _literal(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def _union(texts: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(texts))
    # `any` includes null.
    return "any" if "any" in distinct else " | ".join(distinct)


def _key(name: str) -> str:
    return name if _PLAIN_KEY.fullmatch(name) else _literal(name)


_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "{} or more",
    "maxLength": "{} or fewer",
    "minItems": "{} or more",
    "maxItems": "{} or fewer",
    "pattern": "matches {}",
}
_EFFECTS = (("write", "writes"), ("egress", "sends data out"))
_MAX_NOTE_LENGTH = 200
_MAX_DESCRIPTION_LENGTH = 500
_BRIEF_TYPE_LENGTH = 200
_BRIEF_DESCRIPTION_LENGTH = 100


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """One tool of a goal, in words."""

    name: str
    line: str
    notes: tuple[str, ...]
    """Notes on single parameters."""
    set_by_engine: tuple[str, ...] = ()
    """Parameters of last steps that only the engine sets."""


def tool_line(
    signature: ToolSignature,
    description: str | None,
    *,
    hidden: Collection[str] = (),
    is_brief: bool = False,
) -> str:
    """Return a tool's contract on one line.

    Args:
        signature: The tool.
        description: Its purpose, as the goal says it; its own where that says nothing.
        hidden: Parameters that the planner must not set.
        is_brief: Whether types show fewer levels of fields, and descriptions are cut earlier.
    """
    most = max_type_length(is_brief=is_brief)
    given = fields_text(signature.input_schema, hidden=frozenset(hidden), most=most)
    gives = type_text(signature.output_schema, most)
    longest = _BRIEF_DESCRIPTION_LENGTH if is_brief else _MAX_DESCRIPTION_LENGTH
    said = one_line(description or signature.description, longest).rstrip(".")
    words = f": {said}." if said else ""
    return f"{signature.name}({given}) -> {gives}{words} [{_effects(signature)}]"


def tool_entries(
    goal: Goal, tools: ToolSignatures, *, is_brief: bool = False
) -> tuple[ToolEntry, ...]:
    """Return the tools that a goal allows and that are installed, in the goal's order.

    Brief entries have shorter lines and no notes.
    """
    set_by_engine = terminal_params(goal)
    entries: list[ToolEntry] = []
    for allowed in goal.tools:
        signature = tools.get(allowed.name)
        if signature is None or allowed.name == SUB_PLAN:
            continue
        hidden = tuple(sorted(set_by_engine.get(allowed.name, {})))
        line = tool_line(signature, allowed.description, hidden=hidden, is_brief=is_brief)
        notes = () if is_brief else field_notes(signature.input_schema, hidden)
        entries.append(ToolEntry(allowed.name, line, notes, hidden))
    return tuple(entries)


def _effects(signature: ToolSignature) -> str:
    """Return the side effects of a call; a tool that only reads says so."""
    said = [words for effect, words in _EFFECTS if effect in signature.effects] or ["reads only"]
    if signature.needs_approval:
        said.append("a person must approve each call")
    if signature.untrusted_output:
        said.append("untrusted output")
    return "; ".join(said)


def max_type_length(*, is_brief: bool) -> int:
    """Return the most characters of a type in a prompt."""
    return _BRIEF_TYPE_LENGTH if is_brief else MAX_TYPE_TEXT_LENGTH


def field_notes(schema: JsonSchema, hidden: Collection[str] = ()) -> tuple[str, ...]:
    """Return a note on each field of an object schema of which more than its type is said."""
    said = {
        name: _note(as_object(part))
        for name, part in properties_of(schema).items()
        if name not in hidden
    }
    return tuple(f"{one_line(name)}: {note}" for name, note in said.items() if note)


def _note(schema: JsonObject) -> str:
    described = schema.get("description")
    said = [one_line(str(described), _MAX_NOTE_LENGTH).rstrip(".")] if described else []
    said += [
        words.format(_bound(keyword, schema[keyword]))
        for keyword, words in _BOUNDS.items()
        if keyword in schema
    ]
    if schema.get("default") is not None:
        said.append(f"default {one_line(prompt_json(schema['default']), 60)}")
    return "; ".join(said)


def _bound(keyword: str, value: Json) -> str:
    """Return what a keyword of a schema is set to; a limit of a number of things with their noun."""
    noun = COUNTED_NOUNS.get(keyword)
    if noun is not None and isinstance(value, int):
        return counted(value, noun)
    return one_line(str(value), 100)
