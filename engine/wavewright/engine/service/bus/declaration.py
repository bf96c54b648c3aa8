"""Declaring exchanges and queues, and checking write rights.

What is missing is declared; what exists is never changed. A user without the right to declare
suffices where everything exists. An exchange or queue with other arguments is an error that names
the difference.

Write rights are checked without delivering a message. RabbitMQ checks the right to write, by
exchange and by routing key, before it validates a message's properties. So a message with an
invalid `expiration` is refused either for lack of the right or for the property. Where the exchange
does not exist yet, its name is checked and the routing key is not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from aio_pika.abc import AbstractChannel, AbstractConnection, ExchangeType
from aio_pika.exceptions import AMQPChannelError, ChannelNotFoundEntity, ChannelPreconditionFailed
from aiormq.exceptions import ChannelAccessRefused
from pamqp.commands import Basic

from wavewright.engine.service.bus.alarms import AlarmProbe, find_alarm
from wavewright.engine.service.bus.faults import (
    ALARM_HINT,
    BrokerBlocked,
    BusDown,
    BusMisconfigured,
    RightsMissing,
    await_reply,
    close_channel,
    describe_error,
    open_channel,
)
from wavewright.engine.service.bus.topology import QueueDeclaration, Topology

_Declaration = Callable[[AbstractChannel], Awaitable[object]]

_RIGHTS_TO_DECLARE_HINT: Final = (
    "declare it as the broker's administrator, or grant the right with rabbitmqctl set_permissions"
)


async def declare_topology(
    connection: AbstractConnection, topology: Topology, *, place: str
) -> None:
    """Declare the exchanges and queues that are missing.

    Raises:
        BusMisconfigured: one exists with other arguments, or is missing and this user may not
            declare it.
        BusDown: the connection is gone.
    """
    for exchange in topology.exchanges():
        await _declare_exchange(connection, exchange, place)
    for queue in topology.queues():
        await _declare_queue(connection, queue, place)


async def _declare_exchange(connection: AbstractConnection, name: str, place: str) -> None:
    async def declare(channel: AbstractChannel) -> object:
        return await channel.declare_exchange(name, ExchangeType.TOPIC, durable=True)

    async def check(channel: AbstractChannel) -> object:
        return await channel.declare_exchange(name, ExchangeType.TOPIC, passive=True)

    await _declare_or_verify(connection, declare, check, f"exchange {name!r}", place)


async def _declare_queue(
    connection: AbstractConnection, form: QueueDeclaration, place: str
) -> None:
    async def declare(channel: AbstractChannel) -> object:
        queue = await channel.declare_queue(form.name, durable=True, arguments=dict(form.arguments))
        return await queue.bind(form.exchange, form.binding)

    async def check(channel: AbstractChannel) -> object:
        return await channel.declare_queue(form.name, passive=True)

    await _declare_or_verify(connection, declare, check, f"queue {form.name!r}", place)


async def _declare_or_verify(
    connection: AbstractConnection,
    declare: _Declaration,
    check: _Declaration,
    what: str,
    place: str,
) -> None:
    try:
        await _on_channel(connection, declare, place)
    except ChannelAccessRefused:
        await _verify_exists(connection, check, what, place)
    except ChannelPreconditionFailed as error:
        raise BusMisconfigured(
            f"{what} exists with other arguments: {describe_error(error)}",
            place=place,
            hint="the broker cannot change them: delete it once it is empty, or set another name under daemon.queues",
        ) from error
    except AMQPChannelError as error:
        raise BusMisconfigured(
            f"{what} cannot be declared: {describe_error(error)}", place=place
        ) from error


async def _verify_exists(
    connection: AbstractConnection, check: _Declaration, what: str, place: str
) -> None:
    try:
        await _on_channel(connection, check, place)
    except ChannelNotFoundEntity as error:
        raise BusMisconfigured(
            f"{what} does not exist, and this user may not declare it",
            place=place,
            hint=_RIGHTS_TO_DECLARE_HINT,
        ) from error
    except AMQPChannelError as error:
        raise BusMisconfigured(
            f"{what} may not be used: {describe_error(error)}",
            place=place,
            hint=_RIGHTS_TO_DECLARE_HINT,
        ) from error


async def _on_channel(
    connection: AbstractConnection, declaration: _Declaration, place: str
) -> None:
    """Declare on a new channel, which the broker closes where it refuses."""
    channel = await open_channel(connection, place)
    try:
        await await_reply(declaration(channel), place=place)
    finally:
        await close_channel(channel, place)


_INVALID: Final = Basic.Properties(expiration="not a number")


async def check_write_rights(
    connection: AbstractConnection, routes: Iterable[tuple[str, str]], *, user: str, place: str
) -> None:
    """Raise where the user may not publish to one of the exchanges under its routing key; nothing
    is delivered.

    An exchange that does not exist yet passes where the user may write to one of its name.

    Raises:
        RightsMissing: the user may not write to an exchange, which the error names.
        BrokerBlocked: the broker takes no messages, so nothing can be checked.
        BusDown: the connection is gone, or the broker refuses for another reason.
    """
    routes = list(routes)
    for exchange in dict.fromkeys(exchange for exchange, _ in routes):
        await AlarmProbe(connection, place, exchange).publish()
    if (alarm := await find_alarm(connection)) is not None:
        raise BrokerBlocked(alarm, place=place, hint=ALARM_HINT)
    for exchange, routing_key in routes:
        await _check_route(connection, exchange, routing_key, user, place)


async def _check_route(
    connection: AbstractConnection, exchange: str, routing_key: str, user: str, place: str
) -> None:
    channel = await open_channel(connection, place)
    try:
        await await_reply(_publish(channel, exchange, routing_key), place=place)
    except (ChannelPreconditionFailed, ChannelNotFoundEntity):
        # The property or the missing exchange was refused, so the user has the right.
        return
    except ChannelAccessRefused as error:
        raise RightsMissing(
            f"the user {user!r} may not write to the exchange {exchange!r} with the routing key {routing_key!r}: "
            f"{describe_error(error)}",
            place=place,
            hint="grant it with rabbitmqctl set_permissions, and set_topic_permissions where the user has any; "
            "`wavewright daemon --topology` prints what each user needs",
        ) from error
    except AMQPChannelError as error:
        raise BusDown(
            f"the broker closed the channel: {describe_error(error)}", place=place
        ) from error
    finally:
        await close_channel(channel, place)


async def _publish(channel: AbstractChannel, exchange: str, routing_key: str) -> None:
    wire = await channel.get_underlay_channel()
    await wire.basic_publish(b"", exchange=exchange, routing_key=routing_key, properties=_INVALID)
