"""Feedback without a model: from a rejected package to a patch.

*Feedback* is what somebody says of a package that he rejects: texts, written outside. They are an input of the plan
(`feedback_1` for the first package), which steps read like any other value; that there is feedback decides that a
patch is made, and what it says decides nothing. The patch calls each step again whose tool takes a parameter
`feedback`, with the texts, and every step that reads one of those, directly or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from wavewright.executor.state import SUCCESSES, RunState
from wavewright.planner.goals import Goal
from wavewright.planner.graph import PlanGraph
from wavewright.planner.hashing import plan_hash
from wavewright.planner.models import AddStep, Plan, PlanPatch, Step
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.reviewer.recovery import next_id
from wavewright.reviewer.recovery_view import FeedbackView

FEEDBACK_PARAM: Final = "feedback"
"""Name of the parameter that takes the texts, and how the inputs' names begin that hold them."""
_FEEDBACK_SCHEMA: Final[JsonObject] = {"type": "array", "items": {"type": "string"}}


def feedback_input(package: int) -> str:
    """Return the name of the input that holds what was said of a package.

    Each has its own: a step that has read one has read that one for good.
    """
    return f"{FEEDBACK_PARAM}_{package}"


def is_feedback_input(name: str) -> bool:
    """Whether an input has such a name."""
    head, _, number = name.rpartition("_")
    return head == FEEDBACK_PARAM and number.isdecimal()


def with_feedback_input(goal: Goal, package: int, texts: Sequence[str]) -> Goal:
    """Return the goal of a run whose package was rejected, with the texts as an input.

    Each rejection may bring one patch beside the recoveries.
    """
    name = feedback_input(package)
    schema: JsonObject = dict(goal.inputs_schema)
    declared = schema.get("properties")
    if schema:
        schema["properties"] = {**(declared if isinstance(declared, dict) else {}), name: _FEEDBACK_SCHEMA}
    listed: list[Json] = [*texts]
    return goal.model_copy(
        update={
            "inputs": {**goal.inputs, name: listed},
            "inputs_schema": schema,
            "limits": goal.limits.model_copy(update={"rounds": goal.limits.rounds + 1}),
        }
    )


def patch_from_feedback(
    plan: Plan, state: RunState, tools: Mapping[str, ToolSignature], feedback: FeedbackView, reason: str
) -> PlanPatch | None:
    """Return the patch that calls steps again with the feedback; none where no tool of the plan takes any.

    Args:
        plan: The bound plan in force.
        state: What happened.
        tools: Signatures by name.
        feedback: Which package was rejected.
        reason: For the report.
    """
    replaced = {step.supersedes for step in plan.steps}
    live = [step for step in plan.steps if step.id not in replaced]
    told = {step.id for step in live if _takes_feedback(step, tools) and _has_ended(step.id, state)}
    if not told:
        return None
    again = _with_readers(told, plan, {step.id for step in live})
    taken = {step.id.lower() for step in plan.steps}
    told_as = f"${{inputs.{feedback_input(feedback.package)}}}"
    ops: list[AddStep] = []
    for step in live:
        if step.id not in again:
            continue
        new_id = next_id(step, plan, taken)
        taken.add(new_id.lower())
        params = {**step.params, FEEDBACK_PARAM: told_as} if step.id in told else step.params
        changes = {"id": new_id, "params": params, "supersedes": step.id, "why": reason}
        ops.append(AddStep(step=step.model_copy(update=changes)))
    return PlanPatch(base=plan_hash(plan), reason=reason, ops=tuple(ops), expect=())


def _takes_feedback(step: Step, tools: Mapping[str, ToolSignature]) -> bool:
    signature = tools.get(step.tool)
    properties = signature.input_schema.get("properties") if signature is not None else None
    return isinstance(properties, dict) and FEEDBACK_PARAM in properties


def _has_ended(step: StepId, state: RunState) -> bool:
    return state.status(step) in {*SUCCESSES, "failed"}


def _with_readers(steps: set[StepId], plan: Plan, live: set[StepId]) -> set[StepId]:
    """Return the steps with all that wait for them, directly or not: what they made of the old output is old, too."""
    graph = PlanGraph.of(plan)
    found, waiting = set[StepId](), [*steps]
    while waiting:
        step = waiting.pop()
        if step in live and step not in found:
            found.add(step)
            waiting += graph.dependants.get(step, ())
    return found
