"""What a document is meant as: a job, a sealed plan, a goal template, or else a plan.

The *kind* is told by fields that only one of them can have, before anything is said of the rest.
"""

from __future__ import annotations

from wavewright.config.documents import Document

_JOB_FIELDS = frozenset({"name", "goal_template", "plan", "variables", "benchmarks", "overrides"})
"""Fields that a job may have and a plan may not."""
_SEALED = "wavewright/sealed-plan/"
"""How the format of every sealed plan begins."""


def is_job(document: Document) -> bool:
    """Whether a document is meant as a job: it has a job's fields, and no steps; a sealed plan stands for its job."""
    return (
        isinstance(document.value, dict)
        and "steps" not in document.value
        and (bool(_JOB_FIELDS & document.value.keys()) or is_sealed_plan(document))
    )


def is_sealed_plan(document: Document) -> bool:
    """Whether a document is meant as a sealed plan, of this format or another."""
    stated = document.value.get("format") if isinstance(document.value, dict) else None
    return isinstance(stated, str) and stated.startswith(_SEALED)


def is_template(document: Document) -> bool:
    """Whether a document is meant as a goal template."""
    return isinstance(document.value, dict) and "available_tools" in document.value
