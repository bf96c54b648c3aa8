"""Messages come in, one for each who asks.

The *intake* is one queue. Whoever takes from it waits through every loss of the connection; a message that was given
out too often without being settled is not given out again, but buried.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

import anyio

from wavewright.engine.bus.channels import open_channel
from wavewright.engine.bus.declaring import declare_topology
from wavewright.engine.bus.errors import BusError, BusMisconfigured, RightsMissing
from wavewright.engine.bus.guard import translate_errors
from wavewright.engine.bus.hand import PullConsumer
from wavewright.engine.bus.line import BrokerConnection
from wavewright.engine.bus.topology import Topology
from wavewright.engine.bus.trouble import BrokerHealth
from wavewright.engine.bus.wire import delivery_of
from wavewright.engine.messages.delivery import Delivery

RETRY_SECONDS: Final = 0.02
FAST_RETRIES: Final = 20
"""Failures in a row after which it is no longer tried again at once."""
SLOW_RETRY_SECONDS: Final = 1.0

DeadLetterPublisher: TypeAlias = Callable[[Delivery, str, str], Awaitable[None]]


class IntakeQueue:
    """The queue that is taken from."""

    def __init__(
        self, line: BrokerConnection, topology: Topology, bury: DeadLetterPublisher, trouble: BrokerHealth
    ) -> None:
        self._broker = line
        self._health = trouble
        self._topology = topology
        self._dead_letter = bury
        self._idle: list[PullConsumer] = []
        self._may_take = False
        """Whether anything was ever taken, or nothing was there to be."""

    async def take(self) -> Delivery:
        """Return the next message that may be given out.

        Raises:
            RightsMissing: this user may not take from the queue, and never could.
        """
        while True:
            delivery = await self._take_any()
            if delivery.delivery_count < self._topology.delivery_limit:
                return delivery
            await self._dead_letter_poison(delivery)

    async def _dead_letter_poison(self, delivery: Delivery) -> None:
        count = delivery.delivery_count
        try:
            await self._dead_letter(
                delivery,
                "max_deliveries",
                f"delivered {count} times, and each time whoever took it did not get to its end",
            )
        except BusError:
            # It is given back, and buried by whoever takes it next.
            await delivery.requeue()

    async def _take_any(self) -> Delivery:
        failures = 0
        while True:
            try:
                delivery = await self._take_once(declares=bool(failures))
                self._health.clear_fault("in")
                if delivery is not None:
                    return delivery
                failures = 0
            except BusMisconfigured as error:
                if isinstance(error, RightsMissing) and not self._may_take:
                    raise
                self._health.report_fault("in", error)
                await anyio.sleep(SLOW_RETRY_SECONDS)
                failures += 1
            except BusError:
                # Where the connection is gone its line makes a new one; where only the channel is, the queue is
                # declared again, for somebody may have deleted it. A message that the library cannot read ends the
                # connection a few times until the broker gives it up: that shall not keep the next one waiting.
                await anyio.sleep(RETRY_SECONDS if failures < FAST_RETRIES else SLOW_RETRY_SECONDS)
                failures += 1

    async def _take_once(self, *, declares: bool) -> Delivery | None:
        hand = await self._idle_consumer(declares=declares)
        message = await hand.take()
        self._may_take = True
        if message is None:
            await hand.close()
            return None
        if hand.is_open:
            self._idle.append(hand)
        return delivery_of(message)

    async def _idle_consumer(self, *, declares: bool) -> PullConsumer:
        while self._idle:
            hand = self._idle.pop()
            if hand.is_open:
                return hand
        return await self._new_consumer(declares=declares)

    async def _new_consumer(self, *, declares: bool) -> PullConsumer:
        """Return a hand at the queue, which is declared first where something has just failed."""
        place = self._broker.place
        connection = await self._broker.wait_connected()
        if declares:
            await declare_topology(connection, self._topology, place=place)
        channel = await open_channel(connection, place)
        queue = await translate_errors(channel.get_queue(self._topology.intake, ensure=False), place=place)
        return PullConsumer(channel, queue, place)
