"""What only a person can mend at the broker, kept in sight for as long as it lasts.

A *trouble* is met on one of two ways, in or out, each time that something is tried there; it is told at once and then
once a minute, and whoever asks how things are is told what it is until the way is free again.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import anyio

from wavewright.engine.bus.errors import BusMisconfigured, RightsMissing
from wavewright.engine.bus.notices import Notice, NoticeName

Way: TypeAlias = Literal["in", "out"]

TOLD_SECONDS: Final = 60.0
"""How often the same is told."""


class Trouble:
    """What stands in the way, by the way."""

    def __init__(self, notice: Notice) -> None:
        self._notice = notice
        self._now = dict[Way, str]()
        self._due = dict[tuple[Way, str], float]()
        """When it may be told again; also of what is over, for it may come and go."""

    @property
    def reason(self) -> str | None:
        """What stands in the way at this moment; none where nothing does."""
        return next(iter(self._now.values()), None)

    def meet(self, way: Way, error: BusMisconfigured) -> None:
        """Note what was met on a way."""
        self._now[way] = error.message
        now = anyio.current_time()
        if now < self._due.get((way, error.message), now):
            return
        self._due = {met: due for met, due in self._due.items() if due > now}
        self._due[way, error.message] = now + TOLD_SECONDS
        name: NoticeName = "rights_missing" if isinstance(error, RightsMissing) else "broker_misconfigured"
        self._notice(name, {"error": error.message, "mend": error.mend})

    def leave(self, way: Way) -> None:
        """Note that a way is free."""
        self._now.pop(way, None)
