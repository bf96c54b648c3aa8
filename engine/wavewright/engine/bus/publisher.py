"""Many messages in one write.

A *shipment* is a batch of messages that goes to the broker in one piece; each has a confirmation of its own
nevertheless. The library sends one message at a time, with a task, a lock and a system call each; here its own frames
and numbers are used for many at once. What becomes of a message is its *fate*, and each has one in the end.

Messages go out, each until the broker has confirmed it.

A publish ends in one of four ways: confirmed, returned because no queue wants it, refused because a queue is full,
or `BusDown`, after which nobody knows whether it arrived. It never ends in silence, and it always ends in time.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import anyio
from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import AMQPChannelError, ChannelNotFoundEntity, PublishError
from aiormq.abc import ChannelFrame
from aiormq.channel import Channel
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.frame import FrameTypes
from pamqp.frame import marshal as bytes_of_frame
from pamqp.header import ContentHeader

from wavewright.engine.bus.channels import (
    close_channel,
    describe_error,
    error_from_channel_close,
    open_channel,
    translate_errors,
)
from wavewright.engine.bus.connection import BrokerConnection
from wavewright.engine.bus.declaration import declare_topology
from wavewright.engine.bus.errors import BusDown, BusError, BusMisconfigured, MessageNacked, MessageReturned
from wavewright.engine.bus.topology import Topology

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# The library does not say what its futures and queues hold.


MAX_WRITE_BYTES: Final = 1024 * 1024
"""Bytes of bodies that are put together for one write."""

_TOO_LARGE_REASON: Final = re.compile("the message has [0-9]+ bytes, and the broker takes at most [0-9]+")
_TOO_LARGE_REPLY: Final = re.compile(
    r"message size [0-9]+ is larger than configured max size (?P<most>[0-9]+)"
)

PublishResult: TypeAlias = BusError | None
"""None where the broker has confirmed the message; `BusDown` where nobody knows."""

_Confirmation: TypeAlias = "asyncio.Future[Any]"


@dataclass(frozen=True, slots=True)
class RoutedMessage:
    """A message and where it goes."""

    message: Message
    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class PublishBatch:
    """Parcels on their way, and what is known of their fates: also where the sending was cut short."""

    messages: Sequence[RoutedMessage]
    results: dict[int, PublishResult] = field(default_factory=dict[int, PublishResult])
    """By the parcel's number."""

    def write_groups(self) -> list[list[int]]:
        """Return the parcels' numbers in their order, in groups whose bodies are not too much for one write."""
        groups, size = list[list[int]](), MAX_WRITE_BYTES
        for number, parcel in enumerate(self.messages):
            if size >= MAX_WRITE_BYTES:
                groups.append([])
                size = 0
            groups[-1].append(number)
            size += len(parcel.message.body)
        return groups


async def publish_group(channel: Channel, sending: PublishBatch, numbers: Sequence[int], place: str) -> None:
    """Send these parcels in one piece and wait until the fate of each is known.

    Where the channel ends first, or this is cancelled, those that were confirmed by then are noted as such.
    Whatever the library raises on a channel that is gone is raised: nothing was sent then.
    """
    parcels = [sending.messages[number] for number in numbers]
    # Not of the channel's own making: each of those costs four calls of the event loop, and one can tell of the end.
    confirmations: list[_Confirmation] = [channel.loop.create_future() for _ in parcels]
    payload = b"".join(_payloads(channel, parcels))
    with _confirmations_ended(channel, confirmations) as end:
        async with channel.lock:
            with _confirmations_registered(channel, parcels, confirmations):
                await channel.write_queue.put(ChannelFrame(payload, should_close=False))
        try:
            await asyncio.wait(confirmations)
        finally:
            for parcel in parcels:
                channel.message_id_delivery_tag.pop(str(parcel.message.message_id), None)
            for number, parcel, confirmation in zip(numbers, parcels, confirmations, strict=True):
                if confirmation.done():
                    sending.results[number] = _result(parcel, confirmation, end, place)


