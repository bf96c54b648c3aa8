"""What a document is meant as: a job, a goal template, or else a plan.

The *kind* is told by fields that only one of them can have, before anything is said of the rest.
"""

from __future__ import annotations

from wavewright.config.documents import Document

_JOB_FIELDS = frozenset({"name", "goal_template", "plan", "variables", "benchmarks", "overrides"})
"""Fields that a job may have and a plan may not."""


def is_job(document: Document) -> bool:
    """Whether a document is meant as a job: it has a job's fields, and no steps."""
    return (
        isinstance(document.value, dict)
        and "steps" not in document.value
        and bool(_JOB_FIELDS & document.value.keys())
    )


def is_template(document: Document) -> bool:
    """Whether a document is meant as a goal template."""
    return isinstance(document.value, dict) and "available_tools" in document.value
