"""What came in by the broker, before anybody has looked into it.

A *delivery* is one message with its properties as the broker hands it over: nothing in it is trusted but the routing
key, the user id and the count, which the broker itself vouches for. It is held until it is settled: acknowledged,
or given back to be delivered again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol


class Settlement(Protocol):
    """How the broker is told what became of a delivery."""

    async def ack(self) -> None:
        """Let the broker forget the message."""
        ...

    async def requeue(self) -> None:
        """Let the broker deliver the message again."""
        ...


class _NoSettlement:
    """For deliveries that hold nothing at a broker: nothing is there to be told."""

    async def ack(self) -> None:
        return

    async def requeue(self) -> None:
        return


NO_SETTLEMENT: Final[Settlement] = _NoSettlement()


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
    """The property `type`, a word of the sender's."""
    timestamp: float | None = None
    """When the sender says that it was sent: seconds since the epoch."""
    expiration: str | None = None
    reply_to: str | None = None
    app_id: str | None = None
    user_id: str | None = None
    """The broker's user who sent it; the broker refuses a message that names another one."""
    headers: Mapping[str, object] = field(default_factory=dict[str, object])
    delivery_count: int = 0
    """How often it was delivered before without being settled, as the broker counts; a sender cannot set it."""
    settlement: Settlement = field(default=NO_SETTLEMENT, repr=False, compare=False)

    async def ack(self) -> None:
        """Let the broker forget this message: call it at once after the commit that makes the message ours.

        Where the connection it came by is gone, the broker delivers it again, whatever is said here; that is no fault
        of the caller's, so nothing is raised.
        """
        await self.settlement.ack()

    async def requeue(self) -> None:
        """Give the message back; it is delivered again, and this counts as one of its deliveries."""
        await self.settlement.requeue()
