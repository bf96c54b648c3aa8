"""Plans that a model makes for a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from wavewright.config.errors import WavewrightError
from wavewright.config.settings import Settings
from wavewright.config.sources import Source
from wavewright.engine.api.loaded_plan import LoadedPlan
from wavewright.engine.jobs.goal_in_words import job_in_words
from wavewright.engine.jobs.input_overrides import InputOverrides
from wavewright.engine.jobs.plan_drafts import PlanDraft, PlanOrigin
from wavewright.engine.jobs.resolving import ResolvedJob
from wavewright.engine.pipeline.context import Asker, RunRequest
from wavewright.engine.planning_session import PlanReport, make_plan_for_request
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.types import Json
from wavewright.tools.workers.services import MODEL_HINT


async def make_loaded_plan(asked: LoadedPlan, goal: str | Path, asker: Asker | None) -> LoadedPlan:
    """Return the plan that the model makes for a goal in words, or for the job that is loaded.

    Raises:
        DocumentError, PlanError: the job is faulty, or no answer of the model was a valid plan.
        WavewrightError: no model is configured, or the model has a question or says that there is no plan.
    """
    settings = asked.settings
    job = asked.job if isinstance(goal, Path) else unplanned_job(settings, goal, asked.inputs)
    if settings.model is None and job.draft is None:
        raise _no_model()
    report = await make_plan_for_request(RunRequest(resolved_job=job), settings=settings, asker=asker)
    planned = report.planned
    if planned.plan is None:
        raise _no_plan(report)
    origin = PlanOrigin.with_plan_value(planned.plan, planned.document)
    draft = PlanDraft(planned.plan, origin, planned.rung or "given", is_saved=True)
    return replace(asked, document=None, made=replace(job, draft=draft), inputs={})


def unplanned_job(
    settings: Settings, goal: str, inputs: Mapping[str, Json] | None, tools: Iterable[str] = ()
) -> ResolvedJob:
    """Return the job of a goal in words, for which a model is to make a plan.

    Raises:
        WavewrightError: no model is configured, or there is no tool or pack of a name.
    """
    if settings.model is None:
        raise _no_model()
    return job_in_words(goal, settings, InputOverrides(from_file=dict(inputs or {})), tuple(tools))


def _no_model() -> WavewrightError:
    return WavewrightError("a plan for a goal in words needs a model, and none is configured", MODEL_HINT)


def _no_plan(report: PlanReport) -> WavewrightError:
    """Return why there is no plan, as an error to raise."""
    planned = report.planned
    if planned.question is not None:
        return WavewrightError(
            f"the planner asks: {planned.question.question}",
            "give `Wavewright(ask=…)` a function that answers",
        )
    if planned.cannot_plan is not None:
        return WavewrightError(f"the planner says that there is no plan: {planned.cannot_plan}")
    if planned.attempts:
        last = planned.attempts[-1]
        return PlanError(last.diagnostics, last.source)
    if planned.diagnostics:
        return PlanError(planned.diagnostics, Source("the plan", ""))
    reasons = "; ".join(f"{record.rung}: {record.reason}" for record in planned.rungs)
    return WavewrightError(f"no model has made a plan: {reasons}")
