"""`wavewright plan`: make a plan for a job and show how it came to be.

What `wavewright plan` shows while models are at work: lines, and on a terminal one that says what is waited for.

All of it goes to standard error, so that standard output holds the plan alone.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from wavewright.config import exit_codes
from wavewright.config.documents import DocumentError, read_document_file
from wavewright.engine.cli.common.arguments import parse_instant, project_settings, warn_of_foreign_job
from wavewright.engine.cli.common.errors import CommandError
from wavewright.engine.cli.common.run_text import amount_words, noteworthy_rungs, rung_line, use_line
from wavewright.engine.cli.common.terminal import asker_for
from wavewright.engine.cli.planning.plan_report import (
    plan_as_json,
    plan_as_yaml,
    report_json,
    report_text,
    valid_plan,
)
from wavewright.engine.jobs.input_overrides import InputOverrides
from wavewright.engine.pipeline.context import RunRequest
from wavewright.engine.pipeline.signals import signals_wake_loop
from wavewright.engine.planning_session import make_plan_for_request
from wavewright.planner.diagnostics.rendering import printable_json
from wavewright.reviewer.atomic_files import write_atomically
from wavewright.reviewer.package.call_reports import sum_costs

if TYPE_CHECKING:
    from rich.status import Status

    from wavewright.config.settings import Settings
    from wavewright.engine.planning_session import PlanReport
    from wavewright.planner.language.plan import Plan
    from wavewright.planner.ports.fallback_ladder import RungRecord
    from wavewright.planner.ports.model_port import ModelUse


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
    with signals_wake_loop(), PlanProgress() as progress:
        return await make_plan_for_request(
            request,
            settings=settings,
            asker=asker_for(answers, progress),
            on_use=progress.show_use,
            on_rung=progress.show_rung,
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
    write_atomically(file, text.encode())


class PlanProgress:
    """Somebody who watches a planner."""

    def __init__(self) -> None:
        self._uses: list[ModelUse] = []
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("planning …")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def show_use(self, use: ModelUse) -> None:
        """Take the cost of a model call."""
        self._uses.append(use)
        self.print_line(use_line(use))
        if self._status is not None:
            self._status.update(f"planning … {amount_words(sum_costs(self._uses))}")

    def show_rung(self, record: RungRecord) -> None:
        """Take a rung that was tried."""
        for told in noteworthy_rungs([record]):
            self.print_line(rung_line(told))

    def print_line(self, text: str) -> None:
        """Print a line."""
        if self._status is not None:
            from rich.text import Text

            self._status.console.print(Text(text))
        else:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Open a context in which the terminal is free for a question."""
        if self._status is not None:
            self._status.stop()
        yield
        if self._status is not None:
            self._status.start()
