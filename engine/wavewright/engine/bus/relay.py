"""The outbox is emptied into the broker.

A *relay* sends what lies in the outbox, in its order and many at once, and marks what the broker has confirmed. What
was not confirmed stays in the outbox and is sent again, the same bytes under the same id; so nothing is lost, and
whoever reads tells a repeat by its id. What is on its way stays leased however long that takes, so that no other
daemon sends it, too. What no queue was bound for is kept aside, and tried again on each new connection, once every
queue is known to be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

import anyio
from aio_pika.abc import AbstractConnection

from wavewright.engine.bus.errors import BusError, BusMisconfigured, MessageRefused, MessageReturned
from wavewright.engine.bus.full_queues import FullQueues
from wavewright.engine.bus.notices import Notice
from wavewright.engine.bus.outlet import Outlet
from wavewright.engine.bus.shipment import Parcel, Sending, is_too_large
from wavewright.engine.bus.trouble import Trouble
from wavewright.engine.bus.wire import message_of
from wavewright.executor.job_store.records import MessageId, Outgoing
from wavewright.executor.journal_errors import JournalError

BATCH: Final = 100
IDLE_SECONDS: Final = 0.5
"""How often the outbox is looked into when nobody says that there is something."""
PUBLISH_SECONDS: Final = 10.0
RENEW_SECONDS: Final = 1.5
"""How often the leases of what is on its way are renewed; a fraction of what one lasts."""
MOST_HELD: Final = 900
"""Messages for full queues that are looked past to find others."""
MARK_SECONDS: Final = 5.0
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 5.0


class Outbox(Protocol):
    """The part of the job store that the relay needs."""

    async def pending(self, most: int = 100) -> list[Outgoing]:
        """Return messages in their order, and lease them to this owner for a few seconds."""
        ...

    async def renew(self, messages: Sequence[MessageId]) -> None:
        """Lease these messages, which are this owner's, for a few seconds more."""
        ...

    async def mark_sent(self, messages: Sequence[MessageId]) -> None:
        """Note that the broker has confirmed these messages."""
        ...

    async def mark_refused(self, message: MessageId, reason: str) -> None:
        """Keep a message that cannot be delivered out of the way."""
        ...


class LastingOutbox(Outbox, Protocol):
    """An outbox that keeps what could not be delivered."""

    async def list_refused(self) -> list[Outgoing]:
        """Return the messages that could not be delivered, in their order."""
        ...

    async def release(self, messages: Sequence[MessageId]) -> None:
        """Have these go out again."""
        ...


