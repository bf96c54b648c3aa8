"""`wavewright dry-run`: what a run would do.

What a dry run says of a job with several targets: it looks at one, and each of the others is like it.

`wavewright dry-run --simulate`: the plan's run, over generated outputs.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config import exit_codes
from wavewright.config.documents import DocumentError, read_document_file
from wavewright.engine.cli.common.arguments import project_settings, warn_of_foreign_job
from wavewright.engine.cli.common.errors import CommandError
from wavewright.engine.dry_run.forecast import DryRun, forecast
from wavewright.engine.dry_run.outlook import gather_forecast_inputs
from wavewright.engine.jobs.document_kinds import is_saved_plan
from wavewright.engine.jobs.errors import no_plan_error
from wavewright.engine.jobs.input_overrides import InputOverrides
from wavewright.engine.jobs.resolving import TARGET, ResolvedJob, resolve_job_file
from wavewright.engine.project.tools import signatures_to_check
from wavewright.planner.diagnostics.rendering import printable_json
from wavewright.planner.language.goals import JobTargets
from wavewright.reviewer.values import duration_text

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.engine.simulation import SimulationReport
    from wavewright.planner.language.signatures import ToolSignature
    from wavewright.planner.types import Schedule


@dataclass(frozen=True, slots=True)
class DryRunOptions:
    """What is looked at, how it would run, and where the saved plan goes."""

    job: Path | None
    plan: Path | None = None
    schedule: Schedule | None = None
    out: Path | None = None
    run: str | None = None
    """A run that has begun, in place of a job."""
    patch: Path | None = None
    """A patch of that run's plan."""
    inputs: InputOverrides = field(default_factory=InputOverrides)


@dataclass(frozen=True, slots=True)
class _DryRunResult:
    """What was looked at, and what was found."""

    resolved_job: ResolvedJob
    tools: Mapping[str, ToolSignature]
    record: DryRun
    settings: Settings


def dry_run(options: DryRunOptions, *, output_format: str, output: Path | None) -> int:
    """Print what running the job would do, or write it to a file; 1 where a budget would refuse it.

    Raises:
        CommandError: a file cannot be written, or would be replaced though it is no saved plan.
    """
    if options.out is not None:
        _refuse_to_replace(options.out)
    looked = _dry_run_job(options)
    text = _render_dry_run(looked, output_format)
    if output is None:
        sys.stdout.write(text)
    else:
        _write_dry_run(output, text)
        sys.stdout.write(f"wrote {output}\n")
    if options.out is not None:
        _save_plan(looked, options.out, is_quiet=output is None and output_format != "text")
    return exit_codes.NEGATIVE if looked.record.budget.refusals else exit_codes.OK


def named_job(job: Path | None) -> Path:
    """Return the job that the command line names.

    Raises:
        CommandError: it names none.
    """
    if job is None:
        hint = "name a job, a plan or a saved plan; or a run that has begun with --run RUN"
        raise CommandError("there is nothing to look at", hint=hint)
    return job


def _dry_run_job(options: DryRunOptions) -> _DryRunResult:
    if options.job is not None:
        warn_of_foreign_job(options.job)
    settings = project_settings(options.job)
    if options.run is not None:
        return _dry_run_of_begun_run(options, options.run, settings)
    if options.patch is not None:
        raise CommandError("--patch is a patch of a run's plan", hint="name the run with --run RUN")
    order = resolve_job_file(named_job(options.job), options.plan, settings, options.inputs)
    order = _scheduled(order, options, settings)
    if order.draft is None:
        raise no_plan_error(order.goal, order.source)
    tools = signatures_to_check(order.draft.plan, order.goal, settings)
    now = order.goal.as_of or dt.datetime.now(dt.UTC)
    outlook = gather_forecast_inputs(order.draft.plan, order.goal, tools, settings, now=now)
    record = forecast(order, tools, now=now, outlook=outlook)
    if order.targets is not None:
        record = _with_target_notes(order, order.targets, tools, record, options)
    return _DryRunResult(order, tools, record, settings)


