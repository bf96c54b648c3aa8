"""A dry run as a page that opens from disk: one file, no script, no network."""

from __future__ import annotations

import json

from jinja2 import Environment, PackageLoader, StrictUndefined

from wavewright.engine.dry_run import DryRun, StepForecast
from wavewright.engine.dry_run_text import times_of
from wavewright.planner.types import GATE_JOINT
from wavewright.reviewer.records import StepReport
from wavewright.reviewer.report.dag import draw_plan
from wavewright.reviewer.times import duration_text


def as_html(dry_run: DryRun) -> str:
    """Return the page: the graph with its critical path, then what each step calls, waits for and is asked."""
    environment = Environment(
        loader=PackageLoader("wavewright.engine", "pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["duration"] = duration_text
    environment.filters["bare_gate"] = _bare_gate
    environment.filters["json"] = lambda value: json.dumps(value, indent=2, ensure_ascii=False)
    critical = set(zip(dry_run.critical_path, dry_run.critical_path[1:], strict=False))
    return environment.get_template("dry_run.html.j2").render(
        run=dry_run,
        steps={step.id: step for step in dry_run.steps},
        times={step.id: times_of(step) for step in dry_run.steps},
        picture=draw_plan([_report(step) for step in dry_run.steps]),
        critical_edges=critical,
        critical_steps=set(dry_run.critical_path),
    )


def _bare_gate(gate: str) -> str:
    """Return the goal template's name of a gate, without the step that it was bound to."""
    return gate.partition(GATE_JOINT)[0]


def _report(step: StepForecast) -> StepReport:
    return StepReport(
        id=step.id,
        tool=step.tool,
        why=step.why,
        status="not_run",
        wave=step.wave + 1,
        depends_on=step.depends_on,
        optional=step.optional,
    )
