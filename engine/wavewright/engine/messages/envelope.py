"""What every message is wrapped in.

An *envelope* says who sends what to whom, and when; its *payload* is one of the models of `requests` and `reports`,
as its message type says. A *repeat* is the same message with the same id: whoever reads takes it in once.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from wavewright.engine.messages.fields import Instant, Name, UncheckedObject, Uuid, WireModel

VERSION: Final = 1
"""Of the envelope and of all payloads together."""
VERSION_HEADER: Final = "x-wavewright-version"

RequestType: TypeAlias = Literal["job_request", "validation_result", "user_decision_response"]
"""What the daemon takes in."""
ReportType: TypeAlias = Literal["job_status", "package", "research_package", "user_decision_required"]
"""What the daemon sends."""


class Envelope(WireModel):
    """Who sends what to whom, and when."""

    message_id: Uuid
    """What a repeat is known by."""
    source_agent: Name
    """Who sends it."""
    target_agent: str
    """Whom it is for; one that is not the reader's own name, empty or not, is for somebody else."""
    message_type: str
    """What the payload is."""
    timestamp: Instant
    """When what it tells of happened."""
    correlation_id: Uuid
    """What messages have in common that belong together: a request, what is told of it, and its answers."""
    payload: UncheckedObject
    """What is said, by the message type."""
