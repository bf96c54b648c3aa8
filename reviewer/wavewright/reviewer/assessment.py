"""An assessment: all that code finds for and against a run, gathered once.

A review by code is an assessment put into words; a review by a model starts from the same one. The *ceiling* of a
review is what its rung of the ladder lets any confidence be.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wavewright.executor.state import RunState
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import StepId
from wavewright.reviewer.caps import (
    OVERALL,
    compute_confidences,
    confidence_claims,
    evaluate_caps,
    stated_confidence,
)
from wavewright.reviewer.evidence import measure_evidence
from wavewright.reviewer.findings import FailedGate, StepProblem, failed_gates, step_problems, unchecked_gates
from wavewright.reviewer.records import CapRecord, Confidence
from wavewright.reviewer.results import RunResult, read_result, result_faults
from wavewright.reviewer.rungs import Ceiling


@dataclass(frozen=True, slots=True)
class Assessment:
    """What there is to say of a run."""

    gates: tuple[FailedGate, ...]
    """Red gates that count, and mandatory ones that nobody asked."""
    problems: tuple[StepProblem, ...]
    result: RunResult
    faults: tuple[str, ...]
    """Where the result breaks the goal's output schema."""
    stopping_gates: tuple[FailedGate, ...]
    """The gates that keep the goal from being achieved."""
    failing_problems: tuple[StepProblem, ...]
    """The ends that do."""
    absent_steps: tuple[StepId, ...]
    """Steps that brought nothing, and the plan provides for that."""

    @property
    def is_achieved(self) -> bool:
        """Whether every block gate that counts is green, and all is there and of the shape that was asked for."""
        return not (self.stopping_gates or self.failing_problems or self.result.missing or self.faults)

    @property
    def warnings(self) -> int:
        """How many gates left a warning."""
        return sum(1 for gate in self.gates if gate.severity == "warn")


@dataclass(frozen=True, slots=True)
class SettledConfidences:
    """The confidences of a run, and what lowered them."""

    confidences: tuple[Confidence, ...]
    caps: tuple[CapRecord, ...]

    @property
    def overall(self) -> Confidence:
        """The confidence in the whole."""
        return next(confidence for confidence in self.confidences if confidence.field == OVERALL)


def assess(
    plan: Plan, goal: Goal, state: RunState, tools: Mapping[str, ToolSignature], now: dt.datetime
) -> Assessment:
    """Return what there is to say of a run of a (bound) plan."""
    gates = (*failed_gates(plan, goal, state, now), *unchecked_gates(plan, goal, state))
    ends = step_problems(plan, goal, state, now)
    result = read_result(plan, state, tools, now)
    optional = {step.id for step in plan.steps if step.optional}
    return Assessment(
        gates=gates,
        problems=ends,
        result=result,
        faults=result_faults(plan, goal, state, result),
        stopping_gates=tuple(
            gate for gate in gates if gate.severity == "block" and gate.step not in optional
        ),
        failing_problems=tuple(end for end in ends if _fails_the_run(end)),
        absent_steps=_absent_steps(gates, ends, optional),
    )


def settle_confidences(
    plan: Plan,
    goal: Goal,
    state: RunState,
    tools: Mapping[str, ToolSignature],
    now: dt.datetime,
    result: RunResult,
    *,
    ceiling: Ceiling | None,
    claims: Mapping[str, float] | None = None,
) -> SettledConfidences:
    """Return the confidences of a run under every cap.

    Args:
        plan: The bound plan in force.
        goal: What was asked for.
        state: What happened.
        tools: Signatures by name.
        now: What `now()` gives.
        result: What came out.
        ceiling: Of the review's own rung.
        claims: Who else states a confidence in the whole, by name; the lowest counts, and none raises anything.
    """
    caps = evaluate_caps(plan, goal, state, now, review=ceiling)
    stated = stated_confidence(confidence_claims(result.terminal, state, result.value))
    if claims:
        stated[OVERALL] = {**stated.get(OVERALL, {}), **claims}
    return SettledConfidences(compute_confidences(measure_evidence(plan, state, tools), stated, caps), caps)


def run_instant(state: RunState) -> dt.datetime:
    """Return the instant that a run takes for now."""
    assert state.started is not None, "a run is reviewed after it has started"
    return dt.datetime.fromtimestamp(state.started.now, dt.UTC)


def _fails_the_run(end: StepProblem) -> bool:
    """Whether a step's end is against the goal: not where it is optional, nor where `min_ok` items were enough."""
    return not end.optional and end.status not in {"ok", "empty", "reused"}


def _absent_steps(
    gates: Sequence[FailedGate], ends: Sequence[StepProblem], optional: set[StepId]
) -> tuple[StepId, ...]:
    stopped = [gate.step for gate in gates if gate.severity == "block" and gate.step in optional]
    lost = [end.step for end in ends if end.optional and end.status not in {"ok", "empty", "reused"}]
    return tuple(dict.fromkeys((*stopped, *lost)))
