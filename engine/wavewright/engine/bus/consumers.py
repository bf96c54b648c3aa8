"""Messages that the broker sends of itself, until somebody stops it.

A *consumer* gives on what comes, in its order. It ends with a word when its channel ends or the queue is deleted, so
nobody waits at a queue that is not there any more.

Taking one message from a queue, and no more.

A *hand* is a channel that holds at most the message it was sent for. It first looks whether one waits, and only
else becomes a consumer, until one comes; it stops to be one before the message is given on. So the broker never
counts a delivery that nobody has looked at. A hand that has waited long lets go: what it waits at may not be the
queue any more.

Messages come in, one for each who asks.

The *intake* is one queue. Whoever takes from it waits through every loss of the connection; a message that was given
out too often without being settled is not given out again, but buried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import AMQPChannelError
from aiormq.abc import AbstractChannel as WireChannel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from wavewright.engine.bus.channels import (
    CHANNEL_ERRORS,
    CLOSE_SECONDS,
    await_reply,
    close_channel,
    error_from_channel_close,
    open_channel,
    translate_errors,
)
from wavewright.engine.bus.connection import BrokerConnection
from wavewright.engine.bus.declaration import declare_topology
from wavewright.engine.bus.errors import BusDown, BusError, BusMisconfigured, RightsMissing
from wavewright.engine.bus.health import BrokerHealth
from wavewright.engine.bus.message_conversion import BrokerSettlement, delivery_of
from wavewright.engine.bus.topology import Topology
from wavewright.engine.messages.delivery import Delivery


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


RETRY_SECONDS: Final = 0.02
FAST_RETRIES: Final = 20
"""Failures in a row after which it is no longer tried again at once."""
SLOW_RETRY_SECONDS: Final = 1.0

DeadLetterPublisher: TypeAlias = Callable[[Delivery, str, str], Awaitable[None]]


class IntakeQueue:
    """The queue that is taken from."""

    def __init__(
        self, line: BrokerConnection, topology: Topology, bury: DeadLetterPublisher, trouble: BrokerHealth
    ) -> None:
        self._broker = line
        self._health = trouble
        self._topology = topology
        self._dead_letter = bury
        self._idle: list[PullConsumer] = []
        self._may_take = False
        """Whether anything was ever taken, or nothing was there to be."""

    async def take(self) -> Delivery:
        """Return the next message that may be given out.

        Raises:
            RightsMissing: this user may not take from the queue, and never could.
        """
        while True:
            delivery = await self._take_any()
            if delivery.delivery_count < self._topology.delivery_limit:
                return delivery
            await self._dead_letter_poison(delivery)

    async def _dead_letter_poison(self, delivery: Delivery) -> None:
        count = delivery.delivery_count
        try:
            await self._dead_letter(
                delivery,
                "max_deliveries",
                f"delivered {count} times, and each time whoever took it did not get to its end",
            )
        except BusError:
            # It is given back, and buried by whoever takes it next.
            await delivery.requeue()

    async def _take_any(self) -> Delivery:
        failures = 0
        while True:
            try:
                delivery = await self._take_once(declares=bool(failures))
                self._health.clear_fault("in")
                if delivery is not None:
                    return delivery
                failures = 0
            except BusMisconfigured as error:
                if isinstance(error, RightsMissing) and not self._may_take:
                    raise
                self._health.report_fault("in", error)
                await anyio.sleep(SLOW_RETRY_SECONDS)
                failures += 1
            except BusError:
                # Where the connection is gone its line makes a new one; where only the channel is, the queue is
                # declared again, for somebody may have deleted it. A message that the library cannot read ends the
                # connection a few times until the broker gives it up: that shall not keep the next one waiting.
                await anyio.sleep(RETRY_SECONDS if failures < FAST_RETRIES else SLOW_RETRY_SECONDS)
                failures += 1

    async def _take_once(self, *, declares: bool) -> Delivery | None:
        hand = await self._idle_consumer(declares=declares)
        message = await hand.take()
        self._may_take = True
        if message is None:
            await hand.close()
            return None
        if hand.is_open:
            self._idle.append(hand)
        return delivery_of(message)

    async def _idle_consumer(self, *, declares: bool) -> PullConsumer:
        while self._idle:
            hand = self._idle.pop()
            if hand.is_open:
                return hand
        return await self._new_consumer(declares=declares)

    async def _new_consumer(self, *, declares: bool) -> PullConsumer:
        """Return a hand at the queue, which is declared first where something has just failed."""
        place = self._broker.place
        connection = await self._broker.wait_connected()
        if declares:
            await declare_topology(connection, self._topology, place=place)
        channel = await open_channel(connection, place)
        queue = await translate_errors(channel.get_queue(self._topology.intake, ensure=False), place=place)
        return PullConsumer(channel, queue, place)
