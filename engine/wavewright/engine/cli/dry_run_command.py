"""`wavewright dry-run`: what a run would do."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config.documents import DocumentError, read_document_file
from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.failures import CommandError
from wavewright.engine.cli.project import project_settings, warn_of_foreign_job
from wavewright.engine.document_kinds import is_sealed_plan
from wavewright.engine.dry_run import DryRun, forecast
from wavewright.engine.dry_run_outlook import gather_outlook
from wavewright.engine.input_changes import InputChanges
from wavewright.engine.job_faults import no_plan
from wavewright.engine.jobs import Order, read_order
from wavewright.engine.toolbox import signatures_to_check
from wavewright.planner.rendering import printable_json

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.planner.goals import JobTargets
    from wavewright.planner.signatures import ToolSignature
    from wavewright.planner.types import Schedule


@dataclass(frozen=True, slots=True)
class DryRunOptions:
    """What is looked at, how it would run, and where the sealed plan goes."""

    job: Path | None
    plan: Path | None = None
    schedule: Schedule | None = None
    out: Path | None = None
    run: str | None = None
    """A run that has begun, in place of a job."""
    patch: Path | None = None
    """A patch of that run's plan."""
    inputs: InputChanges = field(default_factory=InputChanges)


@dataclass(frozen=True, slots=True)
class _Looked:
    """What was looked at, and what was found."""

    order: Order
    tools: Mapping[str, ToolSignature]
    record: DryRun
    settings: Settings


def dry_run(options: DryRunOptions, *, output_format: str, output: Path | None) -> int:
    """Print what running the job would do, or write it to a file; 1 where a budget would refuse it.

    Raises:
        CommandError: a file cannot be written, or would be replaced though it is no sealed plan.
    """
    if options.out is not None:
        _refuse_to_replace(options.out)
    looked = _look(options)
    text = _render(looked, output_format)
    if output is None:
        sys.stdout.write(text)
    else:
        _write(output, text)
        sys.stdout.write(f"wrote {output}\n")
    if options.out is not None:
        _seal(looked, options.out, is_quiet=output is None and output_format != "text")
    return exit_codes.NEGATIVE if looked.record.budget.refusals else exit_codes.OK


def named_job(job: Path | None) -> Path:
    """Return the job that the command line names.

    Raises:
        CommandError: it names none.
    """
    if job is None:
        hint = "name a job, a plan or a sealed plan; or a run that has begun with --run RUN"
        raise CommandError("there is nothing to look at", hint=hint)
    return job


def _look(options: DryRunOptions) -> _Looked:
    if options.job is not None:
        warn_of_foreign_job(options.job)
    settings = project_settings(options.job)
    if options.run is not None:
        return _look_at_run(options, options.run, settings)
    if options.patch is not None:
        raise CommandError("--patch is a patch of a run's plan", hint="name the run with --run RUN")
    order = read_order(named_job(options.job), options.plan, settings, options.inputs)
    order = _scheduled(order, options, settings)
    if order.draft is None:
        raise no_plan(order.goal, order.source)
    tools = signatures_to_check(order.draft.plan, order.goal, settings)
    now = order.goal.as_of or dt.datetime.now(dt.UTC)
    outlook = gather_outlook(order.draft.plan, order.goal, tools, settings, now=now)
    record = forecast(order, tools, now=now, outlook=outlook)
    if order.targets is not None:
        record = _of_targets(order, order.targets, tools, record, options)
    return _Looked(order, tools, record, settings)


def _of_targets(
    order: Order,
    targets: JobTargets,
    tools: Mapping[str, ToolSignature],
    record: DryRun,
    options: DryRunOptions,
) -> DryRun:
    from wavewright.engine.dry_run_targets import target_notes
    from wavewright.engine.target_expansion import refuse_unsound

    if options.out is not None:
        message = "a job with targets cannot be sealed: further ones are found while it runs"
        raise CommandError(message, hint="leave --out away; `wavewright run` runs the job")
    refuse_unsound(order, tools)
    return replace(record, notes=(*target_notes(targets, record), *record.notes))


def _look_at_run(options: DryRunOptions, run: str, settings: Settings) -> _Looked:
    if options.job is not None or options.plan is not None or options.out is not None or options.inputs:
        message = "--run looks at a run that has begun, not at a job, another plan or a sealed plan"
        raise CommandError(message, hint="leave JOB, --plan, --set, --inputs and --out away, or --run")
    from wavewright.engine.cli.dry_run_of_run import read_begun_run

    begun = read_begun_run(run, options.patch, settings)
    order = _scheduled(begun.order, options, settings)
    assert order.draft is not None
    outlook = gather_outlook(
        order.draft.plan, order.goal, begun.tools, settings, now=begun.now, rerun=begun.rerun
    )
    record = forecast(order, begun.tools, now=begun.now, outlook=outlook)
    return _Looked(order, begun.tools, record, settings)


def _scheduled(order: Order, options: DryRunOptions, settings: Settings) -> Order:
    schedule = options.schedule or settings.schedule
    return order if schedule is None else order.with_schedule(schedule)


def _refuse_to_replace(file: Path) -> None:
    """Raise an error where a file stands that somebody wrote, such as the plan itself."""
    if not file.is_file() or file.stat().st_size == 0:
        return
    try:
        is_sealed = is_sealed_plan(read_document_file(file))
    except DocumentError:
        is_sealed = False
    if not is_sealed:
        message = f"{str(file)!r} exists and is no sealed plan"
        raise CommandError(
            message, hint="only a sealed plan is replaced by one; name another file with --out"
        )


def _seal(looked: _Looked, file: Path, *, is_quiet: bool) -> None:
    """Write the sealed plan; what a program reads of standard output is not added to."""
    from wavewright.engine.dry_run_json import estimate_json
    from wavewright.engine.sealed_plan import seal_plan

    record = looked.record
    called = dict.fromkeys(step.tool for step in record.steps)
    sealed = seal_plan(
        record.plan,
        looked.order.goal,
        [looked.tools[name] for name in called],
        rung=record.rung,
        estimate=estimate_json(record.estimate),
        root=looked.settings.root,
    )
    _write(file, json.dumps(sealed, indent=2, ensure_ascii=False) + "\n")
    if not is_quiet:
        sys.stdout.write(f"\nsealed in {file}: run it with `wavewright run {file}`\n")


def _write(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"{str(output)!r} cannot be written: {error.strerror}"
        hint = "name a file in a folder that can be written to"
        raise CommandError(msg, hint=hint, code=exit_codes.ENVIRONMENT) from error


def _render(looked: _Looked, output_format: str) -> str:
    record = looked.record
    if output_format == "json":
        from wavewright.engine.dry_run_json import as_json

        return printable_json(as_json(record), indent=2) + "\n"
    if output_format == "html":
        from wavewright.engine.dry_run_page import as_html

        return as_html(record, looked.tools)
    if output_format == "text":
        from wavewright.engine.dry_run_text import as_text

        return as_text(record)
    from wavewright.engine.dry_run_graphs import as_dot, as_mermaid

    return as_mermaid(record) if output_format == "mermaid" else as_dot(record)
