"""Outputs that the author gives, in place of generated ones.

A *fixture* file maps a step or a tool to an output or to a list of outputs. A list is several outputs, unless the
tool's schema takes it as one. Every output is validated, and a fault names its place in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from wavewright.config.documents import Document, read_document_file
from wavewright.config.sources import DocumentError, DocumentFault, pointer_token
from wavewright.engine.simulation.scenarios import SimulatedPlan, StubOutputs
from wavewright.planner.diagnostics.suggestions import suggest_name
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, StepId


def read_fixtures(file: Path, simulated: SimulatedPlan) -> dict[StepId, StubOutputs]:
    """Return the outputs that a file gives, by step; a step's own go before its tool's.

    Raises:
        DocumentError: the file cannot be read, names what the plan does not have, or an output does not fit.
    """
    document = read_document_file(file)
    if not isinstance(document.value, dict):
        hint = "write, for example, 'step_id: {field: value}'"
        fault = _fault(document, "", "a fixture file maps steps or tools to outputs", hint)
        raise DocumentError(document.source, (fault,))
    tool_of: dict[str, str] = {step.id: step.tool for step in simulated.plan.steps}
    faults: list[DocumentFault] = []
    found: dict[str, StubOutputs] = {}
    for name, given in document.value.items():
        pointer = pointer_token(name)
        if name not in tool_of and name not in tool_of.values():
            similar = suggest_name(name, [*tool_of, *tool_of.values()], what="steps and tools of the plan")
            faults.append(_fault(document, pointer, f"there is no step and no tool {name!r}", similar))
            continue
        tool = simulated.tools[tool_of.get(name, name)].signature
        outputs = _outputs(given, tool, pointer)
        if not outputs:
            faults.append(_fault(document, pointer, f"{name!r} is given no output", "give one at least"))
        faults += _schema_faults(document, tool, outputs)
        found[name] = tuple(outputs.values())
    if faults:
        raise DocumentError(document.source, tuple(faults))
    return {
        StepId(step): found[step] if step in found else found[tool]
        for step, tool in tool_of.items()
        if step in found or tool in found
    }


def _outputs(given: Json, tool: ToolSignature, pointer: str) -> dict[str, Json]:
    """Return what is given as outputs, by place."""
    schema = tool.output_schema
    if not isinstance(given, list) or (schema and validator_of(schema).accepts(given)):
        return {pointer: given}
    if schema.get("type") == "array" and not any(isinstance(entry, list) for entry in given):
        return {pointer: given}
    return {pointer + pointer_token(number): entry for number, entry in enumerate(given)}


def _schema_faults(
    document: Document, tool: ToolSignature, outputs: dict[str, Json]
) -> Iterator[DocumentFault]:
    for pointer, output in outputs.items():
        for violation in validator_of(tool.output_schema).violations(output, pointer):
            message = f"this output of {tool.name!r} {violation.message}"
            hint = violation.hint or f"give what {tool.name!r} returns: `wavewright tools` shows its result"
            yield _fault(document, violation.pointer, message, hint)


def _fault(document: Document, pointer: str, message: str, hint: str | None) -> DocumentFault:
    return DocumentFault("bad_value", message, document.nearest_span(pointer), pointer, hint)
