"""The job document of a job that came as a message.

A request holds the document itself, or a goal in words; a goal becomes a job of the goal template that the settings
name, about its zone, with its depth as an input and its tokens as the budget of the run.
"""

from __future__ import annotations

import json

from wavewright.config.daemon_settings import DaemonSection
from wavewright.config.documents import Document, read_document
from wavewright.executor.job_store.records import JobId, JobRow
from wavewright.planner.types import JsonObject


def document_of(job: JobRow, section: DaemonSection) -> Document:
    """Return what the run of a job is made of."""
    given = job.request.get("job")
    content = given if isinstance(given, dict) else _of_goal(job.request, section)
    return read_document(json.dumps(content, indent=2, ensure_ascii=False), f"job {job.job}")


def name_of(job: JobRow) -> str:
    """Return what a job is about, in a word or two: its zone, or else its own name."""
    return name_in(job.request, job.job)


def name_in(request: JsonObject, job: JobId) -> str:
    """Return what a request is about; the job's id where it does not say."""
    given = request.get("job")
    name = given.get("name") if isinstance(given, dict) else request.get("zone_name")
    return name if isinstance(name, str) and name else job


def _of_goal(request: JsonObject, section: DaemonSection) -> JsonObject:
    return {
        "name": request["zone_name"],
        "goal_template": section.goal_template,
        "goal": request["goal"],
        "variables": [request["zone_name"]],
        "inputs": {"depth": request["depth"]},
        "overrides": {"limits": {"budget": {"tokens": request["budget_tokens"]}}},
    }
