"""A broker with an alarm takes no messages: that is said, and no connection is given up for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial

import anyio
import anyio.to_thread
import pytest

from tests.engine.service.bus.bus_doubles import Notices, message, until
from tests.support.rabbitmq import DEAF, PASSWORD, Broker, RunningBroker
from wavewright.engine.interfaces.cli.common.broker import open_connection
from wavewright.engine.service.bus.alarms import AlarmProbe
from wavewright.engine.service.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.service.bus.faults import ALARM, BrokerBlocked, BusDown
from wavewright.engine.service.bus.topology import Topology

# A broker needs ten seconds to start, and another test may have it first.
pytestmark = [pytest.mark.anyio, pytest.mark.timeout(240)]

LOW_MEMORY = f"{ALARM}: low on memory"


@asynccontextmanager
async def low_memory(broker: Broker) -> AsyncGenerator[None]:
    limit = partial(broker.ctl, "set_vm_memory_high_watermark")
    await anyio.to_thread.run_sync(limit, "0.0001")
    try:
        yield
    finally:
        await anyio.to_thread.run_sync(limit, "0.6")


async def test_publishers_that_an_alarm_blocks_are_told_of_and_go_on_when_it_is_over(
    mortal_broker: Broker,
) -> None:
    topology, notices = mortal_broker.topology(), Notices()
    async with open_bus(BusSettings(mortal_broker.url, topology), notices) as bus:
        await bus.publish(message(topology, 1))
        async with low_memory(mortal_broker):
            with pytest.raises(BusDown):
                await bus.publish(message(topology, 2), timeout=3)
            await until(lambda: bus.fault == LOW_MEMORY)
            with pytest.raises(BusDown, match=LOW_MEMORY):
                await bus.publish(message(topology, 3), timeout=1)
        await until(lambda: bus.fault is None)
        await bus.publish(message(topology, 4))

    assert not notices.of("broker_lost")
    assert [name for name in notices.names() if name.endswith("blocked")] == [
        "broker_blocked",
        "broker_unblocked",
    ]


async def test_idle_daemons_know_of_an_alarm_and_of_its_reason(mortal_broker: Broker) -> None:
    topology, notices = mortal_broker.topology(), Notices()
    settings = BusSettings(mortal_broker.url, topology, probes_alarms=True)
    async with open_bus(settings, notices) as bus:
        lone = replace(settings, url=lone_writer(mortal_broker, topology))
        async with open_bus(lone) as without_default_exchange:
            async with low_memory(mortal_broker):
                await until(lambda: bus.fault == LOW_MEMORY)
                await until(lambda: without_default_exchange.fault == LOW_MEMORY)
            await until(lambda: bus.fault is None)
            await until(lambda: without_default_exchange.fault is None)

    assert [told["error"] for told in notices.of("broker_blocked")] == [LOW_MEMORY]
    assert not notices.of("broker_lost")


async def test_nobody_gets_what_probes_for_alarms(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    async with bus.subscribe("#") as watcher, open_connection(broker.url) as connection:
        await AlarmProbe(connection, "", topology.exchange).publish()
        await bus.publish(message(topology, 1))
        first = await anext(aiter(watcher))

    assert first.message_id == message(topology, 1).message


async def test_a_daemon_starts_under_an_alarm_and_a_check_of_its_rights_names_it(
    mortal_broker: Broker,
) -> None:
    topology, notices = mortal_broker.topology(), Notices()
    check = BusSettings(mortal_broker.url, topology, checks_write_rights=True)
    daemon = BusSettings(mortal_broker.url, topology, checks_write_rights=True, probes_alarms=True)
    async with low_memory(mortal_broker):
        with pytest.raises(BrokerBlocked, match=LOW_MEMORY):
            async with open_bus(check):
                pass
        async with open_bus(daemon, notices) as bus:
            await until(lambda: bus.fault == LOW_MEMORY)


def lone_writer(broker: Broker, topology: Topology) -> str:
    """Return the address for a user who may not write to the default exchange."""
    broker.ctl("set_permissions", DEAF, "^$", topology.exchange.replace(".", "[.]"), ".*")
    return f"amqp://{DEAF}:{PASSWORD}@127.0.0.1:{broker.port}/"
