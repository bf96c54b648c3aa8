"""Subscriptions: copies of messages that are published under given routing keys.

A subscription has an exclusive queue of its own, so it takes no message from another consumer. It misses what is
published while it reconnects.
"""

from __future__ import annotations

import uuid
from typing import Final, Self

import anyio
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AMQPChannelError

from wavewright.engine.bus.channels import close_channel, describe_error, open_channel, translate_errors
from wavewright.engine.bus.connection import BrokerConnection
from wavewright.engine.bus.consumers import Consumer
from wavewright.engine.bus.faults import BusDown, BusMisconfigured
from wavewright.engine.bus.message_conversion import delivery_of
from wavewright.engine.bus.topology import Topology
from wavewright.engine.messages.delivery import Delivery

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
