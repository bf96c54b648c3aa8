"""One way of failing for everything that the broker's library does.

A call of the library can end in dozens of exceptions, the bare `Exception` among them, and, when its connection dies,
in a `CancelledError` that nobody in this program asked for: a task group would take that for its own cancellation and
end in silence. A *guarded* call ends with its result, with `BusDown`, with what the broker said about the message or
the call, or because its own task was cancelled; anything else is a fault of this program's, and comes out as it is.

Channels, opened and closed so that a failure of either has a name.

A *channel* is what the broker closes when it refuses something that is done on it; so every concern has its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Final, TypeVar

import anyio
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import CONNECTION_EXCEPTIONS, AMQPChannelError, AMQPError, DeliveryError
from aiormq.exceptions import ChannelAccessRefused

from wavewright.engine.bus.errors import BusDown, BusError, RightsMissing

T = TypeVar("T")

REPLY_SECONDS: Final = 10.0

_RIGHTS_HINT: Final = (
    "let the user: rabbitmqctl set_permissions; `wavewright topology` prints what each user needs"
)

CHANNEL_ERRORS: Final = (BusError, AMQPError)
"""How a guarded call ends on a channel or a connection that is gone: nothing is left there to be closed or settled."""


async def translate_errors(call: Awaitable[T], *, place: str = "") -> T:
    """Await a call of the library.

    Raises:
        BusDown: the connection or the channel is gone.
        DeliveryError: what the broker says about the message: returned or refused.
        AMQPChannelError: what the broker says about the call: not found, not allowed, declared otherwise.
    """
    task = asyncio.current_task()
    assert task is not None
    asked_before = task.cancelling()
    try:
        return await call
    except asyncio.CancelledError as cancelled:
        # Whoever cancels this task says so by asking it; the library lets its own futures fall instead.
        # https://github.com/mosquito/aio-pika: a connection that is stuck rejects what is pending this way.
        if task.cancelling() > asked_before:
            raise
        raise BusDown("the broker went silent, and the connection was given up", place=place) from cancelled
    except (DeliveryError, AMQPChannelError):
        raise
    except (*CONNECTION_EXCEPTIONS, TimeoutError, EOFError) as error:
        raise BusDown(
            f"the connection to the broker was lost: {describe_error(error)}", place=place
        ) from error
    except Exception as error:
        # What waits on a channel that is closed without a reason ends in the bare class.
        # https://github.com/mosquito/aiormq, FutureStore.reject_all: `exception or Exception`
        if type(error) is Exception:
            raise BusDown("the connection to the broker was closed", place=place) from error
        raise


async def await_reply(call: Awaitable[T], *, place: str = "") -> T:
    """Await a guarded call that the broker answers at once when it is well.

    A quorum queue without a leader lets whoever asks wait for a minute; then its channel had better be another.

    Raises:
        BusDown: as a guarded call, and where no answer came.
    """
    try:
        with anyio.fail_after(REPLY_SECONDS):
            return await translate_errors(call, place=place)
    except TimeoutError as error:
        raise BusDown(f"the broker gave no answer within {REPLY_SECONDS:g} s", place=place) from error


def error_from_channel_close(error: AMQPChannelError, message: str, *, place: str) -> BusError:
    """Return what it means that the broker has closed a channel: with a mend where the user has too few rights."""
    if isinstance(error, ChannelAccessRefused):
        return RightsMissing(f"{message}: {describe_error(error)}", place=place, hint=_RIGHTS_HINT)
    return BusDown(f"{message}: {describe_error(error)}", place=place)


def describe_error(error: BaseException) -> str:
    """Return what an exception of the library says, in one line."""
    said = " ".join(str(error).split())
    return said or type(error).__name__


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
