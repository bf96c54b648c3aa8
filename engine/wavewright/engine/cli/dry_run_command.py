"""`wavewright dry-run`: what a run would do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.failures import CommandError
from wavewright.engine.cli.project import project_settings
from wavewright.engine.dry_run import DryRun, forecast
from wavewright.engine.dry_run_outlook import gather_outlook
from wavewright.engine.jobs import no_plan, read_order
from wavewright.engine.session import utc_now
from wavewright.engine.toolbox import signatures_to_check

if TYPE_CHECKING:
    from wavewright.planner.types import Schedule


def dry_run(
    job: Path, plan: Path | None, *, schedule: Schedule | None, output_format: str, output: Path | None
) -> int:
    """Print what running the job would do, or write it to a file; 1 where a budget would refuse it."""
    record = _record(job, plan, schedule)
    text = _render(record, output_format)
    if output is None:
        sys.stdout.write(text)
    else:
        _write(output, text)
    return exit_codes.NEGATIVE if record.budget.refusals else exit_codes.OK


def _record(job: Path, plan: Path | None, schedule: Schedule | None) -> DryRun:
    settings = project_settings()
    order = read_order(job, plan, settings)
    if (schedule := schedule or settings.schedule) is not None:
        order = order.with_schedule(schedule)
    if order.draft is None:
        raise no_plan(order.goal, order.source)
    tools = signatures_to_check(order.draft.plan, order.goal, settings)
    outlook = gather_outlook(order.draft.plan, order.goal, tools, settings)
    return forecast(order, tools, now=order.goal.as_of or utc_now(), outlook=outlook)


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"{str(output)!r} cannot be written: {error.strerror}"
        hint = "name a file in a folder that can be written to"
        raise CommandError(msg, hint=hint, code=exit_codes.ENVIRONMENT) from error
    sys.stdout.write(f"wrote {output}\n")


def _render(record: DryRun, output_format: str) -> str:
    if output_format == "json":
        from wavewright.engine.dry_run_json import as_json

        return json.dumps(as_json(record), indent=2, ensure_ascii=False) + "\n"
    if output_format == "html":
        from wavewright.engine.dry_run_page import as_html

        return as_html(record)
    if output_format == "text":
        from wavewright.engine.dry_run_text import as_text

        return as_text(record)
    from wavewright.engine.dry_run_graphs import as_dot, as_mermaid

    return as_mermaid(record) if output_format == "mermaid" else as_dot(record)
