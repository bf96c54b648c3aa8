"""A run as a notebook shows it: its drawing, a table of its steps and its result."""

from __future__ import annotations

from markupsafe import Markup

from wavewright.engine.rehearsal.dry_run.page import run_figure
from wavewright.reviewer import Package
from wavewright.reviewer.report.page import pretty_json
from wavewright.reviewer.report.sections import markdown_to_html

_MAX_RESULT = 4_000
"""Characters of a result that are shown."""


def shown_result(package: Package) -> str:
    """Return the result of a run as text, cut where it is long."""
    result = package.result
    text = result if isinstance(result, str) else pretty_json(result)
    return text[:_MAX_RESULT]


def page_of_run(run: str, status: str, package: Package) -> str:
    """Return a run as HTML."""
    shown = shown_result(package)
    result = Markup("<pre>{}</pre>").format(shown)
    if isinstance(package.result, str):
        result = markdown_to_html(shown)
    page = Markup("<div><p><b>{}</b> run {}</p>{}{}</div>").format(
        status.replace("_", " "),
        run,
        Markup(run_figure(package.execution_log)),  # noqa: S704 - rendered from escaping templates
        result,
    )
    return str(page)
