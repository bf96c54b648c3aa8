"""Words of the plan language as types.

Every identifier is a `NewType`, so a step id cannot be passed where a tool name is meant; a *JSON
value* is what plans, parameters and tool outputs are made of.
"""

from __future__ import annotations

from typing import Final, Literal, NewType, TypeAlias, get_args

from pydantic import JsonValue

StepId = NewType("StepId", str)
GateId = NewType("GateId", str)
RunId = NewType("RunId", str)
PlanHash = NewType("PlanHash", str)
StepKey = NewType("StepKey", str)

Json: TypeAlias = JsonValue
JsonObject: TypeAlias = dict[str, JsonValue]
JsonSchema: TypeAlias = dict[str, JsonValue]

Effect: TypeAlias = Literal["read", "write", "egress"]
ConfidenceSource: TypeAlias = Literal["inputs", "own"]
Severity: TypeAlias = Literal["error", "warning"]
GateKind: TypeAlias = Literal["check", "schema", "fresh_within", "required", "judge"]
"""The field of a gate that holds its question."""
GATE_KINDS: Final[tuple[GateKind, ...]] = get_args(GateKind)
GateSeverity: TypeAlias = Literal["block", "warn"]
Schedule: TypeAlias = Literal["waves", "dataflow"]

ID_PATTERN = r"^[A-Za-z][A-Za-z0-9_]{0,62}$"
"""Names of inputs, jobs and workers, and each part of a step's id: CEL fields, file names and keys
in plain ASCII.
"""

TOOL_NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,62}(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,62})?$"
"""Names of tools: a word, or the word of a pack or an MCP server, a dot and the tool's name there.
"""

STEP_ID_PATTERN = r"^[A-Za-z][A-Za-z0-9_]{0,62}(?:\.[A-Za-z0-9_]{1,63}){0,8}$"
"""Ids of steps: those that come from a sub-plan have the id of the step that calls it before a dot.
"""

GATE_ID_PATTERN = r"^[A-Za-z][A-Za-z0-9_]{0,127}(?:\.[A-Za-z0-9_]{1,191}){0,9}$"
"""Ids of gates are longer, because a template's gate on a tool becomes `<gate>__<step>` on each of
its steps.
"""

GATE_ID_SEPARATOR = "__"
"""Stands between a template gate's id and a step's in the id of the gate that is made of them."""

RESERVED_IDS = frozenset(
    {
        "steps", "goal", "input", "inputs", "output", "outputs", "item", "now", "has", "self",
        "root", "constructor", "prototype", "none", "null", "true", "false", "in",
    }
)  # fmt: skip
"""Ids that no step may have, compared without regard to case."""


def as_object(value: Json) -> JsonObject:
    """Return an object; an empty one in place of any other value."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """Return a list; an empty one in place of any other value."""
    return value if isinstance(value, list) else []
