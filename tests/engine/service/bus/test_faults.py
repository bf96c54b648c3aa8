"""What only a person can mend at the broker is told, and is in sight until it is mended."""

from __future__ import annotations

import aio_pika
import anyio
import pytest

from tests.engine.service.bus.bus_doubles import MemoryOutbox, Notices, message, until
from tests.support.rabbitmq import Broker, RunningBroker
from tests.support.tcp_proxy import TcpProxy
from wavewright.engine.service.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.service.bus.faults import BrokerHealth, BusMisconfigured
from wavewright.engine.service.bus.topology import Topology


@pytest.mark.anyio
async def test_a_queue_that_was_made_anew_in_another_form_is_told_of_on_both_ways_until_it_is_gone(
    broker: Broker | RunningBroker, topology: Topology, notices: Notices
) -> None:
    outbox, fault = MemoryOutbox(), ""
    name = topology.outlets[1]

    async def take(bus: Bus) -> None:
        await (await bus.intake.take()).ack()

    with TcpProxy.before(broker.url) as proxy:
        settings = BusSettings(proxy.url(broker.url), topology)
        async with open_bus(settings, notices) as bus, anyio.create_task_group() as tasks:
            tasks.start_soon(bus.relay.run, outbox)
            tasks.start_soon(take, bus)
            await anyio.wait_all_tasks_blocked()
            connection = await aio_pika.connect(broker.url)
            async with connection, connection.channel() as channel:
                await channel.queue_delete(name)
                await channel.declare_queue(name, durable=True)
                outbox.waiting.append(message(topology, 1, key=name))
                proxy.reset()

                await until(lambda: len(notices.of("broker_misconfigured")) == 2)
                fault = bus.fault or "none"
                await channel.queue_delete(name)
                await until(lambda: not outbox.waiting)
            await bus.publish(message(topology, 2))
            await until(lambda: bus.fault is None)
            tasks.cancel_scope.cancel()

    assert f"queue {name!r} exists with other arguments" in fault
    told = notices.of("broker_misconfigured")
    assert [(fields["error"], "delete it" in str(fields["hint"])) for fields in told] == [
        (fault, True)
    ] * 2


@pytest.mark.anyio
async def test_a_fault_that_repeats_is_reported_once() -> None:
    notices = Notices()
    health = BrokerHealth(notices)
    for _ in range(3):
        health.report_fault("out", BusMisconfigured("the queue is round"))
        health.clear_fault("out")
        health.report_fault("out", BusMisconfigured("the queue is square"))

    assert [fields["error"] for fields in notices.of("broker_misconfigured")] == [
        "the queue is round",
        "the queue is square",
    ]
    assert health.reason == "the queue is square"
