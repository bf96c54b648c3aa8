"""The relay: publishes the messages of the outbox.

It publishes in the order of the outbox, in batches, and marks the messages that the broker has
confirmed. Others stay in the outbox and are published again with the same bytes and id, so no
message is lost and readers can discard repeats. The leases of messages in flight are renewed, so
that no other daemon publishes them too. Messages that were returned because no queue was bound are
tried again on each new connection, once the topology is declared.

A full queue is identified by its route, an exchange and a routing key. After a refusal nothing is
published on that route until a pause is over, then one message at a time at growing intervals,
until one is confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, TypeAlias

import anyio
from aio_pika.abc import AbstractConnection

from wavewright.engine.service.bus.faults import (
    REPORT_SECONDS,
    BrokerEventHandler,
    BrokerHealth,
    BusError,
    BusMisconfigured,
    MessageNacked,
    MessageReturned,
)
from wavewright.engine.service.bus.message_conversion import message_of
from wavewright.engine.service.bus.publisher import (
    PublishBatch,
    Publisher,
    RoutedMessage,
    is_too_large,
)
from wavewright.engine.service.job_store.records import MessageId, OutgoingMessage
from wavewright.engine.service.job_store.store import JobStore
from wavewright.executor import JournalError

Route: TypeAlias = tuple[str, str]
"""An exchange and a routing key."""

FIRST_FULL_QUEUE_PAUSE: Final = 0.5
"""Seconds before a full queue is tried again; twice as long after each further refusal."""
MAX_FULL_QUEUE_PAUSE: Final = 5.0
EXPIRY_SECONDS: Final = 30.0
"""After so long without a refusal a queue counts as not full: another daemon may have published
what was refused.
"""


@dataclass(slots=True)
class _FullQueue:
    pause: float
    due: float
    """When the next message is tried."""
    refused: float
    """When it last refused a message."""
    reported: float


class FullQueues:
    """The queues that are full now; times are those of the event loop's clock."""

    def __init__(self, on_event: BrokerEventHandler) -> None:
        self._on_event = on_event
        self._full = dict[Route, _FullQueue]()

    @property
    def reason(self) -> str | None:
        """Which queues are full; None where none is known to be."""
        self._expire()
        names = ", ".join(sorted(repr(key) for _, key in self._full))
        return f"the queue of these routing keys is full: {names}" if names else None

    def due(self, waiting: Iterable[OutgoingMessage]) -> Iterator[OutgoingMessage]:
        """Yield the messages to publish now, in their order: of those for a full queue at most one."""
        now, tried = anyio.current_time(), set[Route]()
        for outgoing in waiting:
            full = self._full.get(route := _route_of(outgoing))
            if full is None:
                yield outgoing
            elif now >= full.due and route not in tried:
                tried.add(route)
                yield outgoing

    def note_refused(self, outgoing: OutgoingMessage, error: str) -> None:
        """Note that a message was refused; report it at once, and then once a minute."""
        now, route = anyio.current_time(), _route_of(outgoing)
        full = self._full.get(route)
        if full is None:
            full = self._full[route] = _FullQueue(
                FIRST_FULL_QUEUE_PAUSE, now + FIRST_FULL_QUEUE_PAUSE, now, now - REPORT_SECONDS
            )
        elif now >= full.due:
            full.pause = min(2 * full.pause, MAX_FULL_QUEUE_PAUSE)
            full.due = now + full.pause
        full.refused = now
        if now >= full.reported + REPORT_SECONDS:
            full.reported = now
            self._on_event("message_refused", _fields(outgoing) | {"error": error})

    def note_confirmed(self, outgoing: OutgoingMessage) -> None:
        """Note that the broker has confirmed a message, so its queue is not full."""
        if self._full.pop(_route_of(outgoing), None) is not None:
            self._on_event("queue_has_room", {"routing_key": outgoing.routing_key})

    def _expire(self) -> None:
        before = anyio.current_time() - EXPIRY_SECONDS
        self._full = {route: full for route, full in self._full.items() if full.refused > before}


def _route_of(outgoing: OutgoingMessage) -> Route:
    return outgoing.exchange, outgoing.routing_key


BATCH_SIZE: Final = 100
POLL_SECONDS: Final = 0.5
"""How often the outbox is read where `wake` is not called."""
PUBLISH_SECONDS: Final = 10.0
RENEW_SECONDS: Final = 1.5
"""How often the leases of messages in flight are renewed; a fraction of a lease's duration."""
MAX_HELD: Final = 900
"""Messages for full queues that are skipped to find others."""
MARK_SECONDS: Final = 5.0
FIRST_RETRY_PAUSE: Final = 0.1
MAX_RETRY_PAUSE: Final = 5.0


