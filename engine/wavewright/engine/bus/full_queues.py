"""Queues that refuse messages because they are full: how they are tried again, and what is told of them.

A *full queue* is known by the way that leads to it, an exchange and a routing key. After a refusal nothing is sent
that way until its pause is over, then one message at a time, at growing intervals, until one is confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import anyio

from wavewright.engine.bus.notices import Notice
from wavewright.executor.job_store.records import Outgoing

Way: TypeAlias = tuple[str, str]
"""An exchange and a routing key."""

FIRST_PAUSE: Final = 0.5
"""Seconds before a full queue is tried again; twice as long after each further refusal."""
LONGEST_PAUSE: Final = 5.0
TOLD_SECONDS: Final = 60.0
"""How often it is told that a queue is still full."""
FORGOTTEN_SECONDS: Final = 30.0
"""A queue without a refusal for so long is full no more: another daemon has sent what was refused here."""


@dataclass(slots=True)
class _Full:
    pause: float
    due: float
    """When it is tried again."""
    refused: float
    """When it refused a message last."""
    told: float


class FullQueues:
    """The queues that are full at this moment; times are those of the event loop's clock."""

    def __init__(self, notice: Notice) -> None:
        self._notice = notice
        self._full = dict[Way, _Full]()

    @property
    def reason(self) -> str | None:
        """What is full; none where nothing is known to be."""
        self._forget()
        names = ", ".join(sorted(repr(key) for _, key in self._full))
        return f"the queue is full that takes messages for {names}" if names else None

    def due(self, waiting: Iterable[Outgoing]) -> Iterator[Outgoing]:
        """Yield the messages that are to be sent now, in their order: of those for a full queue at most one."""
        now, tried = anyio.current_time(), set[Way]()
        for outgoing in waiting:
            full = self._full.get(way := _way_of(outgoing))
            if full is None:
                yield outgoing
            elif now >= full.due and way not in tried:
                tried.add(way)
                yield outgoing

    def refuse(self, outgoing: Outgoing, error: str) -> None:
        """Note that a message was refused; told at once, and then once a minute while it lasts."""
        now, way = anyio.current_time(), _way_of(outgoing)
        full = self._full.get(way)
        if full is None:
            full = self._full[way] = _Full(FIRST_PAUSE, now + FIRST_PAUSE, now, now - TOLD_SECONDS)
        elif now >= full.due:
            full.pause = min(2 * full.pause, LONGEST_PAUSE)
            full.due = now + full.pause
        full.refused = now
        if now >= full.told + TOLD_SECONDS:
            full.told = now
            told = {
                "message_id": outgoing.message,
                "kind": outgoing.kind,
                "routing_key": outgoing.routing_key,
            }
            self._notice("message_refused", {**told, "error": error})

    def confirm(self, outgoing: Outgoing) -> None:
        """Note that the broker has confirmed a message, so that its queue has room."""
        if self._full.pop(_way_of(outgoing), None) is not None:
            self._notice("queue_has_room", {"routing_key": outgoing.routing_key})

    def _forget(self) -> None:
        lapsed = anyio.current_time() - FORGOTTEN_SECONDS
        self._full = {way: full for way, full in self._full.items() if full.refused > lapsed}


def _way_of(outgoing: Outgoing) -> Way:
    return outgoing.exchange, outgoing.routing_key