def _with_target_notes(
    order: ResolvedJob,
    targets: JobTargets,
    tools: Mapping[str, ToolSignature],
    record: DryRun,
    options: DryRunOptions,
) -> DryRun:
    from wavewright.engine.targets.root_run import require_valid_expansion

    if options.out is not None:
        message = "a job with targets cannot be saved: further ones are found while it runs"
        raise CommandError(message, hint="leave --out away; `wavewright run` runs the job")
    require_valid_expansion(order, tools)
    return replace(record, notes=(*target_notes(targets, record), *record.notes))


def _dry_run_of_begun_run(options: DryRunOptions, run: str, settings: Settings) -> _DryRunResult:
    if options.job is not None or options.plan is not None or options.out is not None or options.inputs:
        message = "--run looks at a run that has begun, not at a job, another plan or a saved plan"
        raise CommandError(message, hint="leave JOB, --plan, --set, --inputs and --out away, or --run")
    from wavewright.engine.cli.planning.begun_run import read_begun_run

    begun = read_begun_run(run, options.patch, settings)
    order = _scheduled(begun.resolved_job, options, settings)
    assert order.draft is not None
    outlook = gather_forecast_inputs(
        order.draft.plan, order.goal, begun.tools, settings, now=begun.now, rerun=begun.rerun
    )
    record = forecast(order, begun.tools, now=begun.now, outlook=outlook)
    return _DryRunResult(order, begun.tools, record, settings)


def _scheduled(order: ResolvedJob, options: DryRunOptions, settings: Settings) -> ResolvedJob:
    schedule = options.schedule or settings.schedule
    return order if schedule is None else order.with_schedule(schedule)


def _refuse_to_replace(file: Path) -> None:
    """Raise an error where a file stands that somebody wrote, such as the plan itself."""
    if not file.is_file() or file.stat().st_size == 0:
        return
    try:
        is_saved = is_saved_plan(read_document_file(file))
    except DocumentError:
        is_saved = False
    if not is_saved:
        message = f"{str(file)!r} exists and is no saved plan"
        raise CommandError(message, hint="only a saved plan is replaced by one; name another file with --out")


def _save_plan(looked: _DryRunResult, file: Path, *, is_quiet: bool) -> None:
    """Write the saved plan; what a program reads of standard output is not added to."""
    from wavewright.engine.dry_run.exports import estimate_json
    from wavewright.engine.jobs.saved_plan import save_plan

    record = looked.record
    called = dict.fromkeys(step.tool for step in record.steps)
    saved = save_plan(
        record.plan,
        looked.resolved_job.goal,
        [looked.tools[name] for name in called],
        rung=record.rung,
        estimate=estimate_json(record.estimate),
        root=looked.settings.root,
    )
    _write_dry_run(file, json.dumps(saved, indent=2, ensure_ascii=False) + "\n")
    if not is_quiet:
        sys.stdout.write(f"\nsaved in {file}: run it with `wavewright run {file}`\n")


def _write_dry_run(output: Path, text: str) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"{str(output)!r} cannot be written: {error.strerror}"
        hint = "name a file in a folder that can be written to"
        raise CommandError(msg, hint=hint, exit_code=exit_codes.ENVIRONMENT) from error


def _render_dry_run(looked: _DryRunResult, output_format: str) -> str:
    record = looked.record
    if output_format == "json":
        from wavewright.engine.dry_run.exports import dry_run_json

        return printable_json(dry_run_json(record), indent=2) + "\n"
    if output_format == "html":
        from wavewright.engine.dry_run.page import dry_run_page

        return dry_run_page(record, looked.tools)
    if output_format == "text":
        from wavewright.engine.dry_run.text import dry_run_text

        return dry_run_text(record)
    from wavewright.engine.dry_run.exports import as_dot, as_mermaid

    return as_mermaid(record) if output_format == "mermaid" else as_dot(record)


