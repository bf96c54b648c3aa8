"""The starter's project with a job that brings no plan, so that somebody has to make one."""

from __future__ import annotations

from pathlib import Path

from wavewright.planner.types import JsonObject

JOB = """\
version: 1
name: ranking
goal_template: word_ranking
inputs: {folder: notes, top: 5}
"""

PLAN: JsonObject = {
    "reasoning": "Every note is read, then the words are counted.",
    "steps": [
        {
            "why": "every note counts",
            "id": "files",
            "tool": "list_notes",
            "params": {"folder": "${inputs.folder}"},
        },
        {
            "why": "the words are in the texts",
            "id": "notes",
            "tool": "read_note",
            "for_each": "${steps.files}",
            "params": {"path": "${item}"},
        },
        {
            "why": "this is what was asked for",
            "id": "ranking",
            "tool": "rank_words",
            "params": {"notes": "${steps.notes}", "top": "${inputs.top}"},
        },
    ],
    "result": "${steps.ranking}",
}
"""A plan as a model would write it."""

REVIEW: JsonObject = {
    "goal_achieved": True,
    "confidence": 0.9,
    "summary": "The words are counted over both notes.",
    "missing_data": [],
    "recovery_actions": [],
}


def misspelt() -> JsonObject:
    """Return the plan with a tool that does not exist."""
    steps = PLAN["steps"]
    assert isinstance(steps, list)
    first = steps[0]
    assert isinstance(first, dict)
    return {**PLAN, "steps": [{**first, "tool": "list_note"}, *steps[1:]]}


def write_job(project: Path) -> Path:
    """Write the job into a project and return its path, relative to the project."""
    (project / "plans" / "ranking.job.yaml").write_text(JOB)
    return Path("plans/ranking.job.yaml")
