"""What a simulation found.

A *report* lists the scenarios that were run, the branches that no try reached, the gates that are always green or
always red, and what went wrong over valid outputs. A finding that makes the plan fail where no tool is to blame is
a *fault*.

A simulation's report as text, at most 80 columns wide: what matters first, read in a minute.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from textwrap import wrap

from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.reviewer.values import brief


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
    """All that a simulation found; the same seed, plan and day give the same."""

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
    """What a run would ask approval for; a simulation answers yes."""
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
        "format": "wavewright/simulation/1",
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


_WIDTH = 80
_MAX_OUTPUT_LENGTH = 600
_MAX_INPUT_LENGTH = 40
_VERDICTS = {"achieved": "achieved", "not_achieved": "not achieved", "failed": "failed", "refused": "refused"}


def as_text(report: SimulationReport) -> str:
    """Return the report as text."""
    return "".join(f"{line.rstrip()}\n" for line in _lines(report))


def _lines(report: SimulationReport) -> Iterator[str]:
    yield from _wrapped(f"Simulation of {report.job}", "")
    yield from _wrapped(
        f"seed {report.seed}, now {report.now.isoformat().replace('+00:00', 'Z')}, {report.tries} tries, "
        f"{_scenario_summary(report)}; no tool was called",
        "",
    )
    if report.stopped:
        yield "The time was up before everything was tried."
    yield ""
    yield from _conclusion(report)
    yield from _failures_lines(report)
    yield from _listed(
        "Branches that no try reached",
        (
            f"{found.text}{' (mandatory)' if found.is_fault else ''}{f': {found.why}' if found.why else ''}"
            for found in report.unreached
        ),
    )
    yield from _listed("Gates that no try made red", report.always_passed)
    yield from _listed("Gates that no try made green", report.always_failed)
    yield from _listed("Gates that only a model could answer", report.unevaluated)
    yield from _listed("Approvals that a run would ask for", report.approvals)
    yield from _listed(
        "Effects that a run would have",
        (f"{step}: {tool} ({effects})" for step, tool, effects in report.effects),
    )
    yield from _listed("Steps whose outputs are fixtures", report.fixtures)
    yield from _listed("Steps whose tools do not promise what the plan reads", report.without_schema)
    yield ""
    yield "Scenarios"
    for scenario in report.scenarios:
        yield from _scenario_lines(scenario)


def _conclusion(report: SimulationReport) -> Iterator[str]:
    faults = "no fault" if report.faults == 0 else f"{report.faults} fault{'s' if report.faults > 1 else ''}"
    yield from _wrapped(
        f"{faults}; {report.reached} of {report.branches} branches reached; "
        f"{report.achieved} of {_scenario_summary(report)} achieve{'s' if len(report.scenarios) == 1 else ''} the goal",
        "",
    )


def _scenario_summary(report: SimulationReport) -> str:
    count = len(report.scenarios)
    return f"{count} scenario{'' if count == 1 else 's'}"


def _failures_lines(report: SimulationReport) -> Iterator[str]:
    if report.failures:
        yield ""
        yield "What goes wrong over valid outputs"
    for found in report.failures:
        yield from _failure_lines(found)


def _failure_lines(found: FailureReport) -> Iterator[str]:
    what = f"gate {found.gate} cannot be asked" if found.gate else f"step {found.step} fails ({found.kind})"
    what = what if found.step else "the result cannot be made"
    word = "fault" if found.is_fault else "note"
    reason = f" [{found.why_not}]" if found.why_not else ""
    yield from _wrapped(f"{word}: {what}: {found.message}{reason}", "  ")
    for step, output in found.outputs.items():
        text = json.dumps(output, ensure_ascii=False)
        if len(text) > _MAX_OUTPUT_LENGTH:
            text = f"{text[:_MAX_OUTPUT_LENGTH]}… ({len(text):,} characters in all)"
        yield from _wrapped(f"where {step} gives {text}", "      ")


def _listed(title: str, entries: Iterable[str]) -> Iterator[str]:
    found = list(entries)
    if found:
        yield ""
        yield title
    for entry in found:
        yield from _wrapped(entry, "  ")


def _scenario_lines(scenario: ScenarioReport) -> Iterator[str]:
    confidence = "" if scenario.confidence is None else f" at {scenario.confidence:.2f}"
    rounds = "" if not scenario.rounds else f", {scenario.rounds} recovery patch"
    rounds += "es" if scenario.rounds > 1 else ""
    inputs = f", where {_inputs(scenario)}" if scenario.changed else ""
    verdict = f"{_VERDICTS.get(scenario.verdict, scenario.verdict)}{confidence}{rounds}{inputs}"
    yield from _wrapped(f"{scenario.name}: {verdict}", "  ")


def _inputs(scenario: ScenarioReport) -> str:
    inputs = scenario.inputs or {}
    return ", ".join(
        f"{name} is {brief(inputs[name], _MAX_INPUT_LENGTH)}" if name in inputs else f"{name} is not given"
        for name in scenario.changed
    )


def _wrapped(text: str, indent: str) -> Iterator[str]:
    yield from wrap(
        printable(text),
        _WIDTH,
        initial_indent=indent,
        subsequent_indent=f"{indent}    ",
        break_on_hyphens=False,
    ) or [indent]
