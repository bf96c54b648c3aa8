"""`wavewright do`: a goal in words is planned, shown as a dry run, confirmed once and run.

With `--yes` the plan is made within the run, so nothing is shown before it.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio

from wavewright.config import exit_codes
from wavewright.engine.cli.common.arguments import project_settings
from wavewright.engine.cli.common.output import CommandError
from wavewright.engine.cli.common.terminal import confirm, is_attended, may_ask
from wavewright.engine.cli.planning.plan_command import make_plan_with_progress
from wavewright.engine.cli.planning.plan_report import report_text, valid_plan
from wavewright.engine.dry_run.outlook import forecast_job
from wavewright.engine.dry_run.text import dry_run_text
from wavewright.engine.jobs.goal_in_words import FoundTemplate, find_templates, job_in_words
from wavewright.engine.jobs.inputs import InputOverrides
from wavewright.engine.jobs.kept_plans import find_kept_plan
from wavewright.engine.jobs.plan_drafts import PlanDraft, PlanOrigin
from wavewright.engine.jobs.resolving import ResolvedJob
from wavewright.engine.pipeline.context import RunRequest
from wavewright.engine.project.tools import tools_of_goal
from wavewright.planner.diagnostics.rendering import printable
from wavewright.tools.workers.services import MODEL_HINT

if TYPE_CHECKING:
    from wavewright.config.settings import Settings

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
    if settings.model is None and not _has_kept_plan(job, settings):
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
            sys.stderr.write("not run\n")
            return exit_codes.NEGATIVE
        # A kept plan is found again by the run, which counts it.
        job = job if planned.draft is not None and planned.draft.rung == "template" else planned
    return RunRequest(resolved_job=job, output_dir=options.output)


def _has_kept_plan(job: ResolvedJob, settings: Settings) -> bool:
    """Whether the run needs no planner."""
    kept = find_kept_plan(job.goal, settings, tools_of_goal(job.goal, settings).signatures)
    return kept is not None and kept.is_exact


def _planned_job(job: ResolvedJob, options: DoOptions, settings: Settings) -> ResolvedJob | None:
    """Return the job with the plan of the model; None, with the reasons printed, if there is none."""
    request = RunRequest(resolved_job=job)
    report = anyio.run(make_plan_with_progress, request, settings, options.answers)
    if valid_plan(report) is None or report.planned.plan is None:
        sys.stdout.write(report_text(report))
        return None
    plan = report.planned.plan
    if report.planned.kept_template is not None:
        sys.stderr.write(f"kept plan {report.planned.kept_template}: no planner is asked\n")
    origin = PlanOrigin.with_plan_value(plan, report.planned.document)
    return replace(job, draft=PlanDraft(plan, origin, report.planned.rung or "llm", is_saved=True))


def _no_model(goal: str, settings: Settings) -> CommandError:
    """Return the error where no model can plan, with the goal templates for a similar goal."""
    offers = "".join(f"\n  {_offer(found, settings)}" for found in find_templates(goal, settings))
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
    if template.plan is None:
        return f"{template.name}: {shown} (it has no plan: the job brings one)"
    path = file.relative_to(settings.root) if file.is_relative_to(settings.root) else file
    return f"{template.name}: {shown} (wavewright run {shlex.quote(str(path))})"
