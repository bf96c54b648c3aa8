"""What the daemon tells: how jobs stand, what came out, and what a person must decide.

A *report* is made of what is journaled, never of what the clock says when it is sent. Fields that do not apply are left
out of a status, so that a reader sees what it is about; and no text is refused here, for what tools have found must be
told whatever it looks like.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from wavewright.engine.messages.envelope import ReportType
from wavewright.engine.messages.fields import UncheckedObject, Uuid, WireModel
from wavewright.planner.types import JsonObject

JobStatus: TypeAlias = Literal[
    "ACCEPTED",
    "JOB_STARTED",
    "ZONE_STARTED",
    "ZONE_COMPLETED",
    "ZONE_FAILED",
    "TARGET_STARTED",
    "TARGET_COMPLETED",
    "TARGET_FAILED",
    "STEP_PROGRESS",
    "DECISION_REQUIRED",
    "PACKAGE_SENT",
    "VALIDATION_RECEIVED",
    "JOB_PAUSED",
    "JOB_RESUMED",
    "JOB_COMPLETED",
    "JOB_PARTIALLY_COMPLETED",
    "JOB_FAILED",
]
"""What has happened to a job. Zones are what targets are called where the job came as a goal with a zone."""

_Count: TypeAlias = Annotated[int, Field(ge=0)]


class ZoneFailure(WireModel):
    """A zone of which nothing came."""

    zone_name: str
    error: str
    """Why, without what a tool or a page said."""


class TargetFailure(WireModel):
    """A target of which nothing came."""

    target: str
    error: str
    """Why, without what a tool or a page said."""


class JobStatusUpdate(WireModel):
    """`job_status`: something has happened to a job."""

    job_id: Uuid
    """The job, by its sender's id."""
    status: JobStatus
    """What has happened."""
    zone_name: str | None = None
    """The zone that it happened to."""
    zones_completed: _Count | None = None
    zones_total: _Count | None = None
    """Zones that are known so far; each wave may add some."""
    zones_failed: list[ZoneFailure] | None = None
    target: str | None = None
    """The target that it happened to."""
    targets_completed: _Count | None = None
    targets_total: _Count | None = None
    """Targets that are known so far; each wave may add some."""
    targets_failed: list[TargetFailure] | None = None
    step: str | None = None
    """The step that has ended last."""
    steps_completed: _Count | None = None
    steps_total: _Count | None = None
    """Steps of the plan as it stands; a recovery may add some."""
    iteration: _Count | None = None
    """Which package of the job it is about."""
    package_id: str | None = None
    """The package that it is about."""
    decision_id: Uuid | None = None
    """The question that it is about."""
    reason: str | None = None
    """Why, in a sentence, where the status alone does not say."""


class PackageReport(WireModel):
    """`package`: what came out of a job, as the run's package holds it."""

    job_id: Uuid
    package_id: str
    """Made of job and iteration: a repeat has the same one, and the same bytes."""
    iteration: Annotated[int, Field(ge=1)]
    """Which package of the job it is: 1 is the first."""
    target: str | None = None
    """The target that it is about, where the job has several; each has a package of its own."""
    package: UncheckedObject
    """See `wavewright schema package`."""


class ResearchPackage(WireModel):
    """`research_package`: what was found out about one zone. What each record holds is its goal template's affair."""

    job_id: Uuid
    package_id: str
    """Made of job and iteration: a repeat has the same one, and the same bytes."""
    iteration: Annotated[int, Field(ge=1)]
    """Which package of the job it is: 1 is the first."""
    zone_name: str
    zone_data: JsonObject
    npcs: list[JsonObject] = []
    factions: list[JsonObject] = []
    lore: list[JsonObject] = []
    narrative_items: list[JsonObject] = []
    sources: list[JsonObject] = []
    """Address, domain, tier and time of access of each."""
    confidence: dict[str, Annotated[float, Field(ge=0, le=1)]] = {}
    """From 0 to 1 for each kind of finding."""
    conflicts: list[JsonObject] = []
    """Where two sources say what cannot both be right."""
    quality_warnings: list[str] = []
    """What a reader should know before relying on it."""


class UserDecisionRequired(WireModel):
    """`user_decision_required`: the job is parked until a person has answered."""

    question: str
    options: list[str]
    """What can be answered; empty where any text will do."""
    context: str
    """Why it is asked; for an approval, all that would be done."""
    decision_id: Uuid
    """What the answer must name."""


ReportPayload: TypeAlias = JobStatusUpdate | PackageReport | ResearchPackage | UserDecisionRequired

REPORTS: Final[dict[ReportType, type[ReportPayload]]] = {
    "job_status": JobStatusUpdate,
    "package": PackageReport,
    "research_package": ResearchPackage,
    "user_decision_required": UserDecisionRequired,
}
"""Payloads by message type."""
