"""A user of the broker with too few rights is told of it, and not tried for ever in silence."""

from __future__ import annotations

import anyio
import pytest

from tests.engine.service.bus.bus_doubles import MemoryOutbox, Notices, message
from tests.support.rabbitmq import DEAF, DUMB, Broker, RunningBroker
from wavewright.engine.service.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.service.bus.faults import RightsMissing
from wavewright.engine.service.bus.topology import Topology

pytestmark = pytest.mark.anyio


def address_of(broker: Broker | RunningBroker, user: str) -> str:
    if not isinstance(broker, Broker):
        pytest.skip(f"the broker of WAVEWRIGHT_TEST_AMQP_URL has no user {user!r}")
    return broker.url_of(user)


async def test_who_may_not_read_is_told_when_it_takes(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    async with open_bus(BusSettings(address_of(broker, DEAF), topology)) as deaf:
        with anyio.fail_after(10), pytest.raises(RightsMissing, match="ACCESS_REFUSED") as caught:
            await deaf.intake.take()

    assert "set_permissions" in str(caught.value.hint)


async def test_who_may_not_send_is_told_at_once(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    async with open_bus(BusSettings(address_of(broker, DUMB), topology)) as dumb:
        with anyio.fail_after(10), pytest.raises(RightsMissing, match="ACCESS_REFUSED"):
            await dumb.publish(message(topology, 0))


async def test_an_outbox_that_may_not_be_sent_is_told_of_and_stays_as_it_is(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology, notices: Notices
) -> None:
    outbox = MemoryOutbox([message(topology, number) for number in range(3)])
    async with open_bus(BusSettings(address_of(broker, DUMB), topology), notices) as dumb:
        await dumb.relay.flush(outbox)

    assert len(outbox.waiting) == 3
    [told] = notices.of("rights_missing")
    assert "ACCESS_REFUSED" in str(told["error"])


async def test_a_user_who_must_write_and_may_not_is_told_at_the_start(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    settings = BusSettings(address_of(broker, DUMB), topology, checks_write_rights=True)
    with pytest.raises(RightsMissing) as caught:
        async with open_bus(settings):
            pass

    told = f"the user {DUMB!r} may not write to the exchange {topology.exchange!r}"
    assert caught.value.message.startswith(told)
    assert "rabbitmqctl set_permissions" in str(caught.value.hint)


async def test_looking_for_the_right_to_write_delivers_nothing(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    settings = BusSettings(broker.url, topology, checks_write_rights=True)
    async with open_bus(settings) as bus, bus.subscribe("#") as watcher:
        async with open_bus(settings):
            await bus.publish(message(topology, 7))
        first = await anext(aiter(watcher))

    assert first.message_id == message(topology, 7).message
