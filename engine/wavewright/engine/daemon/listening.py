"""What the daemon tells, as it is told, for whoever looks on.

A *listener* has a queue of its own, which ends with it, beside those that others read from: nobody misses a message
because somebody looks on.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager

import aio_pika
from aio_pika.abc import AbstractQueueIterator

from wavewright.engine.bus.address import read_address
from wavewright.engine.bus.errors import BusDown
from wavewright.engine.bus.guard import guarded
from wavewright.planner.types import Json, JsonObject


@asynccontextmanager
async def listening(
    url: str, exchange: str, keys: Sequence[str]
) -> AsyncGenerator[AsyncIterator[JsonObject]]:
    """Give the envelopes that are sent under routing keys from now on, until the connection ends.

    Raises:
        BusMisconfigured: the address cannot work.
        BusDown: there is no broker, or it went away.
    """
    address = read_address(url)
    connection = await guarded(
        aio_pika.connect(address.url, client_properties={"connection_name": "wavewright tail"}),
        place=address.shown,
    )
    async with connection:
        channel = await guarded(connection.channel().__aenter__(), place=address.shown)
        queue = await guarded(channel.declare_queue(exclusive=True, auto_delete=True), place=address.shown)
        for key in keys:
            await guarded(queue.bind(exchange, key), place=address.shown)
        async with queue.iterator(no_ack=True) as messages:
            yield _envelopes(messages, address.shown)


async def _envelopes(messages: AbstractQueueIterator, place: str) -> AsyncIterator[JsonObject]:
    while True:
        try:
            message = await guarded(anext(messages), place=place)
        except StopAsyncIteration:
            raise BusDown("the broker went away", place=place, mend="call it again") from None
        try:
            envelope: Json = json.loads(message.body)
        except ValueError:
            continue
        if isinstance(envelope, dict) and isinstance(envelope.get("payload"), dict):
            yield envelope
