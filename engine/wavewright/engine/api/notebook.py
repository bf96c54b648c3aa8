"""Runs as notebooks show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from wavewright.engine.dry_run.page import run_figure
from wavewright.reviewer.package.builder import stored_package

if TYPE_CHECKING:
    from wavewright.engine.api.plan_run import PlanRun

R = TypeVar("R")
_MAX_RESULT = 4_000
"""Characters of a result that are shown."""


def run_bundle(run: PlanRun[R]) -> dict[str, str]:
    """Return a run as text, and as HTML with its drawing, a table of its steps and its result.

    A run that ended before it had a plan is text alone.
    """
    from markupsafe import Markup

    from wavewright.reviewer.report.page import pretty_json
    from wavewright.reviewer.report.sections import markdown_to_html

    package = run.final_package or stored_package(run.state)
    if package is None:
        return {"text/plain": repr(run)}
    result = package.result
    is_text = isinstance(result, str)
    shown = (result if isinstance(result, str) else pretty_json(result))[:_MAX_RESULT]
    page = Markup("<div><p><b>{}</b> run {}</p>{}{}</div>").format(
        run.status.replace("_", " "),
        run.id,
        Markup(run_figure(package.execution_log)),  # noqa: S704 - rendered from escaping templates
        markdown_to_html(shown) if is_text else Markup("<pre>{}</pre>").format(shown),
    )
    return {"text/plain": f"{run!r}\n{shown}", "text/html": str(page)}
