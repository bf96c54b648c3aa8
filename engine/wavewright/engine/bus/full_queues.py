"""Queues that refuse messages because they are full: how they are tried again, and what is told of them.

A *full queue* is known by the way that leads to it, an exchange and a routing key. After a refusal nothing is sent
that way until its pause is over, then one message at a time, at growing intervals, until one is confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

import anyio

from wavewright.engine.bus.notices import BrokerEventHandler
from wavewright.executor.job_store.records import OutgoingMessage

Route: TypeAlias = tuple[str, str]
"""An exchange and a routing key."""

FIRST_FULL_QUEUE_PAUSE: Final = 0.5
"""Seconds before a full queue is tried again; twice as long after each further refusal."""
MAX_FULL_QUEUE_PAUSE: Final = 5.0
REPORT_SECONDS: Final = 60.0
"""How often it is told that a queue is still full."""
EXPIRY_SECONDS: Final = 30.0
"""A queue without a refusal for so long is full no more: another daemon has sent what was refused here."""


@dataclass(slots=True)
class _FullQueue:
    pause: float
    due: float
    """When it is tried again."""
    refused: float
    """When it refused a message last."""
    reported: float


class FullQueues:
    """The queues that are full at this moment; times are those of the event loop's clock."""

    def __init__(self, notice: BrokerEventHandler) -> None:
        self._on_event = notice
        self._full = dict[Route, _FullQueue]()

    @property
    def reason(self) -> str | None:
        """What is full; none where nothing is known to be."""
        self._expire()
        names = ", ".join(sorted(repr(key) for _, key in self._full))
        return f"the queue is full that takes messages for {names}" if names else None

    def due(self, waiting: Iterable[OutgoingMessage]) -> Iterator[OutgoingMessage]:
        """Yield the messages that are to be sent now, in their order: of those for a full queue at most one."""
        now, tried = anyio.current_time(), set[Route]()
        for outgoing in waiting:
            full = self._full.get(way := _route_of(outgoing))
            if full is None:
                yield outgoing
            elif now >= full.due and way not in tried:
                tried.add(way)
                yield outgoing

    def note_refused(self, outgoing: OutgoingMessage, error: str) -> None:
        """Note that a message was refused; told at once, and then once a minute while it lasts."""
        now, way = anyio.current_time(), _route_of(outgoing)
        full = self._full.get(way)
        if full is None:
            full = self._full[way] = _FullQueue(
                FIRST_FULL_QUEUE_PAUSE, now + FIRST_FULL_QUEUE_PAUSE, now, now - REPORT_SECONDS
            )
        elif now >= full.due:
            full.pause = min(2 * full.pause, MAX_FULL_QUEUE_PAUSE)
            full.due = now + full.pause
        full.refused = now
        if now >= full.reported + REPORT_SECONDS:
            full.reported = now
            told = {
                "message_id": outgoing.message,
                "kind": outgoing.kind,
                "routing_key": outgoing.routing_key,
            }
            self._on_event("message_refused", {**told, "error": error})

    def note_confirmed(self, outgoing: OutgoingMessage) -> None:
        """Note that the broker has confirmed a message, so that its queue has room."""
        if self._full.pop(_route_of(outgoing), None) is not None:
            self._on_event("queue_has_room", {"routing_key": outgoing.routing_key})

    def _expire(self) -> None:
        lapsed = anyio.current_time() - EXPIRY_SECONDS
        self._full = {way: full for way, full in self._full.items() if full.refused > lapsed}


def _route_of(outgoing: OutgoingMessage) -> Route:
    return outgoing.exchange, outgoing.routing_key
