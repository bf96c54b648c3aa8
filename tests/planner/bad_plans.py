"""The corpus of planner answers, as this language spells it.

Its reference syntax, `{{ steps.x.output.y }}`, is ours with other brackets. Families about
references that need a dependency beside them, and about other template languages, do not apply: a
reference implies its dependency here, and braces other than `${` are plain text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject, JsonSchema

NOT_OURS = frozenset({"x42", "x44", "x45", "x46"})
SAME_KINDS = {
    "bad_params": {"bad_params", "unknown_argument", "missing_argument", "reserved_argument"},
    "unknown_field": {"unknown_field", "unknown_argument"},
    "missing_field": {"missing_field", "missing_argument"},
    "wrong_type": {"wrong_type", "bad_params"},
    "bad_reference": {"unknown_step", "self_reference", "unknown_name_or_field", "bad_expression"},
}
"""What the corpus calls by one word and our catalogue by several."""

_REFERENCE = re.compile(r"\{\{\s*steps\.([A-Za-z0-9_]+)\.output((?:\.[A-Za-z0-9_]+)*)\s*\}\}")
_BOUNDS = {
    "string": ("minLength", "maxLength"),
    "integer": ("minimum", "maximum"),
    "array": ("minItems", "maxItems"),
}


@dataclass(frozen=True, slots=True)
class Case:
    """One answer and what must come of it."""

    name: str
    outcome: str
    content: bytes
    steps: list[Json]
    kinds: frozenset[str]


def in_our_words(text: str) -> str:
    """Return a text with its references as this language writes them."""
    return _REFERENCE.sub(r"${steps.\1\2}", text)


def cases(folder: Path) -> Iterator[Case]:
    """Yield the cases that apply."""
    for line in (folder / "index.jsonl").read_text().splitlines():
        row = json.loads(line)
        if row["family"][:3] in NOT_OURS:
            continue
        steps: list[Json] = []
        if "expect" in row:
            steps = json.loads(in_our_words(json.dumps(row["expect"]["steps"])))
        kinds = {ours for kind in row.get("kinds", ()) for ours in SAME_KINDS.get(kind, {kind})}
        name = f"{row['id']}-{row['family']}"
        yield Case(name, row["outcome"], _content(row, folder), steps, frozenset(kinds))


def _content(row: dict[str, Json], folder: Path) -> bytes:
    file, recipe = row.get("file"), row.get("gen")
    if isinstance(file, str):
        raw = (folder / file).read_bytes()
        try:
            return in_our_words(raw.decode()).encode()
        except UnicodeDecodeError:
            return raw
    assert isinstance(recipe, dict)
    count = recipe["count"]
    assert isinstance(count, int)
    return f"{recipe['prefix']}{str(recipe['unit']) * count}{recipe['suffix']}".encode()


def contract_tools(contract: JsonObject) -> dict[str, ToolSignature]:
    """Return the corpus's tools as signatures."""
    tools = contract["tools"]
    assert isinstance(tools, dict)
    return {name: _signature(name, tool) for name, tool in tools.items() if isinstance(tool, dict)}


def _signature(name: str, tool: JsonObject) -> ToolSignature:
    params = tool["params"]
    assert isinstance(params, dict)
    rules = {key: rule for key, rule in params.items() if isinstance(rule, dict)}
    schema: JsonSchema = {
        "type": "object",
        "properties": {key: _schema(rule) for key, rule in rules.items()},
        "required": [key for key, rule in rules.items() if rule.get("required")],
        "additionalProperties": False,
    }
    effects = frozenset({"write"}) if tool["side_effect"] else frozenset({"read"})
    return ToolSignature.model_validate({"name": name, "input_schema": schema, "effects": effects})


def _schema(rule: JsonObject) -> JsonSchema:
    kind = str(rule["type"])
    lowest, highest = _BOUNDS[kind]
    schema: JsonSchema = {"type": kind}
    if "min" in rule:
        schema[lowest] = rule["min"]
    if "max" in rule:
        schema[highest] = rule["max"]
    if "enum" in rule:
        schema["enum"] = rule["enum"]
    if "pattern" in rule:
        schema["pattern"] = f"^(?:{rule['pattern']})$"
    return schema


def goal_of(allowed: list[str]) -> Goal:
    """Return a goal that allows these tools and asks for nothing else."""
    tools = tuple(AvailableTool(name=name) for name in allowed)
    return Goal(name="corpus", job="corpus", text="whatever the plan does", inputs={}, tools=tools)
