"""Alarms of the broker, of low memory or low disk, while which it takes no messages.

RabbitMQ tells only those connections of an alarm that publish. A watch that *probes* publishes an
empty message that no queue gets, so a daemon with nothing to send knows of the alarm as well.
"""

from __future__ import annotations

import logging
import weakref
from typing import Final

import anyio
from aio_pika import Message
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import AMQPChannelError
from aiormq.abc import AbstractConnection as WireConnection

from wavewright.engine.service.bus.connection import BrokerConnection
from wavewright.engine.service.bus.faults import (
    ALARM,
    CHANNEL_ERRORS,
    BrokerEventHandler,
    open_channel,
    translate_errors,
)

ALARM_POLL_SECONDS: Final = 1.0
"""How often it is looked whether the broker blocks the connection, and probed where it does not."""
CONFIRM_SECONDS: Final = 1.0
"""How long a probe waits for its confirmation."""


class AlarmWatch:
    """Finds the alarms of one connection and keeps its `BrokerConnection.alarm` true."""

    def __init__(
        self, broker: BrokerConnection, on_event: BrokerEventHandler, probed_exchange: str | None
    ) -> None:
        """Report alarms to `on_event`; without an exchange to probe only the messages of others show
        them.
        """
        self._broker = broker
        self._on_event = on_event
        self._probed_exchange = probed_exchange

    async def run(self) -> None:
        """Report when the broker blocks publishers and when it goes on, until this is cancelled."""
        probe: AlarmProbe | None = None
        while True:
            connection = await self._broker.wait_connected()
            if self._probed_exchange is not None and await find_alarm(connection) is None:
                if probe is None or probe.connection is not connection:
                    probe = AlarmProbe(connection, self._broker.place, self._probed_exchange)
                await probe.publish()
            self._note(await find_alarm(connection))
            await anyio.sleep(ALARM_POLL_SECONDS)

    def _note(self, alarm: str | None) -> None:
        if alarm == self._broker.alarm:
            return
        self._broker.alarm = alarm
        if alarm is None:
            self._on_event("broker_unblocked", self._broker.fields())
        else:
            self._on_event("broker_blocked", self._broker.fields() | {"error": alarm})


class AlarmProbe:
    """Publishes messages that no queue gets, on one connection."""

    def __init__(self, connection: AbstractConnection, place: str, topic_exchange: str) -> None:
        self.connection = connection
        self._place = place
        self._key = f"{topic_exchange}.probe"
        # Every daemon may publish to the topic exchange, but a binding of `#` would get what is
        # published there; from the default exchange messages reach only the queue of their key.
        self._exchanges = ["", topic_exchange]
        """Where it may publish, as far as is known."""
        self._channel: AbstractChannel | None = None

    async def publish(self) -> None:
        """Publish one message; return once the broker has confirmed it, at the latest after
        `CONFIRM_SECONDS`. Without the right to publish this does nothing.
        """
        with anyio.move_on_after(CONFIRM_SECONDS):
            while self._exchanges and not await self._may_publish(self._exchanges[0]):
                del self._exchanges[0]

    async def _may_publish(self, name: str) -> bool:
        """Publish to an exchange; return whether the user may do so, as far as that is known."""
        try:
            await translate_errors(self._publish_to(name), place=self._place)
        except AMQPChannelError:
            return False
        except CHANNEL_ERRORS:
            # The connection is gone: whoever keeps it reports that.
            return True
        return True

    async def _publish_to(self, name: str) -> None:
        if self._channel is None or self._channel.is_closed:
            self._channel = await open_channel(self.connection, self._place)
        exchange = self._channel.default_exchange
        if name:
            exchange = await self._channel.get_exchange(name, ensure=False)
        await exchange.publish(Message(b""), self._key, mandatory=False)


async def find_alarm(connection: AbstractConnection) -> str | None:
    """Return why the broker blocks a connection on which something was published; None where it
    does not.
    """
    if (transport := connection.transport) is None:
        return None
    with anyio.move_on_after(0.01) as patience:
        await transport.connection.ready()
    if not patience.cancelled_caught:
        return None
    reason = _reasons.by_connection.get(transport.connection)
    return ALARM if reason is None else f"{ALARM}: {reason}"


class _BlockedReasons(logging.Handler):
    """Keeps the broker's reasons for blocking connections, which the library only logs."""

    def __init__(self) -> None:
        super().__init__()
        self.by_connection = weakref.WeakKeyDictionary[WireConnection, str]()

    def emit(self, record: logging.LogRecord) -> None:
        match record.msg, record.args:
            case "Connection %r was blocked by: %r", (WireConnection() as connection, reason):
                self.by_connection[connection] = str(reason)
            case _:
                return


_reasons: Final = _BlockedReasons()
logging.getLogger("aiormq.connection").addHandler(_reasons)
