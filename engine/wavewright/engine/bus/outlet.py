"""Messages go out, each until the broker has confirmed it.

A publish ends in one of four ways: confirmed, returned because no queue wants it, refused because a queue is full,
or `BusDown`, after which nobody knows whether it arrived. It never ends in silence, and it always ends in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import anyio
from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import AMQPChannelError, ChannelNotFoundEntity
from aiormq.channel import Channel

from wavewright.engine.bus.channels import close_channel, open_channel
from wavewright.engine.bus.declaring import declare_topology
from wavewright.engine.bus.errors import BusDown, BusError, BusMisconfigured, MessageReturned
from wavewright.engine.bus.guard import describe_error, error_from_channel_close, translate_errors
from wavewright.engine.bus.line import BrokerConnection
from wavewright.engine.bus.shipment import PublishBatch, PublishResult, RoutedMessage, publish_group
from wavewright.engine.bus.topology import Topology

RETRY_SECONDS: Final = 0.1


class Publisher:
    """The way out, on a connection of its own: a broker that slows senders down does not slow down the intake."""

    def __init__(self, line: BrokerConnection, topology: Topology) -> None:
        self._broker = line
        self._topology = topology
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._known_exchanges = set[str]()
        """Exchanges that are there."""
        self._opening = anyio.Lock()

    async def wait_connected(self) -> None:
        """Wait until there is a connection."""
        await self._broker.wait_connected()

    async def ensure_topology(self) -> AbstractConnection:
        """See that every queue is there, once for each connection; return the one on which it was so.

        Raises:
            BusMisconfigured: a person must mend something at the broker first.
            BusDown: the connection is gone.
        """
        async with self._opening:
            await self._open_channel()
        assert self._connection is not None
        return self._connection

    async def publish(self, message: Message, exchange: str, routing_key: str, timeout: float) -> None:  # noqa: ASYNC109 - it is the broker's time, not the caller's
        """Send a message, again where the connection is lost meanwhile, and wait for the broker's confirmation.

        Raises:
            MessageReturned: no queue wants it, there is no such exchange, or it is too large for the broker.
            MessageRefused: a queue that wants it is full.
            RightsMissing: this user may not send there.
            BusDown: it was not confirmed within the time.
        """
        lost: BusDown | None = None
        is_silent = True
        parcel = RoutedMessage(message, exchange, routing_key)
        with anyio.move_on_after(timeout):
            while True:
                is_silent = True
                fate = await self._publish_once(parcel)
                is_silent = False
                if fate is None:
                    return
                if not isinstance(fate, BusDown):
                    raise fate
                lost = fate
                await anyio.sleep(RETRY_SECONDS)
        if is_silent and (connection := self._connection) is not None:
            # A line that swallows messages is no line; the next message shall not wait for it, too.
            await self._broker.drop(connection)
        raise BusDown(f"no confirmation within {timeout:g} s", place=self._broker.place) from lost

    async def publish_all(self, sending: PublishBatch, timeout: float) -> None:  # noqa: ASYNC109 - as above
        """Send parcels together, once, and note what becomes of each; that of the others is not known.

        What is known is noted also where this is cancelled.
        """
        with anyio.move_on_after(timeout) as patience:
            for numbers in sending.write_groups():
                await self._publish_group(sending, numbers)
        if patience.cancelled_caught and (connection := self._connection) is not None:
            await self._broker.drop(connection)

    async def _publish_once(self, parcel: RoutedMessage) -> PublishResult:
        sending = PublishBatch([parcel])
        await self._publish_group(sending, [0])
        return sending.results[0]

    async def _publish_group(self, sending: PublishBatch, numbers: Sequence[int]) -> None:
        """Send the parcels of one group and note what becomes of each."""
        down: PublishResult
        try:
            channel = await self._channel_for(sending, numbers)
            wire = await translate_errors(channel.get_underlay_channel(), place=self._broker.place)
            assert isinstance(wire, Channel), "the library's only kind of channel"
            ready = [number for number in numbers if number not in sending.results]
            if ready:
                await translate_errors(
                    publish_group(wire, sending, ready, self._broker.place), place=self._broker.place
                )
            return
        except AMQPChannelError as error:
            down = error_from_channel_close(error, "the broker closed the channel", place=self._broker.place)
        except BusError as error:
            down = error
        for number in numbers:
            sending.results.setdefault(number, down)

    async def _channel_for(self, sending: PublishBatch, numbers: Sequence[int]) -> AbstractChannel:
        """Return the channel to send by; parcels whose exchange is not there have their fate."""
        async with self._opening:
            channel = await self._open_channel()
            wanted = {sending.messages[number].exchange for number in numbers}
            missing = {
                name: fate for name in wanted if (fate := await self._check_exchange(name)) is not None
            }
        for number in numbers:
            if (fate := missing.get(sending.messages[number].exchange)) is not None:
                sending.results[number] = fate
        return channel

    async def _open_channel(self) -> AbstractChannel:
        if self._channel is not None and not self._channel.is_closed:
            return self._channel
        connection = await self._broker.wait_connected()
        await declare_topology(connection, self._topology, place=self._broker.place)
        self._channel = await open_channel(connection, self._broker.place, on_return_raises=True)
        self._connection = connection
        self._known_exchanges.clear()
        return self._channel

    async def _check_exchange(self, exchange: str) -> PublishResult:
        """Look for an exchange by another channel: one that is not there would close this one for all."""
        if exchange in self._known_exchanges:
            return None
        connection = await self._broker.wait_connected()
        other = await open_channel(connection, self._broker.place)
        try:
            await translate_errors(other.get_exchange(exchange, ensure=True), place=self._broker.place)
        except ChannelNotFoundEntity:
            return MessageReturned(f"there is no exchange {exchange!r}", place=self._broker.place)
        except AMQPChannelError as error:
            return BusMisconfigured(describe_error(error), place=self._broker.place)
        finally:
            await close_channel(other, self._broker.place)
        self._known_exchanges.add(exchange)
        return None
