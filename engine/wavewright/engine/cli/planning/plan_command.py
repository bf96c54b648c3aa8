"""`wavewright plan`: make a plan for a job and show how it was made.

Progress goes to standard error, so standard output holds the plan alone.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import anyio

from wavewright.config import exit_codes
from wavewright.config.documents import read_document_file
from wavewright.config.sources import DocumentError
from wavewright.engine.cli.common.arguments import parse_instant, project_settings, warn_of_foreign_job
from wavewright.engine.cli.common.output import CommandError, print_json
from wavewright.engine.cli.common.run_text import amount_words, noteworthy_rungs, rung_line, use_line
from wavewright.engine.cli.common.terminal import asker_for
from wavewright.engine.cli.planning.plan_report import (
    plan_as_json,
    plan_as_yaml,
    report_json,
    report_text,
    valid_plan,
)
from wavewright.engine.jobs.inputs import InputOverrides
from wavewright.engine.pipeline.cancellation import signals_wake_loop
from wavewright.engine.pipeline.context import RunRequest
from wavewright.engine.planning_session import make_plan_for_request
from wavewright.reviewer.atomic_files import write_atomically
from wavewright.reviewer.package.call_reports import sum_costs

if TYPE_CHECKING:
    from rich.status import Status

    from wavewright.config.settings import Settings
    from wavewright.engine.planning_session import PlanReport
    from wavewright.planner.ports.fallback_ladder import RungRecord
    from wavewright.planner.ports.model_port import ModelUse


_SUFFIXES = (".yaml", ".yml", ".json")


def plan(
    job: Path,
    *,
    as_of: str | None,
    out: Path | None,
    answers: Sequence[str],
    inputs: InputOverrides,
    output_format: str,
) -> int:
    """Make a plan, print it with its diagnostics, its rung and its cost, and return the exit code.

    Raises:
        CommandError: the plan cannot be written to `out`.
        DocumentError, PlanError: the job, its template or the plan that it names is faulty.
    """
    if out is not None:
        _refuse_unusable(out)
    warn_of_foreign_job(job)
    request = RunRequest(job_file=job, as_of=parse_instant(as_of), inputs=inputs)
    report = anyio.run(make_plan_with_progress, request, project_settings(job), answers)
    made = valid_plan(report)
    if made is not None and out is not None:
        text = plan_as_json(made) if out.suffix == ".json" else plan_as_yaml(made)
        write_atomically(out, text.encode())
    if output_format == "json":
        print_json(report_json(report))
    else:
        sys.stdout.write(report_text(report))
    if made is not None and out is not None:
        sys.stderr.write(f"written to {out}\n")
    return exit_codes.OK if made is not None else exit_codes.NEGATIVE


async def make_plan_with_progress(
    request: RunRequest, settings: Settings, answers: Sequence[str]
) -> PlanReport:
    """Make the plan of a request while its progress is shown on standard error; `answers` as for `plan`."""
    with signals_wake_loop(), PlanProgress() as progress:
        return await make_plan_for_request(
            request,
            settings=settings,
            asker=asker_for(answers, progress),
            on_use=progress.show_use,
            on_rung=progress.show_rung,
        )


def _refuse_unusable(file: Path) -> None:
    """Raise an error, before any model is asked, if the file is no plan file or holds something else."""
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


class PlanProgress:
    """Shows model calls and rungs of a planner as lines, on a terminal with a status line below."""

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
        """Show a model call with its cost."""
        self._uses.append(use)
        self.print_line(use_line(use))
        if self._status is not None:
            self._status.update(f"planning … {amount_words(sum_costs(self._uses))}")

    def show_rung(self, record: RungRecord) -> None:
        """Show a rung that failed or limits the confidence."""
        for shown in noteworthy_rungs([record]):
            self.print_line(rung_line(shown))

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
        """Return a context in which the status line is hidden."""
        if self._status is not None:
            self._status.stop()
        yield
        if self._status is not None:
            self._status.start()
