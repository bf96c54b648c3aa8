"""What decides which way a run goes at one place.

The *concern* of a branch is what a search changes to reach it: the steps whose outputs its expressions read, whether
they read the inputs, and the names that stand in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from wavewright.engine.rehearsal.branches import Branch
from wavewright.planner.embedded import iterate_strings
from wavewright.planner.expressions import ExpressionError
from wavewright.planner.models import Gate, Plan, Step
from wavewright.planner.references import reads, split_references
from wavewright.planner.types import Json, StepId
from wavewright.planner.uses import condition_use

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class BranchInputs:
    """Where to change something."""

    steps: tuple[StepId, ...] = ()
    reads_inputs: bool = False
    names: frozenset[str] = frozenset()


def inputs_of_branch(branch: Branch, plan: Plan) -> BranchInputs:
    """Return what decides whether a run takes a branch."""
    if branch.kind == "gate":
        return _inputs_of_gate(next(gate for gate in plan.gates if gate.id == branch.name), plan)
    if branch.kind == "recipe":
        gates = [gate for gate in plan.gates if gate.id.partition("__")[0] == branch.name]
        return _joined(_inputs_of_gate(gate, plan) for gate in gates)
    step = plan.step(branch.name)
    if branch.kind == "when":
        return _inputs_of_texts(plan, step.when)
    if branch.kind == "items":
        return _inputs_of_texts(plan, *embedded_expressions(step.for_each))
    return inputs_of_step(step, plan)


def inputs_of_step(step: Step, plan: Plan) -> BranchInputs:
    """Return what all the expressions of a step read."""
    return _inputs_of_texts(
        plan, step.when, *embedded_expressions(step.for_each), *embedded_expressions(step.params)
    )


def _inputs_of_gate(gate: Gate, plan: Plan) -> BranchInputs:
    found = _inputs_of_texts(plan, gate.check)
    assert gate.on is not None
    fields = {name for path in gate.required or () for name in path.split(".")}
    if gate.schema_ is not None:
        fields |= set(_NAME.findall(str(gate.schema_)))
    return BranchInputs(
        tuple(dict.fromkeys((gate.on, *found.steps))), found.reads_inputs, found.names | frozenset(fields)
    )


def _joined(concerns: Iterable[BranchInputs]) -> BranchInputs:
    found = tuple(concerns)
    return BranchInputs(
        tuple(dict.fromkeys(step for one in found for step in one.steps)),
        any(one.reads_inputs for one in found),
        frozenset(name for one in found for name in one.names),
    )


def _inputs_of_texts(plan: Plan, *expressions: str | None) -> BranchInputs:
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
        except ExpressionError:
            continue
        names.update(_NAME.findall(bare))
        reads_inputs = reads_inputs or any(read.root == "inputs" for read in found)
        for read in found:
            if read.root == "steps" and read.name in known:
                steps[StepId(str(read.name))] = None
    return BranchInputs(tuple(steps), reads_inputs, frozenset(names))


def embedded_expressions(value: Json) -> list[str]:
    """Return the expressions that the texts of a value hold."""
    found: list[str] = []
    for _, text in iterate_strings(value):
        if "${" in text:
            found += [part.expression for part in split_references(text) if not isinstance(part, str)]
    return found
