"""Plans that a model makes for a program."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from wavewright.config.documents import Document, Source, read_document
from wavewright.config.errors import WavewrightError
from wavewright.engine.api.loaded_plan import LoadedPlan
from wavewright.engine.jobs.input_overrides import InputOverrides
from wavewright.engine.jobs.resolving import PlanDraft, PlanOrigin, ResolvedJob, resolve_job
from wavewright.engine.pipeline.context import Asker, RunRequest
from wavewright.engine.planning_session import PlanReport, make_plan_for_request
from wavewright.engine.project.tools import all_tools
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.language.signatures import AGENT, ASK_PERSON
from wavewright.tools.workers.services import MODEL_HINT


async def make_loaded_plan(asked: LoadedPlan, goal: str | Path, asker: Asker | None) -> LoadedPlan:
    """Return the plan that the model makes for a goal in words, or for the job that is loaded.

    Raises:
        DocumentError, PlanError: the job is faulty, or no answer of the model was a valid plan.
        WavewrightError: no model is configured, or the model has a question or says that there is no plan.
    """
    settings = asked.settings
    job = asked.job if isinstance(goal, Path) else _job_in_words(goal, asked)
    if settings.model is None and job.draft is None:
        raise WavewrightError("a plan for a goal in words needs a model, and none is configured", MODEL_HINT)
    report = await make_plan_for_request(RunRequest(resolved_job=job), settings=settings, asker=asker)
    planned = report.planned
    if planned.plan is None:
        raise _no_plan(report)
    origin = PlanOrigin.with_plan_value(planned.plan, planned.document)
    draft = PlanDraft(planned.plan, origin, planned.rung or "given", is_saved=True)
    return replace(asked, document=None, made=replace(job, draft=draft), inputs={})


def _job_in_words(goal: str, asked: LoadedPlan) -> ResolvedJob:
    """Return a job without a plan: its goal in words, and every tool of the program or the project."""
    names = [name for name in all_tools(asked.settings) if name not in {AGENT, ASK_PERSON}]
    template = {
        "version": 1,
        "name": "plan",
        "goal": goal,
        "available_tools": [{"name": name} for name in names],
    }
    document: Document = read_document(json.dumps(template), "the goal")
    return resolve_job(
        document, asked.file, None, asked.settings, inputs=InputOverrides(from_file=asked.inputs)
    )


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
