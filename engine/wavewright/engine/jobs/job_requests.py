"""The job document of a job that came as a message.

A request holds a job document, or a goal about a target. Such a goal becomes a job of the goal template that the
settings name: its depth is an input, its tokens are the budget of the run. Where that template finds further targets
(`targets.expand`), the target is the first of several.
"""

from __future__ import annotations

import json

from wavewright.config.documents import Document, read_document
from wavewright.config.settings import Settings
from wavewright.engine.messages.decoding import goal_of
from wavewright.engine.project.templates import read_template
from wavewright.executor.store.job_records import JobId, JobRow
from wavewright.planner.types import JsonObject
from wavewright.tools.message_contract import RequestedGoal


def job_document(job: JobRow, settings: Settings) -> Document:
    """Return the job document of a job.

    Raises:
        DocumentError, PlanError: the goal template that the settings name is invalid.
    """
    goal = goal_of(job.request)
    content = job.request["job"] if goal is None else _document_of_goal(goal, settings)
    return read_document(json.dumps(content, indent=2, ensure_ascii=False), f"job {job.job}")


def job_name(job: JobRow) -> str:
    """Return the target of a job's goal, or the job's name."""
    return request_name(job.request, job.job)


def request_name(request: JsonObject, job: JobId) -> str:
    """Return the target of a request's goal, or its job's name; the job's id where there is neither."""
    if (goal := goal_of(request)) is not None:
        return goal.target
    given = request.get("job")
    name = given.get("name") if isinstance(given, dict) else None
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
