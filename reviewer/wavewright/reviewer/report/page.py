"""The report: a run's package as one HTML page that opens from disk.

A report is made from a package alone. It holds no script and fetches nothing; its content security
policy allows only its own style sheet. All text is escaped, and characters that could make a text
look like another one are shown as their code points, so text from tools or models never becomes
markup.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TypeVar

from jinja2 import Environment
from markupsafe import Markup

from wavewright.config.atomic_files import write_atomically
from wavewright.executor.events.state import SUCCESSES
from wavewright.planner import Json, StepId
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.prompts import page_environment
from wavewright.reviewer.package.call_reports import frame_line, money_text
from wavewright.reviewer.package.summary import failed_items
from wavewright.reviewer.records import (
    GOING,
    AttemptReport,
    CallReport,
    Confidence,
    OutputDocument,
    Package,
    StepReport,
)
from wavewright.reviewer.report.charts import draw_chart
from wavewright.reviewer.report.plan_picture import (
    MAX_DRAWN,
    StepNode,
    draw_plan,
    fold_waves,
    statuses,
)
from wavewright.reviewer.report.sections import (
    RelationPicture,
    draw_gantt,
    draw_relations,
    failed_gate_steps,
    group_gates,
    markdown_to_html,
    model_cost_section,
)
from wavewright.reviewer.report.sub_plan_folding import Drawings, draw_plans
from wavewright.reviewer.review.rounds import origins_text
from wavewright.reviewer.values import (
    brief,
    duration_text,
    has_value,
    shape,
    shorten_middle,
    visible,
)

REPORT_NAME = "report.html"

_VERDICTS = {
    "achieved": "Goal achieved",
    "not_achieved": "Goal not achieved",
    "failed": "Run failed",
    "interrupted": "Run interrupted",
    "cancelled": "Run cancelled",
}
_ICONS = {"achieved": "ok", "interrupted": "cancelled", "cancelled": "cancelled"}
_RUNGS = {
    "given": "the user",
    "template": "the goal template",
    "llm": "a model",
    "repaired": "a model, repaired",
    "guided": "a model, one step at a time",
    "suggested": "suggested tool calls",
    "minimal": "the forced minimum",
}
_MAX_LINES = 40
_MAX_ROWS = 400
_MAX_JSON = 60_000
_MAX_DOCUMENTS = 60
_MAX_STEPS = 1000
_WIDEST_LIST = 90
_SHORT_LIST = re.compile(r"\[\n\s+([^\[\]{}]*?)\n\s*\]")
"""A list of plain values over several lines of JSON; strings in JSON hold no line breaks, so none
matches.
"""
_NOTHING = Markup()
_SUCCESS_STATUSES = SUCCESSES | {"skipped"}


@dataclass(frozen=True, slots=True)
class RenderedDocument:
    """A document with its rendered text."""

    title: str
    tags: tuple[str, ...]
    step: StepId
    html: Markup | None
    text: str
    picture: RelationPicture | None
    """Of the graph in its content."""


@dataclass(frozen=True, slots=True)
class LiveRun:
    """What a page of a run that has not ended says in place of its verdict."""

    verdict: str
    summary: str


def render_report(package: Package) -> str:
    """Return the report of a package as one self-contained HTML document.

    The example goes on from that of `Package`.

    >>> from wavewright.reviewer import render_report
    >>> render_report(run.package).lstrip().lower().startswith("<!doctype html>")
    True
    """
    css = style_sheet()
    values = _values(package)
    page = _environment().get_template("report.html.j2")
    return page.render(
        policy=content_security_policy(css),
        css=Markup(css),  # noqa: S704 - the style sheet is a file of this package
        **values,
    )


def render_run(
    package: Package,
    live: LiveRun | None = None,
    *,
    links: str = "",
    drawings: Drawings = "both",
    question: Markup = _NOTHING,
    failures: Markup = _NOTHING,
) -> str:
    """Return what a report shows as an HTML fragment.

    Args:
        package: Of the run, as far as it has come.
        live: What is said of a run that has not ended.
        links: Steps and confidences lead below this address; it shows failures itself.
        drawings: Which pictures of a plan with sub-plans are shown.
        question: What a person is asked, which stands before all sections.
        failures: What stands after the verdict.
    """
    template = _environment().get_template("run.html.j2")
    values = _values(package, live, drawings, links)
    return template.render(**{**values, "question": question, "failed_calls": failures})


def _values(
    package: Package,
    live: LiveRun | None = None,
    drawings: Drawings = "both",
    links: str = "",
) -> dict[str, object]:
    """Return what the templates show."""
    log = package.execution_log
    replaced = {entry.supersedes: entry.id for entry in log if entry.supersedes is not None}
    rows = _rows(log, _MAX_STEPS)
    gates = group_gates(package.gates, replaced)
    failed = defaultdict[StepId, str](str, failed_gate_steps(gates))
    review = package.review
    confidences = () if review is None else review.confidences
    overall = next((figure for figure in confidences if figure.field == "overall"), None)
    charts = [drawing for drawing in map(draw_chart, package.charts) if drawing]
    documents = [_render_document(document) for document in package.documents[:_MAX_DOCUMENTS]]
    result_text = markdown_to_html(package.result) if isinstance(package.result, str) else None
    if links:
        # The page around this fragment shows failures itself, those without a traceback as well.
        failures = []
        has_failures = any(call.status == "failed" for call in package.calls)
    else:
        failures = _failures(package)
        has_failures = bool(failures)
    return {
        "package": package,
        "state": "live" if live else package.status,
        "verdict": live.verdict if live else _VERDICTS[package.status],
        "icon": "running" if live else _ICONS.get(package.status, "failed"),
        "summary": live.summary if live else _summary(package),
        "live": live,
        "has_result": _shows_result(package),
        "failed_items": failed_items(package),
        "review": review,
        "overall": overall,
        "lowering": _lowering(package, overall),
        "facts": _facts(package),
        "sections": _sections(package, has_charts=bool(charts), has_failures=has_failures),
        "charts": charts,
        "documents": documents,
        "most_documents": _MAX_DOCUMENTS,
        "result_text": result_text,
        "result_title": _result_title(package),
        "opened": _opened(package.documents),
        "counts": statuses(log),
        "failed_gate_steps": failed,
        "drawn": draw_plans(log, failed, drawings),
        "drawings": drawings,
        "waves": fold_waves(log) if len(log) > MAX_DRAWN else (),
        "gantt": draw_gantt(rows),
        "rows": rows,
        "with_row": {entry.id for entry in rows},
        "numbers": {entry.id: number for number, entry in enumerate(log)},
        "replaced": replaced,
        "labels": _labelled(package),
        "failures": failures,
        "links": links,
        "question": _NOTHING,
        "failed_calls": _NOTHING,
        "models": model_cost_section(package),
        "several_rounds": any(entry.round for entry in log),
        "gates": gates,
        "passed": sum(1 for group in gates if not group.failed and not group.is_replaced),
        "counted": sum(1 for group in gates if not group.is_replaced),
        "calls": _rows(package.calls, _MAX_ROWS),
        "most": _MAX_LINES,
        "most_rows": _MAX_ROWS,
    }


def write_report(package: Package, folder: Path) -> Path:
    """Write the report of a package into a folder and return its path.

    Raises:
        FileNotWrittenError: the disk is full or read-only, or the folder may not be written to.

    The example goes on from that of `Package`.

    >>> from pathlib import Path
    >>> from wavewright.reviewer import write_report
    >>> write_report(run.package, Path()).name
    'report.html'
    """
    return write_atomically(folder / REPORT_NAME, render_report(package).encode("utf-8"))


def draw_steps(log: Sequence[StepReport], critical: Collection[tuple[StepId, StepId]]) -> Markup:
    """Return the picture of a plan's steps, as reports show it, with the edges `critical` drawn
    thick; each step leads to `#step-ID`.
    """
    page = _environment().get_template("plan.html.j2")
    return Markup(  # noqa: S704 - rendered from an escaping template
        page.render(
            picture=draw_plan(log),
            anchors={step.id: step.id for step in log},
            failed_gate_steps=defaultdict(str),
            critical=critical,
        )
    )


def content_security_policy(css: str) -> str:
    """Return the policy of a page that holds no script and applies this style sheet alone."""
    sha = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{sha}'; img-src data:; base-uri 'none'; form-action 'none'"


@lru_cache(maxsize=1)
def style_sheet() -> str:
    """Return the style sheet of reports."""
    css = (
        files("wavewright.reviewer.report")
        .joinpath("templates", "report.css")
        .read_text(encoding="utf-8")
    )
    assert "</" not in css, "the style sheet could end its own element"
    return "\n" + css


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return page_environment(
        "wavewright.reviewer.report",
        "templates",
        finalize=made_visible,
        filters={
            "two": "{:.2f}".format,
            "thousands": "{:,}".format,
            "money": money_text,
            "percent": _percent,
            "origins": origins_text,
            "px": _number,
            "arc": _arc_path,
            "words": spaced,
            "duration": duration_text,
            "pretty": pretty_json,
            "shape": _shape,
            "brief": brief,
            "cut": shorten_middle,
            "frame": frame_line,
            "subline": _subline,
            "difflines": _diff_lines,
        },
    )


def made_visible(value: object) -> object:
    """Return a value of a page with its control characters shown; what is HTML already stays."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _summary(package: Package) -> str:
    text = package.ending or "The run ended before it could be reviewed."
    # The page shows the verdict above.
    for prefix in ("Goal achieved: ", "Goal not achieved. "):
        text = text.removeprefix(prefix)
    return text[:1].upper() + text[1:]


