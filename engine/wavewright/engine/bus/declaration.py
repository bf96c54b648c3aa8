"""Exchanges and queues are made where they are missing, and nothing of what is there is changed.

A user who may not declare is fine where everything is there already. A queue that is there in another form is named
with its difference, because the broker would go on with the old one: it never changes a queue.

Whether the broker's user may write to an exchange, found out without a message being delivered.

RabbitMQ checks the right to write, by exchange and by routing key, before it looks at a message's properties. So a
message whose `expiration` is no number is refused in one of two ways: for lack of the right, or for the property. The
right to write to an exchange of that name is checked even where there is none yet; then the routing key is not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from aio_pika.abc import AbstractChannel, AbstractConnection, ExchangeType
from aio_pika.exceptions import AMQPChannelError, ChannelNotFoundEntity, ChannelPreconditionFailed
from aiormq.exceptions import ChannelAccessRefused
from pamqp.commands import Basic

from wavewright.engine.bus.channels import await_reply, close_channel, describe_error, open_channel
from wavewright.engine.bus.errors import BusDown, BusMisconfigured, RightsMissing
from wavewright.engine.bus.topology import QueueDeclaration, Topology

_Declaration = Callable[[AbstractChannel], Awaitable[object]]

_RIGHTS_TO_DECLARE_HINT: Final = (
    "let the broker's administrator make it, or let the user: rabbitmqctl set_permissions"
)


async def declare_topology(connection: AbstractConnection, topology: Topology, *, place: str) -> None:
    """Make what is missing.

    Raises:
        BusMisconfigured: something is there in another form, or is not there and may not be made.
        BusDown: the connection is gone.
    """
    for exchange in topology.exchanges():
        await _declare_exchange(connection, exchange, place)
    for queue in topology.queues():
        await _declare_queue(connection, queue, place)


async def _declare_exchange(connection: AbstractConnection, name: str, place: str) -> None:
    async def declare(channel: AbstractChannel) -> object:
        return await channel.declare_exchange(name, ExchangeType.TOPIC, durable=True)

    async def look(channel: AbstractChannel) -> object:
        return await channel.declare_exchange(name, ExchangeType.TOPIC, passive=True)

    await _declare_or_verify(connection, declare, look, f"exchange {name!r}", place)


async def _declare_queue(connection: AbstractConnection, form: QueueDeclaration, place: str) -> None:
    async def declare(channel: AbstractChannel) -> object:
        queue = await channel.declare_queue(form.name, durable=True, arguments=dict(form.arguments))
        return await queue.bind(form.exchange, form.binding)

    async def look(channel: AbstractChannel) -> object:
        return await channel.declare_queue(form.name, passive=True)

    await _declare_or_verify(connection, declare, look, f"queue {form.name!r}", place)


async def _declare_or_verify(
    connection: AbstractConnection, declare: _Declaration, look: _Declaration, what: str, place: str
) -> None:
    try:
        await _on_channel(connection, declare, place)
    except ChannelAccessRefused:
        await _verify_exists(connection, look, what, place)
    except ChannelPreconditionFailed as error:
        raise BusMisconfigured(
            f"{what} is there in another form: {describe_error(error)}",
            place=place,
            hint="the broker never changes one: delete it once it is empty, or set another name under daemon.queues",
        ) from error
    except AMQPChannelError as error:
        raise BusMisconfigured(f"{what} cannot be made: {describe_error(error)}", place=place) from error


async def _verify_exists(connection: AbstractConnection, look: _Declaration, what: str, place: str) -> None:
    try:
        await _on_channel(connection, look, place)
    except ChannelNotFoundEntity as error:
        raise BusMisconfigured(
            f"{what} is not there, and this user may not make it", place=place, hint=_RIGHTS_TO_DECLARE_HINT
        ) from error
    except AMQPChannelError as error:
        raise BusMisconfigured(
            f"{what} may not be used: {describe_error(error)}", place=place, hint=_RIGHTS_TO_DECLARE_HINT
        ) from error


async def _on_channel(connection: AbstractConnection, declaration: _Declaration, place: str) -> None:
    """Declare on a channel of its own: the broker closes the one on which it refuses something."""
    channel = await open_channel(connection, place)
    try:
        await await_reply(declaration(channel), place=place)
    finally:
        await close_channel(channel, place)


_INVALID: Final = Basic.Properties(expiration="not a number")


async def check_write_rights(
    connection: AbstractConnection, routes: Iterable[tuple[str, str]], *, user: str, place: str
) -> None:
    """Return where the user may send to every exchange under its routing key; nothing is delivered.

    An exchange that is not there yet passes where the user may write to one of its name.

    Raises:
        RightsMissing: the user may not, names the exchange and what sets the right.
        BusDown: the connection is gone, or the broker refuses for another reason.
    """
    for exchange, routing_key in routes:
        await _check_route(connection, exchange, routing_key, user, place)


async def _check_route(
    connection: AbstractConnection, exchange: str, routing_key: str, user: str, place: str
) -> None:
    channel = await open_channel(connection, place)
    try:
        await await_reply(_publish(channel, exchange, routing_key), place=place)
    except (ChannelPreconditionFailed, ChannelNotFoundEntity):
        # The message or the name was refused, so the right is there.
        return
    except ChannelAccessRefused as error:
        raise RightsMissing(
            f"the user {user!r} may not write to the exchange {exchange!r} with the routing key {routing_key!r}: "
            f"{describe_error(error)}",
            place=place,
            hint=f"let {user!r} write there: rabbitmqctl set_permissions, and set_topic_permissions where the user "
            "has any; `wavewright topology` prints what each user needs",
        ) from error
    except AMQPChannelError as error:
        raise BusDown(f"the broker closed the channel: {describe_error(error)}", place=place) from error
    finally:
        await close_channel(channel, place)


async def _publish(channel: AbstractChannel, exchange: str, routing_key: str) -> None:
    wire = await channel.get_underlay_channel()
    await wire.basic_publish(b"", exchange=exchange, routing_key=routing_key, properties=_INVALID)
