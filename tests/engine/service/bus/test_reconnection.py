"""The broker dies, ends in good order, and comes back: whoever waits goes on, and what was
confirmed is there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

import anyio
import anyio.to_thread
import pytest

from tests.engine.service.bus.bus_doubles import MemoryOutbox, Notices, message, until
from tests.support.rabbitmq import DRIVEN_OUT, Broker, RunningBroker, clear, contents
from wavewright.engine.service.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.service.bus.faults import BusDown
from wavewright.engine.service.bus.topology import Topology
from wavewright.engine.service.job_store.records import OutgoingMessage
from wavewright.engine.service.messages.delivery import Delivery

# A broker needs ten seconds to start, and another test may have it first.
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]


@dataclass(frozen=True)
class Victim:
    """A broker, and what happens to it."""

    broker: Broker
    url: str
    disturb: Callable[[], None]
    is_shared: bool
    """Whether others go on with it; what is left at another goes with it."""


@pytest.fixture(params=["killed", pytest.param("closed", marks=pytest.mark.long)])
def victim(request: pytest.FixtureRequest) -> Victim:
    if request.param == "killed":
        mortal: Broker = request.getfixturevalue("mortal_broker")
        return Victim(mortal, mortal.url, lambda: kill_and_start(mortal), is_shared=False)
    shared: Broker | RunningBroker = request.getfixturevalue("broker")
    own: Broker = shared if isinstance(shared, Broker) else request.getfixturevalue("mortal_broker")
    return Victim(own, own.url_of(DRIVEN_OUT), lambda: close_connections(own), is_shared=True)


@pytest.fixture
async def topology(victim: Victim) -> AsyncIterator[Topology]:
    own = victim.broker.topology()
    yield own
    if victim.is_shared:
        await clear(victim.broker.url, own)


def kill_and_start(broker: Broker) -> None:
    broker.kill()
    broker.start()


def close_connections(broker: Broker) -> None:
    """Have every connection of a user ended in good order, as a broker does that stops."""
    broker.ctl("close_all_user_connections", DRIVEN_OUT, "maintenance")


class SteadyOutbox(MemoryOutbox):
    """Gives a few messages at a time, so that the broker ends in the midst of them."""

    async def pending(self, most: int = 100) -> list[OutgoingMessage]:
        await anyio.sleep(0.02)
        return await super().pending(min(most, 10))


async def test_work_goes_on_when_the_broker_is_back(victim: Victim, topology: Topology) -> None:
    messages = [message(topology, number) for number in range(800)]
    outbox = SteadyOutbox(messages)
    notices = Notices()
    late = message(topology, 5_000)
    taken = set[bytes]()
    watched = set[bytes]()

    async def take(bus: Bus) -> None:
        while True:
            delivery = await bus.intake.take()
            taken.add(delivery.body)
            await delivery.ack()

    async def look_on(bus: Bus) -> None:
        async with bus.subscribe(topology.intake) as watcher:
            async for delivery in watcher:
                watched.add(delivery.body)

    async with open_bus(BusSettings(victim.url, topology), notices) as bus:
        held = await held_before(bus, topology)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(take, bus)
            tasks.start_soon(look_on, bus)
            tasks.start_soon(bus.relay.run, outbox)
            await until(lambda: len(outbox.sent) > 50 and len(taken) > 20)
            await anyio.to_thread.run_sync(victim.disturb)
            await until(lambda: bool(notices.of("broker_lost")))
            assert notices.of("broker_lost")[0]["error"] != "the connection ended"
            # Settling what came by a connection that is gone does no harm.
            await held.ack()
            await until(lambda: not outbox.waiting and len(taken) == len(messages) + 1)
            # A subscription misses what is published while it reconnects, which nothing outside can
            # tell.
            while late.body not in watched:
                await publish_when_up(bus, late)
                await anyio.sleep(0.1)
            tasks.cancel_scope.cancel()

    assert {outgoing.body for outgoing in messages} <= taken
    assert b"9999" in taken, "what was held and never acknowledged comes again"
    assert set(outbox.sent) == {outgoing.message for outgoing in messages}
    left = {found.body for found in await contents(victim.broker.url, topology.intake)}
    assert left <= taken | {late.body}


async def publish_when_up(bus: Bus, outgoing: OutgoingMessage) -> None:
    """Publish a message; a broker that has just started may not confirm it in time."""
    while True:
        try:
            return await bus.publish(outgoing)
        except BusDown:
            continue


async def held_before(bus: Bus, topology: Topology) -> Delivery:
    await bus.publish(message(topology, 9_999))
    return await bus.intake.take()
