"""Jobs of requests: their documents and names, and the job that a run belongs to.

A request holds a job document, or a goal about a target. Such a goal becomes a job of the goal
template that the settings name: its depth is an input, its tokens are the budget of the run. Where
that template finds further targets (`targets.expand`), the target is the first of several.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from wavewright.config import Document, Settings, read_document
from wavewright.engine.run.context import Feedback, RunRequest
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.project.templates import read_template
from wavewright.engine.run.target_waves import target_runs
from wavewright.engine.service.job_store.records import JobId, JobRow, JobState
from wavewright.engine.service.job_store.rules import OPEN_STATES
from wavewright.engine.service.job_store.store import JobStore
from wavewright.executor import Journal, fold
from wavewright.planner import JsonObject, RunId, as_object
from wavewright.tools import RequestedGoal
from wavewright.tools.message_contract import stored_goal


def job_document(job: JobRow, settings: Settings) -> Document:
    """Return the job document of a job.

    Raises:
        DocumentError, PlanError: the goal template that the settings name is invalid.
    """
    goal = stored_goal(job.request)
    content = job.request["job"] if goal is None else _document_of_goal(goal, settings)
    return read_document(json.dumps(content, indent=2, ensure_ascii=False), f"job {job.job}")


FILE_KEY: Final = "job_file"
"""Of a request: a file of the project that has the job, and is read when the run begins."""
INPUTS_KEY: Final = "inputs"
"""Of a request with a file: inputs that replace those of the job."""


def run_of_request(job: JobRow, settings: Settings, feedback: Feedback | None = None) -> RunRequest:
    """Return the request for the run of a job.

    Raises:
        DocumentError, PlanError: as `job_document`.
    """
    file = job.request.get(FILE_KEY)
    if isinstance(file, str):
        inputs = InputOverrides(as_object(job.request.get(INPUTS_KEY)))
        return RunRequest(
            job_file=settings.root / file, run=job.run, inputs=inputs, feedback=feedback
        )
    return RunRequest(job=job_document(job, settings), run=job.run, feedback=feedback)


def job_name(job: JobRow) -> str:
    """Return the target of a job's goal, or the job's name."""
    return request_name(job.request, job.job)


def request_name(request: JsonObject, job: JobId) -> str:
    """Return the target of a request's goal, or its job's name; the job's id where there is
    neither.
    """
    if (goal := stored_goal(request)) is not None:
        return goal.target
    document = request.get("job")
    name = document.get("name") if isinstance(document, dict) else None
    return name if isinstance(name, str) and name else job


def _document_of_goal(goal: RequestedGoal, settings: Settings) -> JsonObject:
    template = goal.template or settings.daemon.goal_template
    document: JsonObject = {
        "name": goal.target,
        "goal_template": template,
        **({"goal": goal.goal} if goal.goal else {}),
        "inputs": {"depth": goal.depth} if goal.inputs is None else goal.inputs,
    }
    if goal.budget_tokens is not None:
        document["overrides"] = {"limits": {"budget": {"tokens": goal.budget_tokens}}}
    if goal.forks is not None or (template is not None and _expands_targets(template, settings)):
        forks: JsonObject = {} if goal.forks is None else {"forks": goal.forks}
        return {**document, "targets": {"first": [goal.target], "depth": goal.depth, **forks}}
    return {**document, "variables": [goal.target]}


def _expands_targets(name: str, settings: Settings) -> bool:
    """Return whether a goal template finds further targets."""
    nowhere = read_document("{}", "the settings")
    template = read_template(name, settings.root, nowhere, settings)
    return template.targets.expand is not None


async def job_of_run(journal: Journal, jobs: JobStore, run: RunId) -> JobRow | None:
    """Return the job of a daemon that a run belongs to, as its own or as that of a target; none
    where it has ended.
    """
    rows = await jobs.list_jobs(OPEN_STATES)
    # A run that has asked is named by its question; only else must the journals of jobs with
    # targets be read.
    asking = {decision.job for decision in await jobs.list_decisions() if decision.run == run}
    for row in rows:
        if row.run == run or row.job in asking:
            return row
    for row in rows:
        job = row.request.get("job")
        may_have_targets = not isinstance(job, dict) or "targets" in job
        if may_have_targets and run in target_runs(fold(await journal.load(row.run))):
            return row
    return None


async def named_job(jobs: JobStore, prefix: str, states: Sequence[JobState] = ()) -> JobRow | None:
    """Return the one job in these states, by default in any, whose id begins so; None where there is
    none, or several.
    """
    if not prefix:
        return None
    named = [row for row in await jobs.list_jobs(states) if row.job.startswith(prefix)]
    return named[0] if len(named) == 1 else None
