"""`wavewright dry-run`: what a run would do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.failures import CommandError
from wavewright.engine.cli.project import project_settings
from wavewright.engine.dry_run import DryRun, as_json, forecast
from wavewright.engine.jobs import no_plan, read_order
from wavewright.engine.session import utc_now
from wavewright.engine.toolbox import signatures_to_check

if TYPE_CHECKING:
    from wavewright.planner.types import Schedule


def dry_run(
    job: Path, plan: Path | None, *, schedule: Schedule | None, output_format: str, output: Path | None
) -> int:
    """Print what running the job would do, or write it to a file."""
    settings = project_settings()
    order = read_order(job, plan, settings)
    if schedule is not None:
        order = order.with_schedule(schedule)
    if order.draft is None:
        raise no_plan(order.goal, order.source)
    tools = signatures_to_check(order.draft.plan, order.goal, settings)
    record = forecast(order, tools, now=order.goal.as_of or utc_now())
    text = _render(record, output_format)
    if output is None:
        sys.stdout.write(text)
        return exit_codes.OK
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"{str(output)!r} cannot be written: {error.strerror}"
        hint = "name a file in a folder that can be written to"
        raise CommandError(msg, hint=hint, code=exit_codes.ENVIRONMENT) from error
    sys.stdout.write(f"wrote {output}\n")
    return exit_codes.OK


def _render(record: DryRun, output_format: str) -> str:
    if output_format == "json":
        return json.dumps(as_json(record), indent=2, ensure_ascii=False) + "\n"
    if output_format == "html":
        from wavewright.engine.dry_run_page import as_html

        return as_html(record)
    from wavewright.engine import dry_run_text

    renderers = {
        "text": dry_run_text.as_text,
        "mermaid": dry_run_text.as_mermaid,
        "dot": dry_run_text.as_dot,
    }
    return renderers[output_format](record)
