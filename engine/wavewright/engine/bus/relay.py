"""The outbox is emptied into the broker.

A *relay* sends what lies in the outbox, in its order and many at once, and marks what the broker has confirmed. What
was not confirmed stays in the outbox and is sent again, the same bytes under the same id; so nothing is lost, and
whoever reads tells a repeat by its id.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import anyio

from wavewright.engine.bus.errors import BusError, MessageRefused, MessageReturned
from wavewright.engine.bus.notices import Notice
from wavewright.engine.bus.outlet import Outlet
from wavewright.engine.bus.wire import message_of
from wavewright.executor.job_store.records import MessageId, Outgoing
from wavewright.executor.journal_errors import JournalError

BATCH: Final = 100
IDLE_SECONDS: Final = 0.5
"""How often the outbox is looked into when nobody says that there is something."""
PUBLISH_SECONDS: Final = 10.0
MARK_SECONDS: Final = 5.0
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0


class Outbox(Protocol):
    """The part of the job store that the relay needs."""

    async def pending(self, most: int = 100) -> list[Outgoing]:
        """Return messages in their order, and lease them to this owner for a few seconds."""
        ...

    async def mark_sent(self, messages: Sequence[MessageId]) -> None:
        """Note that the broker has confirmed these messages."""
        ...

    async def mark_refused(self, message: MessageId, reason: str) -> None:
        """Keep a message that cannot be delivered out of the way."""
        ...


class Relay:
    """Sends what lies in one outbox."""

    def __init__(self, outlet: Outlet, user: str, notice: Notice) -> None:
        self._outlet = outlet
        self._user = user
        self._notice = notice
        self._nudged = anyio.Event()

    def nudge(self) -> None:
        """Say that something was put into the outbox, so that it goes out at once."""
        self._nudged.set()

    async def run(self, outbox: Outbox) -> None:
        """Send whatever lies in the outbox, for as long as this is not cancelled."""
        pause = FIRST_PAUSE
        while True:
            await self._outlet.ready()
            found, sent = await self.send_batch(outbox)
            if sent:
                pause = FIRST_PAUSE
            elif found:
                await anyio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                await self._rest()

    async def send_batch(self, outbox: Outbox) -> tuple[int, int]:
        """Send what waits, at most a batch of it; return how many messages were found, and how many settled."""
        try:
            waiting = await outbox.pending(BATCH)
        except JournalError as error:
            self._notice("outbox_unreachable", {"error": error.message})
            return 1, 0
        batch = _Batch()
        try:
            async with anyio.create_task_group() as sending:
                for outgoing in waiting:
                    sending.start_soon(self._send, outgoing, batch)
        finally:
            # Also when this is cancelled: what the broker has confirmed need not go out twice.
            with anyio.move_on_after(MARK_SECONDS, shield=True):
                await self._mark(outbox, batch)
        return len(waiting), len(batch.sent) + len(batch.returned)

    async def _rest(self) -> None:
        with anyio.move_on_after(IDLE_SECONDS):
            await self._nudged.wait()
        self._nudged = anyio.Event()

    async def _send(self, outgoing: Outgoing, batch: _Batch) -> None:
        try:
            await self._outlet.publish(
                message_of(outgoing, self._user), outgoing.exchange, outgoing.routing_key, PUBLISH_SECONDS
            )
        except MessageReturned as error:
            batch.returned.append((outgoing, error.message))
        except MessageRefused as error:
            # A full queue is emptied some day: the message stays in the outbox and is tried again.
            self._notice("message_refused", _fields(outgoing) | {"error": error.message})
        except BusError:
            # The line tells of its loss itself; a notice for each message would say the same a hundred times.
            return
        else:
            batch.sent.append(outgoing.message)

    async def _mark(self, outbox: Outbox, batch: _Batch) -> None:
        try:
            if batch.sent:
                await outbox.mark_sent(batch.sent)
            for outgoing, reason in batch.returned:
                await outbox.mark_refused(outgoing.message, reason)
                self._notice("message_returned", _fields(outgoing) | {"error": reason})
        except JournalError as error:
            self._notice("outbox_unreachable", {"error": error.message})


class _Batch:
    """What became of the messages of one batch."""

    def __init__(self) -> None:
        self.sent: list[MessageId] = []
        self.returned: list[tuple[Outgoing, str]] = []


def _fields(outgoing: Outgoing) -> dict[str, str]:
    return {"message_id": outgoing.message, "kind": outgoing.kind, "routing_key": outgoing.routing_key}
