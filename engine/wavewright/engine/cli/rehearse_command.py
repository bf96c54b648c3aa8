"""`wavewright dry-run --stubs`: the plan's run, over generated outputs."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.failures import CommandError
from wavewright.engine.cli.project import project_settings, warn_of_foreign_job
from wavewright.engine.input_changes import InputOverrides
from wavewright.engine.job_faults import no_plan_error
from wavewright.engine.jobs import resolve_job_file
from wavewright.planner.rendering import printable_json

if TYPE_CHECKING:
    from wavewright.engine.rehearsal import NoStubOutput, SimulationReport
    from wavewright.planner.types import Schedule


@dataclass(frozen=True, slots=True)
class SimulationOptions:
    """What the command line says."""

    job: Path
    plan: Path | None
    schedule: Schedule | None
    seed: int
    fixtures: Path | None
    inputs: InputOverrides = field(default_factory=InputOverrides)


def simulate(options: SimulationOptions, *, output_format: str, output: Path | None) -> int:
    """Print what a rehearsal found, or write it to a file."""
    from wavewright.engine.rehearsal import NoStubOutput
    from wavewright.engine.rehearsal import simulate as rehearse_order

    if output_format not in ("text", "json"):
        msg = f"a rehearsal has no form {output_format!r}"
        raise CommandError(msg, hint="use --format text or --format json with --stubs")
    warn_of_foreign_job(options.job)
    settings = project_settings(options.job)
    order = resolve_job_file(options.job, options.plan, settings, options.inputs)
    if order.draft is None:
        raise no_plan_error(order.goal, order.source)
    if (schedule := options.schedule or settings.schedule) is not None:
        order = order.with_schedule(schedule)
    try:
        report = rehearse_order(order, settings, seed=options.seed, fixtures=options.fixtures)
    except NoStubOutput as error:
        raise _no_stub_error(error) from error
    text = _render_simulation(report, output_format)
    if output is None:
        sys.stdout.write(text)
    else:
        _write_simulation(text, output)
    return exit_codes.NEGATIVE if report.faults else exit_codes.OK


def reject_stub_options(*, seed: int | None, fixtures: Path | None) -> None:
    """Raise an error where an option is given that only a rehearsal has."""
    for name, value in (("--seed", seed), ("--fixtures", fixtures)):
        if value is not None:
            raise CommandError(f"{name} is for rehearsals only", hint="add --stubs")


def reject_options_with_stubs(*, out: Path | None, run: str | None, patch: Path | None) -> None:
    """Raise an error where an option is given that a rehearsal has not."""
    for name, value in (("--out", out), ("--run", run), ("--patch", patch)):
        if value is not None:
            raise CommandError(
                f"a rehearsal has no {name}", hint=f"leave out --stubs or {name}: they are two calls"
            )


def _render_simulation(report: SimulationReport, output_format: str) -> str:
    from wavewright.engine.rehearsal import as_json, as_text

    if output_format == "json":
        return printable_json(as_json(report), indent=2) + "\n"
    return as_text(report)


def _write_simulation(text: str, output: Path) -> None:
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        msg = f"{str(output)!r} cannot be written: {error.strerror}"
        hint = "name a file in a folder that can be written to"
        raise CommandError(msg, hint=hint, code=exit_codes.ENVIRONMENT) from error
    sys.stdout.write(f"wrote {output}\n")


def _no_stub_error(error: NoStubOutput) -> CommandError:
    """Return the error of a tool whose output nobody can make up, to be raised."""
    given = f"give its outputs with --fixtures FILE, where FILE says '{error.tool}: …'"
    if error.pattern is None:
        return CommandError(f"{error}: nothing that was tried fits its output schema", hint=given)
    return CommandError(
        f"{error}: only Hypothesis makes a text for the pattern {error.pattern!r}, and it is not installed",
        hint=f"install the extra: pip install 'wavewright[testing]'; or {given}",
    )
