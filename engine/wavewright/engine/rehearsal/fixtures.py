"""Outputs that the author gives, in place of generated ones.

A *fixture* file maps a step or a tool to an output or to a list of outputs. A list is several outputs, unless the
tool's schema takes it as one. Every output is held against the schema, and a fault names its place in the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from wavewright.config.documents import Document, DocumentError, DocumentFault
from wavewright.engine.jobs import read_file
from wavewright.engine.rehearsal.scripts import StubOutputs
from wavewright.planner.models import Plan
from wavewright.planner.pointers import child_pointer
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.suggestions import suggest_name
from wavewright.planner.types import Json, StepId
from wavewright.planner.validators import validator_of


def read_fixtures(
    file: Path, plan: Plan, tools: Mapping[str, ToolSignature]
) -> tuple[dict[StepId, StubOutputs], dict[str, StubOutputs]]:
    """Return the outputs that a file gives, by step and by tool; a step's own go before its tool's.

    Raises:
        DocumentError: the file cannot be read, names what the plan does not have, or an output does not fit.
    """
    document = read_file(file)
    if not isinstance(document.value, dict):
        fault = DocumentFault(
            "bad_value",
            "a fixture file maps steps or tools to outputs",
            document.nearest_span(""),
            hint="write, for example, 'step_id: {field: value}'",
        )
        raise DocumentError(document.source, (fault,))
    tool_of = {step.id: step.tool for step in plan.steps}
    named = dict.fromkeys(tool_of.values())
    faults: list[DocumentFault] = []
    by_step: dict[StepId, StubOutputs] = {}
    by_tool: dict[str, StubOutputs] = {}
    for name, given in document.value.items():
        tool = tool_of.get(StepId(name), name)
        if tool not in named:
            hint = suggest_name(name, [*tool_of, *named], what="steps and tools of the plan")
            faults.append(
                _fault(document, child_pointer("", name), f"there is no step and no tool {name!r}", hint)
            )
            continue
        pointer = child_pointer("", name)
        outputs = _outputs(given, tools[tool], pointer)
        faults += _schema_faults(document, tools[tool], outputs)
        found = tuple(output for _, output in outputs)
        if not found:
            faults.append(_fault(document, pointer, f"{name!r} is given no output", "give one at least"))
        elif name in tool_of:
            by_step[StepId(name)] = found
        else:
            by_tool[name] = found
    if faults:
        raise DocumentError(document.source, tuple(faults))
    return by_step, by_tool


def _outputs(given: Json, tool: ToolSignature, pointer: str) -> list[tuple[str, Json]]:
    """Return what is given as outputs, each with its place."""
    schema = tool.output_schema
    if not isinstance(given, list) or (schema and validator_of(schema).accepts(given)):
        return [(pointer, given)]
    if schema.get("type") == "array" and not any(isinstance(entry, list) for entry in given):
        return [(pointer, given)]
    return [(child_pointer(pointer, number), entry) for number, entry in enumerate(given)]


def _schema_faults(
    document: Document, tool: ToolSignature, outputs: list[tuple[str, Json]]
) -> Iterator[DocumentFault]:
    if not tool.output_schema:
        return
    validator = validator_of(tool.output_schema)
    for pointer, output in outputs:
        for misfit in validator.violations(output, pointer):
            message = f"this output of {tool.name!r} {misfit.message}"
            hint = misfit.hint or f"give what {tool.name!r} returns: `wavewright tools` shows its result"
            yield _fault(document, misfit.pointer, message, hint)


def _fault(document: Document, pointer: str, message: str, hint: str | None) -> DocumentFault:
    return DocumentFault("bad_value", message, document.nearest_span(pointer), pointer, hint)
