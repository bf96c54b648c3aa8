"""Plans and runs as notebooks show them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from wavewright.reviewer.values import duration_text

if TYPE_CHECKING:
    from wavewright.engine.api.plan_run import PlanRun

R = TypeVar("R")
_MAX_RESULT = 4_000
"""Characters of a result that are shown."""


def run_bundle(run: PlanRun[R]) -> dict[str, str]:
    """Return a run as text, and as HTML with a table of its steps and its result."""
    from markupsafe import Markup

    result = None if run.final_package is None else run.final_package.result
    shown = result if isinstance(result, str) else json.dumps(result, indent=2, ensure_ascii=False)
    rows = Markup("").join(
        Markup("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>").format(
            name,
            step.status,
            duration_text(step.seconds),
            step.error.message if step.error is not None else step.reason or "",
        )
        for name, step in run.steps.items()
    )
    page = Markup(
        "<div><p><b>{}</b> run {}</p><table><thead><tr><th>step</th><th>status</th><th>time</th><th>reason</th></tr>"
        "</thead><tbody>{}</tbody></table><pre>{}</pre></div>"
    ).format(run.status.replace("_", " "), run.id, rows, shown[:_MAX_RESULT])
    return {"text/plain": f"{run!r}\n{shown[:_MAX_RESULT]}", "text/html": str(page)}
