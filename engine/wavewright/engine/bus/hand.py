"""Taking one message from a queue, and no more.

A *hand* is a channel that holds at most the message it was sent for. It first looks whether one waits, and only
else becomes a consumer, until one comes; it stops to be one before the message is given on. So the broker never
counts a delivery that nobody has looked at.
"""

from __future__ import annotations

from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import AMQPChannelError

from wavewright.engine.bus.consumer import Consumer
from wavewright.engine.bus.errors import BusDown
from wavewright.engine.bus.guard import answered, describe


class Hand:
    """One channel to one queue; it takes a message at a time, and is thrown away when its channel ends."""

    def __init__(self, channel: AbstractChannel, queue: AbstractQueue, place: str) -> None:
        self._channel = channel
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
        try:
            waiting = await answered(self._queue.get(fail=False, timeout=None), place=self._place)
        except AMQPChannelError as error:
            raise BusDown(f"the queue cannot be taken from: {describe(error)}", place=self._place) from error
        return waiting or await self._await_one()

    async def _await_one(self) -> AbstractIncomingMessage:
        consumer = Consumer(self._channel, self._queue, self._place, most=1)
        try:
            await consumer.start()
            return await consumer.next()
        finally:
            await consumer.stop()
