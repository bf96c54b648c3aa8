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
from wavewright.engine.bus.guard import GONE, answered, guarded, judged
from wavewright.engine.bus.wire import BrokerSettling


class Consumer:
    """A consumer of one queue."""

    def __init__(self, channel: AbstractChannel, queue: AbstractQueue, place: str, most: int) -> None:
        self._channel = channel
        self._queue = queue
        self._place = place
        self._most = most
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
            wire = await guarded(self._channel.get_underlay_channel(), place=self._place)
            self._channel.close_callbacks.add(self._end)
            wire.on_consumer_cancel_callbacks.add(self._end)
            self._wire = wire
            await answered(self._channel.set_qos(prefetch_count=self._most), place=self._place)
            self._tag = await answered(self._queue.consume(self._arrive), place=self._place)
        except AMQPChannelError as error:
            raise judged(error, "the queue cannot be taken from", place=self._place) from error

    async def next(self) -> AbstractIncomingMessage:
        """Return the next message, waiting for it.

        Raises:
            BusDown: no more will come.
        """
        try:
            return await self._arrived.receive()
        except anyio.EndOfStream:
            raise BusDown("the broker stopped to send from the queue", place=self._place) from None

    async def last(self) -> AbstractIncomingMessage | None:
        """Have no more messages sent, and return the one that came nevertheless, if any.

        Raises:
            BusDown: the channel is gone.
        """
        if self._tag is not None:
            await answered(self._queue.cancel(self._tag), place=self._place)
            self._tag = None
        try:
            return self._arrived.receive_nowait()
        except (anyio.WouldBlock, anyio.EndOfStream):
            return None

    async def stop(self) -> None:
        """Have no more messages sent, also while this is being cancelled, and give back what nobody asked for."""
        self._channel.close_callbacks.discard(self._end)
        if self._wire is not None:
            # The channel stays, for the next consumer; what it holds on to would stay with it.
            self._wire.on_consumer_cancel_callbacks.discard(self._end)
        with self._send, self._arrived, anyio.move_on_after(CLOSE_SECONDS, shield=True) as patience:
            try:
                if self._tag is not None and not self._channel.is_closed:
                    await guarded(self._queue.cancel(self._tag), place=self._place)
                await self._give_back()
            except GONE:
                # The channel is gone, and what was on its way goes back to the queue.
                return
        if patience.cancelled_caught:
            # The broker does not answer: closing the channel says the same, and says it for sure.
            await close_channel(self._channel, self._place)

    async def _give_back(self) -> None:
        while True:
            try:
                message = self._arrived.receive_nowait()
            except (anyio.WouldBlock, anyio.EndOfStream):
                return
            await BrokerSettling(message).requeue()

    async def _arrive(self, message: AbstractIncomingMessage) -> None:
        try:
            self._send.send_nowait(message)
        except anyio.ClosedResourceError:
            # It crossed the word that no more are wanted.
            await BrokerSettling(message).requeue()

    def _end(self, *_: object) -> None:
        self._send.close()