class Relay:
    """Publishes the messages of one outbox."""

    def __init__(
        self,
        publisher: Publisher,
        user: str,
        on_event: BrokerEventHandler,
        health: BrokerHealth,
        on_sent: Callable[[OutgoingMessage], None] = lambda _: None,
    ) -> None:
        """Publish with `publisher`; `on_sent` is called for each message that is confirmed and
        marked as sent.
        """
        self._publisher = publisher
        self._user = user
        self._on_event = on_event
        self._health = health
        self._on_sent = on_sent
        self.full_queues = FullQueues(on_event)
        self._held = 0
        """Messages that wait for a full queue."""
        self._woken = anyio.Event()
        self._in_flight: list[MessageId] = []
        self._released_on: AbstractConnection | None = None
        """The connection on which what was refused was tried again last."""

    def wake(self) -> None:
        """Publish new messages of the outbox at once, and not at the next poll."""
        self._woken.set()

    async def flush(self, outbox: JobStore) -> None:
        """Publish the messages of the outbox until it is empty, or nothing of a batch can be
        published.
        """
        while True:
            pending, settled = await self.send_batch(outbox)
            if not pending or not settled:
                return

    async def run(self, outbox: JobStore) -> None:
        """Publish the messages of the outbox until this is cancelled."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._renew_leases, outbox)
            await self._send_loop(outbox)

    async def _renew_leases(self, outbox: JobStore) -> None:
        while True:
            await anyio.sleep(RENEW_SECONDS)
            # Without the store the lease ends, and another daemon publishes the same messages.
            with suppress(JournalError):
                if self._in_flight:
                    await outbox.renew(self._in_flight)

    async def _send_loop(self, outbox: JobStore) -> None:
        pause = FIRST_RETRY_PAUSE
        while True:
            await self._publisher.wait_connected()
            pending, sent = await self._send_next(outbox)
            if sent:
                pause = FIRST_RETRY_PAUSE
            elif pending:
                await anyio.sleep(pause)
                pause = min(pause * 2, MAX_RETRY_PAUSE)
            else:
                await self._wait_for_work()

    async def _send_next(self, outbox: JobStore) -> tuple[int, int]:
        try:
            connection = await self._publisher.ensure_topology()
            if connection is not self._released_on:
                await self._release_refused(outbox, is_first=self._released_on is None)
                self._released_on = connection
        except BusMisconfigured as error:
            self._health.report_fault("out", error)
            return 1, 0
        except BusError:
            # Whether the connection must be replaced shows when a batch is published on it.
            pass
        except JournalError as error:
            self._on_event("outbox_unreachable", {"error": error.message})
            return 1, 0
        return await self.send_batch(outbox)

    async def _release_refused(self, outbox: JobStore, *, is_first: bool) -> None:
        """Release messages that no queue was bound for; on the first connection report those that
        are too large.
        """
        released = list[MessageId]()
        for outgoing in await outbox.list_refused():
            if not is_too_large(outgoing.refused or ""):
                released.append(outgoing.message)
            elif is_first:
                self._on_event("message_returned", _fields(outgoing) | {"error": outgoing.refused})
        if released:
            await outbox.release(released)

    async def send_batch(self, outbox: JobStore) -> tuple[int, int]:
        """Publish at most one batch of messages whose queues are not known to be full.

        Returns:
            How many messages were found to publish now, and how many of them were marked as sent or
            refused.
        """
        try:
            waiting = await outbox.pending(BATCH_SIZE + self._held)
        except JournalError as error:
            self._on_event("outbox_unreachable", {"error": error.message})
            return 1, 0
        due = [*self.full_queues.due(waiting)][:BATCH_SIZE]
        # Read as many more messages as are held back for full queues.
        self._held, waiting = min(len(waiting) - len(due), MAX_HELD), due
        settled = 0
        self._in_flight = [outgoing.message for outgoing in waiting]
        sending = PublishBatch(
            [
                RoutedMessage(
                    message_of(message, self._user), message.exchange, message.routing_key
                )
                for message in waiting
            ]
        )
        try:
            await self._publisher.publish_all(sending, PUBLISH_SECONDS)
        finally:
            # Also where this is cancelled: messages that the broker has confirmed are not published
            # twice.
            with anyio.move_on_after(MARK_SECONDS, shield=True):
                settled = await self._mark_results(outbox, waiting, sending)
            self._in_flight = []
        return len(waiting), settled

    async def _wait_for_work(self) -> None:
        with anyio.move_on_after(POLL_SECONDS):
            await self._woken.wait()
        self._woken = anyio.Event()

    async def _mark_results(
        self, outbox: JobStore, waiting: Sequence[OutgoingMessage], sending: PublishBatch
    ) -> int:
        """Mark the messages as the broker has answered; return how many were marked."""
        sent, returned = list[OutgoingMessage](), list[tuple[OutgoingMessage, str]]()
        if not any(isinstance(result, BusMisconfigured) for result in sending.results.values()):
            self._health.clear_fault("out")
        for number, result in sending.results.items():
            outgoing = waiting[number]
            match result:
                case None:
                    self.full_queues.note_confirmed(outgoing)
                    sent.append(outgoing)
                case MessageReturned():
                    returned.append((outgoing, result.message))
                case MessageNacked():
                    # The message stays in the outbox and is tried again.
                    self.full_queues.note_refused(outgoing, result.message)
                case BusMisconfigured():
                    self._health.report_fault("out", result)
                case _:
                    # `BrokerConnection` reports its loss, once and not for each message.
                    pass
        try:
            if sent:
                await outbox.mark_sent([outgoing.message for outgoing in sent])
            for outgoing in sent:
                self._on_sent(outgoing)
            for outgoing, reason in returned:
                await outbox.mark_refused(outgoing.message, reason)
                self._on_event("message_returned", _fields(outgoing) | {"error": reason})
        except JournalError as error:
            self._on_event("outbox_unreachable", {"error": error.message})
        return len(sent) + len(returned)


def _fields(outgoing: OutgoingMessage) -> dict[str, str]:
    return {
        "message_id": outgoing.message,
        "kind": outgoing.kind,
        "routing_key": outgoing.routing_key,
    }
