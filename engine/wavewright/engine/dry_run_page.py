"""A dry run as a page that opens from disk: one file, one script of its own, no network.

The graph and the list of steps are there without the script; it zooms, and shows what is known of the step that is
chosen. A policy in the page lets the browser run and apply just the script and the style that it was made with.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from jinja2 import Environment
from markupsafe import Markup

from wavewright.engine.dry_run import DryRun
from wavewright.engine.dry_run_details import page_data
from wavewright.engine.dry_run_picture import MAX_LINES, layout_dry_run
from wavewright.engine.dry_run_sections import dollars_text, sections, tokens_text
from wavewright.engine.dry_run_text import repetition_text
from wavewright.planner.signatures import ToolSignature
from wavewright.prompts.pages import page_environment
from wavewright.reviewer.times import duration_text

_SCRIPT_ESCAPES = str.maketrans(
    {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}
)
"""Characters that would end the data early, as JSON spells them otherwise."""
_MAX_EXPANDED = 60
"""Steps of which the list stands open."""


def dry_run_page(dry_run: DryRun, tools: Mapping[str, ToolSignature] | None = None) -> str:
    """Return the page; the types of parameters and outputs are shown of the tools that are given."""
    picture = layout_dry_run(dry_run)
    shown = json.dumps(page_data(dry_run, tools or {}), ensure_ascii=False, separators=(",", ":"))
    critical = set(zip(dry_run.critical_path, dry_run.critical_path[1:], strict=False))
    has_all_lines = len(picture.lines) <= MAX_LINES
    times = {step.id: repetition_text(step) for step in dry_run.steps}
    called = {step.id: f"{step.tool}{times[step.id]}" for step in dry_run.steps}
    style, script = _asset("dry_run.css"), _asset("dry_run.js")
    return (
        _environment()
        .get_template("dry_run.html.j2")
        .render(
            run=dry_run,
            facts=_headline_figures(dry_run),
            sections=list(sections(dry_run)),
            picture=picture,
            lines=[line for line in picture.lines if has_all_lines or (line.source, line.target) in critical],
            has_all_lines=has_all_lines,
            numbers={step.id: number for number, step in enumerate(dry_run.steps)},
            times=times,
            labels={
                box.step: (_shortened(box.step, box.room), _shortened(called[box.step], box.room))
                for box in picture.boxes
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
def _environment() -> Environment:
    environment = page_environment("wavewright.engine", "pages", trims=True)
    environment.filters["duration"] = duration_text
    environment.filters["px"] = _pixels
    return environment


def _pixels(figure: float) -> str:
    return f"{figure:.0f}"


def _shortened(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"


@cache
def _asset(name: str) -> str:
    return (files("wavewright.engine") / "pages" / name).read_text(encoding="utf-8")


def _content_security_policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _headline_figures(dry_run: DryRun) -> list[tuple[str, str]]:
    """Return what stands above the graph: a name and a figure each."""
    estimate = dry_run.estimate
    least = "at least " if estimate.is_lower_bound else ""
    asks = any(step.call.model is not None for step in dry_run.steps)
    cost = "not known" if estimate.usd is None else f"{least}{dollars_text(estimate.usd.expected)}"
    seconds = estimate.seconds
    return [
        ("steps", str(len(dry_run.steps))),
        ("waves", str(len(dry_run.waves))),
        ("width", str(dry_run.max_parallelism)),
        ("calls", f"{least}{tokens_text(estimate.calls)}"),
        ("expected", f"{least}{duration_text(seconds.expected)}"),
        ("p90", f"{least}{duration_text(seconds.p90)}"),
        ("critical path", duration_text(dry_run.critical_seconds)),
        ("one by one", duration_text(dry_run.total_seconds)),
        *([("cost", cost)] if asks else []),
        ("budget", dry_run.budget.verdict),
    ]
