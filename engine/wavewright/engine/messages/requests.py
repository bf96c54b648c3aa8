"""What the daemon is asked for and told: jobs, verdicts on packages, answers to questions.

A *job request* has two forms. The generic one holds a whole job document; the short one holds a goal in words, and the
daemon's settings name the goal template that it is for.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import Field

from wavewright.engine.messages.envelope import RequestType
from wavewright.engine.messages.fields import Name, Text, UncheckedObject, Uuid, WireModel


class JobRequest(WireModel):
    """`job_request`: a job document is to be run."""

    job_id: Uuid
    """The sender's own id of the job: another request with it is the same job."""
    job: Annotated[UncheckedObject, Field(min_length=1)]
    """A job document, as a job file holds it."""


class GoalRequest(WireModel):
    """`job_request`, the short form: a goal is to be reached by the daemon's own goal template."""

    job_id: Uuid
    """The sender's own id of the job: another request with it is the same job."""
    goal: Text
    """What is wanted, in words."""
    depth: Annotated[int, Field(ge=0, le=5)]
    """Waves of targets after the first."""
    budget_tokens: Annotated[int, Field(ge=1, le=10_000_000)]
    """Tokens that the job may spend on models."""
    zone_name: Name
    """The first target."""


class ValidationResult(WireModel):
    """`validation_result`: the verdict on a package."""

    job_id: Uuid
    """The job whose package it was."""
    package_id: Annotated[str, Field(min_length=1, max_length=200)]
    """The package, by the id that it came with."""
    accepted: bool
    """Whether it will do."""
    iteration: Annotated[int, Field(ge=1, le=10)]
    """Which package of the job it was: 1 is the first."""
    feedback: Annotated[list[Annotated[str, Field(max_length=2_000)]], Field(max_length=50)]
    """What is wrong or missing; may be empty."""


class UserDecisionResponse(WireModel):
    """`user_decision_response`: a person's answer."""

    decision_id: Uuid
    """The question, by its id."""
    choice: Text
    """One of the options; any text where there were none."""


RequestPayload: TypeAlias = JobRequest | GoalRequest | ValidationResult | UserDecisionResponse

REQUESTS: Final[dict[RequestType, tuple[type[RequestPayload], ...]]] = {
    "job_request": (JobRequest, GoalRequest),
    "validation_result": (ValidationResult,),
    "user_decision_response": (UserDecisionResponse,),
}
"""Payloads by message type."""
