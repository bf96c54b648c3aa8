"""Messages that the broker sends of itself, until somebody stops it.

A *consumer* gives on what comes, in its order. It ends with a word when its channel ends or the queue is deleted, so
nobody waits at a queue that is not there any more.
"""

from __future__ import annotations

import anyio
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import AMQPChannelError
from aiormq.abc import AbstractChannel as WireChannel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from wavewright.engine.bus.channels import CLOSE_SECONDS, close_channel
from wavewright.engine.bus.errors import BusDown
from wavewright.engine.bus.guard import (
    CHANNEL_ERRORS,
    await_reply,
    error_from_channel_close,
    translate_errors,
)
from wavewright.engine.bus.wire import BrokerSettlement


class Consumer:
    """A consumer of one queue."""

    def __init__(self, channel: AbstractChannel, queue: AbstractQueue, place: str, most: int) -> None:
        self._channel = channel
        self._queue = queue
        self._place = place
        self._prefetch = most
        self._send: MemoryObjectSendStream[AbstractIncomingMessage]
        self._arrived: MemoryObjectReceiveStream[AbstractIncomingMessage]
        self._send, self._arrived = anyio.create_memory_object_stream[AbstractIncomingMessage](most)
        self._tag: str | None = None
        self._wire: WireChannel | None = None

    async def start(self) -> None:
        """Have messages sent, at most so many that are not settled.

        Raises:
            RightsMissing: this user may not take from the queue.
            BusDown: the channel is gone, or the queue is.
        """
        try:
            wire = await translate_errors(self._channel.get_underlay_channel(), place=self._place)
            self._channel.close_callbacks.add(self._close_stream)
            wire.on_consumer_cancel_callbacks.add(self._close_stream)
            self._wire = wire
            await await_reply(self._channel.set_qos(prefetch_count=self._prefetch), place=self._place)
            self._tag = await await_reply(self._queue.consume(self._on_message), place=self._place)
        except AMQPChannelError as error:
            raise error_from_channel_close(
                error, "the queue cannot be taken from", place=self._place
            ) from error

    async def next(self) -> AbstractIncomingMessage:
        """Return the next message, waiting for it.

        Raises:
            BusDown: no more will come.
        """
        try:
            return await self._arrived.receive()
        except anyio.EndOfStream:
            raise BusDown("the broker stopped to send from the queue", place=self._place) from None

    async def stop_and_drain(self) -> AbstractIncomingMessage | None:
        """Have no more messages sent, and return the one that came nevertheless, if any.

        Raises:
            BusDown: the channel is gone.
        """
        if self._tag is not None:
            await await_reply(self._queue.cancel(self._tag), place=self._place)
            self._tag = None
        try:
            return self._arrived.receive_nowait()
        except (anyio.WouldBlock, anyio.EndOfStream):
            return None

    async def stop(self) -> None:
        """Have no more messages sent, also while this is being cancelled, and give back what nobody asked for."""
        self._channel.close_callbacks.discard(self._close_stream)
        if self._wire is not None:
            # The channel stays, for the next consumer; what it holds on to would stay with it.
            self._wire.on_consumer_cancel_callbacks.discard(self._close_stream)
        with self._send, self._arrived, anyio.move_on_after(CLOSE_SECONDS, shield=True) as patience:
            try:
                if self._tag is not None and not self._channel.is_closed:
                    await translate_errors(self._queue.cancel(self._tag), place=self._place)
                await self._requeue_unclaimed()
            except CHANNEL_ERRORS:
                # The channel is gone, and what was on its way goes back to the queue.
                return
        if patience.cancelled_caught:
            # The broker does not answer: closing the channel says the same, and says it for sure.
            await close_channel(self._channel, self._place)

    async def _requeue_unclaimed(self) -> None:
        while True:
            try:
                message = self._arrived.receive_nowait()
            except (anyio.WouldBlock, anyio.EndOfStream):
                return
            await BrokerSettlement(message).requeue()

    async def _on_message(self, message: AbstractIncomingMessage) -> None:
        try:
            self._send.send_nowait(message)
        except anyio.ClosedResourceError:
            # It crossed the word that no more are wanted.
            await BrokerSettlement(message).requeue()

    def _close_stream(self, *_: object) -> None:
        self._send.close()
