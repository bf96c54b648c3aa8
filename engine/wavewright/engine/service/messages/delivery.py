"""Deliveries, and the rules by which their messages are accepted: signatures, senders, limits.

Of a message as the broker delivered it only the routing key, the user id and the delivery count are
trusted: the broker guarantees them. A delivery is settled by acknowledging or requeuing it.

A signature is the HMAC-SHA-256 of body, message id, timestamp and routing key, concatenated, in
hexadecimal digits. Without the key a message can be neither made nor moved to another queue. Id and
timestamp are those of the envelope as written; the body holds them too, so no two messages sign the
same bytes.

An identity is a sender with its broker user and the message types that it may send. Only the
broker's user or a signature authenticates a sender; the name in the envelope does not.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Protocol, TypeAlias

from wavewright.config.sections import DaemonSection
from wavewright.engine.service.messages.models import GOAL_FORM
from wavewright.tools import MessageContract, RequestForm


class Settlement(Protocol):
    """Settles a delivery at the broker."""

    async def ack(self) -> None:
        """Acknowledge the message."""
        ...

    async def requeue(self) -> None:
        """Have the message delivered again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """One message, as the broker delivered it."""

    body: bytes
    routing_key: str
    exchange: str = ""
    message_id: str | None = None
    correlation_id: str | None = None
    content_type: str | None = None
    content_encoding: str | None = None
    kind: str | None = None
    """The property `type`, set by the sender."""
    timestamp: float | None = None
    """Set by the sender: seconds since the epoch."""
    priority: int | None = None
    """Set by the sender; 0 as well where it was not."""
    expiration: str | None = None
    reply_to: str | None = None
    app_id: str | None = None
    user_id: str | None = None
    """The broker's user who sent it; the broker refuses another name."""
    headers: Mapping[str, object] = field(default_factory=dict[str, object])
    delivery_count: int = 0
    """Earlier deliveries without settlement, as the broker counts; a sender cannot set it."""
    settlement: Settlement | None = field(default=None, repr=False, compare=False)

    async def ack(self) -> None:
        """Acknowledge the message; call it right after the commit of its effect.

        Where its connection is gone the broker delivers it again; nothing is raised.
        """
        if self.settlement is not None:
            await self.settlement.ack()

    async def requeue(self) -> None:
        """Have the message delivered again; this counts as one of its deliveries."""
        if self.settlement is not None:
            await self.settlement.requeue()


SIGNATURE_HEADER: Final = "x-wavewright-signature"

DocumentRule: TypeAlias = Literal["any", "with target", "none"]
"""Which job documents a daemon takes: `with target` where its packages are about one target each.
"""

_DIGITS: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def sign(key: bytes, *, body: bytes, message_id: str, timestamp: str, routing_key: str) -> str:
    """Return the signature of a message."""
    digest = hmac.new(key, body, hashlib.sha256)
    for part in (message_id, timestamp, routing_key):
        digest.update(part.encode())
    return digest.hexdigest()


def looks_like_signature(value: object) -> bool:
    """Return whether a header has the form of a signature."""
    return isinstance(value, str) and _DIGITS.fullmatch(value) is not None


def verify_signature(
    signature: str, key: bytes, *, body: bytes, message_id: str, timestamp: str, routing_key: str
) -> bool:
    """Return whether a signature is that of the message, compared in constant time."""
    right = sign(
        key, body=body, message_id=message_id, timestamp=timestamp, routing_key=routing_key
    )
    return hmac.compare_digest(signature.encode(), right.encode())


@dataclass(frozen=True, slots=True)
class SenderIdentity:
    """One sender."""

    user_id: str | None
    """Required user of the broker; any where absent."""
    may_send: frozenset[str]
    """Message types."""


@dataclass(frozen=True, slots=True)
class AcceptanceRules:
    """What a message must fulfil to be accepted."""

    agent: str
    """Required recipient."""
    max_body: int = 2**20
    """Bytes."""
    max_depth: int = 32
    """How deep lists and objects may be nested."""
    max_age: float = 604_800.0
    """Seconds."""
    skew: float = 300.0
    """Seconds by which its timestamp may lie in the future."""
    identities: Mapping[str, SenderIdentity] = field(default_factory=dict[str, SenderIdentity])
    """Senders by name; without any, everybody may send everything."""
    key: bytes | None = field(default=None, repr=False)
    """Key of signatures; without one no signature is required."""
    forms: Mapping[str, RequestForm] = field(
        default_factory=lambda: request_forms(MessageContract())
    )
    """Request forms by message type."""
    takes_goals: bool = True
    """Whether requests may hold a goal; the settings must name a goal template."""
    documents: DocumentRule = "any"
    priority: int = 0
    """Of jobs whose message names none, from 0 to 9."""
    target_field: str = "target"
    """The contract's name of the field `target`."""

    @property
    def message_types(self) -> tuple[str, ...]:
        """Types of messages that are read."""
        return message_types(self.forms)

    def authenticates(self, source: str) -> bool:
        """Return whether a message that was let in is known to be its sender's: by its signature or
        its user.
        """
        identity = self.identities.get(source)
        return self.key is not None or (identity is not None and identity.user_id is not None)


def document_rule(contract: MessageContract) -> DocumentRule:
    """Return which job documents a daemon with a contract takes."""
    if not contract.takes_documents:
        return "none"
    return "with target" if contract.packages else "any"


def request_forms(contract: MessageContract) -> Mapping[str, RequestForm]:
    """Return the request forms of a contract by message type, with the neutral short form of
    `job_request`.
    """
    return {form.payload.message_type: form for form in (GOAL_FORM, *contract.requests)}


def message_types(forms: Mapping[str, RequestForm]) -> tuple[str, ...]:
    """Return the types of messages that a daemon with these request forms reads."""
    return (*forms, "validation_result", "user_decision_response")


def acceptance_rules(
    section: DaemonSection, hmac_key: str | None, contract: MessageContract
) -> AcceptanceRules:
    """Return the rules that the settings and the contract define."""
    identities = {
        name: SenderIdentity(settings.user_id, frozenset(settings.may_send))
        for name, settings in section.identities.items()
    }
    return AcceptanceRules(
        agent=section.agent,
        max_body=section.max_body,
        max_depth=section.max_depth,
        max_age=section.max_age,
        skew=section.skew,
        identities=identities,
        key=None if hmac_key is None else hmac_key.encode(),
        forms=request_forms(contract),
        takes_goals=section.goal_template is not None,
        documents=document_rule(contract),
        priority=section.priority,
        target_field=contract.fields.get("target", "target"),
    )