def _lowering(package: Package, overall: Confidence | None) -> list[str]:
    if package.review is None or overall is None:
        return []
    return [
        cap.because
        for cap in package.review.applied_caps
        if cap.field in {"*", "overall"} and cap.max < overall.raw
    ]


def _facts(package: Package) -> list[tuple[str, str, str]]:
    timings = package.timings
    ended_well = sum(entry.status in SUCCESSES for entry in package.execution_log)
    together = duration_text(timings.step_seconds)
    return [
        ("As of", _instant(package.now), package.now),
        ("Took", duration_text(timings.seconds), f"one step after another: {together}"),
        ("Steps", f"{ended_well} of {len(package.execution_log)}", "that ended with an output"),
        ("Waves", str(timings.waves), ""),
        ("Recovery", "none" if not timings.rounds else counted(timings.rounds, "round"), ""),
        ("Plan from", _RUNGS.get(package.rung, package.rung), package.plan_hash),
    ]


def _instant(text: str) -> str:
    """Return an ISO 8601 time to the minute, and a midnight as its day."""
    day, _at, time = text.partition("T")
    return day if time.startswith("00:00:00") else f"{day} {time[:5]} UTC"


def _sections(package: Package, *, has_charts: bool, has_failures: bool) -> list[tuple[str, str]]:
    review = package.review
    known = (
        ("verdict", "Verdict", True),
        ("failures", "Failures", has_failures),
        (
            "missing",
            "Missing",
            review is not None and bool(review.missing_data or review.recovery_actions),
        ),
        ("charts", "Charts", has_charts),
        (
            "documents",
            _result_title(package),
            bool(package.documents) or _shows_result(package),
        ),
        ("confidence", "Confidence", review is not None),
        ("plan", "Plan", True),
        ("models", "Models", package.model_uses.total.calls > 0),
        ("gates", "Gates", bool(package.gates)),
        ("warnings", "Warnings", bool(package.warnings or package.conflicts)),
        ("sources", "Sources", bool(package.sources)),
        ("rounds", "Rounds", bool(package.patches or package.earlier_reviews)),
        ("about", "About", True),
    )
    return [(anchor, name) for anchor, name, is_there in known if is_there]


