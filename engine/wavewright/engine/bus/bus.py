"""Opening the bus, and all that can be done with it.

A *bus* is two lines to the broker, one for what comes in and one for what goes out, over one topology. It is opened
only when both stand and every queue is there; after that, losing a connection is nobody's business but the bus's.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio

from wavewright.engine.bus.address import BrokerAddress, read_address
from wavewright.engine.bus.connection import BrokerConnection
from wavewright.engine.bus.consumers import IntakeQueue
from wavewright.engine.bus.declaration import check_write_rights, declare_topology
from wavewright.engine.bus.errors import BusDown
from wavewright.engine.bus.health import BrokerEventHandler, BrokerHealth, ignore_event
from wavewright.engine.bus.message_conversion import dead_letter_of, message_of
from wavewright.engine.bus.publisher import Publisher
from wavewright.engine.bus.relay import PUBLISH_SECONDS, Outbox, Relay, RetryableOutbox
from wavewright.engine.bus.subscription import Subscription
from wavewright.engine.bus.topology import Topology
from wavewright.engine.messages.delivery import Delivery
from wavewright.executor.store.job_records import OutgoingMessage

RECONNECT_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class BusSettings:
    """What the bus must know."""

    url: str = field(repr=False)
    """`amqp://user:password@host:port/vhost`, or `amqps://…?cafile=…` for an encrypted line."""
    topology: Topology = field(default_factory=Topology)
    connect_seconds: float = 30.0
    """How long a broker that does not answer is waited for at the start."""
    name: str = "wavewright"
    """What the broker shows the connections as."""
    checks_write_rights: bool = False
    """Whether the right to write to every outlet and to the dead letters is looked for at the start."""


@dataclass(frozen=True, slots=True)
class _Connections:
    """The two connections; one that is slowed down by the broker does not slow down the other."""

    address: BrokerAddress
    incoming: BrokerConnection
    outgoing: BrokerConnection

    async def open(self, settings: BusSettings, notice: BrokerEventHandler) -> None:
        seconds = settings.connect_seconds
        is_first = True
        away = BusDown(f"no broker answered within {seconds:g} s", place=self.address.shown)
        with anyio.move_on_after(seconds):
            while True:
                try:
                    return await self._open_once(settings)
                except BusDown as error:
                    if is_first:
                        notice("broker_away", {"broker": self.address.shown, "error": error.message})
                    away, is_first = error, False
                await anyio.sleep(RECONNECT_SECONDS)
        raise away

    async def _open_once(self, settings: BusSettings) -> None:
        for line in (self.incoming, self.outgoing):
            if not line.is_up:
                await line.open()
        connection, topology, place = (
            await self.outgoing.wait_connected(),
            settings.topology,
            self.address.shown,
        )
        await declare_topology(connection, topology, place=place)
        if settings.checks_write_rights:
            await check_write_rights(connection, topology.routes(), user=self.address.user, place=place)

    @asynccontextmanager
    async def kept_connected(self) -> AsyncGenerator[None]:
        try:
            async with anyio.create_task_group() as keeping:
                keeping.start_soon(self.incoming.keep_connected)
                keeping.start_soon(self.outgoing.keep_connected)
                yield
                keeping.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            # What keeps the lines never fails: this is what happened inside, in a wrapping that nobody asked for.
            raise group.exceptions[0] from group.exceptions[0].__cause__

    async def close(self) -> None:
        for line in (self.incoming, self.outgoing):
            await line.close()


class Bus:
    """The way to and from the broker."""

    def __init__(
        self,
        lines: _Connections,
        topology: Topology,
        notice: BrokerEventHandler,
        on_sent: Callable[[OutgoingMessage], None],
    ) -> None:
        self._user = lines.address.user
        self._connections = lines
        self._topology = topology
        self._on_event = notice
        self._publisher = Publisher(lines.outgoing, topology)
        self._health = BrokerHealth(notice)
        self._intake = IntakeQueue(lines.incoming, topology, self.dead_letter, self._health)
        self._relay = Relay(self._publisher, self._user, notice, self._health, on_sent)

    @property
    def is_up(self) -> bool:
        """Whether both connections stand at this moment: for a health check, not for asking before a call."""
        return self._connections.incoming.is_up and self._connections.outgoing.is_up

    @property
    def fault(self) -> str | None:
        """What keeps messages from coming in or going out at this moment; none where nothing is known to."""
        if not self.is_up:
            return "there is no connection to the broker"
        return self._health.reason or self._relay.full_queues.reason

    async def take(self) -> Delivery:
        """Return the next message of the intake, waiting for it, through losses of the connection, too.

        Nothing is taken beforehand. The message is the broker's until `ack`; several may take at once.

        Raises:
            RightsMissing: this user may not take from the intake, and never could.
        """
        return await self._intake.take()

    async def dead_letter(self, delivery: Delivery, kind: str, reason: str) -> None:
        """Lay a message aside as a dead letter with the reason, and settle it once the broker has that.

        Raises:
            BusError: the dead letter was not confirmed; the delivery is not settled.
        """
        topology = self._topology
        letter = dead_letter_of(delivery, kind, reason, topology.intake, self._user)
        await self._publisher.publish(letter, topology.dead_exchange, delivery.routing_key, PUBLISH_SECONDS)
        await delivery.ack()
        self._on_event("message_buried", {"kind": kind, "reason": reason, "message_id": delivery.message_id})

    async def publish(self, outgoing: OutgoingMessage, timeout: float = PUBLISH_SECONDS) -> None:  # noqa: ASYNC109 - as the outlet says
        """Send a message and return once the broker has confirmed it.

        Raises:
            MessageReturned: no queue wants it, or it is too large for the broker.
            MessageRefused: the queue that wants it is full.
            RightsMissing: this user may not send there.
            BusDown: it was not confirmed in time; it may have arrived nevertheless.
        """
        message = message_of(outgoing, self._user)
        await self._publisher.publish(message, outgoing.exchange, outgoing.routing_key, timeout)

    async def relay(self, outbox: RetryableOutbox) -> None:
        """Send whatever lies in the outbox, for as long as this is not cancelled."""
        await self._relay.run(outbox)

    async def flush(self, outbox: Outbox) -> None:
        """Send what lies in the outbox, as before the end: until it is empty, or nothing of a batch can be sent."""
        while True:
            found, sent = await self._relay.send_batch(outbox)
            if not found or not sent:
                return

    @asynccontextmanager
    async def subscribe(self, *routing_keys: str, sees_dead: bool = False) -> AsyncGenerator[Subscription]:
        """Look on at the messages that are sent under these keys: `async for delivery in watcher`.

        With `sees_dead` dead letters of the intake come as well, whatever their keys.

        Raises:
            BusMisconfigured: this user may not.
            BusDown: the connection was lost before it began.
        """
        watcher = Subscription(self._connections.incoming, self._topology, routing_keys, sees_dead=sees_dead)
        try:
            await watcher.open()
            yield watcher
        finally:
            await watcher.close()

    def wake_relay(self) -> None:
        """Say that something was put into the outbox; else it goes out half a second later."""
        self._relay.wake()


@asynccontextmanager
async def open_bus(
    settings: BusSettings,
    notice: BrokerEventHandler = ignore_event,
    on_sent: Callable[[OutgoingMessage], None] = lambda _: None,
) -> AsyncGenerator[Bus]:
    """Connect to the broker, declare the topology, and keep the connections.

    Args:
        settings: Address and topology.
        notice: Called with each event of the broker.
        on_sent: Called with each message of an outbox that is confirmed and marked as sent.

    Raises:
        BusMisconfigured: it will not work like this, and what would mend it.
        BusDown: no broker answered within `connect_seconds`.
    """
    address = read_address(settings.url)
    if not address.is_encrypted and not address.is_loopback:
        notice("broker_unencrypted", {"broker": address.shown})
    lines = _Connections(
        address,
        BrokerConnection(address, f"{settings.name} in", notice),
        BrokerConnection(address, f"{settings.name} out", notice),
    )
    try:
        await lines.open(settings, notice)
        async with lines.kept_connected():
            yield Bus(lines, settings.topology, notice, on_sent)
    finally:
        await lines.close()
