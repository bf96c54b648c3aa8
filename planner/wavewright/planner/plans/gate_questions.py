"""What each kind of gate asks: in words, as a field that a model may write, and what it reads.

A kind is a name of `GateKind` with a field of `Gate`, what is said of it here, and its check in
`reviewer/gates/kinds.py`.
"""

from __future__ import annotations

import json
import re
from typing import Final

from wavewright.planner.cel.embedded import bare_expression, reads
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.language.plan import Gate
from wavewright.planner.types import JsonObject
from wavewright.prompts.values import one_line

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def gate_question(gate: Gate) -> str:
    """Return in words what a gate asks."""
    match gate.kind:
        case "check":
            return f"`{' '.join((gate.check or '').split())}`"
        case "schema":
            return "the output fits a schema"
        case "fresh_within":
            return f"its data is at most {_age_text(gate.fresh_within or 0)} old"
        case "required":
            fields = gate.required or ()
            return f"{', '.join(fields)} {'are' if len(fields) > 1 else 'is'} there and not empty"
        case "judge":
            return f"a model judges: {one_line(gate.judge.rubric if gate.judge else '')}"


def is_asked_per_call(gate: Gate) -> bool:
    """Whether a gate is asked about each output of a step with `for_each`: all kinds are, but for a
    check that reads neither the output nor the item.
    """
    if gate.check is None:
        return True
    try:
        read = reads(bare_expression(gate.check).expression)
    except ExpressionError:
        # An invalid expression is evaluated once, not for every item.
        return False
    return any(name.root in {"output", "item", "index"} for name in read)


def gate_consequence(gate: Gate) -> str:
    """Return in words what comes of a gate's failure."""
    if gate.severity == "block" and gate.blocks_from > 0:
        return f"blocks from {gate.blocks_from * 100:g} % of the calls on, warns below"
    return f"{gate.severity}s"


def gate_expressions(gate: Gate) -> list[str]:
    """Return the expressions that a gate evaluates; a path to a field is one as well."""
    match gate.kind:
        case "check":
            return [bare_expression(gate.check or "").expression]
        case "required":
            return [
                "output" + "".join(map(_member, path.split("."))) for path in gate.required or ()
            ]
        case "schema" | "fresh_within" | "judge":
            return []


def _member(name: str) -> str:
    """Return a part of a dotted path as an expression reads it."""
    if name.isdecimal():
        return f"[{name}]"
    return f".{name}" if _NAME.fullmatch(name) else f"[{json.dumps(name)}]"


QUESTION_FIELDS: Final[JsonObject] = {
    "check": {
        "type": "string",
        "description": "A condition (CEL) over output, steps and inputs.",
    },
    "required": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Fields of the output that must not be empty.",
    },
    "fresh_within": {
        "type": "string",
        "description": "Greatest age of the output's data, such as 24h.",
    },
    "schema": {
        "type": "object",
        "description": "JSON Schema that the output must fit.",
    },
    "judge": {
        "type": "object",
        "properties": {
            "rubric": {
                "type": "string",
                "description": "What a model is to judge, and what passes.",
            }
        },
        "additionalProperties": False,
        "required": ["rubric"],
    },
}
"""The field of each kind, as the schema of a planner's answer describes it."""


def _age_text(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{int(seconds // size)} {unit}"
    return f"{seconds:g} s"