class Relay:
    """Sends what lies in one outbox."""

    def __init__(self, outlet: Outlet, user: str, notice: Notice, trouble: Trouble) -> None:
        self._outlet = outlet
        self._user = user
        self._notice = notice
        self._trouble = trouble
        self.full_queues = FullQueues(notice)
        self._held = 0
        """Messages that wait for a full queue."""
        self._nudged = anyio.Event()
        self._on_its_way: list[MessageId] = []
        self._released_on: AbstractConnection | None = None
        """The connection on which what was refused was tried again last."""

    def nudge(self) -> None:
        """Say that something was put into the outbox, so that it goes out at once."""
        self._nudged.set()

    async def run(self, outbox: LastingOutbox) -> None:
        """Send whatever lies in the outbox, for as long as this is not cancelled."""
        async with anyio.create_task_group() as beside:
            beside.start_soon(self._renew, outbox)
            await self._send_on(outbox)

    async def _renew(self, outbox: Outbox) -> None:
        while True:
            await anyio.sleep(RENEW_SECONDS)
            # Whoever has no store to say so in loses the lease, and another daemon sends the same again.
            with suppress(JournalError):
                if self._on_its_way:
                    await outbox.renew(self._on_its_way)

    async def _send_on(self, outbox: LastingOutbox) -> None:
        pause = FIRST_PAUSE
        while True:
            await self._outlet.ready()
            found, sent = await self._send_some(outbox)
            if sent:
                pause = FIRST_PAUSE
            elif found:
                await anyio.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                await self._rest()

    async def _send_some(self, outbox: LastingOutbox) -> tuple[int, int]:
        try:
            connection = await self._outlet.open()
            if connection is not self._released_on:
                await self._release(outbox, is_first=self._released_on is None)
                self._released_on = connection
        except BusMisconfigured as error:
            self._trouble.meet("out", error)
            return 1, 0
        except BusError:
            # Whether the line is to be given up, too, shows when something is sent by it.
            pass
        except JournalError as error:
            self._notice("outbox_unreachable", {"error": error.message})
            return 1, 0
        return await self.send_batch(outbox)

    async def _release(self, outbox: LastingOutbox, *, is_first: bool) -> None:
        """Have what no queue was bound for go out again; at first what is too large for the broker is told of anew."""
        mendable = list[MessageId]()
        for outgoing in await outbox.list_refused():
            if not is_too_large(outgoing.refused or ""):
                mendable.append(outgoing.message)
            elif is_first:
                self._notice("message_returned", _fields(outgoing) | {"error": outgoing.refused})
        if mendable:
            await outbox.release(mendable)

    async def send_batch(self, outbox: Outbox) -> tuple[int, int]:
        """Send what waits and what its queue has room for, at most a batch of it.

        Returns:
            How many messages were found that can be sent now, and how many settled.
        """
        try:
            waiting = await outbox.pending(BATCH + self._held)
        except JournalError as error:
            self._notice("outbox_unreachable", {"error": error.message})
            return 1, 0
        due = [*self.full_queues.due(waiting)][:BATCH]
        # Those held back for a full queue leave room for as many others.
        self._held, waiting = min(len(waiting) - len(due), MOST_HELD), due
        settled = 0
        self._on_its_way = [outgoing.message for outgoing in waiting]
        sending = Sending([self._parcel(outgoing) for outgoing in waiting])
        try:
            await self._outlet.publish_all(sending, PUBLISH_SECONDS)
        finally:
            # Also when this is cancelled: what the broker has confirmed need not go out twice.
            with anyio.move_on_after(MARK_SECONDS, shield=True):
                settled = await self._mark(outbox, waiting, sending)
            self._on_its_way = []
        return len(waiting), settled

    def _parcel(self, outgoing: Outgoing) -> Parcel:
        return Parcel(message_of(outgoing, self._user), outgoing.exchange, outgoing.routing_key)

    async def _rest(self) -> None:
        with anyio.move_on_after(IDLE_SECONDS):
            await self._nudged.wait()
        self._nudged = anyio.Event()

    async def _mark(self, outbox: Outbox, waiting: Sequence[Outgoing], sending: Sending) -> int:
        """Note what the broker has said of the messages; return how many are settled."""
        sent, returned = list[MessageId](), list[tuple[Outgoing, str]]()
        if not any(isinstance(fate, BusMisconfigured) for fate in sending.fates.values()):
            self._trouble.leave("out")
        for number, fate in sending.fates.items():
            outgoing = waiting[number]
            match fate:
                case None:
                    self.full_queues.confirm(outgoing)
                    sent.append(outgoing.message)
                case MessageReturned():
                    returned.append((outgoing, fate.message))
                case MessageRefused():
                    # A full queue is emptied some day: the message stays in the outbox and is tried again.
                    self.full_queues.refuse(outgoing, fate.message)
                case BusMisconfigured():
                    self._trouble.meet("out", fate)
                case _:
                    # The line tells of its loss itself; a notice for each message would say the same a hundred times.
                    pass
        try:
            if sent:
                await outbox.mark_sent(sent)
            for outgoing, reason in returned:
                await outbox.mark_refused(outgoing.message, reason)
                self._notice("message_returned", _fields(outgoing) | {"error": reason})
        except JournalError as error:
            self._notice("outbox_unreachable", {"error": error.message})
        return len(sent) + len(returned)


def _fields(outgoing: Outgoing) -> dict[str, str]:
    return {"message_id": outgoing.message, "kind": outgoing.kind, "routing_key": outgoing.routing_key}
