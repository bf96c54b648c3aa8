"""What the bus tells those who watch it: that a connection came or went, that a message was laid aside.

A *notice* is the name of an event with its fields, for a log and for metrics. Nothing in one is secret.

What only a person can mend at the broker, kept in sight for as long as it lasts.

A *trouble* is met on one of two ways, in or out, each time that something is tried there; it is told at once and then
once a minute, and whoever asks how things are is told what it is until the way is free again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, Protocol, TypeAlias

import anyio
from pydantic import JsonValue

from wavewright.engine.bus.errors import BusMisconfigured, RightsMissing

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


Direction: TypeAlias = Literal["in", "out"]

REPORT_SECONDS: Final = 60.0
"""How often the same is told."""


class BrokerHealth:
    """What stands in the way, by the way."""

    def __init__(self, notice: BrokerEventHandler) -> None:
        self._on_event = notice
        self._faults = dict[Direction, str]()
        self._report_due = dict[tuple[Direction, str], float]()
        """When it may be told again; also of what is over, for it may come and go."""

    @property
    def reason(self) -> str | None:
        """What stands in the way at this moment; none where nothing does."""
        return next(iter(self._faults.values()), None)

    def report_fault(self, way: Direction, error: BusMisconfigured) -> None:
        """Note what was met on a way."""
        self._faults[way] = error.message
        now = anyio.current_time()
        if now < self._report_due.get((way, error.message), now):
            return
        self._report_due = {met: due for met, due in self._report_due.items() if due > now}
        self._report_due[way, error.message] = now + REPORT_SECONDS
        name: BrokerEvent = "rights_missing" if isinstance(error, RightsMissing) else "broker_misconfigured"
        self._on_event(name, {"error": error.message, "mend": error.hint})

    def clear_fault(self, way: Direction) -> None:
        """Note that a way is free."""
        self._faults.pop(way, None)
