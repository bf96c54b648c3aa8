"""Consumers of queues.

`Consumer` receives messages in their order, and raises when its channel closes or its queue is
deleted.

`IntakeQueue` takes messages of the intake through every loss of the connection, and dead-letters a
message that was delivered too often without being settled. It takes a message only for a task that
asks, so the delivery count of messages that nobody processes never grows: with `basic.get` where
one is in the queue; else one of the tasks consumes until one comes, and cancels the consumer before
it has the message. Where a connection breaks, the broker ends its channels one after another, and
gives the unsettled messages of one to the consumers of the next, each time as one more delivery: so
one channel takes messages, and none beside it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, AbstractQueue
from aio_pika.exceptions import AMQPChannelError
from aiormq.abc import AbstractChannel as WireChannel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from wavewright.engine.service.bus.connection import BrokerConnection
from wavewright.engine.service.bus.declaration import declare_topology
from wavewright.engine.service.bus.faults import (
    CHANNEL_ERRORS,
    CLOSE_SECONDS,
    BrokerHealth,
    BusDown,
    BusError,
    BusMisconfigured,
    RightsMissing,
    await_reply,
    close_channel,
    error_from_channel_close,
    open_channel,
    translate_errors,
)
from wavewright.engine.service.bus.message_conversion import BrokerSettlement, delivery_of
from wavewright.engine.service.bus.topology import Topology
from wavewright.engine.service.messages.delivery import Delivery


class Consumer:
    """A consumer of one queue."""

    def __init__(
        self,
        channel: AbstractChannel,
        queue: AbstractQueue,
        place: str,
        most: int,
    ) -> None:
        """Make one that is not started, for so many unsettled messages."""
        self._channel = channel
        self._queue = queue
        self._place = place
        self._prefetch = most
        self._send: MemoryObjectSendStream[AbstractIncomingMessage]
        self._arrived: MemoryObjectReceiveStream[AbstractIncomingMessage]
        self._send, self._arrived = anyio.create_memory_object_stream[AbstractIncomingMessage](most)
        self._tag: str | None = None
        self._is_asked_for = False
        """Whether the broker was asked to deliver; without a tag its answer was not waited for."""
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
            await await_reply(
                self._channel.set_qos(prefetch_count=self._prefetch), place=self._place
            )
            self._is_asked_for = True
            self._tag = await await_reply(self._queue.consume(self._on_message), place=self._place)
        except AMQPChannelError as error:
            raise error_from_channel_close(
                error, "the queue cannot be read", place=self._place
            ) from error

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
            self._tag, self._is_asked_for = None, False
        try:
            return self._arrived.receive_nowait()
        except (anyio.WouldBlock, anyio.EndOfStream):
            return None

    async def stop(self) -> None:
        """Cancel the consumer, also while the task is being cancelled, and requeue what `next` did
        not return.
        """
        self._channel.close_callbacks.discard(self._close_stream)
        if self._wire is not None:
            # The channel outlives this consumer and would keep a reference to it.
            self._wire.on_consumer_cancel_callbacks.discard(self._close_stream)
        with self._send, self._arrived, anyio.move_on_after(CLOSE_SECONDS, shield=True) as patience:
            try:
                if self._tag is not None and not self._channel.is_closed:
                    await translate_errors(self._queue.cancel(self._tag), place=self._place)
                elif self._is_asked_for:
                    # It may deliver to nobody, again and again, and cannot be cancelled.
                    await close_channel(self._channel, self._place)
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
"""How long one channel is used. RabbitMQ does not notify a consumer whose quorum queue is deleted
and declared again; its channel never receives from the new queue.
"""


class IntakeChannel:
    """A channel on which single messages are taken from a queue."""

    def __init__(self, channel: AbstractChannel, queue: AbstractQueue, place: str) -> None:
        self._channel = channel
        self._queue = queue
        self._place = place
        self._deadline = anyio.current_time() + CONSUME_SECONDS
        self._turn = anyio.Lock()
        """Held by the task that waits for a message."""
        self._waiting: anyio.CancelScope | None = None
        """Of that task."""
        self._users = 0
        """Tasks that take a message, and messages that are not settled."""
        self._is_retired = False

    @property
    def is_fresh(self) -> bool:
        """Whether further messages may be taken."""
        return not self._channel.is_closed and anyio.current_time() < self._deadline

    async def get(self) -> Delivery | None:
        """Return a message that is in the queue, if there is one.

        Raises:
            RightsMissing: this user may not read the queue.
            BusDown: the channel closed; a message in flight is requeued by the broker.
        """
        return await self._take(self._get_one)

    async def wait(self) -> Delivery | None:
        """Wait for the next message; return None where none comes before the channel is to be
        replaced.

        Of several tasks that wait one consumes. Raises what `get` raises.
        """
        return await self._take(self._consume_one)

    def end_waiting(self) -> None:
        """Let all that wait for a message return now, with None where none comes meanwhile."""
        self._deadline = anyio.current_time()
        if self._waiting is not None:
            self._waiting.deadline = self._deadline

    async def retire(self) -> None:
        """Close the channel once nothing on it is waited for or unsettled."""
        self._is_retired = True
        await self._close_unused()

    async def _take(
        self, take: Callable[[], Awaitable[AbstractIncomingMessage | None]]
    ) -> Delivery | None:
        self._users += 1
        message = None
        try:
            message = await take()
        finally:
            if message is None:
                await self._release()
        return None if message is None else delivery_of(message, on_settled=self._release)

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
            raise error_from_channel_close(
                error, "the queue cannot be read", place=self._place
            ) from error

    async def _consume_one(self) -> AbstractIncomingMessage | None:
        async with self._turn:
            if not self.is_fresh:
                return None
            consumer = Consumer(self._channel, self._queue, self._place, most=1)
            try:
                await consumer.start()
                with anyio.CancelScope(deadline=self._deadline) as self._waiting:
                    return await consumer.next()
                return await consumer.stop_and_drain()
            finally:
                self._waiting = None
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
        self._opening = anyio.Lock()
        self._channel: IntakeChannel | None = None
        """The one on which messages are taken; others only wait for theirs to be settled."""
        self._may_take = False
        """Whether reading the queue has worked before."""
        self.empty_at: float | None = None
        """When the queue was last seen empty, by the event loop's clock: no message that the broker
        had got before is left in it.
        """

    def look_again(self) -> None:
        """Ask the broker now whether a message is in the queue, also where none comes."""
        if self._channel is not None:
            self._channel.end_waiting()

    async def take(self) -> Delivery:
        """Return the next message, waiting for it, also through losses of the connection.

        Nothing is prefetched, and several tasks may ask at once. Messages that were delivered too
        often are dead-lettered instead.

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
                # `BrokerConnection` replaces a lost connection. After a lost channel the queue is
                # declared again, since it may have been deleted. A message that the library cannot
                # parse closes the connection at each delivery until the broker dead-letters it, so
                # the first retries come quickly.
                await anyio.sleep(RETRY_SECONDS if failures < FAST_RETRIES else SLOW_RETRY_SECONDS)
                failures += 1

    async def _take_once(self, *, declares: bool) -> Delivery | None:
        channel = await self._fresh_channel(declares=declares)
        try:
            asked = anyio.current_time()
            delivery = await channel.get()
            if delivery is None:
                self.empty_at = max(asked, self.empty_at or asked)
                delivery = await channel.wait()
        except BusError:
            if self._channel is channel:
                self._channel = None
            await channel.retire()
            raise
        self._may_take = True
        return delivery

    async def _fresh_channel(self, *, declares: bool) -> IntakeChannel:
        """Return the channel on which messages are taken; the topology is declared before a new one
        after a failure.
        """
        async with self._opening:
            before = self._channel
            if before is not None and before.is_fresh:
                return before
            place = self._broker.place
            connection = await self._broker.wait_connected()
            if declares:
                await declare_topology(connection, self._topology, place=place)
            channel = await open_channel(connection, place)
            queue = await translate_errors(
                channel.get_queue(self._topology.intake, ensure=False), place=place
            )
            opened = self._channel = IntakeChannel(channel, queue, place)
        if before is not None:
            await before.retire()
        return opened
