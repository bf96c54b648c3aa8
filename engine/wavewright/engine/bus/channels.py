"""Channels, opened and closed so that a failure of either has a name.

A *channel* is what the broker closes when it refuses something that is done on it; so every concern has its own.
"""

from __future__ import annotations

from typing import Final

import anyio
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import AMQPChannelError

from wavewright.engine.bus.errors import BusDown
from wavewright.engine.bus.guard import CHANNEL_ERRORS, await_reply, describe_error, translate_errors

CLOSE_SECONDS: Final = 3.0
"""How long the broker has to agree; after that the channel goes when its connection goes."""


async def open_channel(
    connection: AbstractConnection, place: str, *, on_return_raises: bool = False
) -> AbstractChannel:
    """Open a channel with confirms.

    Raises:
        BusDown: the connection is gone.
    """
    # `connection.channel()` looks at the connection before anything can be awaited.
    try:
        return await await_reply(_open_translated(connection, on_return_raises), place=place)
    except AMQPChannelError as error:
        raise BusDown(f"no channel could be opened: {describe_error(error)}", place=place) from error


async def close_channel(channel: AbstractChannel, place: str) -> None:
    """Close a channel, also while its task is being cancelled; one that is closed already is fine."""
    if channel.is_closed:
        return
    with anyio.move_on_after(CLOSE_SECONDS, shield=True):
        try:
            await translate_errors(channel.close(), place=place)
        except CHANNEL_ERRORS:
            return


async def _open_translated(connection: AbstractConnection, on_return_raises: bool) -> AbstractChannel:  # noqa: FBT001
    return await connection.channel(on_return_raises=on_return_raises).__aenter__()
