"""The kind of a document: a job, a saved plan, a goal template, settings, a worker, or else a plan.

The *kind* is recognized by the schema that the file names for editors, by the file's name, or by fields that only one
kind has, before the document is validated.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from wavewright.config.documents import Document
from wavewright.config.settings import FILE_NAMES

_JOB_FIELDS = frozenset({"name", "goal_template", "plan", "variables", "benchmarks", "overrides"})
"""Fields that a job may have and a plan may not."""
_SAVED_PLAN_SCHEMA = "wavewright/saved-plan/"
"""How the format of every saved plan begins."""


def is_job(document: Document) -> bool:
    """Whether a document is meant as a job: it has a job's fields and no steps, or is a saved plan."""
    return (
        isinstance(document.value, dict)
        and "steps" not in document.value
        and (bool(_JOB_FIELDS & document.value.keys()) or is_saved_plan(document))
    )


def is_saved_plan(document: Document) -> bool:
    """Whether a document is meant as a saved plan, of this format or another."""
    stated = document.value.get("format") if isinstance(document.value, dict) else None
    return isinstance(stated, str) and stated.startswith(_SAVED_PLAN_SCHEMA)


def is_template(document: Document) -> bool:
    """Whether a document is meant as a goal template."""
    return isinstance(document.value, dict) and "available_tools" in document.value


_SCHEMA = re.compile(r"\A#[^\n]*\$schema=\S*?(\w+)\.json\b")
"""The comment that names a YAML file's schema for editors."""
_WORKER_FIELDS = frozenset({"prompt", "input_schema"})
"""Fields that no other document has; one of them may be misspelled."""


def is_settings(document: Document) -> bool:
    """Whether a document is meant as the settings of a project."""
    return PurePath(document.source.name).name in FILE_NAMES or _named_schema(document) == "settings"


def is_agent(document: Document) -> bool:
    """Whether a document is meant as a named agent: its schema or its folder says so."""
    return _named_schema(document) == "agent" or PurePath(document.source.name).parent.name == "agents"


def is_worker(document: Document) -> bool:
    """Whether a document is meant as a model worker."""
    if _named_schema(document) == "worker":
        return True
    return (
        isinstance(document.value, dict)
        and bool(_WORKER_FIELDS & document.value.keys())
        and "steps" not in document.value
    )


def _named_schema(document: Document) -> str | None:
    found = _SCHEMA.match(document.source.text)
    return found[1] if found is not None else None
