"""A rehearsal's report as text, at most 80 columns wide: what matters first, read in a minute."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from textwrap import wrap

from wavewright.engine.rehearsal.report import MishapReport, RehearsalReport, ScenarioReport
from wavewright.planner.rendering import printable
from wavewright.reviewer.values import brief

_WIDTH = 80
_LONGEST_OUTPUT = 600
_LONGEST_INPUT = 40
_VERDICTS = {"achieved": "achieved", "not_achieved": "not achieved", "failed": "failed", "refused": "refused"}


def as_text(report: RehearsalReport) -> str:
    """Return the report as text."""
    return "".join(f"{line.rstrip()}\n" for line in _lines(report))


def _lines(report: RehearsalReport) -> Iterator[str]:
    yield from _wrapped(f"Rehearsal of {report.job}", "")
    yield from _wrapped(
        f"seed {report.seed}, now {report.now.isoformat().replace('+00:00', 'Z')}, {report.tries} tries, "
        f"{_scenarios(report)}; no tool was called",
        "",
    )
    if report.stopped:
        yield "The time was up before everything was tried."
    yield ""
    yield from _conclusion(report)
    yield from _mishaps(report)
    yield from _listed(
        "Branches that no try reached",
        (
            f"{found.text}{' (mandatory)' if found.is_fault else ''}{f': {found.why}' if found.why else ''}"
            for found in report.unreached
        ),
    )
    yield from _listed("Gates that no try made red", report.never_red)
    yield from _listed("Gates that no try made green", report.never_green)
    yield from _listed("Gates that only a model could answer", report.unasked)
    yield from _listed("Approvals that a run would ask for", report.approvals)
    yield from _listed(
        "Effects that a run would have",
        (f"{step}: {tool} ({effects})" for step, tool, effects in report.effects),
    )
    yield from _listed("Steps whose outputs are fixtures", report.fixtures)
    yield from _listed("Steps whose tools do not promise what the plan reads", report.unpromised)
    yield ""
    yield "Scenarios"
    for scenario in report.scenarios:
        yield from _scenario(scenario)


def _conclusion(report: RehearsalReport) -> Iterator[str]:
    faults = "no fault" if report.faults == 0 else f"{report.faults} fault{'s' if report.faults > 1 else ''}"
    yield from _wrapped(
        f"{faults}; {report.reached} of {report.branches} branches reached; "
        f"{report.achieved} of {_scenarios(report)} achieve{'s' if len(report.scenarios) == 1 else ''} the goal",
        "",
    )


def _scenarios(report: RehearsalReport) -> str:
    count = len(report.scenarios)
    return f"{count} scenario{'' if count == 1 else 's'}"


def _mishaps(report: RehearsalReport) -> Iterator[str]:
    if report.mishaps:
        yield ""
        yield "What goes wrong over valid outputs"
    for found in report.mishaps:
        yield from _mishap(found)


def _mishap(found: MishapReport) -> Iterator[str]:
    what = f"gate {found.gate} cannot be asked" if found.gate else f"step {found.step} fails ({found.kind})"
    what = what if found.step else "the result cannot be made"
    word = "fault" if found.is_fault else "note"
    reason = f" [{found.why_not}]" if found.why_not else ""
    yield from _wrapped(f"{word}: {what}: {found.message}{reason}", "  ")
    for step, output in found.outputs.items():
        text = json.dumps(output, ensure_ascii=False)
        if len(text) > _LONGEST_OUTPUT:
            text = f"{text[:_LONGEST_OUTPUT]}… ({len(text):,} characters in all)"
        yield from _wrapped(f"where {step} gives {text}", "      ")


def _listed(title: str, entries: Iterable[str]) -> Iterator[str]:
    found = list(entries)
    if found:
        yield ""
        yield title
    for entry in found:
        yield from _wrapped(entry, "  ")


def _scenario(scenario: ScenarioReport) -> Iterator[str]:
    confidence = "" if scenario.confidence is None else f" at {scenario.confidence:.2f}"
    rounds = "" if not scenario.rounds else f", {scenario.rounds} recovery patch"
    rounds += "es" if scenario.rounds > 1 else ""
    inputs = f", where {_inputs(scenario)}" if scenario.changed else ""
    verdict = f"{_VERDICTS.get(scenario.verdict, scenario.verdict)}{confidence}{rounds}{inputs}"
    yield from _wrapped(f"{scenario.name}: {verdict}", "  ")


def _inputs(scenario: ScenarioReport) -> str:
    inputs = scenario.inputs or {}
    return ", ".join(
        f"{name} is {brief(inputs[name], _LONGEST_INPUT)}" if name in inputs else f"{name} is not given"
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
