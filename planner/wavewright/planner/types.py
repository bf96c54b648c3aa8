"""Words of the plan language as types.

Every identifier is a `NewType`, so a step id cannot be passed where a tool name is meant; a *JSON
value* is what plans, parameters and tool outputs are made of.
"""

from __future__ import annotations

import re
import uuid
from typing import Final, Literal, NewType, TypeAlias, get_args

from pydantic import JsonValue

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError

StepId = NewType("StepId", str)
GateId = NewType("GateId", str)
RunId = NewType("RunId", str)
PlanHash = NewType("PlanHash", str)
StepKey = NewType("StepKey", str)
CallContent = NewType("CallContent", str)

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

TOOL_NAME_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]{0,127}(?:\.[A-Za-z0-9_][A-Za-z0-9_-]{0,127})*$"
"""Names of tools: words with dots between them. The first may be that of a pack or an MCP server;
the rest is the tool's name there.
"""

FIELD_PATH_PATTERN = (
    r"^[A-Za-z][A-Za-z0-9_]{0,62}(?:\.[A-Za-z][A-Za-z0-9_]{0,62}|\[(?:\*|[0-9]{1,9})\]){0,16}$"
)
"""Names of fields from the outermost, with positions in lists; `[*]` stands for every position."""
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
    """Return an object; an empty one in place of any other value.

    >>> from wavewright.planner import as_object
    >>> as_object({"a": 1}), as_object(None)
    ({'a': 1}, {})
    """
    return value if isinstance(value, dict) else {}


def properties_of(schema: JsonObject) -> JsonObject:
    """Return the schemas of an object's fields, by name."""
    return as_object(schema.get("properties"))


def as_list(value: Json) -> list[Json]:
    """Return a list; an empty one in place of any other value.

    >>> from wavewright.planner import as_list
    >>> as_list([1]), as_list("no list")
    ([1], [])
    """
    return value if isinstance(value, list) else []


RUN_ID_PATTERN: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9_-])?"
"""Ids of runs: names of folders, too, so that no id leads out of the folder that it is put into."""
_DEVICES: Final = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
"""Names that no folder of Windows can have."""


class RunIdRefused(WavewrightError):
    """What was given can be no id of a run."""

    exit_code = exit_codes.MISUSE


def read_run_id(value: object) -> RunId:
    """Return what a caller, an address, a message or a database gives as the id of a run.

    A UUID or an integer becomes its text.

    Raises:
        RunIdRefused: it is no text, or not of `RUN_ID_PATTERN`, or the name of a device.
    """
    text = value
    if isinstance(value, uuid.UUID) or (isinstance(value, int) and not isinstance(value, bool)):
        text = str(value)
    is_name = isinstance(text, str) and re.fullmatch(RUN_ID_PATTERN, text) is not None
    if isinstance(text, str) and is_name and _DEVICES.fullmatch(text) is None:
        return RunId(str(text))
    shown = ascii(value)
    if len(shown) > _SHOWN_CHARACTERS:
        shown = f"{shown[:_SHOWN_CHARACTERS]}… ({len(shown):,} characters)"
    raise RunIdRefused(
        f"{shown} can be no id of a run",
        "an id has at most 128 of A-Z, a-z, 0-9, '.', '_' and '-', begins with a letter or a digit"
        " and does not end with '.'; 'con' and others are devices of Windows",
    )


_SHOWN_CHARACTERS: Final = 60
