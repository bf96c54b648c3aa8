"""Evidence: how much of what a plan set out to produce is there.

Each step that counts has a weight (1, or ½ where it is optional) and a share between 0 and 1; the *raw* overall
confidence is the weighted mean of the shares:

- 0 for a step that failed, was blocked or cancelled, never ran, or is stopped by a failed block gate;
- 1 for one that succeeded, in proportion to the items that succeeded for a `for_each` step;
- ½ for an empty output, unless it can only be empty (no items to run over, a tool that writes, an output schema of
  null);
- times 0.8 for every failed warn gate, in proportion to the calls that it failed on.

A step that its `when` skipped, or that another step supersedes, does not count: the plan does not need it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wavewright.executor.events.state import SUCCESSES, RunState, blocking_gate
from wavewright.executor.events.types import StepFinished
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import GateId, Json, JsonObject, StepId


def plan_scope(plan: Plan, state: RunState) -> JsonObject:
    """Return the variables of caps and of the plan's result: the inputs and the outputs that are present."""
    outputs: dict[str, Json] = {str(step_id): output for step_id, output in state.outputs().items()}
    return {"inputs": plan.inputs, "steps": outputs}


OPTIONAL_WEIGHT = 0.5
EMPTY_SHARE = 0.5
WARNED_SHARE = 0.8


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """The part of one step in the raw overall confidence."""

    step: StepId
    weight: float
    share: float
    why: str = ""
    """What is lacking; empty where nothing is."""


def measure_evidence(
    plan: Plan, state: RunState, tools: Mapping[str, ToolSignature]
) -> tuple[StepEvidence, ...]:
    """Return the evidence of every step that counts, in the plan's order."""
    replaced = superseded_steps(plan)
    found: list[StepEvidence] = []
    for step in plan.steps:
        end = state.steps.get(step.id)
        if step.id in replaced or (end is not None and end.status == "skipped"):
            continue
        share, why = _present_share(end, tools.get(step.tool))
        found.append(StepEvidence(step.id, OPTIONAL_WEIGHT if step.optional else 1.0, share, why))
    return tuple(found)


def raw_overall(evidence: tuple[StepEvidence, ...]) -> float:
    """Return the weighted mean of the shares; 0 where nothing counts."""
    weights = sum(part.weight for part in evidence)
    return sum(part.weight * part.share for part in evidence) / weights if weights else 0.0


def superseded_steps(plan: Plan) -> dict[StepId, StepId]:
    """Return, for each step that a patch superseded, the step that replaces it now."""
    direct = {step.supersedes: step.id for step in plan.steps if step.supersedes is not None}
    final: dict[StepId, StepId] = {}
    for old, successor in direct.items():
        newest, seen = successor, {old}
        while newest in direct and newest not in seen:
            seen.add(newest)
            newest = direct[newest]
        final[old] = newest
    return final


def may_be_empty(end: StepFinished, signature: ToolSignature | None) -> bool:
    """Whether this step's output can only be empty."""
    if end.items is not None and end.items[1] == 0:
        return True
    return signature is not None and (signature.writes or signature.output_schema.get("type") == "null")


def _present_share(end: StepFinished | None, signature: ToolSignature | None) -> tuple[float, str]:
    if end is None:
        return 0.0, "never ran"
    if end.status not in SUCCESSES:
        return 0.0, end.status
    stopped_by = blocking_gate(end.gates)
    if stopped_by is not None:
        return 0.0, f"stopped by gate {stopped_by.gate!r}"
    share, lacks = 1.0, list[str]()
    if end.items is not None and end.items[1] > 0:
        share *= end.items[0] / end.items[1]
        if end.items[0] < end.items[1]:
            lacks.append(f"{end.items[0]} of {end.items[1]} items")
    if end.status == "empty" and not may_be_empty(end, signature):
        share *= EMPTY_SHARE
        lacks.append("empty")
    for gate, red_share in warned_shares(end).items():
        share *= 1 - (1 - WARNED_SHARE) * red_share
        lacks.append(f"warning of gate {gate!r}")
    return share, ", ".join(lacks)


def warned_shares(end: StepFinished) -> dict[GateId, float]:
    """Return, for each failed warn gate, the share of its records that failed."""
    failed: dict[GateId, int] = {}
    asked: dict[GateId, int] = {}
    for record in end.gates:
        if record.severity == "warn":
            asked[record.gate] = asked.get(record.gate, 0) + 1
            if record.has_failed:
                failed[record.gate] = failed.get(record.gate, 0) + 1
    return {gate: count / asked[gate] for gate, count in failed.items()}
