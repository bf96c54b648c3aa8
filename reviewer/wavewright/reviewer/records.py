"""What a review and a package hold.

Confidence is computed by code: a *raw* figure from what was found, then lowered by every cap whose condition
holds; the record keeps both figures and the reasons. Nothing here can lift a gate or a cap.
"""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from wavewright.planner.models import Model
from wavewright.planner.types import GateId, JsonObject, StepId


class CapRecord(Model):
    """One cap that was asked, and whether it held."""

    field: str
    max: float
    because: str
    applied: bool
    origin: Literal["plan", "goal", "engine"] = "plan"


class Confidence(Model):
    """Confidence in one field of the result; `overall` stands for the whole."""

    field: str
    raw: float
    capped: float
    why: tuple[str, ...] = ()
    """How the raw figure came about, then the caps that lowered it."""


class RecoveryAction(Model):
    """What would mend a red gate or a missing output, in a fixed vocabulary."""

    action: Literal["refetch", "add_step", "replace_step", "provide_input", "configure"]
    step: StepId | None = None
    gate: GateId | None = None
    hint: str
    recipe: str | None = None
    """Gate id of the template's recipe that does it without a model."""


class ReviewResult(Model):
    """The verdict on a run."""

    goal_achieved: bool
    confidence: float
    summary: str
    missing_data: tuple[str, ...] = ()
    recovery_actions: tuple[RecoveryAction, ...] = ()
    reviewer: Literal["code", "model"] = "code"
    confidences: tuple[Confidence, ...] = ()
    caps: tuple[CapRecord, ...] = ()
    round: int = 0


class Document(Model):
    """An output document with its tags."""

    id: str
    step: StepId
    title: str
    tags: tuple[str, ...] = ()
    content: JsonValue = None
    markdown: str | None = None


class SourceReference(Model):
    """Where a datum came from."""

    name: str
    location: str | None = None
    step: StepId | None = None
    as_of: str | None = None
    accessed: str | None = None
    tier: str | None = None


class StepReport(Model):
    """One line of the execution log."""

    id: StepId
    tool: str
    why: str | None = None
    status: str
    wave: int
    depends_on: tuple[StepId, ...] = ()
    started: float | None = None
    seconds: float = 0.0
    attempts: int = 0
    items: tuple[int, int] | None = None
    error: JsonObject | None = None
    reason: str | None = None


class Package(Model):
    """All that leaves a run: what was found, how sure that is, and how it came about."""

    format: Literal["wavewright/package/1"] = "wavewright/package/1"
    run: str
    job: str
    goal: str
    status: Literal["achieved", "not_achieved", "failed", "interrupted"]
    result: JsonValue = None
    documents: tuple[Document, ...] = ()
    sources: tuple[SourceReference, ...] = ()
    conflicts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    review: ReviewResult | None = None
    gates: tuple[JsonObject, ...] = ()
    plan: JsonObject
    plan_hash: str
    rung: str
    patches: tuple[JsonObject, ...] = ()
    execution_log: tuple[StepReport, ...] = ()
    timings: JsonObject = {}
    versions: dict[str, str] = {}
    now: str
    """The instant the run took for now."""
