"""The job document of a job that came as a message.

A request holds the document itself, or a goal in words; a goal becomes a job of the goal template that the settings
name, about its zone, with its depth as an input and its tokens as the budget of the run. Where that template says how
further zones are found (`targets.expand`), the zone is the first of several targets.
"""

from __future__ import annotations

import json

from wavewright.config.documents import Document, read_document
from wavewright.config.settings import Settings
from wavewright.engine.project.templates import read_template
from wavewright.executor.store.job_records import JobId, JobRow
from wavewright.planner.types import JsonObject


def job_document(job: JobRow, settings: Settings) -> Document:
    """Return what the run of a job is made of.

    Raises:
        DocumentError, PlanError: the goal template that the settings name is faulty.
    """
    given = job.request.get("job")
    content = given if isinstance(given, dict) else _document_from_goal(job.request, settings)
    return read_document(json.dumps(content, indent=2, ensure_ascii=False), f"job {job.job}")


def job_name(job: JobRow) -> str:
    """Return what a job is about, in a word or two: its zone, or else its own name."""
    return request_name(job.request, job.job)


def request_name(request: JsonObject, job: JobId) -> str:
    """Return what a request is about; the job's id where it does not say."""
    given = request.get("job")
    name = given.get("name") if isinstance(given, dict) else request.get("zone_name")
    return name if isinstance(name, str) and name else job


def _document_from_goal(request: JsonObject, settings: Settings) -> JsonObject:
    template = settings.daemon.goal_template
    document: JsonObject = {
        "name": request["zone_name"],
        "goal_template": template,
        "goal": request["goal"],
        "inputs": {"depth": request["depth"]},
        "overrides": {"limits": {"budget": {"tokens": request["budget_tokens"]}}},
    }
    if template is not None and _expands_targets(template, settings):
        return {**document, "targets": {"first": [request["zone_name"]], "depth": request["depth"]}}
    return {**document, "variables": [request["zone_name"]]}


def _expands_targets(name: str, settings: Settings) -> bool:
    """Whether a goal template says how further zones are found: a job is then one of several targets."""
    nowhere = read_document("{}", "the settings")
    template = read_template(name, settings.root, nowhere, settings)
    return template.targets.expand is not None
