"""What decides which way a run goes at one place.

The *concern* of a branch is what a search changes to reach it: the steps whose outputs its expressions read, whether
they read the inputs, and the names that stand in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from wavewright.engine.rehearsal.branches import Branch
from wavewright.planner.embedded import walk_params
from wavewright.planner.expressions import ExpressionFault
from wavewright.planner.models import Gate, Plan, Step
from wavewright.planner.references import parse_text, reads
from wavewright.planner.types import Json, StepId
from wavewright.planner.uses import condition_use

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Concern:
    """Where to change something."""

    steps: tuple[StepId, ...] = ()
    reads_inputs: bool = False
    names: frozenset[str] = frozenset()


def concern_of(branch: Branch, plan: Plan) -> Concern:
    """Return what decides whether a run takes a branch."""
    if branch.kind == "gate":
        return _of_gate(next(gate for gate in plan.gates if gate.id == branch.name), plan)
    if branch.kind == "recipe":
        gates = [gate for gate in plan.gates if gate.id.partition("__")[0] == branch.name]
        return _joined(_of_gate(gate, plan) for gate in gates)
    step = plan.step(branch.name)
    if branch.kind == "when":
        return _of(plan, step.when)
    if branch.kind == "items":
        return _of(plan, *embedded_expressions(step.for_each))
    return reads_of(step, plan)


def reads_of(step: Step, plan: Plan) -> Concern:
    """Return what all the expressions of a step read."""
    return _of(plan, step.when, *embedded_expressions(step.for_each), *embedded_expressions(step.params))


def _of_gate(gate: Gate, plan: Plan) -> Concern:
    found = _of(plan, gate.check)
    assert gate.on is not None
    fields = {name for path in gate.required or () for name in path.split(".")}
    if gate.schema_ is not None:
        fields |= set(_NAME.findall(str(gate.schema_)))
    return Concern(
        tuple(dict.fromkeys((gate.on, *found.steps))), found.reads_inputs, found.names | frozenset(fields)
    )


def _joined(concerns: Iterable[Concern]) -> Concern:
    found = tuple(concerns)
    return Concern(
        tuple(dict.fromkeys(step for one in found for step in one.steps)),
        any(one.reads_inputs for one in found),
        frozenset(name for one in found for name in one.names),
    )


def _of(plan: Plan, *expressions: str | None) -> Concern:
    known = {step.id for step in plan.steps}
    steps: dict[StepId, None] = {}
    names: set[str] = set()
    reads_inputs = False
    for expression in expressions:
        if expression is None:
            continue
        try:
            bare = condition_use(expression, "", "when").expression
            found = reads(bare)
        except ExpressionFault:
            continue
        names.update(_NAME.findall(bare))
        reads_inputs = reads_inputs or any(read.root == "inputs" for read in found)
        for read in found:
            if read.root == "steps" and read.name in known:
                steps[StepId(str(read.name))] = None
    return Concern(tuple(steps), reads_inputs, frozenset(names))


def embedded_expressions(value: Json) -> list[str]:
    """Return the expressions that the texts of a value hold."""
    found: list[str] = []
    for _, text in walk_params(value):
        if "${" in text:
            found += [part.expression for part in parse_text(text) if not isinstance(part, str)]
    return found
