"""Confirmed publishing of messages, one by one or many at once.

A publish has one of four results: confirmed; returned, because no queue is bound; refused, because
a queue is full; or `BusDown`, where it is unknown whether the message arrived. It always ends
within its timeout.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import anyio
from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import (
    AMQPChannelError,
    ChannelNotFoundEntity,
    DeliveryError,
    PublishError,
)

from wavewright.engine.service.bus.connection import BrokerConnection
from wavewright.engine.service.bus.declaration import declare_topology
from wavewright.engine.service.bus.faults import (
    ALARM_HINT,
    BrokerBlocked,
    BusDown,
    BusError,
    BusMisconfigured,
    MessageNacked,
    MessageReturned,
    close_channel,
    describe_error,
    error_from_channel_close,
    open_channel,
    translate_errors,
)
from wavewright.engine.service.bus.topology import Topology

_TOO_LARGE_REASON: Final = re.compile(
    "the message has [0-9]+ bytes, and the broker takes at most [0-9]+"
)
_TOO_LARGE_REPLY: Final = re.compile(
    r"message size [0-9]+ is larger than configured max size (?P<most>[0-9]+)"
)

PublishResult: TypeAlias = BusError | None
"""None where the broker confirmed the message; `BusDown` where the outcome is unknown."""


@dataclass(frozen=True, slots=True)
class RoutedMessage:
    """A message with its exchange and routing key."""

    message: Message
    exchange: str
    routing_key: str


@dataclass(frozen=True, slots=True)
class PublishBatch:
    """Messages to publish together, and the results known so far, also where publishing was
    cancelled.
    """

    messages: Sequence[RoutedMessage]
    results: dict[int, PublishResult] = field(default_factory=dict[int, PublishResult])
    """By the position of the message."""


async def publish_on(channel: AbstractChannel, routed: RoutedMessage, place: str) -> PublishResult:
    """Publish a message on a channel, and return what became of it.

    Messages that are published at once get their places in the order in which this is called.
    """
    place = f"{place}, exchange {routed.exchange!r}, routing key {routed.routing_key!r}"
    try:
        exchange = await channel.get_exchange(routed.exchange, ensure=False)
        await translate_errors(exchange.publish(routed.message, routed.routing_key), place=place)
    except PublishError:
        hint = "bind a queue there, then send it again"
        return MessageReturned("no queue is bound for the message", place=place, hint=hint)
    except DeliveryError:
        return MessageNacked("the broker refused the message: its queue is full", place=place)
    except AMQPChannelError as error:
        too_large = _too_large_result(routed, error, place)
        return too_large or error_from_channel_close(
            error, "the broker closed the channel", place=place
        )
    except BusDown as error:
        return error
    return None


def is_too_large(reason: str) -> bool:
    """Return whether the reason of a return says that the message is too large for the broker."""
    return bool(_TOO_LARGE_REASON.fullmatch(reason))


def _too_large_result(routed: RoutedMessage, cause: AMQPChannelError, place: str) -> PublishResult:
    """Return the result of a message for whose size the broker closed the channel; None for others."""
    reply = _TOO_LARGE_REPLY.search(describe_error(cause))
    size = len(routed.message.body)
    if reply is None or size <= int(reply["most"]):
        return None
    return MessageReturned(
        f"the message has {size} bytes, and the broker takes at most {reply['most']}",
        place=place,
        hint="set daemon.max_sent to no more than that, or raise the broker's max_message_size",
    )


RETRY_SECONDS: Final = 0.1


class Publisher:
    """Publishes on a connection of its own: a broker that throttles publishers does not slow down
    consumers.
    """

    def __init__(self, broker: BrokerConnection, topology: Topology) -> None:
        self._broker = broker
        self._topology = topology
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._known_exchanges = set[str]()
        """Exchanges that exist."""
        self._opening = anyio.Lock()

    async def wait_connected(self) -> None:
        """Wait until there is a connection."""
        await self._broker.wait_connected()

    async def ensure_topology(self) -> AbstractConnection:
        """Declare the topology, once per connection, and return the connection.

        Raises:
            BusMisconfigured: settings or broker must be changed first.
            BusDown: the connection is gone.
        """
        async with self._opening:
            await self._open_channel()
        assert self._connection is not None
        return self._connection

    async def publish(
        self,
        message: Message,
        exchange: str,
        routing_key: str,
        timeout: float,  # noqa: ASYNC109 - it is the broker's time, not the caller's
    ) -> None:
        """Publish a message, again where the connection is lost meanwhile, and wait for the
        confirmation.

        Raises:
            MessageReturned: no queue is bound, the exchange is missing, or the message is too large
                for the broker.
            MessageNacked: a queue that is bound is full.
            RightsMissing: this user may not publish there.
            BusDown: the message was not confirmed within `timeout` seconds.
        """
        lost: BusDown | None = None
        is_silent = True
        routed = RoutedMessage(message, exchange, routing_key)
        with anyio.move_on_after(timeout):
            while True:
                is_silent = True
                result = await self._publish_once(routed)
                is_silent = False
                if result is None:
                    return
                if not isinstance(result, BusDown):
                    raise result
                lost = result
                await anyio.sleep(RETRY_SECONDS)
        if self._broker.alarm is not None:
            raise BrokerBlocked(
                self._broker.alarm, place=self._broker.place, hint=ALARM_HINT
            ) from lost
        if is_silent and (connection := self._connection) is not None:
            # No confirmation on an open connection: it is replaced, so that the next message does
            # not wait for it.
            await self._broker.drop(connection)
        raise BusDown(f"no confirmation within {timeout:g} s", place=self._broker.place) from lost

    async def publish_all(self, batch: PublishBatch, timeout: float) -> None:  # noqa: ASYNC109 - as above
        """Publish a batch once and store the results that become known, also where this is
        cancelled.
        """
        with anyio.move_on_after(timeout) as patience:
            await self._publish_batch(batch)
        # While the broker blocks publishers a new connection would be blocked as well.
        is_silent = patience.cancelled_caught and self._broker.alarm is None
        if is_silent and (connection := self._connection) is not None:
            await self._broker.drop(connection)

    async def _publish_once(self, routed: RoutedMessage) -> PublishResult:
        batch = PublishBatch([routed])
        await self._publish_batch(batch)
        return batch.results[0]

    async def _publish_batch(self, batch: PublishBatch) -> None:
        """Publish the messages of a batch at once and store each result as soon as it is known."""
        down: PublishResult
        try:
            channel = await self._channel_for(batch)
            # What is written while the broker blocks would be published twice in the end.
            await translate_errors(self._broker.wait_unblocked(), place=self._broker.place)
        except AMQPChannelError as error:
            down = error_from_channel_close(
                error, "the broker closed the channel", place=self._broker.place
            )
        except BusError as error:
            down = error
        else:
            async with anyio.create_task_group() as tasks:
                for number in range(len(batch.messages)):
                    if number not in batch.results:
                        tasks.start_soon(self._publish_one, channel, batch, number)
            return
        for number in range(len(batch.messages)):
            batch.results.setdefault(number, down)

    async def _publish_one(
        self, channel: AbstractChannel, batch: PublishBatch, number: int
    ) -> None:
        routed = batch.messages[number]
        batch.results[number] = await publish_on(channel, routed, self._broker.place)

    async def _channel_for(self, batch: PublishBatch) -> AbstractChannel:
        """Return the channel to publish on; store the results of messages to a missing exchange."""
        async with self._opening:
            channel = await self._open_channel()
            for exchange in {routed.exchange for routed in batch.messages}:
                if (missing := await self._check_exchange(exchange)) is not None:
                    for number, routed in enumerate(batch.messages):
                        if routed.exchange == exchange:
                            batch.results[number] = missing
        return channel

    async def _open_channel(self) -> AbstractChannel:
        if self._channel is not None and not self._channel.is_closed:
            return self._channel
        connection = await self._broker.wait_connected()
        await declare_topology(connection, self._topology, place=self._broker.place)
        self._channel = await open_channel(connection, self._broker.place)
        self._connection = connection
        self._known_exchanges.clear()
        return self._channel

    async def _check_exchange(self, exchange: str) -> PublishResult:
        """Check an exchange on another channel, which the broker closes where the exchange is
        missing.
        """
        if exchange in self._known_exchanges:
            return None
        connection = await self._broker.wait_connected()
        other = await open_channel(connection, self._broker.place)
        try:
            await translate_errors(
                other.get_exchange(exchange, ensure=True), place=self._broker.place
            )
        except ChannelNotFoundEntity:
            return MessageReturned(f"there is no exchange {exchange!r}", place=self._broker.place)
        except AMQPChannelError as error:
            return BusMisconfigured(describe_error(error), place=self._broker.place)
        finally:
            await close_channel(other, self._broker.place)
        self._known_exchanges.add(exchange)
        return None