def _render_document(document: OutputDocument) -> RenderedDocument:
    html = markdown_to_html(document.markdown) if document.markdown is not None else None
    picture = draw_relations(document.content)
    return RenderedDocument(
        document.title, document.tags, document.step, html, pretty_json(document.content), picture
    )


def _failures(package: Package) -> list[tuple[StepReport, list[AttemptReport]]]:
    """Return the steps of which something failed that left a traceback or attempts behind, each with
    its attempts: those that failed, and those that went on without some of their items.
    """
    attempts: dict[StepId, list[AttemptReport]] = defaultdict(list)
    for attempt in package.failed_attempts:
        attempts[attempt.step].append(attempt)
    return [
        (entry, attempts[entry.id])
        for entry in package.execution_log
        if attempts[entry.id] or (entry.error is not None and entry.error.frames)
    ][:_MAX_LINES]


_Entry = TypeVar("_Entry", StepReport, CallReport)


def _rows(entries: Sequence[_Entry], most: int) -> Sequence[_Entry]:
    """Return the steps or calls that have a row: all, or of very many those that did not end well
    and the first others, in their order.
    """
    if len(entries) <= most:
        return entries
    wrong = [place for place, entry in enumerate(entries) if entry.status not in _SUCCESS_STATUSES]
    well = [place for place, entry in enumerate(entries) if entry.status in _SUCCESS_STATUSES]
    return [entries[place] for place in sorted((wrong + well)[:most])]


