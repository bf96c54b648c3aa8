"""What a rehearsal found.

A *report* lists the scenarios that were run, the branches that no try reached, the gates that are always green or
always red, and what went wrong over valid outputs. A finding that makes the plan fail where no tool is to blame is
a *fault*.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field

from wavewright.planner.types import Json, JsonObject, StepId


@dataclass(frozen=True, slots=True)
class ScenarioReport:
    """One run of the whole pipeline over stubs."""

    name: str
    verdict: str
    """As runs end (`achieved`, `not_achieved`, `failed`), or `refused` where the plan is not sound for its inputs."""
    confidence: float | None = None
    rounds: int = 0
    """Recovery patches that were applied."""
    steps: Mapping[StepId, str] = field(default_factory=dict[StepId, str])
    """How each step ended."""
    failed_gates: tuple[str, ...] = ()
    """Gates that were red."""
    inputs: JsonObject | None = None
    """Where they are not the job's."""
    changed: tuple[str, ...] = ()
    """Names of the inputs that are not the job's."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class UnreachedBranch:
    """A branch that no try took."""

    kind: str
    name: str
    side: str
    text: str
    is_fault: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class FailureReport:
    """What went wrong over valid outputs, with the smallest ones that show it."""

    step: StepId
    """Empty where it is the plan's result that cannot be made."""
    kind: str
    gate: str
    message: str
    outputs: Mapping[StepId, Json]
    """Of the steps that matter; of a `for_each` step, of each call."""
    is_fault: bool
    why_not: str = ""
    """Why it is no fault."""


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """All that a rehearsal found; the same seed, plan and day give the same."""

    job: str
    plan_hash: str
    seed: int
    now: dt.datetime
    tries: int
    stopped: bool
    """Whether the time was up before everything was tried."""
    scenarios: tuple[ScenarioReport, ...]
    branches: int
    reached: int
    unreached: tuple[UnreachedBranch, ...]
    """Without sides of gates."""
    always_passed: tuple[str, ...]
    always_failed: tuple[str, ...]
    unevaluated: tuple[str, ...]
    """Judge gates: nobody answers them without a model."""
    failures: tuple[FailureReport, ...]
    approvals: tuple[str, ...]
    """What a run would ask approval for; a rehearsal answers yes."""
    effects: tuple[tuple[StepId, str, str], ...]
    """Steps whose tools write or send: step, tool, effects."""
    fixtures: tuple[StepId, ...]
    """Steps whose outputs the author gave."""
    without_schema: tuple[StepId, ...]
    """Steps whose tools do not promise what the plan reads of their outputs: it was made up."""

    @property
    def faults(self) -> int:
        """How many findings are faults of the plan."""
        missing = sum(1 for found in self.unreached if found.is_fault)
        return missing + sum(1 for found in self.failures if found.is_fault)

    @property
    def achieved(self) -> int:
        """How many scenarios achieved the goal."""
        return sum(1 for scenario in self.scenarios if scenario.verdict == "achieved")


def as_json(report: SimulationReport) -> JsonObject:
    """Return the report as JSON."""
    return {
        "format": "wavewright/rehearsal/1",
        "job": report.job,
        "plan_hash": report.plan_hash,
        "seed": report.seed,
        "now": report.now.isoformat().replace("+00:00", "Z"),
        "tries": report.tries,
        "stopped": report.stopped,
        "faults": report.faults,
        "scenarios": [_scenario_json(scenario) for scenario in report.scenarios],
        "branches": report.branches,
        "reached": report.reached,
        "unreached": [_unreached_json(found) for found in report.unreached],
        "never_red": [*report.always_passed],
        "never_green": [*report.always_failed],
        "unasked": [*report.unevaluated],
        "mishaps": [_failure_json(found) for found in report.failures],
        "approvals": [*report.approvals],
        "effects": [_effect_json(*effect) for effect in report.effects],
        "fixtures": [*report.fixtures],
        "unpromised": [*report.without_schema],
    }


def _unreached_json(found: UnreachedBranch) -> JsonObject:
    return {
        "kind": found.kind,
        "name": found.name,
        "side": found.side,
        "text": found.text,
        "is_fault": found.is_fault,
        "why": found.why,
    }


def _failure_json(found: FailureReport) -> JsonObject:
    return {
        "step": found.step or None,
        "kind": found.kind,
        "gate": found.gate or None,
        "message": found.message,
        "outputs": {str(step): output for step, output in found.outputs.items()},
        "is_fault": found.is_fault,
        "why_not": found.why_not or None,
    }


def _effect_json(step: StepId, tool: str, effects: str) -> JsonObject:
    return {"step": step, "tool": tool, "effects": effects}


def _scenario_json(scenario: ScenarioReport) -> JsonObject:
    return {
        "name": scenario.name,
        "verdict": scenario.verdict,
        "confidence": scenario.confidence,
        "rounds": scenario.rounds,
        "steps": {str(step): status for step, status in scenario.steps.items()},
        "red": [*scenario.failed_gates],
        "inputs": scenario.inputs,
        "changed": [*scenario.changed],
        "reason": scenario.reason,
    }