def target_notes(targets: JobTargets, dry_run: DryRun) -> tuple[str, ...]:
    """Return what a reader should know of all the runs that the job would be."""
    first = min(len(dict.fromkeys(map(_target_name, targets.first))), targets.most)
    seconds = dry_run.estimate.seconds
    rounds = math.ceil(first / targets.at_once)
    took = f"{duration_text(rounds * seconds.expected)}, at p90 {duration_text(rounds * seconds.p90)}"
    shown = dry_run.plan.inputs.get(TARGET)
    notes = [
        f"this is the run for one target, {shown!r}; there is one for each, with a package of its own",
        f"the first wave has {_counted(first, 'target')}, {targets.at_once} at once: {took}",
        _further_text(targets),
    ]
    if dry_run.approvals:
        notes.append("each target asks for its own approval")
    return tuple(notes)


def _further_text(targets: JobTargets) -> str:
    if targets.depth == 0:
        return "there are no further waves: `targets.depth` is 0"
    if targets.expand is None:
        return "nothing says how further targets are found: neither job nor template has `targets.expand`"
    waves = _counted(targets.depth, "further wave")
    return f"at most {waves}, of what {targets.expand} gives; {targets.most:,} targets in all at most"


def _target_name(target: object) -> str:
    return str(getattr(target, "name", target))


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "s")


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """Options of `wavewright dry-run --simulate`."""

    job: Path
    plan: Path | None
    schedule: Schedule | None
    seed: int
    fixtures: Path | None
    inputs: InputOverrides = field(default_factory=InputOverrides)


def simulate(options: SimulationOptions, *, output_format: str, output: Path | None) -> int:
    """Print what a simulation found, or write it to a file."""
    from wavewright.engine.simulation import simulate as simulate_job

    if output_format not in ("text", "json"):
        msg = f"a simulation has no format {output_format!r}"
        raise CommandError(msg, hint="use --format text or --format json with --simulate")
    warn_of_foreign_job(options.job)
    settings = project_settings(options.job)
    order = resolve_job_file(options.job, options.plan, settings, options.inputs)
    if order.draft is None:
        raise no_plan_error(order.goal, order.source)
    if (schedule := options.schedule or settings.schedule) is not None:
        order = order.with_schedule(schedule)
    report = simulate_job(order, settings, seed=options.seed, fixtures=options.fixtures)
    text = _render_simulation(report, output_format)
    if output is None:
        sys.stdout.write(text)
    else:
        _write_simulation(text, output)
    return exit_codes.NEGATIVE if report.faults else exit_codes.OK


def reject_options_of_simulations(*, seed: int | None, fixtures: Path | None) -> None:
    """Raise an error where an option is given that needs --simulate."""
    for name, value in (("--seed", seed), ("--fixtures", fixtures)):
        if value is not None:
            raise CommandError(f"{name} needs --simulate", hint=f"add --simulate, or leave out {name}")


def reject_options_of_dry_runs(*, out: Path | None, run: str | None, patch: Path | None) -> None:
    """Raise an error where an option is given that does not go with --simulate."""
    for name, value in (("--out", out), ("--run", run), ("--patch", patch)):
        if value is not None:
            raise CommandError(f"{name} does not go with --simulate", hint=f"leave out --simulate or {name}")


def _render_simulation(report: SimulationReport, output_format: str) -> str:
    from wavewright.engine.simulation import as_json, as_text

    if output_format == "json":
        return printable_json(as_json(report), indent=2) + "\n"
    return as_text(report)


def _write_simulation(text: str, output: Path) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"{str(output)!r} cannot be written: {error.strerror}"
        hint = "name a file in a folder that can be written to"
        raise CommandError(msg, hint=hint, exit_code=exit_codes.ENVIRONMENT) from error
    sys.stdout.write(f"wrote {output}\n")
