"""What the bus tells those who watch it: that a connection came or went, that a message was laid aside.

A *notice* is the name of an event with its fields, for a log and for metrics. Nothing in one is secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol, TypeAlias

from pydantic import JsonValue

BrokerEvent: TypeAlias = Literal[
    "broker_away",
    "broker_connected",
    "broker_lost",
    "broker_misconfigured",
    "broker_unencrypted",
    "message_buried",
    "message_returned",
    "message_refused",
    "outbox_unreachable",
    "queue_has_room",
    "rights_missing",
]


class BrokerEventHandler(Protocol):
    """Takes a notice, and does not wait."""

    def __call__(self, name: BrokerEvent, fields: Mapping[str, JsonValue], /) -> None:
        """Take one."""
        ...


def ignore_event(name: BrokerEvent, fields: Mapping[str, JsonValue], /) -> None:
    """Tell nobody."""
    del name, fields
