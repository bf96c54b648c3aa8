"""What a sender with a client of his own can put on the wire harms neither the daemon nor the
messages behind it.
"""

from __future__ import annotations

import struct
from datetime import UTC, datetime

import aio_pika
import aiormq
import anyio
import pytest
from aiormq.abc import ChannelFrame
from pamqp import commands as spec
from pamqp.body import ContentBody
from pamqp.frame import marshal
from pamqp.header import ContentHeader

from tests.engine.service.bus.bus_doubles import Notices, message, until
from tests.support.rabbitmq import Broker, RunningBroker
from wavewright.engine.service.bus.bus import Bus
from wavewright.engine.service.bus.topology import Topology

pytestmark = pytest.mark.anyio

MARKED = datetime(2026, 6, 1, tzinfo=UTC)
AS_BYTES = struct.pack(">Q", int(MARKED.timestamp()))


async def send_bytes(
    url: str, topology: Topology, change: tuple[bytes, bytes], body: bytes = b"evil"
) -> None:
    """Send a message whose frames were changed by hand, and wait until the broker has it."""
    properties = spec.Basic.Properties(
        timestamp=MARKED, delivery_mode=2, message_id="placeholder", headers={"placeheld": 1}
    )
    frames: list[spec.Basic.Publish | ContentHeader | ContentBody] = [
        spec.Basic.Publish(exchange=topology.exchange, routing_key=topology.intake),
        ContentHeader(properties=properties, body_size=len(body)),
        ContentBody(body),
    ]
    connection = await aiormq.connect(url)
    channel = await connection.channel(publisher_confirms=False)
    whole = b"".join(marshal(frame, channel.number) for frame in frames)
    spoilt = whole.replace(*change)
    assert spoilt != whole
    frame = ChannelFrame(payload=spoilt, should_close=False, drain_future=None)
    await connection.write_queue.put(frame)  # pyright: ignore[reportUnknownMemberType]
    # A call that is answered on the same channel comes after it.
    await channel.queue_declare(topology.intake, passive=True)
    await connection.close()


@pytest.mark.parametrize(
    "change",
    [
        pytest.param((AS_BYTES, b"\xff" * 8), id="a-timestamp-beyond-the-calendar"),
        pytest.param((b"placeheld", b"\xff\xfe\xfd" * 3), id="a-header-that-is-no-text"),
        pytest.param((b"placeholder", b"\xff\xfe\xfdceholder"), id="an-id-that-is-no-text"),
    ],
)
async def test_a_message_that_the_library_cannot_read_does_not_stop_the_intake(
    broker: Broker | RunningBroker,
    bus: Bus,
    topology: Topology,
    notices: Notices,
    change: tuple[bytes, bytes],
) -> None:
    taken = list[bytes]()

    async def take() -> None:
        while True:
            delivery = await bus.intake.take()
            taken.append(delivery.body)
            await delivery.ack()

    await send_bytes(broker.url, topology, change)
    await bus.publish(message(topology, 1))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await until(lambda: b"1" in taken)
        tasks.cancel_scope.cancel()

    assert taken == [b"1"]
    # It ended the connection a few times, and then the broker itself laid it aside.
    assert len(notices.of("broker_lost")) == topology.delivery_limit + 1
    with anyio.fail_after(30):
        while await length(broker.url, topology.dead_queue) != 1:  # noqa: ASYNC110 - it happens at the broker
            await anyio.sleep(0.1)


async def length(url: str, queue: str) -> int | None:
    """Return how many messages a queue has without reading one."""
    connection = await aio_pika.connect(url)
    async with connection, connection.channel() as channel:
        return (await channel.declare_queue(queue, passive=True)).declaration_result.message_count
