"""How long a dry run of a large plan takes, how large its page is, and how long its drawing takes."""

from __future__ import annotations

import datetime as dt
from functools import partial

from benchmarks.engine import ADD, NO_END
from benchmarks.measure import best_of_calls, show_table
from benchmarks.shapes import SHAPES, plan_of
from wavewright.config.documents import read_document
from wavewright.engine.rehearsal.dry_run.forecast import DryRun, forecast
from wavewright.engine.rehearsal.dry_run.page import dry_run_page
from wavewright.engine.rehearsal.dry_run.text import dry_run_text
from wavewright.engine.run.jobs.plan_drafts import PlanDraft, PlanOrigin
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.planner.language.goals import AvailableTool, Goal
from wavewright.planner.language.plan import Limits, Plan
from wavewright.reviewer.records import StepReport
from wavewright.reviewer.report.plan_picture import draw_plan, fold_waves

STEPS = 1_000
NOW = dt.datetime(2024, 12, 2, tzinfo=dt.UTC)
TOOLS = {"add": ADD}


def order_of(plan: Plan) -> ResolvedJob:
    """Return an order for a plan without bounds of size."""
    limits = Limits(max_steps=NO_END, max_waves=NO_END)
    goal = Goal(
        name="measured",
        job="measured",
        text="Add up",
        inputs={},
        limits=limits,
        tools=(AvailableTool(name="add"),),
    )
    origin = PlanOrigin(read_document('{"steps": []}', "measured.json"))
    return ResolvedJob(goal, PlanDraft(plan, origin, "given"), origin.document.source)


def record_of(plan: Plan) -> DryRun:
    """Return the dry run of a plan."""
    return forecast(order_of(plan), TOOLS, now=NOW)


def measure_dry_run() -> None:
    """Print how long the record, its text and its page take, and the size of the page."""
    rows = [_row(name, plan_of(shape(STEPS))) for name, shape in SHAPES.items()]
    show_table(
        f"Dry run of {STEPS:,} steps, s and MB",
        ["shape", "record", "text", "page", "record and page", "size of the page, MB"],
        rows,
    )
    show_table(
        "Drawing of the report, s",
        ["shape", f"{STEPS:,} steps drawn", f"{10 * STEPS:,} steps folded by wave"],
        [
            [
                name,
                best_of_calls(3, partial(draw_plan, _log_of(plan_of(shape(STEPS))))),
                best_of_calls(3, partial(fold_waves, _log_of(plan_of(shape(10 * STEPS))))),
            ]
            for name, shape in SHAPES.items()
        ],
    )


def _log_of(plan: Plan) -> list[StepReport]:
    record = record_of(plan)
    return [
        StepReport(
            id=step.id, tool=step.tool, status="ok", wave=step.wave + 1, depends_on=step.depends_on
        )
        for step in record.steps
    ]


def _row(name: str, plan: Plan) -> list[object]:
    record = record_of(plan)
    forecasting = best_of_calls(3, lambda: record_of(plan))
    writing = best_of_calls(3, lambda: dry_run_text(record))
    drawing = best_of_calls(3, lambda: dry_run_page(record))
    megabytes = len(dry_run_page(record).encode()) / 1e6
    return [name, forecasting, writing, drawing, forecasting + drawing, megabytes]
