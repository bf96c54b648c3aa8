"""Errors, events and health of the bus, and calls of the AMQP library that raise these errors.

An error has its place and, where there is one, the fix; none holds a password. An event has a name
and fields, for log and metrics, and holds no secret. `BrokerHealth` holds the faults that a person
must fix at the broker, for consuming and for publishing; a fault is reported at once and then once
a minute.

The library raises dozens of exceptions, the bare `Exception` among them. When a connection dies it
also cancels its own futures, and a task group would mistake that `CancelledError` for its own
cancellation and end without an error. A translated call returns, raises `BusDown` where the
connection or channel is gone, passes on the broker's answer about the message or the call, and is
cancelled only where its own task is.

The broker closes a channel on which it refuses an operation, so each use has a channel of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, TypeAlias, TypeVar

import anyio
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import CONNECTION_EXCEPTIONS, AMQPChannelError, AMQPError, DeliveryError
from aiormq.exceptions import ChannelAccessRefused
from pydantic import JsonValue

from wavewright.config import WavewrightError, exit_codes


class BusError(WavewrightError):
    """An operation of the bus failed; `place` is the broker's address, or a queue or an exchange
    there.
    """

    exit_code = exit_codes.ENVIRONMENT
    __str__ = WavewrightError.describe


class BusMisconfigured(BusError):
    """Settings or broker must be changed first; trying again is no use."""

    exit_code = exit_codes.MISUSE


class RightsMissing(BusMisconfigured):
    """The broker's user lacks a right."""


class BusDown(BusError):
    """The broker cannot be reached, or the connection was lost before it answered; a message may
    have arrived.
    """


class BrokerBlocked(BusDown):
    """The broker takes no messages, because of an alarm: its memory or its disk."""


class MessageReturned(BusError):
    """The message cannot be delivered: no queue is bound, or it is too large for the broker."""


class MessageNacked(BusError):
    """The broker refused the message because its queue is full."""


BrokerEvent: TypeAlias = Literal[
    "broker_away",
    "broker_blocked",
    "broker_connected",
    "broker_lost",
    "broker_misconfigured",
    "broker_unblocked",
    "broker_unencrypted",
    "message_dead_lettered",
    "message_returned",
    "message_refused",
    "outbox_unreachable",
    "reply_failed",
    "queue_has_room",
    "rights_missing",
]

BrokerEventHandler: TypeAlias = Callable[[BrokerEvent, Mapping[str, JsonValue]], None]
"""Called with the name and the fields of an event."""


def ignore_event(name: BrokerEvent, fields: Mapping[str, JsonValue], /) -> None:
    """Do nothing."""
    del name, fields


ALARM: Final = "the broker has an alarm and takes no messages"
ALARM_HINT: Final = "`rabbitmq-diagnostics alarms` names it: free memory or disk space"

Direction: TypeAlias = Literal["in", "out"]

REPORT_SECONDS: Final = 60.0
"""How often the same fault is reported."""


class BrokerHealth:
    """Current faults by direction."""

    def __init__(self, on_event: BrokerEventHandler) -> None:
        self._on_event = on_event
        self._faults = dict[Direction, str]()
        self._report_due = dict[tuple[Direction, str], float]()
        """When a fault may be reported again; kept after it is over, since it may come back."""

    @property
    def reason(self) -> str | None:
        """One of the current faults; None without any."""
        return next(iter(self._faults.values()), None)

    def report_fault(self, direction: Direction, error: BusMisconfigured) -> None:
        """Store a fault, and report it where that is due."""
        self._faults[direction] = error.message
        now = anyio.current_time()
        if now < self._report_due.get((direction, error.message), now):
            return
        self._report_due = {fault: due for fault, due in self._report_due.items() if due > now}
        self._report_due[direction, error.message] = now + REPORT_SECONDS
        name: BrokerEvent = (
            "rights_missing" if isinstance(error, RightsMissing) else "broker_misconfigured"
        )
        self._on_event(name, {"error": error.message, "hint": error.hint})

    def clear_fault(self, direction: Direction) -> None:
        """Remove the fault of a direction that works."""
        self._faults.pop(direction, None)


