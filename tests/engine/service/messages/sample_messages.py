"""Messages for tests: sound ones, to be changed, and the state that a store would have."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, TypeAlias, cast

from wavewright.engine.service.job_store.records import ReceivedMessage
from wavewright.engine.service.messages.decoding import decode
from wavewright.engine.service.messages.delivery import AcceptanceRules, Delivery, SenderIdentity
from wavewright.engine.service.messages.reading import MessageRejected

Loose: TypeAlias = dict[str, object]
"""An object that may be anything but sound."""

NOW = 1_776_159_000.0
"""2026-04-14T09:30:00Z."""
JOB = "5d1c0a52-7a3e-4f0b-9a53-2f6b8c1d0e01"
RULES = AcceptanceRules(
    agent="wavewright",
    identities={
        "ui_backend": SenderIdentity(
            "svc_ui", frozenset({"job_request", "user_decision_response"})
        ),
        "validator": SenderIdentity("svc_validator", frozenset({"validation_result"})),
    },
)
GOAL: Loose = {
    "job_id": JOB,
    "goal": "Tell what the fishers of Sedge Hollow believe",
    "depth": 2,
    "budget_tokens": 32_000,
    "target": "Sedge Hollow",
}
VERDICT: Loose = {
    "job_id": JOB,
    "package_id": "package-1",
    "accepted": False,
    "iteration": 1,
    "feedback": ["no sources"],
}
ANSWER: Loose = {"decision_id": "5d1c0a52-7a3e-4f0b-9a53-2f6b8c1d0ed1", "choice": "Sedge Hollow"}


def envelope(payload: object, kind: str = "job_request", **changes: object) -> Loose:
    """Return an envelope of a payload; a field is changed by its name, and left out where it is
    `...`.
    """
    is_verdict = kind == "validation_result"
    return {
        "message_id": "5d1c0a52-7a3e-4f0b-9a53-2f6b8c1d0eaa",
        "source_agent": "validator" if is_verdict else "ui_backend",
        "target_agent": "wavewright",
        "message_type": kind,
        "timestamp": "2026-04-14T09:29:15+00:00",
        "correlation_id": "5d1c0a52-7a3e-4f0b-9a53-2f6b8c1d0ecc",
        "payload": payload,
    } | changes


def without(value: Loose, *names: str) -> Loose:
    return {name: entry for name, entry in value.items() if name not in names}


def delivered(document: object, **properties: Any) -> Delivery:
    """Return a sound delivery of a document, by the user whose agent it says it is from."""
    source = cast("Loose", document).get("source_agent") if isinstance(document, dict) else None
    user = "svc_validator" if source == "validator" else "svc_ui"
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    sound = Delivery(
        body=body, routing_key=RULES.agent, content_type="application/json", user_id=user
    )
    return replace(sound, **properties)


def decoded(delivery: Delivery, rules: AcceptanceRules = RULES) -> ReceivedMessage:
    return decode(delivery, rules, NOW)


def refusal(delivery: Delivery, rules: AcceptanceRules = RULES) -> str | None:
    """Return the kind by which a delivery is refused; none where it is taken in."""
    try:
        decode(delivery, rules, NOW)
    except MessageRejected as refused:
        return refused.kind
    return None
