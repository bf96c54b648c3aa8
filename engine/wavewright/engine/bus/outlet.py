"""Messages go out, each until the broker has confirmed it.

A publish ends in one of four ways: confirmed, returned because no queue wants it, refused because a queue is full,
or `BusDown`, after which nobody knows whether it arrived. It never ends in silence, and it always ends in time.
"""

from __future__ import annotations

from typing import Final

import anyio
from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractConnection, AbstractExchange
from aio_pika.exceptions import AMQPChannelError, ChannelNotFoundEntity, DeliveryError, PublishError

from wavewright.engine.bus.channels import close_channel, open_channel
from wavewright.engine.bus.declaring import declare_topology
from wavewright.engine.bus.errors import BusDown, BusMisconfigured, MessageRefused, MessageReturned
from wavewright.engine.bus.guard import describe, guarded
from wavewright.engine.bus.line import Line
from wavewright.engine.bus.topology import Topology

PAUSE: Final = 0.1


class Outlet:
    """The way out, on a connection of its own: a broker that slows senders down does not slow down the intake."""

    def __init__(self, line: Line, topology: Topology) -> None:
        self._line = line
        self._topology = topology
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._exchanges: dict[str, AbstractExchange] = {}
        self._opening = anyio.Lock()

    async def ready(self) -> None:
        """Wait until there is a connection."""
        await self._line.connection()

    async def publish(self, message: Message, exchange: str, routing_key: str, timeout: float) -> None:  # noqa: ASYNC109 - it is the broker's time, not the caller's
        """Send a message, again where the connection is lost meanwhile, and wait for the broker's confirmation.

        Raises:
            MessageReturned: no queue wants it, or there is no such exchange.
            MessageRefused: a queue that wants it is full.
            BusDown: it was not confirmed within the time.
        """
        connection: AbstractConnection | None = None
        lost: BusDown | None = None
        with anyio.move_on_after(timeout):
            while True:
                try:
                    return await self._publish_once(message, exchange, routing_key)
                except BusDown as error:
                    lost = error
                connection = self._connection
                await anyio.sleep(PAUSE)
        if lost is None and (connection := self._connection) is not None:
            # A line that swallows messages is no line; the next message shall not wait for it, too.
            await self._line.drop(connection)
        raise BusDown(f"no confirmation within {timeout:g} s", place=self._line.place) from lost

    async def _publish_once(self, message: Message, exchange: str, routing_key: str) -> None:
        place = f"{self._line.place}, exchange {exchange!r}, routing key {routing_key!r}"
        way = await self._way(exchange)
        try:
            await guarded(way.publish(message, routing_key, mandatory=True), place=place)
        except PublishError as error:
            raise MessageReturned(
                "no queue is bound for the message",
                place=place,
                mend="bind a queue there, then send it again",
            ) from error
        except DeliveryError as error:
            raise MessageRefused("the broker refused the message: its queue is full", place=place) from error
        except AMQPChannelError as error:
            raise BusDown(f"the broker closed the channel: {describe(error)}", place=place) from error

    async def _way(self, exchange: str) -> AbstractExchange:
        async with self._opening:
            channel = await self._open_channel()
            known = self._exchanges.get(exchange)
            if known is None:
                known = self._exchanges[exchange] = await self._find(channel, exchange)
            return known

    async def _open_channel(self) -> AbstractChannel:
        if self._channel is not None and not self._channel.is_closed:
            return self._channel
        connection = await self._line.connection()
        await declare_topology(connection, self._topology, place=self._line.place)
        self._channel = await open_channel(connection, self._line.place, on_return_raises=True)
        self._connection = connection
        self._exchanges = {}
        return self._channel

    async def _find(self, channel: AbstractChannel, name: str) -> AbstractExchange:
        """Return an exchange after a look on another channel: one that is not there would close this one for all."""
        connection = await self._line.connection()
        other = await open_channel(connection, self._line.place)
        try:
            await guarded(other.get_exchange(name, ensure=True), place=self._line.place)
        except ChannelNotFoundEntity as error:
            raise MessageReturned(f"there is no exchange {name!r}", place=self._line.place) from error
        except AMQPChannelError as error:
            raise BusMisconfigured(describe(error), place=self._line.place) from error
        finally:
            await close_channel(other, self._line.place)
        return await guarded(channel.get_exchange(name, ensure=False), place=self._line.place)
