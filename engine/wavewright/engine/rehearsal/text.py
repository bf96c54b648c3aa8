"""A rehearsal's report as text, at most 80 columns wide: what matters first, read in a minute."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from textwrap import wrap

from wavewright.engine.rehearsal.report import FailureReport, ScenarioReport, SimulationReport
from wavewright.planner.rendering import printable
from wavewright.reviewer.values import brief

_WIDTH = 80
_MAX_OUTPUT_LENGTH = 600
_MAX_INPUT_LENGTH = 40
_VERDICTS = {"achieved": "achieved", "not_achieved": "not achieved", "failed": "failed", "refused": "refused"}


def as_text(report: SimulationReport) -> str:
    """Return the report as text."""
    return "".join(f"{line.rstrip()}\n" for line in _lines(report))


def _lines(report: SimulationReport) -> Iterator[str]:
    yield from _wrapped(f"Rehearsal of {report.job}", "")
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
