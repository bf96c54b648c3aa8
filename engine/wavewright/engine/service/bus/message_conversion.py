"""Conversion between the broker's messages and deliveries, outgoing messages and dead letters.

The payload is not read. A delivery count is used only where the broker itself set it. A dead letter
has the bytes and properties of its delivery, without the headers that route copies elsewhere.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final, cast

from aio_pika import Message
from aio_pika.abc import AbstractIncomingMessage, DeliveryMode
from pamqp.common import FieldValue
from pamqp.encode import encode_table_value

from wavewright.engine.service.bus.faults import CHANNEL_ERRORS, translate_errors
from wavewright.engine.service.bus.topology import (
    KIND_HEADER,
    QUEUE_HEADER,
    REASON_HEADER,
    SENDER_HEADER,
)
from wavewright.engine.service.job_store.records import OutgoingMessage
from wavewright.engine.service.messages.delivery import Delivery

COUNT_HEADER: Final = "x-delivery-count"
APP_ID: Final = "wavewright"

_ROUTING_HEADERS: Final = frozenset({"cc", "bcc"})
"""With these a sender makes the broker route copies elsewhere; a dead letter must not do that as
this user.
"""
_MAX_REASON_LENGTH: Final = 500
_MAX_DEPTH: Final = 8
_HEADER_BYTES: Final = 32 * 1024
"""All properties of a message are one frame; the broker closes the connection where it is too
large.
"""


@dataclass(frozen=True, slots=True)
class BrokerSettlement:
    """Settles one message on the channel that it came by."""

    message: AbstractIncomingMessage
    on_settled: Callable[[], Awaitable[None]] | None = None
    """Called afterwards."""

    async def ack(self) -> None:
        await self._settle(self.message.ack())

    async def requeue(self) -> None:
        await self._settle(self.message.nack(requeue=True))

    async def _settle(self, call: Awaitable[None]) -> None:
        # Where the channel is gone the broker delivers the message again.
        with suppress(*CHANNEL_ERRORS):
            await translate_errors(call)
        if self.on_settled is not None:
            await self.on_settled()


def delivery_of(
    message: AbstractIncomingMessage, on_settled: Callable[[], Awaitable[None]] | None = None
) -> Delivery:
    """Return the delivery of a broker's message."""
    headers = cast("Mapping[str, object]", message.headers)
    return Delivery(
        body=message.body,
        routing_key=message.routing_key or "",
        exchange=message.exchange or "",
        message_id=message.message_id,
        correlation_id=message.correlation_id,
        content_type=message.content_type,
        content_encoding=message.content_encoding,
        kind=message.type,
        timestamp=message.timestamp.timestamp() if message.timestamp else None,
        priority=message.priority,
        expiration=None if message.expiration is None else str(message.expiration),
        reply_to=message.reply_to,
        app_id=message.app_id,
        user_id=message.user_id,
        headers=headers,
        delivery_count=_delivery_count(headers) if message.redelivered else 0,
        settlement=BrokerSettlement(message, on_settled),
    )


def _delivery_count(headers: Mapping[str, object]) -> int:
    """Return the broker's delivery count; for redelivered messages only, since on others a sender
    may have set it.
    """
    count = headers.get(COUNT_HEADER)
    return count if isinstance(count, int) and not isinstance(count, bool) else 0


def message_of(outgoing: OutgoingMessage, user: str) -> Message:
    """Return the broker's message for an outgoing one; equal messages have equal bytes and ids."""
    return Message(
        outgoing.body,
        headers=cast("dict[str, FieldValue]", dict(outgoing.headers)),
        content_type="application/json",
        content_encoding="utf-8",
        delivery_mode=DeliveryMode.PERSISTENT,
        message_id=outgoing.message,
        timestamp=datetime.fromtimestamp(int(outgoing.at), tz=UTC),
        type=outgoing.kind,
        app_id=APP_ID,
        # The broker refuses a message that names another user than the connection's, so readers can
        # trust it.
        user_id=user,
    )


def dead_letter_of(delivery: Delivery, kind: str, reason: str, queue: str, user: str) -> Message:
    """Return the dead letter of a delivery: its bytes and properties, and the reason in headers."""
    headers = _safe_headers(delivery.headers) | {
        KIND_HEADER: kind,
        REASON_HEADER: f"{kind}: {reason}"[:_MAX_REASON_LENGTH],
        QUEUE_HEADER: queue,
        SENDER_HEADER: delivery.user_id,
    }
    return Message(
        delivery.body,
        headers=headers,
        content_type=delivery.content_type,
        content_encoding=delivery.content_encoding,
        delivery_mode=DeliveryMode.PERSISTENT,
        correlation_id=delivery.correlation_id,
        reply_to=delivery.reply_to,
        message_id=delivery.message_id,
        timestamp=_date(delivery.timestamp),
        type=delivery.kind,
        app_id=delivery.app_id,
        user_id=user,
    )


def rejection_of(delivery: Delivery, kind: str, reason: str, user: str) -> Message:
    """Return the reply to a sender: why its message was dead-lettered.

    It repeats nothing of the message but its ids.
    """
    about = {"message_id": delivery.message_id, "kind": kind, "reason": reason}
    return Message(
        json.dumps(about).encode(),
        content_type="application/json",
        content_encoding="utf-8",
        correlation_id=delivery.correlation_id or delivery.message_id,
        type="message_rejected",
        app_id=APP_ID,
        user_id=user,
    )


def _date(seconds: float | None) -> datetime | None:
    return None if seconds is None else datetime.fromtimestamp(max(0, int(seconds)), tz=UTC)


def _safe_headers(headers: Mapping[str, object]) -> dict[str, FieldValue]:
    """Return the headers that can be sent again and route nothing, up to `_HEADER_BYTES`."""
    kept = dict[str, FieldValue]()
    free = _HEADER_BYTES
    for name, value in headers.items():
        if name.lower() in _ROUTING_HEADERS:
            continue
        field = _sendable_value(value)
        size = len(name.encode()) + len(encode_table_value(field))
        if size <= free:
            kept[name] = field
            free -= size
    return kept


def _sendable_value(value: object) -> FieldValue:
    """Return a header's value, or its `repr` where it could be received and cannot be sent."""
    field = _field_value(value, _MAX_DEPTH)
    try:
        encode_table_value(field)
    except (TypeError, ValueError, OverflowError, struct.error):
        return repr(value)[:_MAX_REASON_LENGTH]
    return field


def _field_value(value: object, depth: int) -> FieldValue:
    match value:
        case bytes() | bytearray():
            return bytearray(value)
        case None | bool() | int() | float() | str() | datetime() | Decimal():
            return value
        case Mapping() if depth:
            table = cast("Mapping[str, object]", value)
            return {str(name): _field_value(inner, depth - 1) for name, inner in table.items()}
        case Sequence() if depth:
            return [_field_value(inner, depth - 1) for inner in cast("Sequence[object]", value)]
        case _:
            return repr(value)[:_MAX_REASON_LENGTH]
