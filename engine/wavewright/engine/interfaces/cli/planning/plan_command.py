"""`wavewright plan` and `wavewright do`: make a plan, and show how it was made.

`plan` makes it for a job. Progress goes to standard error, so standard output holds the plan alone.

`do` makes it for a goal in words, shows it as a dry run, asks once and runs it. With `--yes` the
plan is made within the run, so nothing is shown before it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import anyio

from wavewright.config import Settings, exit_codes
from wavewright.config.atomic_files import write_atomically
from wavewright.engine.interfaces.cli.common.arguments import (
    parse_instant,
    project_settings,
    warn_of_foreign_job,
)
from wavewright.engine.interfaces.cli.common.output import CommandError, print_aside, print_json
from wavewright.engine.interfaces.cli.common.run_text import (
    amount_words,
    noteworthy_rungs,
    rung_line,
    use_line,
)
from wavewright.engine.interfaces.cli.common.terminal import (
    asker_for,
    confirm,
    is_attended,
    may_ask,
)
from wavewright.engine.interfaces.cli.planning.plan_report import (
    plan_as_json,
    plan_as_yaml,
    refuse_to_replace,
    report_json,
    report_text,
    valid_plan,
)
from wavewright.engine.rehearsal.dry_run.outlook import forecast_job
from wavewright.engine.rehearsal.dry_run.text import dry_run_text
from wavewright.engine.rehearsal.planning_session import PlanReport, make_plan_for_request
from wavewright.engine.run.cancellation import signals_wake_loop
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.jobs.goal_in_words import (
    FoundTemplate,
    find_templates,
    job_in_words,
    with_kept_plan,
)
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.jobs.plan_drafts import PlanDraft, PlanOrigin
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.planner import as_object
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelUse
from wavewright.reviewer.package.call_reports import sum_costs
from wavewright.tools.functions.tool import MODEL_HINT

if TYPE_CHECKING:
    from rich.status import Status


_SUFFIXES = (".yaml", ".yml", ".json")

_MAX_GOAL_SHOWN = 80


@dataclass(frozen=True, slots=True)
class DoOptions:
    """Options of `wavewright do`."""

    goal: str
    tools: Sequence[str]
    """Names of tools and packs; every tool of the project where there are none."""
    inputs: InputOverrides
    is_dry_run: bool
    is_confirmed: bool
    answers: Sequence[str]
    approve: str
    output: Path | None


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
    plan = valid_plan(report)
    if plan is not None and out is not None:
        text = plan_as_json(plan) if out.suffix == ".json" else plan_as_yaml(plan)
        write_atomically(out, text.encode())
    if output_format == "json":
        print_json(report_json(report))
    else:
        sys.stdout.write(report_text(report))
    if plan is not None and out is not None:
        print_aside(f"written to {out}")
    return exit_codes.OK if plan is not None else exit_codes.NEGATIVE


async def make_plan_with_progress(
    request: RunRequest, settings: Settings, answers: Sequence[str]
) -> PlanReport:
    """Make the plan of a request while its progress is shown on standard error; `answers` as for
    `plan`.
    """
    with signals_wake_loop(), PlanProgress() as progress:
        return await make_plan_for_request(
            request,
            settings=settings,
            asker=asker_for(answers, progress),
            on_use=progress.show_use,
            on_rung=progress.show_rung,
        )


def _refuse_unusable(file: Path) -> None:
    """Raise an error, before any model is asked, if the file is no plan file or holds something
    else.
    """
    if file.suffix not in _SUFFIXES:
        msg = f"--out {str(file)!r} is neither YAML nor JSON"
        raise CommandError(msg, hint=f"name a file that ends in {', '.join(_SUFFIXES)}")
    refuse_to_replace(file, lambda document: "steps" in as_object(document.value), "plan")


class PlanProgress:
    """Shows model calls and rungs of a planner as lines, on a terminal with a status line below."""

    def __init__(self) -> None:
        self._uses: list[ModelUse] = []
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            # Only a terminal is shown a status line.
            from rich.console import Console

            self._status = Console(stderr=True).status("planning …")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
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
            print_aside(text)

    @contextmanager
    def paused(self) -> Generator[None]:
        """Return a context in which the status line is hidden."""
        if self._status is not None:
            self._status.stop()
        yield
        if self._status is not None:
            self._status.start()


def request_to_run(options: DoOptions) -> RunRequest | int:
    """Return the request of the run that is to follow, or the exit code where none does.

    Raises:
        CommandError: no model is configured, or no person can confirm the run.
    """
    settings = project_settings()
    if settings.model is None and not find_templates(options.goal, settings, is_kept=True):
        # Before the tools of all packs are loaded.
        raise _no_model(options.goal, settings)
    job = job_in_words(options.goal, settings, options.inputs, options.tools)
    if settings.model is None and with_kept_plan(job, settings).draft is None:
        raise _no_model(options.goal, settings)
    if not (options.is_dry_run or options.is_confirmed or is_attended()):
        raise CommandError(
            "there is no terminal at which the run could be confirmed",
            hint="add --yes to run without a question, or --dry-run to see the plan only",
        )
    if options.is_dry_run or not options.is_confirmed:
        planned = _planned_job(job, options, settings)
        if planned is None:
            return exit_codes.NEGATIVE
        _, record = forecast_job(planned, settings, can_ask=may_ask(options.approve))
        sys.stdout.write(dry_run_text(record))
        sys.stdout.flush()
        if record.budget.refusals:
            return exit_codes.NEGATIVE
        if options.is_dry_run:
            return exit_codes.OK
        if not confirm("Run this plan? "):
            print_aside("not run")
            return exit_codes.NEGATIVE
        # A kept plan is found again by the run, which counts it.
        job = job if planned.draft is not None and planned.draft.rung == "template" else planned
    return RunRequest(resolved_job=job, output_dir=options.output)


def _planned_job(job: ResolvedJob, options: DoOptions, settings: Settings) -> ResolvedJob | None:
    """Return the job with the plan of the model; None, with the reasons printed, if there is none."""
    request = RunRequest(resolved_job=job)
    report = anyio.run(make_plan_with_progress, request, settings, options.answers)
    if valid_plan(report) is None or report.planned.plan is None:
        sys.stdout.write(report_text(report))
        return None
    plan = report.planned.plan
    if report.planned.kept_template is not None:
        print_aside(f"kept plan {report.planned.kept_template}: no planner is asked")
    origin = PlanOrigin.with_plan_value(plan, report.planned.document)
    return replace(job, draft=PlanDraft(plan, origin, report.planned.rung or "llm", is_saved=True))


def _no_model(goal: str, settings: Settings) -> CommandError:
    """Return the error where no model can plan, with the goal templates for a similar goal."""
    offers = "".join(
        f"\n  {_offer(template, settings)}" for template in find_templates(goal, settings)
    )
    return CommandError(
        "a goal in words needs a model, and none is configured",
        hint=MODEL_HINT
        + (f"; or run a job of a goal template for a similar goal:{offers}" if offers else ""),
    )


def _offer(found: FoundTemplate, settings: Settings) -> str:
    """Return how a goal template is used without a model, with its goal."""
    template, file = found.template, found.file
    words = printable(" ".join(template.goal.split()))
    shown = words if len(words) <= _MAX_GOAL_SHOWN else f"{words[:_MAX_GOAL_SHOWN]}…"
    if template.own_plan is None:
        return f"{template.name}: {shown} (it has no plan: the job brings one)"
    path = file.relative_to(settings.root) if file.is_relative_to(settings.root) else file
    return f"{template.name}: {shown} (wavewright run {shlex.quote(str(path))})"
