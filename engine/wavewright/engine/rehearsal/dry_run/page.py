"""A dry run as an HTML page that opens from disk: one file with its own script, without network
access.

The graph and the list of steps work without the script, which zooms and shows details of a selected
step. The page's content security policy allows only its own script and style.

A small plan of a moderate aspect ratio is drawn as in the report of a run. Any other is *packed*: a
wave takes as many columns as it needs, and waves continue in a new row like words of a text. The
layout depends on the plan alone.

For notebooks there is a *figure*: the drawing with a table of the steps, without scripts and style
sheets. A plan of more than `MAX_DRAWN` steps has no drawing there, and its table only so many rows.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import cast

from jinja2 import Environment
from markupsafe import Markup

from wavewright.engine.rehearsal.dry_run.exports import page_data
from wavewright.engine.rehearsal.dry_run.records import PlanFacts
from wavewright.engine.rehearsal.dry_run.text import (
    dollars_text,
    repetition_text,
    sections,
    tokens_text,
)
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import StepId
from wavewright.prompts.environments import page_environment
from wavewright.reviewer.records import StepReport
from wavewright.reviewer.report.page import style_sheet
from wavewright.reviewer.report.plan_picture import (
    MAX_DRAWN,
    PlanPicture,
    StepEdge,
    StepNode,
    WaveBand,
    draw_plan,
    implied_edges,
)
from wavewright.reviewer.values import duration_text, shorten_middle

BOX_WIDTH, BOX_HEIGHT = 180.0, 44.0
MAX_LINES = 500
"""Maximum number of lines drawn; with more, only those of the critical path and of the selected
step.
"""

_MAX_STEPS = 150
_MAX_STRETCH = 6.0
"""Maximum aspect ratio of a picture that is not packed."""
_COLUMN = BOX_WIDTH + 24.0
_ROW = BOX_HEIGHT + 12.0
_GAP = 70.0
"""Between waves, for the lines."""
_PAD = 20.0
_TITLE = 28.0
_TITLE_X = 4.0
"""From the left side of a wave's band to its title, as in `dry_run.html.j2` and
`plan_figure.html.j2`.
"""
_ROWS = (1, 2, 3, 4, 6, 8, 11, 15, 20, 27, 36, 50, 70)
"""Numbers of rows of waves that are tried."""
_ASPECT_RATIO = 1.6
"""Aspect ratio that a packed picture aims at."""


def layout_plan(log: Sequence[StepReport]) -> PlanPicture:
    """Return the picture of a plan by its steps, ended or not; edges by the waiting step, in the
    plan's order.
    """
    if len(log) <= _MAX_STEPS:
        drawn = draw_plan(log)
        if (
            max(drawn.width, drawn.height) <= _MAX_STRETCH * min(drawn.width, drawn.height)
            or len(log) < 12
        ):
            edges = {(edge.source, edge.target): edge for edge in drawn.edges}
            return replace(drawn, edges=tuple(edges[ends] for ends in _dependency_edges(log)))
    return _packed_layout(log)


def step_reports(dry_run: PlanFacts) -> list[StepReport]:
    """Return the steps of a dry run as those of a run that has not begun."""
    return [
        StepReport(
            id=step.id,
            tool=step.tool,
            why=step.why,
            status="not_run",
            wave=step.wave + 1,
            depends_on=step.depends_on,
            optional=step.optional,
        )
        for step in dry_run.steps
    ]


def _dependency_edges(log: Sequence[StepReport]) -> list[tuple[StepId, StepId]]:
    return [(before, step.id) for step in log for before in step.depends_on]


def _packed_layout(log: Sequence[StepReport]) -> PlanPicture:
    waves: dict[int, list[StepReport]] = {}
    for entry in sorted(log, key=lambda entry: entry.wave):
        waves.setdefault(entry.wave, []).append(entry)
    sizes = [len(wave) for wave in waves.values()]
    deep, sheet = _best_aspect(sizes)
    high = _TITLE + min(deep, max(sizes, default=1)) * _ROW
    nodes: list[StepNode] = []
    bands: list[WaveBand] = []
    x, y, width = _PAD, _PAD, 0.0
    for number, wave in waves.items():
        wide = _wave_width(len(wave), deep)
        if x > _PAD and x + wide > sheet:
            x, y = _PAD, y + high + _PAD
        bands.append(WaveBand(f"wave {number}", x - _TITLE_X, y, wide, high))
        for place, step in enumerate(wave):
            column, row = divmod(place, deep)
            nodes.append(StepNode(step, x + column * _COLUMN, y + _TITLE + row * _ROW, BOX_WIDTH))
        width = max(width, x + wide)
        x += wide + _GAP
    height = max((node.y for node in nodes), default=0.0) + BOX_HEIGHT + _PAD
    where = {node.step.id: node for node in nodes}
    edges = [
        StepEdge(*ends, _curve(where[ends[0]], where[ends[1]])) for ends in _dependency_edges(log)
    ]
    return PlanPicture(width + _PAD, height, "across", tuple(nodes), tuple(edges), tuple(bands))


def _wave_width(steps: int, deep: int) -> float:
    return math.ceil(steps / deep) * _COLUMN - (_COLUMN - BOX_WIDTH)


def _best_aspect(sizes: Sequence[int]) -> tuple[int, float]:
    """Return the number of steps per column and the width of the sheet for the best aspect ratio."""
    best = (math.inf, 1, _COLUMN)
    for deep in sorted({1, 2, 4, 6, 8, 12, 16, 24, 32, 48, min(80, max(sizes, default=1))}):
        widths = [_wave_width(size, deep) for size in sizes]
        whole = sum(widths) + _GAP * len(widths)
        high = _TITLE + min(deep, max(sizes, default=1)) * _ROW + _PAD
        for rows_of_sizes in (rows for rows in _ROWS if rows <= len(sizes)):
            sheet = max(whole / rows_of_sizes, *widths) + _PAD
            rows, wide = _rows_filled(widths, sheet)
            area = wide * rows * high
            # Balances the aspect ratio against wasted area; waves in one row are easiest to follow.
            cost = (
                abs(math.log(wide / (rows * high) / _ASPECT_RATIO))
                + math.log(area) / 2
                + (0.3 if rows > 1 else 0.0)
            )
            if cost < best[0]:
                best = (cost, deep, sheet)
    return best[1], best[2]


def _rows_filled(widths: Sequence[float], sheet: float) -> tuple[int, float]:
    """Return how many rows the waves take on a sheet, and how wide the widest is."""
    rows, x, widest = 1, _PAD, 0.0
    for width in widths:
        if x > _PAD and x + width > sheet:
            rows, x = rows + 1, _PAD
        widest = max(widest, x + width)
        x += width + _GAP
    return rows, widest


def _curve(source: StepNode, target: StepNode) -> str:
    """Return a line from the right side of one box to the left side of another."""
    x1, y1 = source.x + source.width, source.y + BOX_HEIGHT / 2
    x2, y2 = target.x, target.y + BOX_HEIGHT / 2
    bend = max(30.0, min(90.0, abs(x2 - x1) / 2))
    return f"M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"


_SCRIPT_ESCAPES = str.maketrans(
    {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}
)
"""JSON escapes of characters that could end the script element early."""
_MAX_EXPANDED = 60
"""Maximum number of steps with an expanded list."""


def dry_run_page(dry_run: PlanFacts, tools: Mapping[str, ToolSignature] | None = None) -> str:
    """Return the page; types of parameters and outputs are shown for the given tools."""
    log = step_reports(dry_run)
    picture = layout_plan(log)
    shown = json.dumps(page_data(dry_run, tools or {}), ensure_ascii=False, separators=(",", ":"))
    critical = set(zip(dry_run.critical_path, dry_run.critical_path[1:], strict=False))
    has_all_lines = len(picture.edges) <= MAX_LINES
    times = {step.id: repetition_text(step) for step in dry_run.steps}
    called = {step.id: f"{step.tool}{times[step.id]}" for step in dry_run.steps}
    style, script = style_sheet() + _asset("dry_run.css"), _asset("dry_run.js")
    return (
        _pages()
        .get_template("dry_run.html.j2")
        .render(
            run=dry_run,
            facts=headline_figures(dry_run),
            sections=list(sections(dry_run)),
            picture=picture,
            lines=[
                line
                for line in picture.edges
                if has_all_lines or (line.source, line.target) in critical
            ],
            has_all_lines=has_all_lines,
            implied=implied_edges(log),
            numbers={step.id: number for number, step in enumerate(dry_run.steps)},
            times=times,
            labels={
                box.step.id: tuple(
                    shorten_middle(text, _label_room(box))
                    for text in (box.step.id, called[box.step.id])
                )
                for box in picture.nodes
            },
            critical=critical,
            critical_steps=set(dry_run.critical_path),
            is_open=len(dry_run.steps) <= _MAX_EXPANDED,
            data=Markup(shown.translate(_SCRIPT_ESCAPES)),  # noqa: S704 - every character that HTML reads is spelt otherwise
            style=Markup(style),  # noqa: S704 - the project's own file
            script=Markup(script),  # noqa: S704 - the project's own file
            policy=Markup(_content_security_policy(style, script)),  # noqa: S704 - words of this file and digests
        )
    )


@cache
def _pages() -> Environment:
    """Return the templates of plans, with their filters."""
    environment = page_environment("wavewright.engine.rehearsal.dry_run", "pages", trims=True)
    # jinja2 infers the type of this table from its own filters.
    filters = cast("dict[str, Callable[..., object]]", environment.filters)
    filters |= {
        "duration": duration_text,
        "px": _pixels,
        "cut": shorten_middle,
        "label_room": _label_room,
    }
    return environment


def _label_room(box: StepNode) -> int:
    """Return how many characters a name has room for; the boxes here have no sign of a status."""
    return int((box.width - 18) / 7.2)


def _pixels(figure: float) -> str:
    return f"{figure:.0f}"


@cache
def _asset(name: str) -> str:
    return (files("wavewright.engine.rehearsal.dry_run") / "pages" / name).read_text(
        encoding="utf-8"
    )


def _content_security_policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


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
