"""The outbox empties itself into the broker, and what could not be sent stays in it or is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import aio_pika
import anyio
import pytest

from tests.engine.service.bus.bus_doubles import MemoryOutbox, Notices, message, until
from tests.engine.service.bus.test_publisher import declare_small, delete
from tests.support.rabbitmq import LARGEST_MESSAGE, Broker, RunningBroker, contents
from tests.support.tcp_proxy import TcpProxy
from wavewright.engine.service.bus import relay
from wavewright.engine.service.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.service.bus.topology import Topology
from wavewright.engine.service.job_store.records import MessageId, OutgoingMessage
from wavewright.executor.store.errors import JournalNotWritten

pytestmark = pytest.mark.anyio


async def test_what_lies_in_the_outbox_goes_out_in_its_order(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    messages = [message(topology, number, key=topology.outlets[1]) for number in range(250)]
    outbox = MemoryOutbox(messages)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.relay.run, outbox)
        await until(lambda: not outbox.waiting)
        tasks.cancel_scope.cancel()

    assert sorted(outbox.sent) == sorted(outgoing.message for outgoing in messages)
    arrived = [int(found.body) for found in await contents(broker.url, topology.outlets[1])]
    assert arrived == list(range(250))


async def test_messages_larger_than_a_frame_and_than_a_write_arrive_whole_and_in_order(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    sizes = [0, 131_064, 600_000, 600_001, 600_002, 1]
    messages = [
        replace(
            message(topology, number, key=topology.outlets[1]), body=bytes([65 + number]) * size
        )
        for number, size in enumerate(sizes)
    ]
    outbox = MemoryOutbox(messages)

    await bus.relay.flush(outbox)

    assert outbox.sent == [outgoing.message for outgoing in messages]
    arrived = await contents(broker.url, topology.outlets[1])
    assert [found.body for found in arrived] == [outgoing.body for outgoing in messages]


async def test_what_is_put_in_later_goes_out_when_it_is_told(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    outbox = MemoryOutbox()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.relay.run, outbox)
        await anyio.wait_all_tasks_blocked()
        outbox.waiting.append(message(topology, 5))
        bus.relay.wake()
        await until(lambda: not outbox.waiting)
        tasks.cancel_scope.cancel()

    assert [found.body for found in await contents(broker.url, topology.intake)] == [b"5"]


async def test_a_message_that_nobody_wants_is_marked_and_holds_up_no_other(
    bus: Bus, topology: Topology, notices: Notices
) -> None:
    unwanted = message(topology, 1, key="nobody.listens")
    astray = message(topology, 2, exchange="no.exchange")
    outbox = MemoryOutbox([unwanted, astray, message(topology, 3)])

    await bus.relay.flush(outbox)

    assert outbox.refused == {
        unwanted.message: "no queue is bound for the message",
        astray.message: "there is no exchange 'no.exchange'",
    }
    assert outbox.sent == [message(topology, 3).message]
    assert {str(fields["message_id"]) for fields in notices.of("message_returned")} == set(
        outbox.refused
    )


async def test_what_no_queue_was_bound_for_goes_out_on_the_next_connection(
    broker: Broker | RunningBroker, topology: Topology, notices: Notices
) -> None:
    status = topology.outlets[1]
    letter, large = message(topology, 1, key=status), message(topology, 2)
    outbox = MemoryOutbox([large])
    await outbox.mark_refused(
        large.message, "the message has 9 bytes, and the broker takes at most 8"
    )
    with TcpProxy.before(broker.url) as proxy:
        settings = BusSettings(proxy.url(broker.url), topology)
        async with open_bus(settings, notices) as bus, anyio.create_task_group() as tasks:
            tasks.start_soon(bus.relay.run, outbox)
            await until(lambda: len(notices.of("message_returned")) == 1)
            await _delete(broker.url, status)
            outbox.waiting.append(letter)
            await until(lambda: letter.message in outbox.refused)
            proxy.reset()
            await until(lambda: bool(outbox.sent))
            tasks.cancel_scope.cancel()

    assert [found.body for found in await contents(broker.url, status)] == [letter.body]
    assert list(outbox.refused) == [large.message]
    told = [fields["message_id"] for fields in notices.of("message_returned")]
    assert told == [large.message, letter.message]


async def _delete(url: str, queue: str) -> None:
    connection = await aio_pika.connect(url)
    async with connection, connection.channel() as channel:
        await channel.queue_delete(queue)


async def test_a_message_that_is_too_large_for_the_broker_is_marked_and_holds_up_no_other(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology, notices: Notices
) -> None:
    if not broker.is_own:
        pytest.skip("nobody knows how large a message the broker of WAVEWRIGHT_TEST_AMQP_URL takes")
    large = replace(message(topology, 1), body=b"x" * (LARGEST_MESSAGE + 1))
    outbox = MemoryOutbox([message(topology, 0), large, message(topology, 2)])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.relay.run, outbox)
        await until(lambda: not outbox.waiting)
        tasks.cancel_scope.cancel()

    reason = f"the message has {LARGEST_MESSAGE + 1} bytes, and the broker takes at most {LARGEST_MESSAGE}"
    assert outbox.refused == {large.message: reason}
    assert {found.body for found in await contents(broker.url, topology.intake)} == {b"0", b"2"}
    assert [fields["error"] for fields in notices.of("message_returned")] == [reason]
    assert notices.of("broker_lost") == []


async def test_what_is_on_its_way_for_long_stays_leased(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    outbox = MemoryOutbox([message(topology, 1)])
    with TcpProxy.before(broker.url) as proxy:
        async with (
            open_bus(BusSettings(proxy.url(broker.url), topology)) as bus,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(bus.relay.run, outbox)
            await until(lambda: bool(outbox.sent))
            proxy.black_hole("back")
            outbox.waiting.append(message(topology, 2))
            await until(lambda: bool(outbox.renewed))
            proxy.pass_on()
            tasks.cancel_scope.cancel()

    assert outbox.renewed[0] == [message(topology, 2).message]


async def test_a_message_that_was_confirmed_is_marked_also_when_the_relay_is_stopped(
    bus: Bus, topology: Topology
) -> None:
    class SlowOutbox(MemoryOutbox):
        async def mark_sent(self, messages: Sequence[MessageId]) -> None:
            stopping.set()
            await anyio.sleep(0.1)
            await super().mark_sent(messages)

    stopping = anyio.Event()
    outbox = SlowOutbox([message(topology, 1)])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.relay.run, outbox)
        await stopping.wait()
        tasks.cancel_scope.cancel()

    assert outbox.sent == [message(topology, 1).message]


async def test_an_outbox_that_cannot_be_read_is_told_of_and_asked_again(
    bus: Bus, topology: Topology, notices: Notices
) -> None:
    class FaultyOutbox(MemoryOutbox):
        faults = 2

        async def pending(self, most: int = 100) -> list[OutgoingMessage]:
            if self.faults:
                self.faults -= 1
                raise JournalNotWritten("the disk is full")
            return await super().pending(most)

    outbox = FaultyOutbox([message(topology, 1)])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.relay.run, outbox)
        await until(lambda: not outbox.waiting)
        tasks.cancel_scope.cancel()

    assert [fields["error"] for fields in notices.of("outbox_unreachable")] == [
        "the disk is full"
    ] * 2


async def test_nothing_is_lost_while_the_network_fails_again_and_again(
    broker: Broker | RunningBroker, topology: Topology
) -> None:
    messages = [message(topology, number) for number in range(600)]
    outbox = MemoryOutbox(messages)
    with TcpProxy.before(broker.url) as proxy:
        settings = BusSettings(proxy.url(broker.url), topology)
        async with open_bus(settings) as bus, anyio.create_task_group() as tasks:
            tasks.start_soon(bus.relay.run, outbox)
            proxy.cut_after(20_000)
            await until(lambda: len(outbox.sent) >= 200)
            proxy.reset()
            await until(lambda: len(outbox.sent) >= 400)
            proxy.cut_after(10, "back")
            await until(lambda: not outbox.waiting)
            tasks.cancel_scope.cancel()

    arrived = await contents(broker.url, topology.intake)
    assert {found.message_id for found in arrived} == {outgoing.message for outgoing in messages}
    assert {found.body for found in arrived} == {outgoing.body for outgoing in messages}


async def test_a_full_queue_is_told_of_once_holds_up_no_other_and_gets_all_when_it_has_room(
    broker: Broker | RunningBroker,
    bus: Bus,
    topology: Topology,
    notices: Notices,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Most of the time would go into pauses: the queue has room for three of two hundred messages.
    monkeypatch.setattr(relay, "FIRST_FULL_QUEUE_PAUSE", 0.05)
    monkeypatch.setattr(relay, "MAX_FULL_QUEUE_PAUSE", 0.5)
    full, status = f"{topology.exchange}.full", topology.outlets[1]
    await declare_small(broker.url, full, topology.exchange)
    arrived, faults, refusals = list[bytes](), list[str | None](), 0
    try:
        packages = [message(topology, number, key=full) for number in range(200)]
        outbox = MemoryOutbox(packages)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bus.relay.run, outbox)
            await until(lambda: bool(notices.of("message_refused")))
            for number in range(200, 260):
                outbox.waiting.append(message(topology, number, key=status))
                bus.relay.wake()
                await until(lambda: outbox.waiting[-1].routing_key == full)
            faults.append(bus.fault)
            # A busy broker may take one message more, and then the next refusal is told again.
            refusals = len(notices.of("message_refused")) - len(notices.of("queue_has_room"))
            while outbox.waiting:
                arrived += [found.body for found in await contents(broker.url, full)]
            tasks.cancel_scope.cancel()
        arrived += [found.body for found in await contents(broker.url, full)]
    finally:
        await delete(broker.url, full)

    assert faults == [f"the queue of these routing keys is full: '{full}'"]
    assert refusals == 1
    assert notices.names()[-1] == "queue_has_room"
    assert bus.fault is None
    assert sorted(map(int, arrived)) == list(range(200))
