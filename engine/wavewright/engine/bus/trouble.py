"""What only a person can mend at the broker, kept in sight for as long as it lasts.

A *trouble* is met on one of two ways, in or out, each time that something is tried there; it is told at once and then
once a minute, and whoever asks how things are is told what it is until the way is free again.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import anyio

from wavewright.engine.bus.errors import BusMisconfigured, RightsMissing
from wavewright.engine.bus.notices import BrokerEvent, BrokerEventHandler

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
