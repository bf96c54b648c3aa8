"""Taking takes no more than was asked for, gives back what nobody wanted, and trusts no sender's
count.

Whoever looks on sees every message that passes, and takes none away.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import aio_pika
import anyio
import pytest

from tests.engine.service.bus.bus_doubles import message, until
from tests.support.rabbitmq import Broker, RunningBroker, clear, contents
from tests.support.tcp_proxy import TcpProxy
from wavewright.engine.service.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.service.bus.faults import MessageReturned
from wavewright.engine.service.bus.topology import Topology
from wavewright.engine.service.messages.delivery import Delivery

pytestmark = pytest.mark.anyio


async def send_raw(
    url: str,
    topology: Topology,
    body: bytes,
    headers: Mapping[str, object] | None = None,
    **properties: object,
) -> None:
    """Send what another sender might."""
    connection = await aio_pika.connect(url)
    async with connection, connection.channel() as channel:
        exchange = await channel.get_exchange(topology.exchange, ensure=False)
        raw = aio_pika.Message(body, headers=dict(headers or {}), **properties)  # type: ignore[arg-type]
        await exchange.publish(raw, topology.intake)


async def test_nothing_is_taken_beforehand(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    for number in range(5):
        await bus.publish(message(topology, number))
    await bus.intake.take()

    # Whoever else is there gets the others, undelivered before.
    rest = await contents(broker.url, topology.intake)
    assert [found.body for found in rest] == [b"1", b"2", b"3", b"4"]
    assert not any(found.redelivered for found in rest)


async def test_a_taker_that_waited_stops_to_be_a_consumer_before_it_has_its_message(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    taken = list[bytes]()

    async def take() -> None:
        taken.append((await bus.intake.take()).body)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await anyio.wait_all_tasks_blocked()
        for number in range(3):
            await bus.publish(message(topology, number))

    assert taken == [b"0"]
    rest = await contents(broker.url, topology.intake)
    assert [found.body for found in rest] == [b"1", b"2"]
    assert not any(found.redelivered for found in rest)


async def test_a_taker_that_is_cancelled_costs_no_delivery(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.intake.take)
        await anyio.sleep(0.1)
        tasks.cancel_scope.cancel()
    await bus.publish(message(topology, 1))

    delivery = await bus.intake.take()
    assert delivery.body == b"1"
    assert delivery.delivery_count == 0


async def test_no_message_is_lost_however_often_takers_are_cancelled(
    broker: Broker | RunningBroker,
) -> None:
    # Whoever is cancelled with a message in hand has cost it a delivery, and it could be buried for
    # that.
    topology = broker.topology(delivery_limit=1_000)
    async with open_bus(BusSettings(broker.url, topology)) as bus:
        await take_and_cancel(bus, topology)
    await clear(broker.url, topology)


async def take_and_cancel(bus: Bus, topology: Topology) -> None:
    taken = set[bytes]()

    async def take() -> None:
        delivery = await bus.intake.take()
        taken.add(delivery.body)
        await delivery.ack()

    async def send() -> None:
        for number in range(60):
            await bus.publish(message(topology, number))

    async with anyio.create_task_group() as sending:
        sending.start_soon(send)
        for turn in range(40):
            # Some are cancelled while they look, some while they wait, some while they stop.
            with anyio.move_on_after(0.0005 * (turn % 12)):
                await take()
    with anyio.fail_after(30):
        while len(taken) < 60:
            await take()

    assert taken == {str(number).encode() for number in range(60)}


async def test_several_may_take_at_once_and_each_message_is_given_to_one(
    bus: Bus, topology: Topology
) -> None:
    taken = list[bytes]()

    async def take() -> None:
        while True:
            delivery = await bus.intake.take()
            taken.append(delivery.body)
            await delivery.ack()

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(take)
        for number in range(100):
            await bus.publish(message(topology, number))
        await until(lambda: len(taken) >= 100)
        tasks.cancel_scope.cancel()

    assert sorted(taken) == sorted(str(number).encode() for number in range(100))


@pytest.mark.parametrize("forged", [9_999, -1, "many"])
async def test_a_count_of_deliveries_that_a_sender_wrote_is_not_believed(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology, forged: object
) -> None:
    await send_raw(
        broker.url, topology, b"sound", {"x-delivery-count": forged, "x-death": [{"count": 99}]}
    )

    first = await bus.intake.take()
    await first.requeue()
    second = await bus.intake.take()

    assert (first.body, first.delivery_count) == (b"sound", 0)
    assert (second.body, second.delivery_count) == (b"sound", 1)


async def test_a_queue_that_is_deleted_while_somebody_waits_is_made_again(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    taken = list[bytes]()
    # Whoever sends has its channel already: it is the taker that must notice.
    await bus.publish(message(topology, 0, key=topology.outlets[0]))

    async def take() -> None:
        taken.append((await bus.intake.take()).body)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await anyio.sleep(0.1)
        connection = await aio_pika.connect(broker.url)
        async with connection, connection.channel() as channel:
            await channel.queue_delete(topology.intake)
        await publish_until(lambda: bool(taken), bus, topology)

    assert taken == [b"1"]


async def test_a_queue_that_is_deleted_and_made_again_at_once_is_taken_from(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The broker tells no consumer of it, and its channel finds nothing in the new queue.
    monkeypatch.setattr("wavewright.engine.service.bus.consumers.CONSUME_SECONDS", 0.3)
    taken = list[bytes]()

    async def take() -> None:
        taken.append((await bus.intake.take()).body)

    [intake] = [queue for queue in topology.queues() if queue.name == topology.intake]
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await anyio.sleep(0.1)
        connection = await aio_pika.connect(broker.url)
        async with connection, connection.channel() as channel:
            await channel.queue_delete(intake.name)
            again = await channel.declare_queue(
                intake.name, durable=True, arguments={**intake.arguments}
            )
            await again.bind(intake.exchange, intake.binding)
        await publish_until(lambda: bool(taken), bus, topology)

    assert taken == [b"1"]


async def test_a_taker_that_looks_again_and_again_takes_each_message_once(
    bus: Bus, topology: Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wavewright.engine.service.bus.consumers.CONSUME_SECONDS", 0.002)
    taken = list[bytes]()

    async def take() -> None:
        while True:
            delivery = await bus.intake.take()
            taken.append(delivery.body)
            await delivery.ack()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        for number in range(40):
            await bus.publish(message(topology, number))
            await anyio.sleep(0.003)
        await until(lambda: len(taken) >= 40)
        tasks.cancel_scope.cancel()

    assert sorted(taken) == sorted(str(number).encode() for number in range(40))


async def publish_until(is_there: Callable[[], bool], bus: Bus, topology: Topology) -> None:
    """Publish until it arrives: what goes into a queue that is being deleted goes with it."""
    with anyio.fail_after(50):
        while not is_there():
            with suppress(MessageReturned):
                await bus.publish(message(topology, 1))
            await anyio.sleep(0.1)


async def test_what_another_bus_holds_is_not_given_out(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    await bus.publish(message(topology, 1))
    await bus.publish(message(topology, 2))
    await bus.intake.take()

    async with open_bus(BusSettings(broker.url, topology)) as other:
        assert (await other.intake.take()).body == b"2"


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
