"""Taking one message from a queue, and no more.

A *hand* is a channel that holds at most the message it was sent for. It first looks whether one waits, and only
else becomes a consumer, until one comes; it stops to be one before the message is given on. So the broker never
counts a delivery that nobody has looked at. A hand that has waited long lets go: what it waits at may not be the
queue any more.
"""

from __future__ import annotations

from typing import Final

import anyio
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import AMQPChannelError

from wavewright.engine.bus.channels import close_channel
from wavewright.engine.bus.consumer import Consumer
from wavewright.engine.bus.guard import await_reply, error_from_channel_close

CONSUME_SECONDS: Final = 15.0
"""How long a hand waits before another one looks. RabbitMQ says nothing to a consumer whose quorum queue is deleted and
declared again at once, and the consumer's channel finds the new queue empty for ever."""


class PullConsumer:
    """One channel to one queue; it takes a message at a time, and is thrown away when its channel ends."""

    def __init__(self, channel: AbstractChannel, queue: AbstractQueue, place: str) -> None:
        self._channel = channel
        self._queue = queue
        self._place = place

    @property
    def is_open(self) -> bool:
        """Whether the channel can still be used."""
        return not self._channel.is_closed

    async def take(self) -> AbstractIncomingMessage | None:
        """Return the next message, waiting for it; none where it took so long that another hand should look.

        Raises:
            RightsMissing: this user may not take from the queue.
            BusDown: the channel ended, and what was on its way goes back to the queue.
        """
        try:
            waiting = await await_reply(self._queue.get(fail=False, timeout=None), place=self._place)
        except AMQPChannelError as error:
            raise error_from_channel_close(
                error, "the queue cannot be taken from", place=self._place
            ) from error
        return waiting or await self._consume_one()

    async def close(self) -> None:
        """Give up the channel."""
        await close_channel(self._channel, self._place)

    async def _consume_one(self) -> AbstractIncomingMessage | None:
        consumer = Consumer(self._channel, self._queue, self._place, most=1)
        try:
            await consumer.start()
            with anyio.move_on_after(CONSUME_SECONDS):
                return await consumer.next()
            return await consumer.stop_and_drain()
        finally:
            await consumer.stop()
