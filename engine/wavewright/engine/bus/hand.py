"""Taking one message from a queue, and no more.

A *hand* is a channel that holds at most the message it was sent for. It first looks whether one waits, and only
else becomes a consumer, until one comes; it stops to be one before the message is given on. So the broker never
counts a delivery that nobody has looked at.
"""

from __future__ import annotations

from typing import Final

import anyio
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aiormq.abc import AbstractChannel as WireChannel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from wavewright.engine.bus.errors import BusDown, BusError
from wavewright.engine.bus.guard import guarded

SETTLE_SECONDS: Final = 3.0
"""How long the broker has to say that it stopped delivering; then the channel is closed, which says it for sure."""


class Hand:
    """One channel to one queue; it takes a message at a time, and is thrown away when its channel ends."""

    def __init__(self, channel: AbstractChannel, wire: WireChannel, queue: AbstractQueue, place: str) -> None:
        self._channel = channel
        self._wire = wire
        self._queue = queue
        self._place = place

    @property
    def is_alive(self) -> bool:
        """Whether the channel can still be used."""
        return not self._channel.is_closed

    async def take(self) -> AbstractIncomingMessage:
        """Return the next message, waiting for it.

        Raises:
            BusDown: the channel ended, and what was on its way goes back to the queue.
        """
        waiting = await guarded(self._queue.get(fail=False, timeout=None), place=self._place)
        return waiting or await self._await_one()

    async def close(self) -> None:
        """Close the channel; the broker takes back what was not settled."""
        with anyio.move_on_after(SETTLE_SECONDS, shield=True):
            try:
                await guarded(self._channel.close(), place=self._place)
            except BusError:
                return

    async def _await_one(self) -> AbstractIncomingMessage:
        send, arrived = anyio.create_memory_object_stream[AbstractIncomingMessage](1)

        async def arrive(message: AbstractIncomingMessage) -> None:
            send.send_nowait(message)

        def stop(*_: object) -> None:
            send.close()

        self._channel.close_callbacks.add(stop)
        self._wire.on_consumer_cancel_callbacks.add(stop)
        try:
            with send, arrived:
                await guarded(self._channel.set_qos(prefetch_count=1), place=self._place)
                tag = await guarded(self._queue.consume(arrive), place=self._place)
                return await self._receive(tag, send, arrived)
        finally:
            self._channel.close_callbacks.discard(stop)
            self._wire.on_consumer_cancel_callbacks.discard(stop)

    async def _receive(
        self,
        tag: str,
        send: MemoryObjectSendStream[AbstractIncomingMessage],
        arrived: MemoryObjectReceiveStream[AbstractIncomingMessage],
    ) -> AbstractIncomingMessage:
        try:
            message = await arrived.receive()
        except anyio.EndOfStream:
            raise BusDown("the broker stopped to deliver from the queue", place=self._place) from None
        except anyio.get_cancelled_exc_class():
            await self._stop(tag)
            await self._give_back(send, arrived)
            raise
        await self._stop(tag)
        return message

    async def _stop(self, tag: str) -> None:
        """Consume no more; where the broker does not confirm that in time, the channel goes with it."""
        with anyio.move_on_after(SETTLE_SECONDS, shield=True) as patience:
            try:
                await guarded(self._queue.cancel(tag), place=self._place)
            except BusError:
                return
        if patience.cancelled_caught:
            await self.close()

    async def _give_back(
        self,
        send: MemoryObjectSendStream[AbstractIncomingMessage],
        arrived: MemoryObjectReceiveStream[AbstractIncomingMessage],
    ) -> None:
        """Give a message back that came while nobody wanted one any more."""
        send.close()
        with anyio.move_on_after(SETTLE_SECONDS, shield=True):
            try:
                message = arrived.receive_nowait()
                await guarded(message.nack(requeue=True), place=self._place)
            except (anyio.WouldBlock, anyio.EndOfStream, BusError):
                return