def _shows_result(package: Package) -> bool:
    """Whether there is a result to show; of a run that goes on, one that has a value somewhere."""
    if package.status in {*GOING, "interrupted"}:
        return has_value(package.result)
    return package.result is not None


def _result_title(package: Package) -> str:
    has_result = package.result is not None or any(
        document.is_result for document in package.documents
    )
    return "Result" if has_result else "Documents"


def _opened(documents: Sequence[OutputDocument]) -> int:
    """Return the number of documents that are expanded: the results, if they are few."""
    results = sum(1 for document in documents if document.is_result)
    return min(3, results)


def _labelled(package: Package) -> Callable[[StepId, int], str]:
    """Return the function that names the item of a `for_each` step."""
    labels = {entry.id: entry.labels for entry in package.execution_log}

    def label(step: StepId, index: int) -> str:
        known = labels.get(step, ())
        return known[index] if index < len(known) else f"item {index}"

    return label


def _subline(node: StepNode) -> str:
    """Return the line below a step's id in its box."""
    step = node.step
    items = f"{step.items[0]}/{step.items[1]}" if step.items else ""
    took = duration_text(step.seconds) if step.seconds else ""
    parts = [part for part in (items, took) if part]
    room = int((node.width - 42) / 6.1) - sum(len(part) + 3 for part in parts)
    return " · ".join([shorten_middle(step.tool, max(6, room)), *parts])


def _percent(share: float) -> str:
    return f"{max(0.0, min(1.0, share)) * 100:.1f}"


def spaced(name: str) -> str:
    """Return a name as words."""
    return name.replace("_", " ")


def _number(value: float) -> str:
    text = f"{value:.2f}"
    return text.rstrip("0").rstrip(".")


def _arc_path(share: float) -> str:
    """Return a half circle, from the left, of which `share` is drawn."""
    angle = math.pi * (1 - max(0.0, min(1.0, share)))
    return f"M14 80A66 66 0 0 1 {80 + 66 * math.cos(angle):.2f} {80 - 66 * math.sin(angle):.2f}"


def _shape(value: Json) -> str:
    """Return the shape with its fields in order: a package read from disk gives the same page."""
    return shape(dict(sorted(value.items())) if isinstance(value, dict) else value)


def pretty_json(value: Json) -> str:
    """Return a value as JSON for people, cut where it is very long."""
    text = json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True)
    text = _SHORT_LIST.sub(_joined_list, text)
    if len(text) <= _MAX_JSON:
        return text
    return f"{text[:_MAX_JSON]}\n… {len(text) - _MAX_JSON:,} more characters are in the package"


def _joined_list(match: re.Match[str]) -> str:
    line = "[" + " ".join(match.group(1).split()) + "]"
    return line if len(line) <= _WIDEST_LIST else match.group()


def _diff_lines(text: str) -> Iterator[tuple[str, str]]:
    kinds = {"+": "added", "-": "removed", "~": "changed", "!": "changed"}
    for line in text.splitlines():
        yield kinds.get(line.lstrip()[:1], "same"), line