@contextmanager
def _confirmations_registered(
    channel: Channel, parcels: Sequence[RoutedMessage], confirmations: Sequence[_Confirmation]
) -> Generator[None]:
    """Give each message its number, as the broker counts them, where the block sends them."""
    numbered = dict(enumerate(confirmations, channel.delivery_tag + 1))
    ids = [str(parcel.message.message_id) for parcel in parcels]
    channel.confirmations.update(numbered)
    # What is returned names its message by its id.
    channel.message_id_delivery_tag.update(zip(ids, numbered, strict=True))
    try:
        yield
    except BaseException:
        # The broker has not seen them, so their numbers are the next ones' still.
        for number, message in zip(numbered, ids, strict=True):
            channel.confirmations.pop(number, None)
            channel.message_id_delivery_tag.pop(message, None)
        raise
    channel.delivery_tag += len(numbered)


@contextmanager
def _confirmations_ended(
    channel: Channel, confirmations: Sequence[_Confirmation]
) -> Generator[_Confirmation]:
    """Let nobody wait for confirmations of a channel that has ended, or of a block that was left."""
    end = channel.create_future()

    def tell(_: _Confirmation) -> None:
        for confirmation in confirmations:
            confirmation.cancel()

    end.add_done_callback(tell)
    try:
        yield end
    finally:
        end.cancel()


def _payloads(channel: Channel, parcels: Sequence[RoutedMessage]) -> Generator[bytes]:
    ways = dict[tuple[str, str], bytes]()
    for parcel in parcels:
        key = parcel.exchange, parcel.routing_key
        if (way := ways.get(key)) is None:
            publish = Basic.Publish(exchange=key[0], routing_key=key[1], mandatory=True)
            way = ways[key] = bytes_of_frame(publish, channel.number)
        yield way
        for frame in _frames(parcel.message, channel.max_content_size):
            yield bytes_of_frame(frame, channel.number)


def _frames(message: Message, most: int) -> Generator[FrameTypes]:
    body = message.body
    yield ContentHeader(properties=message.properties, body_size=len(body))
    for start in range(0, len(body), most):
        yield ContentBody(body[start : start + most])


def is_too_large(reason: str) -> bool:
    """Return whether a message was returned because it is too large for the broker, by what was told of it."""
    return bool(_TOO_LARGE_REASON.fullmatch(reason))


def _too_large_result(parcel: RoutedMessage, cause: AMQPChannelError, place: str) -> PublishResult:
    """Return the fate of the message for which the broker closed the channel to all; the others' is not known."""
    said = _TOO_LARGE_REPLY.search(describe_error(cause))
    size = len(parcel.message.body)
    if said is None or size <= int(said["most"]):
        return None
    return MessageReturned(
        f"the message has {size} bytes, and the broker takes at most {said['most']}",
        place=place,
        hint="set daemon.max_sent to no more than that, or raise the broker's max_message_size",
    )


def _result(
    parcel: RoutedMessage, confirmation: _Confirmation, end: _Confirmation, place: str
) -> PublishResult:
    if not confirmation.cancelled() and confirmation.exception() is None:
        return None
    place = f"{place}, exchange {parcel.exchange!r}, routing key {parcel.routing_key!r}"
    if confirmation.cancelled():
        cause = end.exception() if end.done() and not end.cancelled() else None
        if isinstance(cause, AMQPChannelError):
            if (too_large := _too_large_result(parcel, cause, place)) is not None:
                return too_large
            return error_from_channel_close(cause, "the broker closed the channel", place=place)
        said = "" if cause is None else f": {describe_error(cause)}"
        return BusDown(f"the broker closed the channel{said}", place=place)
    if isinstance(confirmation.exception(), PublishError):
        hint = "bind a queue there, then send it again"
        return MessageReturned("no queue is bound for the message", place=place, hint=hint)
    # The library says nothing else of a message.
    return MessageNacked("the broker refused the message: its queue is full", place=place)


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
