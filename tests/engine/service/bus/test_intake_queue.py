"""Taking messages in: one at a time, held until they are settled, and dead-lettered when they never
are.
"""

from __future__ import annotations

import gc

import aio_pika
import anyio
import pytest

from tests.engine.service.bus.bus_doubles import Notices, message, until
from tests.support.rabbitmq import Broker, RunningBroker, contents
from tests.support.tcp_proxy import TcpProxy
from wavewright.engine.service.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.service.bus.consumers import Consumer
from wavewright.engine.service.bus.topology import Topology
from wavewright.engine.service.daemon.dispatcher import MAX_IN_FLIGHT
from wavewright.engine.service.messages.delivery import Delivery

pytestmark = pytest.mark.anyio


async def test_a_message_arrives_as_it_was_sent(bus: Bus, topology: Topology) -> None:
    await bus.publish(message(topology, 1))

    delivery = await bus.intake.take()

    assert delivery.body == b"1"
    assert delivery.message_id == message(topology, 1).message
    assert delivery.routing_key == topology.intake
    assert delivery.exchange == topology.exchange
    assert (delivery.content_type, delivery.content_encoding) == ("application/json", "utf-8")
    assert delivery.kind == "job_request"
    assert delivery.timestamp == 1_780_000_000
    assert delivery.headers["x-number"] == 1
    assert delivery.delivery_count == 0


async def test_the_broker_vouches_for_the_sender(bus: Bus, topology: Topology) -> None:
    await bus.publish(message(topology, 1))

    assert (await bus.intake.take()).user_id is not None


async def test_messages_come_in_the_order_in_which_they_were_sent(
    bus: Bus, topology: Topology
) -> None:
    for number in range(10):
        await bus.publish(message(topology, number))

    taken = [await bus.intake.take() for _ in range(10)]

    assert [delivery.body for delivery in taken] == [str(number).encode() for number in range(10)]


async def test_nothing_is_kept_of_the_waiting_for_messages_that_have_come(
    bus: Bus, topology: Topology
) -> None:
    async def take() -> None:
        await (await bus.intake.take()).ack()

    async def consumers_after(messages: int) -> int:
        for number in range(messages):
            async with anyio.create_task_group() as taking:
                taking.start_soon(take)
                await anyio.sleep(0.02)
                await bus.publish(message(topology, number))
        gc.collect()
        return sum(type(found) is Consumer for found in gc.get_objects())

    gc.freeze()  # what other tests have left is not looked through
    try:
        few = await consumers_after(2)
        assert await consumers_after(8) <= few
    finally:
        gc.unfreeze()


async def test_a_message_that_is_acknowledged_is_gone(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    async with open_bus(BusSettings(broker.url, topology)) as bus:
        await bus.publish(message(topology, 1))
        await (await bus.intake.take()).ack()

    assert await contents(broker.url, topology.intake) == []


async def test_a_message_that_nobody_settled_comes_again(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    async with open_bus(BusSettings(broker.url, topology)) as bus:
        await bus.publish(message(topology, 1))
        await bus.intake.take()

    async with open_bus(BusSettings(broker.url, topology)) as bus:
        again = await bus.intake.take()

    assert again.body == b"1"
    assert again.delivery_count == 1


@pytest.mark.parametrize("is_waited_for", [True, False])
async def test_a_connection_that_breaks_counts_once_however_many_wait_on_it(
    broker: Broker | RunningBroker, topology: Topology, *, is_waited_for: bool
) -> None:
    taken = list[Delivery]()
    with TcpProxy.before(broker.url) as proxy:
        async with (
            open_bus(BusSettings(proxy.url(broker.url), topology)) as bus,
            anyio.create_task_group() as taking,
        ):

            async def take() -> None:
                while True:
                    taken.append(await bus.intake.take())

            if not is_waited_for:
                await bus.publish(message(topology, 1))
            for _ in range(MAX_IN_FLIGHT):
                taking.start_soon(take)
            if is_waited_for:
                await until_waiting(broker.url, topology.intake)
                await bus.publish(message(topology, 1))
            await until(lambda: len(taken) == 1)
            # The broker counts a message that was got as a consumer, too.
            await until_waiting(broker.url, topology.intake, 1 if is_waited_for else 2)
            proxy.refuse()
            proxy.reset()
            async with open_bus(BusSettings(broker.url, topology)) as other:
                again = await other.intake.take()
                assert again.body == b"1"
                assert again.delivery_count <= 1
            taking.cancel_scope.cancel()


async def test_a_message_that_comes_as_all_who_wait_end_counts_once(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    taken, counts = list[Delivery](), list[int]()

    async def take() -> None:
        taken.append(await bus.intake.take())

    for number in range(3):
        async with anyio.create_task_group() as taking:
            for _ in range(MAX_IN_FLIGHT):
                taking.start_soon(take)
            await until_waiting(broker.url, topology.intake)
            await bus.publish(message(topology, number))
            taking.cancel_scope.cancel()
        if not taken:
            await take()
        delivery = taken.pop()
        counts.append(delivery.delivery_count)
        await delivery.ack()

    assert max(counts) <= 1


async def until_waiting(url: str, queue: str, count: int = 1) -> None:
    """Wait until a queue has so many consumers: of all who take, one waits at the broker."""
    connection = await aio_pika.connect(url)
    async with connection:
        channel = await connection.channel()
        consumers = 0
        while consumers < count:
            answer = await channel.declare_queue(queue, passive=True)
            consumers = answer.declaration_result.consumer_count or 0
            await anyio.sleep(0.02)


async def test_a_message_that_is_given_back_counts_its_deliveries(
    bus: Bus, topology: Topology
) -> None:
    await bus.publish(message(topology, 1))
    counts = list[int]()
    for _ in range(3):
        delivery = await bus.intake.take()
        counts.append(delivery.delivery_count)
        await delivery.requeue()

    assert counts == [0, 1, 2]


async def test_a_message_is_given_out_five_times_and_then_dead_lettered_with_the_reason(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology, notices: Notices
) -> None:
    await bus.publish(message(topology, 1))
    await bus.publish(message(topology, 2))
    given_out = list[bytes]()
    while (delivery := await bus.intake.take()).body != b"2":
        given_out.append(delivery.body)
        await delivery.requeue()

    assert given_out == [b"1"] * 5
    dead = await contents(broker.url, topology.dead_queue)
    assert [letter.body for letter in dead] == [b"1"]
    assert str(dead[0].headers["x-wavewright-reason"]).startswith("max_deliveries: ")
    assert [fields["kind"] for fields in notices.of("message_dead_lettered")] == ["max_deliveries"]
