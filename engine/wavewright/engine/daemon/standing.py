"""The standing job: what the settings ask the daemon to do by itself.

Its id is made of the settings that make it, so that a daemon that starts again continues the same job, and other
settings make another job. Its state is that of any job: the job store and the journal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Final

from wavewright.config.sections import DaemonSection
from wavewright.engine.messages.decoding import GOAL_KEY, SOURCE_KEY
from wavewright.engine.messages.models import standing_job_id
from wavewright.engine.operations.logs import StructuredLog
from wavewright.engine.pipeline.cancellation import CancellationToken, Cycles
from wavewright.executor.store.job_records import (
    JobId,
    JobRequested,
    JobRow,
    MessageId,
    ReceivedMessage,
)
from wavewright.planner.language.hashing import content_hash
from wavewright.planner.types import JsonObject
from wavewright.tools.message_contract import RequestedGoal

STANDING: Final = "standing_job"
"""Kind of the request of the standing job, which comes by no message."""


def standing_job(section: DaemonSection) -> JobId | None:
    """Return the id of the standing job; None where the settings have none."""
    standing = section.standing
    if standing is None:
        return None
    made_of = standing.model_dump(include={"start", "goal", "inputs", "depth", "forks"})
    return standing_job_id(section.agent, section.goal_template or "", content_hash(made_of))


def job_cycles(
    job: JobRow,
    section: DaemonSection,
    clock: Callable[[], float],
    cancellation: CancellationToken,
    log: StructuredLog,
) -> Cycles | None:
    """Return the cycles of an attempt of the standing job; None for any other job."""
    standing = section.standing
    if standing is None or job.job != standing_job(section):
        return None

    def on_warning(used: int, remaining: int) -> None:
        log.write(
            "budget_warning", "warning", budget_type="cycle", used=used, remaining=remaining, job_id=job.job
        )

    def on_spent(used: int, remaining: int) -> None:
        log.write(
            "budget_exhausted",
            "warning",
            budget_type="cycle",
            action="pause",
            used=used,
            remaining=remaining,
            job_id=job.job,
        )

    return Cycles(standing.pause, standing.tokens_per_cycle, clock, cancellation, on_warning, on_spent)


def standing_request(section: DaemonSection, now: float) -> ReceivedMessage:
    """Return the request of the standing job, as if it had come as a message; it has an effect once."""
    standing, job = section.standing, standing_job(section)
    assert standing is not None, "the settings have a standing job"
    assert job is not None, "and it has an id"
    goal = RequestedGoal(
        goal=standing.goal,
        target=standing.start,
        depth=standing.depth,
        inputs={**standing.inputs, "depth": standing.depth},
        forks=standing.forks,
    )
    request: JsonObject = {GOAL_KEY: asdict(goal), SOURCE_KEY: section.agent}
    return ReceivedMessage(
        message=MessageId(job),
        kind=STANDING,
        source=section.agent,
        at=now,
        request=JobRequested(job, request),
    )
