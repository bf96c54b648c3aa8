"""A message as the broker delivered it, before it is decoded.

Only the routing key, the user id and the delivery count are trusted: the broker guarantees them. A delivery is settled
by acknowledging or requeuing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


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
