"""What a simulation found.

A *report* lists the scenarios that were run, the branches that no try reached, the gates that
always pass or always fail, and what fails over valid outputs. A finding is a *fault* where it makes
the plan fail and no tool is to blame.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import cast

from wavewright.planner import Json, JsonObject, StepId
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.diagnostics.rendering import wrap_paragraph
from wavewright.reviewer.values import brief


@dataclass(frozen=True, slots=True)
class ScenarioReport:
    """One run of the whole pipeline over stubs."""

    name: str
    verdict: str
    """As runs end (`achieved`, `not_achieved`, `failed`), or `refused` where the plan is not valid
    for its inputs.
    """
    confidence: float | None = None
    rounds: int = 0
    """Recovery patches that were applied."""
    steps: Mapping[StepId, str] = field(default_factory=dict[StepId, str])
    """How each step ended."""
    failed_gates: tuple[str, ...] = ()
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
    is_fault: bool
    why: str


@dataclass(frozen=True, slots=True)
class FailureReport:
    """What failed over valid outputs, with the first ones that show it."""

    step: StepId | None
    """None where it is the plan's result that cannot be made."""
    kind: str
    gate: str | None
    message: str
    outputs: Mapping[StepId, Json]
    """Of the steps that matter; of a `for_each` step, of each call."""
    is_fault: bool
    why_not: str
    """Why it is no fault."""


@dataclass(frozen=True, slots=True)
class StepEffects:
    """A step whose tool writes or sends."""

    step: StepId
    tool: str
    effects: str


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """All that a simulation found; the same seed, plan and day give the same."""

    job: str
    plan_hash: str
    seed: int
    now: dt.datetime
    tries: int
    scenarios: tuple[ScenarioReport, ...]
    branches: int
    reached: int
    unreached: tuple[UnreachedBranch, ...]
    """Without sides of gates."""
    always_passed: tuple[str, ...]
    always_failed: tuple[str, ...]
    unevaluated: tuple[str, ...]
    """Judge gates, which are not evaluated without a model."""
    failures: tuple[FailureReport, ...]
    approvals: tuple[str, ...]
    """What a run would ask approval for; a simulation gives it."""
    effects: tuple[StepEffects, ...]
    fixtures: tuple[StepId, ...]
    """Steps whose outputs the author gave."""
    undeclared: tuple[StepId, ...]
    """Steps whose tools' schemas do not say what the plan reads of their outputs."""

    @property
    def faults(self) -> int:
        """How many findings are faults of the plan."""
        return sum(entry.is_fault for entry in self.unreached) + sum(
            entry.is_fault for entry in self.failures
        )


def as_json(report: SimulationReport) -> JsonObject:
    """Return the report as JSON."""
    now = report.now.isoformat().replace("+00:00", "Z")
    document = {
        **asdict(report),
        "now": now,
        "faults": report.faults,
        "format": "wavewright/simulation/1",
    }
    return cast("JsonObject", document)


_WIDTH = 80
_MAX_OUTPUT_LENGTH = 600
_MAX_INPUT_LENGTH = 40


def as_text(report: SimulationReport) -> str:
    """Return the report as text, at most 80 columns wide, with what matters first."""
    return "".join(f"{line.rstrip()}\n" for line in _lines(report))


def _lines(report: SimulationReport) -> Iterator[str]:
    scenarios = counted(len(report.scenarios), "scenario")
    achieved = sum(scenario.verdict == "achieved" for scenario in report.scenarios)
    now = report.now.isoformat().replace("+00:00", "Z")
    yield from _wrapped(f"Simulation of {report.job}", "")
    yield from _wrapped(
        f"seed {report.seed}, now {now}, {report.tries} tries, {scenarios}; no tool was called", ""
    )
    yield ""
    yield from _wrapped(
        f"{counted(report.faults, 'fault') if report.faults else 'no fault'}; "
        f"{report.reached} of {report.branches} branches reached; "
        f"{achieved} of {scenarios} achieve{'s' if len(report.scenarios) == 1 else ''} the goal",
        "",
    )
    if report.failures:
        yield from ("", "Failures over valid outputs")
    for entry in report.failures:
        yield from _failure_lines(entry)
    unreached = (
        f"{entry.text}{' (mandatory)' if entry.is_fault else ''}{f': {entry.why}' if entry.why else ''}"
        for entry in report.unreached
    )
    effects = (f"{effect.step}: {effect.tool} ({effect.effects})" for effect in report.effects)
    yield from _listed("Branches that no try reached", unreached)
    yield from _listed("Gates that no try made fail", report.always_passed)
    yield from _listed("Gates that no try made pass", report.always_failed)
    yield from _listed("Gates that only a model could evaluate", report.unevaluated)
    yield from _listed("Approvals that a run would ask for", report.approvals)
    yield from _listed("Effects that a run would have", effects)
    yield from _listed("Steps whose outputs are fixtures", report.fixtures)
    yield from _listed(
        "Steps whose tools' schemas do not say what the plan reads", report.undeclared
    )
    yield from _listed("Scenarios", map(_scenario_text, report.scenarios))


def _failure_lines(failure: FailureReport) -> Iterator[str]:
    what = (
        f"step {failure.step} fails ({failure.kind})"
        if failure.step
        else "the result cannot be made"
    )
    what = f"gate {failure.gate} cannot be evaluated" if failure.gate else what
    reason = f" [{failure.why_not}]" if failure.why_not else ""
    yield from _wrapped(
        f"{'fault' if failure.is_fault else 'note'}: {what}: {failure.message}{reason}", "  "
    )
    for step, output in failure.outputs.items():
        text = json.dumps(output, ensure_ascii=False)
        if len(text) > _MAX_OUTPUT_LENGTH:
            text = f"{text[:_MAX_OUTPUT_LENGTH]}… ({len(text):,} characters in all)"
        yield from _wrapped(f"where {step} gives {text}", "      ")


def _scenario_text(scenario: ScenarioReport) -> str:
    confidence = "" if scenario.confidence is None else f" at {scenario.confidence:.2f}"
    rounds = (
        f", {scenario.rounds} recovery patch{'es' if scenario.rounds > 1 else ''}"
        if scenario.rounds
        else ""
    )
    inputs = scenario.inputs or {}
    changed = [
        f"{name} is {brief(inputs[name], _MAX_INPUT_LENGTH)}"
        if name in inputs
        else f"{name} is not given"
        for name in scenario.changed
    ]
    where = f", where {', '.join(changed)}" if changed else ""
    return f"{scenario.name}: {scenario.verdict.replace('_', ' ')}{confidence}{rounds}{where}"


def _listed(title: str, entries: Iterable[str]) -> Iterator[str]:
    listed = list(entries)
    if listed:
        yield from ("", title)
    for entry in listed:
        yield from _wrapped(entry, "  ")


def _wrapped(text: str, indent: str) -> list[str]:
    return wrap_paragraph(
        text, indent=indent, rest=f"{indent}    ", width=_WIDTH, breaks_words=True
    )
