"""Whether the broker's user may write to an exchange, found out without a message being delivered.

RabbitMQ checks the right to write, by exchange and by routing key, before it looks at a message's properties. So a
message whose `expiration` is no number is refused in one of two ways: for lack of the right, or for the property. The
right to write to an exchange of that name is checked even where there is none yet; then the routing key is not.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import AMQPChannelError, ChannelNotFoundEntity, ChannelPreconditionFailed
from aiormq.exceptions import ChannelAccessRefused
from pamqp.commands import Basic

from wavewright.engine.bus.channels import close_channel, open_channel
from wavewright.engine.bus.errors import BusDown, RightsMissing
from wavewright.engine.bus.guard import await_reply, describe_error

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
            mend=f"let {user!r} write there: rabbitmqctl set_permissions, and set_topic_permissions where the user "
            "has any; `wavewright topology` prints what each user needs",
        ) from error
    except AMQPChannelError as error:
        raise BusDown(f"the broker closed the channel: {describe_error(error)}", place=place) from error
    finally:
        await close_channel(channel, place)


async def _publish(channel: AbstractChannel, exchange: str, routing_key: str) -> None:
    wire = await channel.get_underlay_channel()
    await wire.basic_publish(b"", exchange=exchange, routing_key=routing_key, properties=_INVALID)
