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
from wavewright.engine.bus.guard import describe, guarded, judged
from wavewright.engine.bus.line import Line
from wavewright.engine.bus.shipment import Fate, Parcel, Sending, ship
from wavewright.engine.bus.topology import Topology

PAUSE: Final = 0.1


class Outlet:
    """The way out, on a connection of its own: a broker that slows senders down does not slow down the intake."""

    def __init__(self, line: Line, topology: Topology) -> None:
        self._line = line
        self._topology = topology
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._known = set[str]()
        """Exchanges that are there."""
        self._opening = anyio.Lock()

    async def ready(self) -> None:
        """Wait until there is a connection."""
        await self._line.connection()

    async def open(self) -> AbstractConnection:
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
        parcel = Parcel(message, exchange, routing_key)
        with anyio.move_on_after(timeout):
            while True:
                is_silent = True
                fate = await self._fate_of(parcel)
                is_silent = False
                if fate is None:
                    return
                if not isinstance(fate, BusDown):
                    raise fate
                lost = fate
                await anyio.sleep(PAUSE)
        if is_silent and (connection := self._connection) is not None:
            # A line that swallows messages is no line; the next message shall not wait for it, too.
            await self._line.drop(connection)
        raise BusDown(f"no confirmation within {timeout:g} s", place=self._line.place) from lost

    async def publish_all(self, sending: Sending, timeout: float) -> None:  # noqa: ASYNC109 - as above
        """Send parcels together, once, and note what becomes of each; that of the others is not known.

        What is known is noted also where this is cancelled.
        """
        with anyio.move_on_after(timeout) as patience:
            for numbers in sending.groups():
                await self._ship(sending, numbers)
        if patience.cancelled_caught and (connection := self._connection) is not None:
            await self._line.drop(connection)

    async def _fate_of(self, parcel: Parcel) -> Fate:
        sending = Sending([parcel])
        await self._ship(sending, [0])
        return sending.fates[0]

    async def _ship(self, sending: Sending, numbers: Sequence[int]) -> None:
        """Send the parcels of one group and note what becomes of each."""
        down: Fate
        try:
            channel = await self._find_ways(sending, numbers)
            wire = await guarded(channel.get_underlay_channel(), place=self._line.place)
            assert isinstance(wire, Channel), "the library's only kind of channel"
            ready = [number for number in numbers if number not in sending.fates]
            if ready:
                await guarded(ship(wire, sending, ready, self._line.place), place=self._line.place)
            return
        except AMQPChannelError as error:
            down = judged(error, "the broker closed the channel", place=self._line.place)
        except BusError as error:
            down = error
        for number in numbers:
            sending.fates.setdefault(number, down)

    async def _find_ways(self, sending: Sending, numbers: Sequence[int]) -> AbstractChannel:
        """Return the channel to send by; parcels whose exchange is not there have their fate."""
        async with self._opening:
            channel = await self._open_channel()
            wanted = {sending.parcels[number].exchange for number in numbers}
            missing = {name: fate for name in wanted if (fate := await self._look_for(name)) is not None}
        for number in numbers:
            if (fate := missing.get(sending.parcels[number].exchange)) is not None:
                sending.fates[number] = fate
        return channel

    async def _open_channel(self) -> AbstractChannel:
        if self._channel is not None and not self._channel.is_closed:
            return self._channel
        connection = await self._line.connection()
        await declare_topology(connection, self._topology, place=self._line.place)
        self._channel = await open_channel(connection, self._line.place, on_return_raises=True)
        self._connection = connection
        self._known.clear()
        return self._channel

    async def _look_for(self, exchange: str) -> Fate:
        """Look for an exchange by another channel: one that is not there would close this one for all."""
        if exchange in self._known:
            return None
        connection = await self._line.connection()
        other = await open_channel(connection, self._line.place)
        try:
            await guarded(other.get_exchange(exchange, ensure=True), place=self._line.place)
        except ChannelNotFoundEntity:
            return MessageReturned(f"there is no exchange {exchange!r}", place=self._line.place)
        except AMQPChannelError as error:
            return BusMisconfigured(describe(error), place=self._line.place)
        finally:
            await close_channel(other, self._line.place)
        self._known.add(exchange)
        return None
