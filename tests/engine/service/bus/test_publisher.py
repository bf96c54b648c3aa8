"""Sending: a publish is confirmed, returned, refused, or known to be unknown, and never ends in
silence.
"""

from __future__ import annotations

from collections.abc import Sequence

import aio_pika
import anyio
import pytest

from tests.engine.service.bus.bus_doubles import Notices, message, until
from tests.support.rabbitmq import Broker, RunningBroker, contents
from tests.support.tcp_proxy import TcpProxy
from wavewright.engine.service.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.service.bus.faults import BusDown, BusError, MessageNacked, MessageReturned
from wavewright.engine.service.bus.topology import Topology
from wavewright.engine.service.job_store.records import OutgoingMessage

pytestmark = pytest.mark.anyio


async def test_what_was_published_is_in_its_queue(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    await bus.publish(message(topology, 7, key=topology.outlets[0]))

    found = await contents(broker.url, topology.outlets[0])
    assert [arrived.body for arrived in found] == [b"7"]
    assert found[0].delivery_mode == 2


async def test_a_message_for_a_queue_that_is_not_there_is_returned(
    bus: Bus, topology: Topology
) -> None:
    with pytest.raises(MessageReturned, match="no queue is bound"):
        await bus.publish(message(topology, 1, key="nobody.listens"))


async def test_a_message_for_an_exchange_that_is_not_there_is_returned_and_disturbs_no_other(
    bus: Bus, topology: Topology
) -> None:
    with pytest.raises(MessageReturned, match="there is no exchange 'nowhere'"):
        await bus.publish(message(topology, 1, exchange="nowhere"))

    await bus.publish(message(topology, 2))
    assert (await bus.intake.take()).body == b"2"


async def test_a_queue_that_is_full_refuses_a_message_for_now(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    full = f"{topology.exchange}.full"
    await declare_small(broker.url, full, topology.exchange)
    try:
        with pytest.raises(MessageNacked):
            await publish_many(bus, [message(topology, number, key=full) for number in range(50)])
        await contents(broker.url, full)

        await bus.publish(message(topology, 99, key=full))
        assert [arrived.body for arrived in await contents(broker.url, full)] == [b"99"]
    finally:
        await delete(broker.url, full)


async def test_many_publishes_at_once_are_all_confirmed_in_their_order(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    async with anyio.create_task_group() as sending:
        for number in range(300):
            sending.start_soon(bus.publish, message(topology, number, key=topology.outlets[0]))

    arrived = [int(found.body) for found in await contents(broker.url, topology.outlets[0])]
    assert arrived == list(range(300))


async def test_a_publish_into_a_black_hole_ends_in_time_with_an_error(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    with TcpProxy.before(broker.url) as proxy:
        async with open_bus(BusSettings(proxy.url(broker.url), topology)) as bus:
            await bus.publish(message(topology, 1))
            proxy.black_hole()
            with pytest.raises(BusDown, match="no confirmation within"):
                await bus.publish(message(topology, 2), timeout=0.5)
            proxy.pass_on()

            await bus.publish(message(topology, 3))

    bodies = [found.body for found in await contents(broker.url, topology.intake)]
    assert {b"1", b"3"} <= set(bodies)


async def test_a_line_that_dies_in_silence_ends_no_publish_without_a_word(
    broker: Broker | RunningBroker, topology: Topology, notices: Notices
) -> None:
    ends = list[str]()

    async def publish(bus: Bus, number: int) -> None:
        try:
            # Longer than the line is given: it is the library that ends this publish, not the
            # timeout.
            await bus.publish(message(topology, number), timeout=60)
        except BusError as error:
            ends.append(type(error).__name__)
        else:
            ends.append("confirmed")

    with TcpProxy.before(broker.url) as proxy:
        settings = BusSettings(f"{proxy.url(broker.url)}?heartbeat=1", topology)
        async with open_bus(settings, notices) as bus:
            await bus.publish(message(topology, 0))
            proxy.black_hole()
            async with anyio.create_task_group() as sending:
                for number in range(1, 6):
                    sending.start_soon(publish, bus, number)
                # The library gives a line up after three heartbeats, and then cancels whatever
                # waits for it.
                await until(lambda: len(notices.of("broker_lost")) == 2)
                proxy.pass_on()
            reached = True

    assert reached
    assert ends == ["confirmed"] * 5
    bodies = {found.body for found in await contents(broker.url, topology.intake)}
    assert bodies == {b"0", b"1", b"2", b"3", b"4", b"5"}


async def publish_many(bus: Bus, messages: Sequence[OutgoingMessage]) -> None:
    for outgoing in messages:
        await bus.publish(outgoing)


async def declare_small(url: str, queue: str, exchange: str) -> None:
    connection = await aio_pika.connect(url)
    async with connection, connection.channel() as channel:
        declared = await channel.declare_queue(
            queue,
            durable=True,
            arguments={"x-queue-type": "quorum", "x-max-length": 3, "x-overflow": "reject-publish"},
        )
        await declared.bind(exchange, queue)


async def delete(url: str, queue: str) -> None:
    connection = await aio_pika.connect(url)
    async with connection, connection.channel() as channel:
        await channel.queue_delete(queue)
