"""What a plan takes an output to be, where its tool promises nothing.

A tool without an output schema may give anything, and no plan is prepared for that. So its stub gives what the plan's
expressions ask for: the members that they name, and lists where they go through one. The same holds for the open
parts of a schema. A finding over such an output is no fault, since nobody promised anything.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from wavewright.engine.rehearsal.concerns import embedded_expressions
from wavewright.planner.models import Plan, Step
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.tools.workers.services import AGENT

_NAMES = r"((?:\.[A-Za-z_]\w*(?!\w*\s*\())*)"
_LIST = r"(\s*\[|\.(?:map|filter|all|exists|exists_one)\s*\()?"


@dataclass(slots=True)
class _Member:
    is_list: bool = False
    members: dict[str, _Member] = field(default_factory=dict[str, "_Member"])


def presumed_schema(promised: JsonSchema, step: Step, plan: Plan) -> JsonSchema:
    """Return what a tool promises, with its open parts as the plan reads them; the promise itself where it has none."""
    if step.tool == AGENT:
        promised = _of_agent(promised, step)
    return _filled(promised, _read_of(step, plan))


def _of_agent(promised: JsonSchema, step: Step) -> JsonSchema:
    """Return the schema of an agent's output, of which the answer has the shape that the step asks for."""
    properties, wanted = promised.get("properties"), step.params.get("output_schema")
    if not isinstance(properties, dict) or not isinstance(wanted, dict):
        return promised
    return {**promised, "properties": {**properties, "answer": wanted}}


def _filled(promised: Json, member: _Member) -> JsonSchema:
    node = promised if isinstance(promised, dict) else {}
    if not node.keys() - _WORDS:
        return {**node, **_schema(member)}
    properties = node.get("properties")
    if not isinstance(properties, dict) or not member.members:
        return node
    known: JsonObject = {
        name: _filled(part, member.members[name]) if name in member.members else part
        for name, part in properties.items()
    }
    return node if known == properties else {**node, "properties": known}


_WORDS = frozenset({"title", "description", "default", "examples"})
"""Keywords that promise nothing."""


def _read_of(step: Step, plan: Plan) -> _Member:
    whole = _Member()
    if step.for_each is not None:
        return whole
    pattern = re.compile(rf"\bsteps\.{re.escape(step.id)}\b{_NAMES}{_LIST}")
    for expression, is_items in _expressions(plan):
        for found in pattern.finditer(expression):
            _note(whole, found[1], is_list=bool(found[2]) or (is_items and found[0] == expression.strip()))
    output = re.compile(rf"\boutput\b{_NAMES}{_LIST}")
    for gate in plan.gates:
        if gate.on == step.id:
            for found in output.finditer(gate.check or ""):
                _note(whole, found[1], is_list=bool(found[2]))
            for path in gate.required or ():
                _note(whole, f".{path}", is_list=False)
    return whole


def _expressions(plan: Plan) -> list[tuple[str, bool]]:
    """Return every expression, and whether it gives the items of a step."""
    found = [(text, False) for text in embedded_expressions(plan.result)]
    for step in plan.steps:
        found += [(text, True) for text in embedded_expressions(step.for_each)]
        found += [(text, False) for text in embedded_expressions(step.params)]
        found += [(step.when, False)] if step.when is not None else []
    found += [(gate.check, False) for gate in plan.gates if gate.check is not None]
    return found + [(cap.when, False) for cap in plan.caps]


def _note(member: _Member, path: str, *, is_list: bool) -> None:
    for name in path.split(".")[1:]:
        member = member.members.setdefault(name, _Member())
    member.is_list = member.is_list or is_list


def _schema(member: _Member) -> JsonSchema:
    if member.is_list:
        return {"type": "array"}
    if not member.members:
        return {}
    properties: JsonObject = {name: _schema(part) for name, part in member.members.items()}
    required: list[Json] = [*properties]
    return {"type": "object", "properties": properties, "required": required}
