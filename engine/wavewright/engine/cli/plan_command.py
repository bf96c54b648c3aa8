"""`wavewright plan`: make a plan for a job and show how it came to be."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from wavewright.config.documents import DocumentError, read_document_file
from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.asking import CommandLineAsker, can_ask
from wavewright.engine.cli.dates import parse_instant
from wavewright.engine.cli.failures import CommandError
from wavewright.engine.cli.plan_progress import PlanProgress
from wavewright.engine.cli.plan_report import report_json, report_text, valid_plan
from wavewright.engine.cli.plan_text import plan_as_json, plan_as_yaml
from wavewright.engine.cli.project import project_settings, warn_of_foreign_job
from wavewright.engine.context import RunRequest
from wavewright.engine.input_changes import InputOverrides
from wavewright.engine.planning_session import make_plan_for_request
from wavewright.planner.rendering import printable_json
from wavewright.reviewer.files import FileNotWrittenError, write_atomically

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.engine.planning_session import PlanReport
    from wavewright.planner.models import Plan

_SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """What is planned, and where the plan goes."""

    job: Path
    as_of: str | None = None
    out: Path | None = None
    answers: Sequence[str] = ()
    inputs: InputOverrides = field(default_factory=InputOverrides)


def plan(options: PlanOptions, *, output_format: str) -> int:
    """Make a plan, print it with its diagnostics, its rung and its cost, and return the exit code.

    Raises:
        CommandError: the plan cannot be kept where `--out` says.
        DocumentError, PlanError: the job, its template or the plan that it names is faulty.
    """
    if options.out is not None:
        _refuse_unusable(options.out)
    warn_of_foreign_job(options.job)
    request = RunRequest(job_file=options.job, as_of=parse_instant(options.as_of), inputs=options.inputs)
    report = anyio.run(_plan_job, request, project_settings(options.job), options.answers)
    made = valid_plan(report)
    if made is not None and options.out is not None:
        _write_plan(made, options.out)
    if output_format == "json":
        sys.stdout.write(printable_json(report_json(report), indent=2) + "\n")
    else:
        sys.stdout.write(report_text(report))
    if made is not None and options.out is not None:
        sys.stderr.write(f"kept in {options.out}\n")
    return exit_codes.OK if made is not None else exit_codes.NEGATIVE


async def _plan_job(request: RunRequest, settings: Settings, answers: Sequence[str]) -> PlanReport:
    with PlanProgress() as progress:
        asker = CommandLineAsker(answers, progress.print_line, progress.paused, is_attended=can_ask())
        return await make_plan_for_request(
            request, settings=settings, asker=asker, on_use=progress.show_use, on_rung=progress.show_rung
        )


def _refuse_unusable(file: Path) -> None:
    """Raise an error, before any model is asked, where a plan cannot be kept or would replace something else."""
    if file.suffix not in _SUFFIXES:
        msg = f"--out {str(file)!r} is neither YAML nor JSON"
        raise CommandError(msg, hint=f"name a file that ends in {', '.join(_SUFFIXES)}")
    if file.exists() and not _is_plan(file):
        msg = f"{str(file)!r} exists and holds no plan"
        raise CommandError(msg, hint="only a plan is replaced by a plan; name another file with --out")


def _is_plan(file: Path) -> bool:
    try:
        document = read_document_file(file)
    except DocumentError:
        return False
    return isinstance(document.value, dict) and "steps" in document.value


def _write_plan(made: Plan, file: Path) -> None:
    text = plan_as_json(made) if file.suffix == ".json" else plan_as_yaml(made)
    try:
        write_atomically(file, text.encode())
    except FileNotWrittenError as error:
        raise CommandError(str(error), code=exit_codes.ENVIRONMENT) from error
