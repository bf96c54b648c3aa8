"""Family E1, as far as it can be asked of a typed plan: ids and gates.

An *id* is unique without regard to case and none of the words that expressions use; a plan's *gate* names one step.
The rest of the family is found while the text is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from wavewright.planner.check_subject import CheckContext
from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.faults import make_diagnostic
from wavewright.planner.models import Gate
from wavewright.planner.types import GATE_ID_PATTERN, ID_PATTERN, RESERVED_IDS
from wavewright.planner.validators import InvalidSchemaError, validator_of

_STEP_ID = re.compile(ID_PATTERN)
_GATE_ID = re.compile(GATE_ID_PATTERN)


def check_document(subject: CheckContext) -> Iterator[Diagnostic]:
    """Yield what is wrong with ids and gates."""
    if not subject.plan.steps:
        yield make_diagnostic(
            "E120",
            "/steps",
            "the plan has no steps",
            "add a step, or answer {'cannot_plan': reason} instead of a plan",
        )
    yield from _check_step_ids(subject)
    yield from _check_gate_ids(subject)
    for number, gate in enumerate(subject.plan.gates):
        yield from _check_gate(subject, gate, f"/gates/{number}")


def _check_step_ids(subject: CheckContext) -> Iterator[Diagnostic]:
    seen: dict[str, str] = {}
    for number, step in enumerate(subject.plan.steps):
        folded = step.id.lower()
        pointer = f"/steps/{number}/id"
        if folded in RESERVED_IDS:
            yield make_diagnostic(
                "E118",
                pointer,
                f"no step can be called {step.id!r}: expressions use the word themselves",
                f"call it {step.id + '_step'!r}, for example",
            )
        elif not _STEP_ID.fullmatch(step.id):
            yield make_diagnostic(
                "E118",
                pointer,
                f"{step.id!r} is no id",
                "an id is an ASCII letter, then letters, digits and underscores, 63 characters at most",
            )
        elif folded in seen:
            first = seen[folded]
            same = "" if first == step.id else f"; it differs from {first!r} in case only"
            yield make_diagnostic(
                "E119", pointer, f"a second step is called {step.id!r}{same}", "rename one of the two"
            )
        seen.setdefault(folded, step.id)


def _check_gate_ids(subject: CheckContext) -> Iterator[Diagnostic]:
    seen: dict[str, str] = {}
    for number, gate in enumerate(subject.plan.gates):
        pointer = f"/gates/{number}/id"
        folded = gate.id.lower()
        if not _GATE_ID.fullmatch(gate.id):
            yield make_diagnostic(
                "E123",
                pointer,
                f"{gate.id!r} is no id for a gate",
                "use an ASCII letter, then letters, digits and _",
            )
        elif folded in seen:
            yield make_diagnostic(
                "E122", pointer, f"a second gate is called {gate.id!r}", "rename one of the two"
            )
        seen.setdefault(folded, gate.id)


def _check_gate(subject: CheckContext, gate: Gate, pointer: str) -> Iterator[Diagnostic]:
    if gate.on_tool is not None:
        yield make_diagnostic(
            "E123",
            f"{pointer}/on_tool",
            f"gate {gate.id!r} is on a tool, which only a goal template's gate can be",
            f"write `on:` with the id of a step that calls {gate.on_tool!r}",
        )
    if gate.schema_ is not None:
        try:
            validator_of(gate.schema_)
        except InvalidSchemaError as error:
            yield make_diagnostic(
                "E123",
                f"{pointer}/schema",
                f"the schema of gate {gate.id!r} is no JSON Schema: {error}",
                "references inside a schema must stay inside it; nothing is fetched",
            )
    if gate.fresh_within is not None:
        yield from _check_freshness(subject, gate, pointer)


def _check_freshness(subject: CheckContext, gate: Gate, pointer: str) -> Iterator[Diagnostic]:
    step = subject.steps.get(gate.on) if gate.on is not None else None
    signature = None if step is None else subject.signature(step)
    if step is not None and signature is not None and signature.freshness_field is None:
        yield make_diagnostic(
            "E123",
            f"{pointer}/fresh_within",
            f"gate {gate.id!r} asks how fresh {gate.on!r} is, but {step.tool!r} does not say of when its output is",
            "compare a time in the output with a `check` instead, such as now() - timestamp(output.as_of)",
        )
