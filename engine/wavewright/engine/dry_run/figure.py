"""A plan as a drawing with a table of its steps, for notebooks: HTML without scripts and style sheets.

A plan of more than `MAX_DRAWN` steps has no drawing, and its table only so many rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from wavewright.engine.dry_run.forecast import DryRun
from wavewright.engine.dry_run.page import layout_plan, pages, step_reports
from wavewright.planner.types import StepId
from wavewright.reviewer.records import StepReport
from wavewright.reviewer.report.plan_picture import MAX_DRAWN, implied_edges
from wavewright.reviewer.values import duration_text


def dry_run_figure(dry_run: DryRun) -> str:
    """Return the plan of a dry run, with its critical path."""
    rows = [
        (
            str(step.wave + 1),
            step.id,
            step.tool,
            ", ".join(step.depends_on) or "—",
            "skipped" if step.is_skipped else duration_text(step.seconds),
        )
        for step in dry_run.steps
    ]
    columns = ("wave", "step", "calls", "after", "time")
    return _figure(step_reports(dry_run), columns, rows, dry_run.critical_path)


def run_figure(log: Sequence[StepReport]) -> str:
    """Return the plan of a run, each step in the colour of its status."""
    rows = [
        (
            str(step.wave),
            step.id,
            step.tool,
            step.status.replace("_", " "),
            duration_text(step.seconds) if step.seconds else "—",
            step.error.message if step.error is not None else step.reason or step.output or "",
        )
        for step in log
    ]
    return _figure(log, ("wave", "step", "calls", "status", "time", "output or reason"), rows)


def _figure(
    log: Sequence[StepReport],
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    critical: Sequence[StepId] = (),
) -> str:
    template = pages().get_template("plan_figure.html.j2")
    return template.render(
        picture=layout_plan(log) if len(log) <= MAX_DRAWN else None,
        steps={step.id: step for step in log},
        waves=len({step.wave for step in log}),
        implied=implied_edges(log),
        critical=set(pairwise(critical)),
        critical_steps=set(critical),
        columns=columns,
        rows=rows[:MAX_DRAWN],
        left_out=max(0, len(rows) - MAX_DRAWN),
    )
