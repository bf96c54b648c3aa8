"""Whoever looks on sees every message that passes, and takes none away."""

from __future__ import annotations

import anyio
import pytest

from tests.engine.bus.bus_doubles import message
from tests.support.rabbitmq import Broker, RunningBroker, contents
from tests.support.tcp_proxy import TcpProxy
from wavewright.engine.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.bus.topology import Topology
from wavewright.engine.messages.delivery import Delivery

pytestmark = pytest.mark.anyio


async def test_a_watcher_gets_a_copy_of_what_is_sent_under_its_keys(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    status = topology.outlets[1]
    seen = list[bytes]()
    async with bus.subscribe(status) as watcher:
        for number in range(3):
            await bus.publish(message(topology, number, key=status))
        await bus.publish(message(topology, 9))
        await bus.publish(message(topology, 3, key=status))
        with anyio.fail_after(20):
            async for delivery in watcher:
                seen.append(delivery.body)
                if len(seen) == 4:
                    break

    assert seen == [b"0", b"1", b"2", b"3"]
    assert [found.body for found in await contents(broker.url, status)] == [b"0", b"1", b"2", b"3"]


async def test_a_watcher_goes_on_after_its_connection_was_lost(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    status = topology.outlets[1]
    seen = list[Delivery]()
    with TcpProxy.before(broker.url) as proxy:
        async with (
            open_bus(BusSettings(proxy.url(broker.url), topology)) as bus,
            bus.subscribe(status) as watcher,
            anyio.create_task_group() as tasks,
        ):
            proxy.reset()
            tasks.start_soon(send_until_cancelled, bus, topology, status)
            with anyio.fail_after(20):
                seen.append(await anext(watcher))
            tasks.cancel_scope.cancel()

    assert [delivery.routing_key for delivery in seen] == [status]


async def send_until_cancelled(bus: Bus, topology: Topology, key: str) -> None:
    for number in range(10_000):
        await bus.publish(message(topology, number, key=key))
        await anyio.sleep(0.05)
