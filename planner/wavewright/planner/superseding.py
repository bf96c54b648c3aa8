"""Point the readers of one step at another.

A step that a patch adds may *supersede* a finished one: whoever read the old step reads the new one, and what was
asked of the old one by gates is asked of the new one. The old step stays in the plan, because it happened, and
nobody reads it any more.
"""

from __future__ import annotations

from wavewright.planner.cel_faults import ExpressionError
from wavewright.planner.embedded import bare_expression
from wavewright.planner.models import Cap, Gate, Step
from wavewright.planner.references import rename_in_expression, rename_step
from wavewright.planner.types import Json, StepId


def repoint_step(step: Step, old: StepId, new: StepId) -> Step:
    """Return a step that reads `new` wherever it read `old`."""
    return step.model_copy(
        update={
            "params": repoint_value(step.params, old, new),
            "for_each": repoint_value(step.for_each, old, new),
            "when": repoint_condition(step.when, old, new),
            "depends_on": tuple(dict.fromkeys(new if name == old else name for name in step.depends_on)),
        }
    )


def repoint_gate(gate: Gate, old: StepId, new: StepId) -> Gate:
    """Return a gate that is on `new`, and reads it, where it was on `old`, or read that."""
    return gate.model_copy(
        update={"on": new if gate.on == old else gate.on, "check": repoint_condition(gate.check, old, new)}
    )


def repoint_cap(cap: Cap, old: StepId, new: StepId) -> Cap:
    """Return a cap whose condition reads `new` where it read `old`."""
    return cap.model_copy(update={"when": repoint_condition(cap.when, old, new)})


def repoint_value(value: Json, old: StepId, new: StepId) -> Json:
    """Return a value whose references read `new` where they read `old`; a faulty text stays as it is."""
    try:
        return rename_step(value, old, new)
    except ExpressionError:
        return value


def repoint_condition(condition: str | None, old: StepId, new: StepId) -> str | None:
    """Return a bare expression that reads `new` where it read `old`; a faulty one stays as it is."""
    if condition is None:
        return None
    try:
        bare = bare_expression(condition)
        renamed = rename_in_expression(bare.expression, old, new)
    except ExpressionError:
        return condition
    end = bare.offset + len(bare.expression)
    return condition[: bare.offset] + renamed + condition[end:]
