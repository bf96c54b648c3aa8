"""Ids that are made of what they name.

An id that is made again, after a crash or on another machine, is the same; so a repeat is recognised.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote
from uuid import UUID, uuid5

from wavewright.executor.store.job_records import DecisionId, JobId, MessageId

NAMESPACE: Final = UUID("8f0e3c4e-6d0f-5c0a-9a55-3a1f8d1c7b21")
"""Of all ids that wavewright makes; it never changes."""
_is_plain: Final = re.compile(r"[A-Za-z0-9_.~-]*").fullmatch
"""Tells a part that is its own escaped form, as nearly all are: to look takes a tenth of the time."""


def message_id(job: JobId, iteration: int, kind: str, *what: str | int) -> MessageId:
    """Return the id of a message.

    Args:
        job: The job that it tells of.
        iteration: Packages that had gone out before.
        kind: Its message type.
        what: What tells it from others of that type and iteration: a status and a target, say.
    """
    return MessageId(_id("message", job, iteration, kind, *what))


def package_id(job: JobId, iteration: int, target: str | None = None) -> str:
    """Return the id of a job's package, the first has the iteration 1; or of the package of one of its targets."""
    return _id("package", job, iteration) if target is None else _id("package", job, iteration, target)


def standing_job_id(*what: str | int) -> JobId:
    """Return the id of the job that a daemon starts by itself, made of the settings that make the job."""
    return JobId(_id("standing", *what))


def decision_id(job: JobId, *what: str | int) -> DecisionId:
    """Return the id of a question, made of the job and of all that the answer would be for."""
    return DecisionId(_id("decision", job, *what))


def _id(*parts: str | int) -> str:
    # Escaped, so that no part can hold the joint and no two lists of parts are one name.
    return str(uuid5(NAMESPACE, "/".join([_escaped(str(part)) for part in parts])))


def _escaped(part: str) -> str:
    return part if _is_plain(part) else quote(part, safe="")
