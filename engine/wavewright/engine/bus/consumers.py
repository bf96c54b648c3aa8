"""Consumers of queues, and subscriptions.

`Consumer` receives messages in their order, and raises when its channel closes or its queue is deleted.

`PullConsumer` takes single messages: with `basic.get` where one is in the queue, else it consumes until one comes and
cancels the consumer before it returns the message. So the delivery count of messages that are not processed never
grows. It is replaced after `CONSUME_SECONDS`, since the queue may have been declared again meanwhile.

`IntakeQueue` takes messages of the intake through every loss of the connection, and dead-letters a message that was
delivered too often without being settled.

`Subscription` yields copies of the messages that are published under given routing keys. It has an exclusive queue of
its own, so it takes no message from another consumer, and misses what is published while it reconnects.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Final, Self, TypeAlias

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
    describe_error,
    error_from_channel_close,
    open_channel,
    translate_errors,
)
from wavewright.engine.bus.connection import BrokerConnection
from wavewright.engine.bus.declaration import declare_topology
from wavewright.engine.bus.faults import BrokerHealth, BusDown, BusError, BusMisconfigured, RightsMissing
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
        """Begin to consume, with the prefetch count as the limit of unsettled messages.

        Raises:
            RightsMissing: this user may not read the queue.
            BusDown: the channel is closed, or the queue is deleted.
        """
        try:
            wire = await translate_errors(self._channel.get_underlay_channel(), place=self._place)
            self._channel.close_callbacks.add(self._close_stream)
            wire.on_consumer_cancel_callbacks.add(self._close_stream)
            self._wire = wire
            await await_reply(self._channel.set_qos(prefetch_count=self._prefetch), place=self._place)
            self._tag = await await_reply(self._queue.consume(self._on_message), place=self._place)
        except AMQPChannelError as error:
            raise error_from_channel_close(error, "the queue cannot be read", place=self._place) from error

    async def next(self) -> AbstractIncomingMessage:
        """Return the next message, waiting for it.

        Raises:
            BusDown: the channel is closed, or the queue is deleted.
        """
        try:
            return await self._arrived.receive()
        except anyio.EndOfStream:
            raise BusDown("the broker has cancelled the consumer", place=self._place) from None

    async def stop_and_drain(self) -> AbstractIncomingMessage | None:
        """Cancel the consumer, and return the message that came meanwhile, if any.

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
        """Cancel the consumer, also while the task is being cancelled, and requeue what `next` did not return."""
        self._channel.close_callbacks.discard(self._close_stream)
        if self._wire is not None:
            # The channel outlives this consumer and would keep a reference to it.
            self._wire.on_consumer_cancel_callbacks.discard(self._close_stream)
        with self._send, self._arrived, anyio.move_on_after(CLOSE_SECONDS, shield=True) as patience:
            try:
                if self._tag is not None and not self._channel.is_closed:
                    await translate_errors(self._queue.cancel(self._tag), place=self._place)
                await self._requeue_unclaimed()
            except CHANNEL_ERRORS:
                # The channel is gone, and the broker requeues its messages.
                return
        if patience.cancelled_caught:
            # The broker does not answer; closing the channel cancels the consumer as well.
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
            # The broker sent it before it handled the cancellation.
            await BrokerSettlement(message).requeue()

    def _close_stream(self, *_: object) -> None:
        self._send.close()


CONSUME_SECONDS: Final = 15.0
"""How long one channel is used. RabbitMQ does not notify a consumer whose quorum queue is deleted and declared again;
its channel never receives from the new queue."""


class PullConsumer:
    """Takes single messages from a queue for all tasks that wait for one, on one channel.

    Where a connection breaks, the broker ends its channels one after another, and gives the unsettled messages of one
    to the consumers of the next, each time as one more delivery. Of the consumers of one channel it ends all at once.
    """

    def __init__(self, channel: AbstractChannel, queue: AbstractQueue, place: str) -> None:
        self._channel = channel
        self._queue = queue
        self._place = place
        self._deadline = anyio.current_time() + CONSUME_SECONDS
        self._users = 0
        """Tasks that wait for a message, and messages that are not settled."""
        self._is_retired = False

    @property
    def is_usable(self) -> bool:
        """Whether messages may still be taken."""
        return not self._channel.is_closed and anyio.current_time() < self._deadline

    async def take(self) -> Delivery | None:
        """Return the next message, waiting for it; None where none comes before the channel is replaced.

        Raises:
            RightsMissing: this user may not read the queue.
            BusDown: the channel closed; a message in flight is requeued by the broker.
        """
        self._users += 1
        message = None
        try:
            message = await self._get_one() or await self._consume_one()
        finally:
            if message is None:
                await self._release()
        return None if message is None else delivery_of(message, on_settled=self._release)

    async def retire(self) -> None:
        """Close the channel once nothing on it is waited for or unsettled."""
        self._is_retired = True
        await self._close_unused()

    async def _release(self) -> None:
        self._users -= 1
        await self._close_unused()

    async def _close_unused(self) -> None:
        if self._is_retired and not self._users:
            await close_channel(self._channel, self._place)

    async def _get_one(self) -> AbstractIncomingMessage | None:
        try:
            return await await_reply(self._queue.get(fail=False, timeout=None), place=self._place)
        except AMQPChannelError as error:
            raise error_from_channel_close(error, "the queue cannot be read", place=self._place) from error

    async def _consume_one(self) -> AbstractIncomingMessage | None:
        consumer = Consumer(self._channel, self._queue, self._place, most=1)
        try:
            await consumer.start()
            with anyio.CancelScope(deadline=self._deadline):
                return await consumer.next()
            return await consumer.stop_and_drain()
        finally:
            await consumer.stop()


