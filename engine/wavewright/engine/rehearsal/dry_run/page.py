"""A dry run as an HTML page that opens from disk: one file without scripts and network access.

The graph is that of the report of a run, with the critical path drawn thick; each step leads to its
row in the list of steps. A plan of more than `MAX_DRAWN` steps is listed and not drawn. The page's
content security policy allows only its own style.

For notebooks there is a *figure*: the drawing with a table of the steps, without style sheets, and
with as many rows as steps may be drawn.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import pairwise

from jinja2 import Environment
from markupsafe import Markup

from wavewright.engine.rehearsal.dry_run.records import PlanFacts, StepForecast
from wavewright.engine.rehearsal.dry_run.text import (
    dollars_text,
    repetition_text,
    sections,
    tokens_text,
)
from wavewright.planner import Gate, StepId
from wavewright.planner.plans.gate_questions import gate_consequence, gate_question
from wavewright.planner.plans.let_and_stop import in_authors_words
from wavewright.planner.types import GATE_ID_SEPARATOR
from wavewright.prompts import page_environment
from wavewright.reviewer.records import StepReport
from wavewright.reviewer.report.page import (
    content_security_policy,
    draw_steps,
    made_visible,
    style_sheet,
)
from wavewright.reviewer.report.plan_picture import MAX_DRAWN, StepNode, draw_plan
from wavewright.reviewer.values import duration_text, shorten_middle

_MAX_EXPANDED = 60
"""Maximum number of steps with an expanded list."""


def dry_run_page(dry_run: PlanFacts) -> str:
    """Return the page."""
    log = step_reports(dry_run)
    critical = set(pairwise(dry_run.critical_path))
    in_words = in_authors_words(dry_run.plan)
    gates = {str(gate.id): in_words(_gate_text(gate)) for gate in dry_run.plan.gates}
    style = style_sheet() + _own_style()
    return (
        _pages()
        .get_template("dry_run.html.j2")
        .render(
            run=dry_run,
            facts=headline_figures(dry_run),
            sections=list(sections(dry_run)),
            graph=draw_steps(log, critical) if len(log) <= MAX_DRAWN else None,
            times={step.id: repetition_text(step) for step in dry_run.steps},
            details={step.id: _details(step, gates) for step in dry_run.steps},
            is_open=len(dry_run.steps) <= _MAX_EXPANDED,
            style=Markup(style),  # noqa: S704 - the project's own files
            policy=Markup(content_security_policy(style)),  # noqa: S704 - fixed words and a digest
        )
    )


def step_reports(dry_run: PlanFacts) -> list[StepReport]:
    """Return the steps of a dry run as those of a run that has not begun."""
    return [
        StepReport(
            id=step.id,
            tool=step.tool,
            why=step.why,
            status="skipped" if step.is_skipped else "not_run",
            seconds=0.0 if step.is_skipped else step.seconds,
            wave=step.wave + 1,
            depends_on=step.depends_on,
            optional=step.optional,
        )
        for step in dry_run.steps
    ]


def _details(step: StepForecast, gates: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return names and texts of what the list of steps does not say of a step."""
    params = json.dumps(dict(step.params), ensure_ascii=False, indent=2) if step.params else ""
    approval = "a person is asked when it is ready" if step.needs_approval else ""
    details = [
        ("time", _time_text(step)),
        ("cost", _cost_text(step)),
        ("when", step.when or ""),
        ("approval", approval),
        ("parameters", params),
        *(("gate", gates[name]) for name in step.gates),
    ]
    return [(name, text) for name, text in details if text]


def _time_text(step: StepForecast) -> str:
    if not step.calls_made:
        return ""
    call = step.call
    is_history = call.seconds_from == "history"
    basis = f"from {call.calls_seen} past calls" if is_history else "the tool's own figure"
    return f"{duration_text(step.seconds)}, p90 {duration_text(step.p90_seconds)} ({basis})"


def _cost_text(step: StepForecast) -> str:
    """Return the money and the tokens of a step that asks a model."""
    if step.call.model is None:
        return ""
    money = "price not known"
    if step.usd is not None:
        money = f"{dollars_text(step.usd.expected)}, p90 {dollars_text(step.usd.p90)}"
    tokens = step.tokens
    return f"{money}; {tokens_text(tokens.expected)} tokens, p90 {tokens_text(tokens.p90)}"


def _gate_text(gate: Gate) -> str:
    name = gate.id.removesuffix(f"{GATE_ID_SEPARATOR}{gate.on}")
    return f"{name}: {gate_question(gate)} ({gate_consequence(gate)})"


@cache
def _pages() -> Environment:
    """Return the templates of plans, with their filters."""
    return page_environment(
        "wavewright.engine.rehearsal.dry_run",
        "pages",
        trims=True,
        finalize=made_visible,
        filters={
            "duration": duration_text,
            "px": _pixels,
            "cut": shorten_middle,
            "label_room": _label_room,
        },
    )


def _label_room(box: StepNode) -> int:
    """Return how many characters a name has room for; the boxes here have no sign of a status."""
    return int((box.width - 18) / 7.2)


def _pixels(figure: float) -> str:
    return f"{figure:.0f}"


@cache
def _own_style() -> str:
    return (files("wavewright.engine.rehearsal.dry_run") / "pages" / "dry_run.css").read_text(
        encoding="utf-8"
    )


def headline_figures(dry_run: PlanFacts) -> list[tuple[str, str]]:
    """Return the names and values above the graph."""
    estimate = dry_run.estimate
    least = "at least " if estimate.is_lower_bound else ""
    asks = any(step.call.model is not None for step in dry_run.steps)
    cost = "not known" if estimate.usd is None else f"{least}{dollars_text(estimate.usd.expected)}"
    seconds = estimate.seconds
    return [
        ("steps", str(len(dry_run.steps))),
        ("waves", str(len(dry_run.waves))),
        ("max parallelism", str(dry_run.max_parallelism)),
        ("calls", f"{least}{tokens_text(estimate.calls)}"),
        ("expected", f"{least}{duration_text(seconds.expected)}"),
        ("p90", f"{least}{duration_text(seconds.p90)}"),
        ("critical path", duration_text(dry_run.critical_seconds)),
        ("sequential", duration_text(dry_run.total_seconds)),
        *([("cost", cost)] if asks else []),
        ("budget", dry_run.budget.verdict),
    ]


def dry_run_figure(dry_run: PlanFacts, *, has_style: bool = True) -> str:
    """Return the plan of a dry run, with its critical path.

    `has_style` is false for pages that allow no style but that of their sheets.
    """
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
    return _figure(step_reports(dry_run), columns, rows, dry_run.critical_path, has_style=has_style)


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
    *,
    has_style: bool = True,
) -> str:
    template = _pages().get_template("plan_figure.html.j2")
    return template.render(
        has_style=has_style,
        picture=draw_plan(log) if len(log) <= MAX_DRAWN else None,
        steps={step.id: step for step in log},
        waves=len({step.wave for step in log}),
        critical=set(pairwise(critical)),
        critical_steps=set(critical),
        columns=columns,
        rows=rows[:MAX_DRAWN],
        left_out=max(0, len(rows) - MAX_DRAWN),
    )
