"""Tools as a planner reads them.

A *tool line* is a tool's whole contract on one line: `name(params) -> {field: type}`, what it does, what it changes
and whether a person must allow it. Below it stand notes on parameters that have something to say.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from wavewright.planner.binding import terminal_params
from wavewright.planner.goals import Goal
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.type_text import MAX_TYPE_TEXT_LENGTH, fields_text, type_text
from wavewright.planner.types import Json, JsonObject
from wavewright.prompts.blocks import one_line, prompt_json

__all__ = ["ToolEntry", "tool_entries", "tool_line"]

_BOUNDS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "{} characters or more",
    "maxLength": "{} characters or fewer",
    "minItems": "{} items or more",
    "maxItems": "{} items or fewer",
    "pattern": "matches {}",
    "format": "a {}",
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
    """What there is to say of single parameters."""
    set_by_engine: tuple[str, ...] = ()
    """Parameters of last steps that only the engine sets."""


def tool_line(
    signature: ToolSignature, description: str, *, hidden: Collection[str] = (), is_brief: bool = False
) -> str:
    """Return a tool's contract on one line.

    Args:
        signature: The tool.
        description: What the goal says it does, or else the tool itself.
        hidden: Parameters that are not the reader's to give.
        is_brief: Whether types show fewer levels of fields, and descriptions are cut earlier.
    """
    most = _BRIEF_TYPE_LENGTH if is_brief else MAX_TYPE_TEXT_LENGTH
    given = fields_text(signature.input_schema, hidden=frozenset(hidden), most=most)
    gives = type_text(signature.output_schema, most)
    description = description or signature.description
    said = one_line(description, _BRIEF_DESCRIPTION_LENGTH if is_brief else _MAX_DESCRIPTION_LENGTH).rstrip(
        "."
    )
    words = f": {said}." if said else ""
    return f"{signature.name}({given}) -> {gives}{words} [{_effects(signature)}]"


def tool_entries(
    goal: Goal, tools: Mapping[str, ToolSignature], *, is_brief: bool = False
) -> tuple[ToolEntry, ...]:
    """Return the tools that a goal allows and that are installed, in the goal's order.

    Brief entries have shorter lines and no notes.
    """
    set_by_engine = terminal_params(goal)
    found: list[ToolEntry] = []
    for allowed in goal.tools:
        signature = tools.get(allowed.name)
        if signature is None:
            continue
        hidden = tuple(sorted(set_by_engine.get(allowed.name, {})))
        line = tool_line(
            signature, allowed.description or signature.description, hidden=hidden, is_brief=is_brief
        )
        notes = () if is_brief else _notes(signature, hidden)
        found.append(ToolEntry(allowed.name, line, notes, hidden))
    return tuple(found)


def _effects(signature: ToolSignature) -> str:
    """Return what a call does to the world; a tool that only looks says so."""
    said = [words for effect, words in _EFFECTS if effect in signature.effects] or ["reads only"]
    if signature.needs_approval:
        said.append("a person must approve each call")
    if signature.untrusted_output:
        said.append("untrusted output")
    return "; ".join(said)


def _notes(signature: ToolSignature, hidden: Collection[str]) -> tuple[str, ...]:
    properties = signature.input_schema.get("properties")
    if not isinstance(properties, dict):
        return ()
    found: list[str] = []
    for name, part in properties.items():
        said = _note(part) if isinstance(part, dict) and name not in hidden else ""
        if said:
            found.append(f"{one_line(name)}: {said}")
    return tuple(found)


def _note(schema: JsonObject) -> str:
    described = schema.get("description")
    said = (
        [one_line(described, _MAX_NOTE_LENGTH).rstrip(".")]
        if isinstance(described, str) and described
        else []
    )
    said += [_bound(words, schema[keyword]) for keyword, words in _BOUNDS.items() if keyword in schema]
    if schema.get("default") is not None:
        said.append(f"default {one_line(prompt_json(schema['default']), 60)}")
    return "; ".join(said)


def _bound(words: str, value: Json) -> str:
    return words.format(one_line(str(value), 100))
