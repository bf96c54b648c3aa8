"""The bus: consuming, publishing, relaying and subscribing over one topology.

It has two connections, one for consuming and one for publishing. `open_bus` returns once both are
open and the topology is declared; after that each reconnects by itself.

A *subscription* gives copies of the messages that are published under given routing keys. It has an
exclusive queue of its own, so it takes no message from another consumer, and misses what is
published while it reconnects.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Self

import anyio
from aio_pika.abc import AbstractChannel
from aio_pika.exceptions import AMQPChannelError

from wavewright.engine.service.bus.alarms import AlarmWatch
from wavewright.engine.service.bus.connection import BrokerAddress, BrokerConnection, read_address
from wavewright.engine.service.bus.consumers import Consumer, IntakeQueue
from wavewright.engine.service.bus.declaration import check_write_rights, declare_topology
from wavewright.engine.service.bus.faults import (
    BrokerBlocked,
    BrokerEventHandler,
    BrokerHealth,
    BusDown,
    BusError,
    BusMisconfigured,
    close_channel,
    describe_error,
    ignore_event,
    open_channel,
    translate_errors,
)
from wavewright.engine.service.bus.message_conversion import (
    dead_letter_of,
    delivery_of,
    message_of,
    rejection_of,
)
from wavewright.engine.service.bus.publisher import Publisher
from wavewright.engine.service.bus.relay import PUBLISH_SECONDS, Relay
from wavewright.engine.service.bus.topology import Topology
from wavewright.engine.service.job_store.records import OutgoingMessage
from wavewright.engine.service.messages.delivery import Delivery

RECONNECT_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class BusSettings:
    """Address, topology and limits of a bus."""

    url: str = field(repr=False)
    """`amqp://user:password@host:port/vhost`, or `amqps://…?cafile=…` for an encrypted connection.
    """
    topology: Topology = field(default_factory=Topology)
    connect_seconds: float = 30.0
    """How long to try to reach the broker before `BusDown` is raised."""
    name: str = "wavewright"
    """Name of the connections at the broker."""
    checks_write_rights: bool = False
    """Whether the rights to publish to every queue and to the dead letters are checked at the
    start.
    """
    probes_alarms: bool = False
    """Whether alarms of the broker are found also while nothing is published."""


@dataclass(frozen=True, slots=True)
class _Connections:
    """The two connections; one that the broker throttles does not slow down the other."""

    address: BrokerAddress
    incoming: BrokerConnection
    outgoing: BrokerConnection

    async def open(self, settings: BusSettings, on_event: BrokerEventHandler) -> None:
        seconds = settings.connect_seconds
        is_first = True
        away = BusDown(f"no broker answered within {seconds:g} s", place=self.address.shown)
        with anyio.move_on_after(seconds):
            while True:
                try:
                    return await self._open_once(settings)
                except BrokerBlocked:
                    raise
                except BusDown as error:
                    if is_first:
                        on_event(
                            "broker_away", {"broker": self.address.shown, "error": error.message}
                        )
                    away, is_first = error, False
                await anyio.sleep(RECONNECT_SECONDS)
        raise away

    async def _open_once(self, settings: BusSettings) -> None:
        for one in (self.incoming, self.outgoing):
            if not one.is_up:
                await one.open()
        connection, topology, place = (
            await self.outgoing.wait_connected(),
            settings.topology,
            self.address.shown,
        )
        await declare_topology(connection, topology, place=place)
        if not settings.checks_write_rights:
            return
        try:
            await check_write_rights(
                connection, topology.routes(), user=self.address.user, place=place
            )
        except BrokerBlocked:
            # Who watches for alarms works on, and reports this one and later a missing right.
            if not settings.probes_alarms:
                raise

    @asynccontextmanager
    async def kept_connected(self, alarms: AlarmWatch) -> AsyncGenerator[None]:
        try:
            async with anyio.create_task_group() as keeping:
                keeping.start_soon(self.incoming.keep_connected)
                keeping.start_soon(self.outgoing.keep_connected)
                keeping.start_soon(alarms.run)
                yield
                keeping.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            # Reconnecting never raises: this is the error of the block, in the task group's
            # exception group.
            raise group.exceptions[0] from group.exceptions[0].__cause__

    async def close(self) -> None:
        for connection in (self.incoming, self.outgoing):
            await connection.close()


class Bus:
    """An open bus."""

    def __init__(
        self,
        connections: _Connections,
        topology: Topology,
        on_event: BrokerEventHandler,
        on_sent: Callable[[OutgoingMessage], None],
    ) -> None:
        self._user = connections.address.user
        self._connections = connections
        self._topology = topology
        self._on_event = on_event
        self._publisher = Publisher(connections.outgoing, topology)
        self._health = BrokerHealth(on_event)
        self.intake = IntakeQueue(connections.incoming, topology, self.dead_letter, self._health)
        self.relay = Relay(self._publisher, self._user, on_event, self._health, on_sent)

    @property
    def is_up(self) -> bool:
        """Whether both connections are open, for health checks; calls wait for a connection by
        themselves.
        """
        return self._connections.incoming.is_up and self._connections.outgoing.is_up

    @property
    def fault(self) -> str | None:
        """Why messages cannot be consumed or published now; None where no reason is known."""
        if not self.is_up:
            return "there is no connection to the broker"
        alarm = self._connections.outgoing.alarm
        return alarm or self._health.reason or self.relay.full_queues.reason

    async def dead_letter(self, delivery: Delivery, kind: str, reason: str) -> None:
        """Publish a delivery as a dead letter with the reason, and acknowledge it once the broker
        has confirmed; then tell its sender where the message has a reply address.

        Raises:
            BusError: the dead letter was not confirmed; the delivery is not acknowledged.
        """
        topology = self._topology
        letter = dead_letter_of(delivery, kind, reason, topology.intake, self._user)
        await self._publisher.publish(
            letter, topology.dead_exchange, delivery.routing_key, PUBLISH_SECONDS
        )
        await delivery.ack()
        self._on_event(
            "message_dead_lettered",
            {"kind": kind, "reason": reason, "message_id": delivery.message_id},
        )
        await self._reply(delivery, kind, reason)

    async def _reply(self, delivery: Delivery, kind: str, reason: str) -> None:
        """Send why a message was dead-lettered to the queue that it names for replies, if it can be
        done now: the dead letter is what counts.

        The queues of the daemon are none for replies: a sender writes to them by its own rights.
        """
        if not delivery.reply_to or delivery.reply_to in self._topology.queue_names:
            return
        reply = rejection_of(delivery, kind, reason, self._user)
        try:
            with anyio.fail_after(PUBLISH_SECONDS):
                # A channel of its own: the broker closes it where this user may not reply.
                connection = await self._connections.outgoing.wait_connected()
                channel = await open_channel(connection, self._connections.address.shown)
                try:
                    await translate_errors(
                        channel.default_exchange.publish(reply, delivery.reply_to, mandatory=False)
                    )
                finally:
                    await close_channel(channel, self._connections.address.shown)
        except (AMQPChannelError, BusError, TimeoutError) as error:
            self._on_event(
                "reply_failed",
                {"error": describe_error(error), "message_id": delivery.message_id},
            )

    async def publish(self, outgoing: OutgoingMessage, timeout: float = PUBLISH_SECONDS) -> None:  # noqa: ASYNC109 - as in `Publisher.publish`
        """Publish a message and return once the broker has confirmed it.

        Raises:
            MessageReturned: no queue is bound, or the message is too large for the broker.
            MessageNacked: the queue that is bound is full.
            RightsMissing: this user may not publish there.
            BusDown: the message was not confirmed within `timeout` seconds; it may have arrived.
        """
        message = message_of(outgoing, self._user)
        await self._publisher.publish(message, outgoing.exchange, outgoing.routing_key, timeout)

    @asynccontextmanager
    async def subscribe(
        self, *routing_keys: str, sees_dead: bool = False
    ) -> AsyncGenerator[Subscription]:
        """Subscribe to the messages under these routing keys: `async for delivery in subscription`.

        With `sees_dead` it receives dead letters of the intake as well, whatever their keys.

        Raises:
            BusMisconfigured: this user may not subscribe.
            BusDown: the connection was lost before the subscription began.
        """
        subscription = Subscription(
            self._connections.incoming, self._topology, routing_keys, sees_dead=sees_dead
        )
        try:
            await subscription.open()
            yield subscription
        finally:
            await subscription.close()


@asynccontextmanager
async def open_bus(
    settings: BusSettings,
    on_event: BrokerEventHandler = ignore_event,
    on_sent: Callable[[OutgoingMessage], None] = lambda _: None,
) -> AsyncGenerator[Bus]:
    """Connect to the broker, declare the topology, and keep the connections.

    Args:
        settings: Address and topology.
        on_event: Called with each event of the broker.
        on_sent: Called with each message of an outbox that is confirmed and marked as sent.

    Raises:
        BusMisconfigured: settings or broker must be changed first; the hint says how.
        BusDown: no broker answered within `connect_seconds`.
    """
    address = read_address(settings.url)
    if not address.is_encrypted and not address.is_loopback:
        on_event("broker_unencrypted", {"broker": address.shown})
    connections = _Connections(
        address,
        BrokerConnection(address, f"{settings.name} in", on_event),
        BrokerConnection(address, f"{settings.name} out", on_event),
    )
    try:
        await connections.open(settings, on_event)
        probed = settings.topology.exchange if settings.probes_alarms else None
        alarms = AlarmWatch(connections.outgoing, on_event, probed)
        async with connections.kept_connected(alarms):
            yield Bus(connections, settings.topology, on_event, on_sent)
    finally:
        await connections.close()


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
