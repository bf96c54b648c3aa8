"""The log lines of messages: what came in for a job, and what went out.

A line is written once its message counts: of one that came in when its effect is durable, of one that went out when
the broker has confirmed it. So a message that is not in the log may come again, and one that is there is settled.
"""

from __future__ import annotations

import json
from typing import Final

from wavewright.engine.operations.logs import StructuredLog
from wavewright.executor.job_store.records import DecisionMade, OutgoingMessage, ReceivedMessage, VerdictGiven
from wavewright.planner.types import Json, JsonObject

PACKAGE_KINDS: Final = frozenset({"package", "research_package"})
MAX_SUMMARY_LENGTH: Final = 500
"""Characters of what a validator says, in a line."""


def log_received(
    log: StructuredLog, received: ReceivedMessage, job: str | None, zone: str | None = None
) -> None:
    """Tell of a message that had its effect.

    Args:
        log: Where the line goes.
        received: The message.
        job: The id of its job.
        zone: What that job is about, where that is known.
    """
    match received.request:
        case VerdictGiven() as verdict:
            about: JsonObject = {"job_id": job, "zone_name": zone, "iteration": verdict.iteration}
            log.write("validation_received", "info", **about, accepted=verdict.accepted)
            if not verdict.accepted:
                summary = "; ".join(verdict.feedback)[:MAX_SUMMARY_LENGTH]
                log.write("validation_rejected", "warning", **about, feedback_summary=summary)
        case DecisionMade() as made:
            log.write(
                "user_decision_received",
                job_id=job,
                decision_id=made.decision,
                choice=made.choice,
                by=made.by,
            )
        case _:
            log.write(
                "job_received",
                job_id=job,
                zone_name=zone,
                message_id=received.message,
                source_agent=received.source,
            )


def log_sent(log: StructuredLog, sent: OutgoingMessage) -> None:
    """Tell of a message that is out, where it is one that somebody waits for: a package, a question."""
    if sent.kind in PACKAGE_KINDS:
        package = _inner(_payload(sent), "package")
        log.write(
            "package_sent",
            job_id=sent.job,
            zone_name=package.get("job"),
            message_id=sent.message,
            data_point_count=_count(_inner(package, "review").get("confidences")),
            total_sources=_count(package.get("sources")),
            bytes=len(sent.body),
        )
    elif sent.kind == "user_decision_required":
        question = _payload(sent)
        log.write(
            "user_decision_requested",
            job_id=sent.job,
            decision_id=question.get("decision_id"),
            options=question.get("options"),
            question=question.get("question"),
        )


def _payload(sent: OutgoingMessage) -> JsonObject:
    envelope: Json = json.loads(sent.body)
    return _inner(envelope, "payload")


def _inner(value: Json, name: str) -> JsonObject:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _count(value: Json) -> int:
    return len(value) if isinstance(value, list) else 0
