"""Errors, events and health of the bus.

An error has its place and, where there is one, the fix; none holds a password. An event has a name and fields, for log
and metrics, and holds no secret. `BrokerHealth` holds the faults that a person must fix at the broker, for consuming
and for publishing; a fault is reported at once and then once a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias

import anyio
from pydantic import JsonValue

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError


class BusError(WavewrightError):
    """An operation of the bus failed; `place` is the broker's address, or a queue or an exchange there."""

    exit_code = exit_codes.ENVIRONMENT
    __str__ = WavewrightError.describe


class BusMisconfigured(BusError):
    """Settings or broker must be changed first; trying again is no use."""

    exit_code = exit_codes.MISUSE


class RightsMissing(BusMisconfigured):
    """The broker's user lacks a right."""


class BusDown(BusError):
    """The broker cannot be reached, or the connection was lost before it answered; a message may have arrived."""


class MessageReturned(BusError):
    """The message cannot be delivered: no queue is bound, or it is too large for the broker."""


class MessageNacked(BusError):
    """The broker refused the message because its queue is full."""


BrokerEvent: TypeAlias = Literal[
    "broker_away",
    "broker_connected",
    "broker_lost",
    "broker_misconfigured",
    "broker_unencrypted",
    "message_dead_lettered",
    "message_returned",
    "message_refused",
    "outbox_unreachable",
    "queue_has_room",
    "rights_missing",
]

BrokerEventHandler: TypeAlias = Callable[[BrokerEvent, Mapping[str, JsonValue]], None]
"""Called with the name and the fields of an event."""


def ignore_event(name: BrokerEvent, fields: Mapping[str, JsonValue], /) -> None:
    """Do nothing."""
    del name, fields


Direction: TypeAlias = Literal["in", "out"]

REPORT_SECONDS: Final = 60.0
"""How often the same fault is reported."""


class BrokerHealth:
    """Current faults by direction."""

    def __init__(self, on_event: BrokerEventHandler) -> None:
        self._on_event = on_event
        self._faults = dict[Direction, str]()
        self._report_due = dict[tuple[Direction, str], float]()
        """When a fault may be reported again; kept after it is over, since it may come back."""

    @property
    def reason(self) -> str | None:
        """One of the current faults; None without any."""
        return next(iter(self._faults.values()), None)

    def report_fault(self, direction: Direction, error: BusMisconfigured) -> None:
        """Store a fault, and report it where that is due."""
        self._faults[direction] = error.message
        now = anyio.current_time()
        if now < self._report_due.get((direction, error.message), now):
            return
        self._report_due = {fault: due for fault, due in self._report_due.items() if due > now}
        self._report_due[direction, error.message] = now + REPORT_SECONDS
        name: BrokerEvent = "rights_missing" if isinstance(error, RightsMissing) else "broker_misconfigured"
        self._on_event(name, {"error": error.message, "hint": error.hint})

    def clear_fault(self, direction: Direction) -> None:
        """Remove the fault of a direction that works."""
        self._faults.pop(direction, None)