RETRY_SECONDS: Final = 0.02
FAST_RETRIES: Final = 20
"""Failures in a row after which retries wait for `SLOW_RETRY_SECONDS`."""
SLOW_RETRY_SECONDS: Final = 1.0

DeadLetterPublisher: TypeAlias = Callable[[Delivery, str, str], Awaitable[None]]


class IntakeQueue:
    """The queue that the daemon consumes."""

    def __init__(
        self,
        broker: BrokerConnection,
        topology: Topology,
        dead_letter: DeadLetterPublisher,
        health: BrokerHealth,
    ) -> None:
        self._broker = broker
        self._health = health
        self._topology = topology
        self._dead_letter = dead_letter
        self._consumer: PullConsumer | None = None
        self._opening = anyio.Lock()
        self._may_take = False
        """Whether reading the queue has worked before."""

    async def take(self) -> Delivery:
        """Return the next message, waiting for it, also through losses of the connection.

        Nothing is prefetched, and several tasks may wait at once. Messages that were delivered too often are
        dead-lettered instead.

        Raises:
            RightsMissing: this user may not read the queue, and never could.
        """
        while True:
            delivery = await self._take_any()
            if delivery.delivery_count < self._topology.delivery_limit:
                return delivery
            await self._dead_letter_poison(delivery)

    async def _dead_letter_poison(self, delivery: Delivery) -> None:
        reason = f"delivered {delivery.delivery_count} times, and never settled"
        try:
            await self._dead_letter(delivery, "max_deliveries", reason)
        except BusError:
            # It is requeued, and dead-lettered by the next consumer.
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
                # `BrokerConnection` replaces a lost connection. After a lost channel the queue is declared again, since
                # it may have been deleted. A message that the library cannot parse closes the connection at each
                # delivery until the broker dead-letters it, so the first retries come quickly.
                await anyio.sleep(RETRY_SECONDS if failures < FAST_RETRIES else SLOW_RETRY_SECONDS)
                failures += 1

    async def _take_once(self, *, declares: bool) -> Delivery | None:
        consumer = await self._usable_consumer(declares=declares)
        try:
            delivery = await consumer.take()
        except BusError:
            await self._retire(consumer)
            raise
        self._may_take = True
        return delivery

    async def _usable_consumer(self, *, declares: bool) -> PullConsumer:
        async with self._opening:
            if self._consumer is not None and not self._consumer.is_usable:
                await self._retire(self._consumer)
            if self._consumer is None:
                self._consumer = await self._new_consumer(declares=declares)
            return self._consumer

    async def _retire(self, consumer: PullConsumer) -> None:
        if self._consumer is consumer:
            self._consumer = None
        await consumer.retire()

    async def _new_consumer(self, *, declares: bool) -> PullConsumer:
        """Return a consumer of the queue; the topology is declared first after a failure."""
        place = self._broker.place
        connection = await self._broker.wait_connected()
        if declares:
            await declare_topology(connection, self._topology, place=place)
        channel = await open_channel(connection, place)
        queue = await translate_errors(channel.get_queue(self._topology.intake, ensure=False), place=place)
        return PullConsumer(channel, queue, place)


_MAX_COPIES: Final = 10_000
"""Copies kept for a slow subscriber; beyond that the oldest are dropped."""
_PREFETCH: Final = 200
_RESUBSCRIBE_SECONDS: Final = 0.5


class Subscription:
    """Copies of messages as they are published: `async for delivery in subscription`."""

    def __init__(
        self,
        broker: BrokerConnection,
        topology: Topology,
        routing_keys: tuple[str, ...],
        *,
        sees_dead: bool = False,
    ) -> None:
        self._broker = broker
        self._topology = topology
        self._bindings = [(topology.exchange, key) for key in routing_keys]
        if sees_dead:
            self._bindings.append((topology.dead_exchange, topology.intake))
        self._channel: AbstractChannel | None = None
        self._consumer: Consumer | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delivery:
        while True:
            try:
                if self._consumer is None:
                    await self.open()
                return await self._next()
            except BusDown:
                await self.close()
                await anyio.sleep(_RESUBSCRIBE_SECONDS)

    async def open(self) -> None:
        """Declare and bind the queue.

        Raises:
            BusMisconfigured: this user may not declare a queue of its own.
            BusDown: the connection is gone.
        """
        place = self._broker.place
        self._channel = await open_channel(await self._broker.wait_connected(), place)
        try:
            queue = await translate_errors(
                self._channel.declare_queue(
                    f"{self._topology.exchange}.watch.{uuid.uuid4().hex}",
                    exclusive=True,
                    arguments={"x-max-length": _MAX_COPIES},
                ),
                place=place,
            )
            for exchange, key in self._bindings:
                await translate_errors(queue.bind(exchange, key), place=place)
        except AMQPChannelError as error:
            raise BusMisconfigured(
                f"cannot subscribe: {describe_error(error)}",
                place=place,
                hint="grant the user queues that begin with the name of the exchange: rabbitmqctl set_permissions",
            ) from error
        self._consumer = Consumer(self._channel, queue, place, most=_PREFETCH)
        await self._consumer.start()

    async def close(self) -> None:
        """Cancel the consumer and close the channel; the broker deletes the queue."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.stop()
        if self._channel is not None:
            await close_channel(self._channel, self._broker.place)

    async def _next(self) -> Delivery:
        assert self._consumer is not None
        delivery = delivery_of(await self._consumer.next())
        await delivery.ack()
        return delivery