T = TypeVar("T")

REPLY_SECONDS: Final = 10.0

_RIGHTS_HINT: Final = (
    "let the user: rabbitmqctl set_permissions;"
    " `wavewright daemon --topology` prints what each user needs"
)

CHANNEL_ERRORS: Final = (BusError, AMQPError)
"""What a translated call raises where the channel or connection is gone, so nothing is left to
close or settle.
"""


async def translate_errors(call: Awaitable[T], *, place: str = "") -> T:
    """Await a call of the library.

    Raises:
        BusDown: the connection or the channel is gone.
        DeliveryError: the broker returned or refused the message.
        AMQPChannelError: the broker refused the call: not found, not allowed, declared differently.
    """
    task = asyncio.current_task()
    assert task is not None
    asked_before = task.cancelling()
    try:
        return await call
    except asyncio.CancelledError as cancelled:
        # A cancelled task has a higher `cancelling()` count; the library cancels only its own futures.
        # https://github.com/mosquito/aio-pika: a connection without heartbeats rejects pending calls this way.
        if task.cancelling() > asked_before:
            raise
        raise BusDown(
            "the broker stopped answering, and the connection was closed", place=place
        ) from cancelled
    except (DeliveryError, AMQPChannelError):
        raise
    except (*CONNECTION_EXCEPTIONS, TimeoutError, EOFError) as error:
        raise BusDown(
            f"the connection to the broker was lost: {describe_error(error)}", place=place
        ) from error
    except Exception as error:
        # Calls that wait on a channel which is closed without a reason raise the bare class.
        # https://github.com/mosquito/aiormq, FutureStore.reject_all: `exception or Exception`
        if type(error) is Exception:
            raise BusDown("the connection to the broker was closed", place=place) from error
        raise


async def await_reply(call: Awaitable[T], *, place: str = "") -> T:
    """Await a call of the library for at most `REPLY_SECONDS`: a quorum queue without a leader
    answers after a minute.

    Raises:
        BusDown: as `translate_errors`, and where no answer came in time.
    """
    try:
        with anyio.fail_after(REPLY_SECONDS):
            return await translate_errors(call, place=place)
    except TimeoutError as error:
        raise BusDown(
            f"the broker gave no answer within {REPLY_SECONDS:g} s", place=place
        ) from error


def error_from_channel_close(error: AMQPChannelError, message: str, *, place: str) -> BusError:
    """Return the error for a channel that the broker has closed; with a hint where the user lacks
    the rights.
    """
    if isinstance(error, ChannelAccessRefused):
        return RightsMissing(f"{message}: {describe_error(error)}", place=place, hint=_RIGHTS_HINT)
    return BusDown(f"{message}: {describe_error(error)}", place=place)


def describe_error(error: BaseException) -> str:
    """Return the message of an exception of the library, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


CLOSE_SECONDS: Final = 3.0
"""How long to wait for the broker to close a channel; after that it ends with its connection."""


async def open_channel(connection: AbstractConnection, place: str) -> AbstractChannel:
    """Open a channel with confirms, on which a returned message raises an error.

    Raises:
        BusDown: the connection is gone.
    """
    # `connection.channel()` may raise before there is anything to await.
    try:
        return await await_reply(_open(connection), place=place)
    except AMQPChannelError as error:
        raise BusDown(
            f"no channel could be opened: {describe_error(error)}", place=place
        ) from error


async def close_channel(channel: AbstractChannel, place: str) -> None:
    """Close a channel, also while the task is being cancelled; does nothing where it is closed."""
    if channel.is_closed:
        return
    with anyio.move_on_after(CLOSE_SECONDS, shield=True):
        try:
            await translate_errors(channel.close(), place=place)
        except CHANNEL_ERRORS:
            return


async def _open(connection: AbstractConnection) -> AbstractChannel:
    return await connection.channel(on_return_raises=True).__aenter__()
