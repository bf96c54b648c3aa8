"""A message that cannot be taken in is dead-lettered whole, with the reason, and can do no harm
from there.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal

import aio_pika
import pytest

from tests.engine.service.bus.bus_doubles import Notices, message
from tests.engine.service.bus.test_consumers import send_raw
from tests.support.rabbitmq import Broker, RunningBroker, contents
from wavewright.engine.service.bus.bus import Bus
from wavewright.engine.service.bus.topology import Topology
from wavewright.engine.service.messages.delivery import Delivery

pytestmark = pytest.mark.anyio


async def test_a_dead_letter_keeps_its_bytes_and_says_why(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology, notices: Notices
) -> None:
    body = b"\xff\x00 no JSON {"
    await send_raw(
        broker.url,
        topology,
        body,
        {"x-wavewright-signature": "abc"},
        message_id="m-1",
        correlation_id="c-1",
        content_type="application/yaml",
        content_encoding="gzip",
        type="job_request",
        timestamp=datetime(2026, 6, 1, tzinfo=UTC),
        app_id="ui",
        reply_to="nobody",
    )
    await bus.dead_letter(await bus.intake.take(), "bad_json", "line 1: no value")

    [letter] = await contents(broker.url, topology.dead_queue)
    assert letter.body == body
    assert letter.routing_key == topology.intake
    assert letter.headers["x-wavewright-reason"] == "bad_json: line 1: no value"
    assert letter.headers["x-wavewright-kind"] == "bad_json"
    assert letter.headers["x-wavewright-queue"] == topology.intake
    assert letter.headers["x-wavewright-signature"] == "abc"
    assert (letter.message_id, letter.correlation_id, letter.type) == ("m-1", "c-1", "job_request")
    assert (letter.content_type, letter.content_encoding) == ("application/yaml", "gzip")
    assert letter.timestamp == datetime(2026, 6, 1, tzinfo=UTC)
    assert (letter.app_id, letter.reply_to) == ("ui", "nobody")
    assert await contents(broker.url, topology.intake) == []
    assert [fields["kind"] for fields in notices.of("message_dead_lettered")] == ["bad_json"]


async def test_a_dead_letter_says_who_sent_it_as_the_broker_knows_him(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    await bus.publish(message(topology, 1))
    sender = await bus.intake.take()
    await bus.dead_letter(sender, "bad_payload", "no")

    [letter] = await contents(broker.url, topology.dead_queue)
    assert letter.headers["x-wavewright-user-id"] == sender.user_id is not None


async def test_a_dead_letter_lasts_and_goes_nowhere_else(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    copied_to = topology.outlets[0]
    await send_raw(broker.url, topology, b"x", {"BCC": [copied_to], "kept": 1}, expiration=60)
    await contents(broker.url, copied_to)
    delivery = await bus.intake.take()
    delivery = type(delivery)(
        body=delivery.body,
        routing_key=delivery.routing_key,
        headers={**delivery.headers, "CC": [copied_to], "bcc": [copied_to]},
        expiration=delivery.expiration,
        settlement=delivery.settlement,
    )
    await bus.dead_letter(delivery, "bad_json", "no")

    [letter] = await contents(broker.url, topology.dead_queue)
    assert letter.expiration is None
    assert letter.headers["kept"] == 1
    assert await contents(broker.url, copied_to) == []


async def test_headers_of_any_shape_can_be_laid_aside(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    deep: dict[str, object] = {"end": 1}
    for _ in range(30):
        deep = {"in": deep}
    strange = {
        "nothing": None,
        "yes": True,
        "table": {"list": [1, "two", {"three": 3.5}], "bytes": bytearray(b"\x00\xff")},
        "when": datetime(2026, 6, 1, tzinfo=UTC),
        "exact": Decimal("1.5"),
        "large": 2**62,
        "deep": deep,
        **{f"many-{number}": number for number in range(100)},
    }
    await send_raw(broker.url, topology, b"x", strange)

    await bus.dead_letter(await bus.intake.take(), "bad_headers", "too many")

    [letter] = await contents(broker.url, topology.dead_queue)
    assert letter.headers["x-wavewright-kind"] == "bad_headers"
    assert letter.headers["table"] == {
        "list": [1, "two", {"three": 3.5}],
        "bytes": bytearray(b"\x00\xff"),
    }
    assert letter.headers["exact"] == Decimal("1.5")
    assert letter.headers["many-99"] == 99
    assert letter.headers["large"] == 2**62


async def test_headers_that_could_not_be_sent_again_are_laid_aside_as_text(
    bus: Bus, broker: Broker | RunningBroker, topology: Topology
) -> None:
    await bus.publish(message(topology, 1))
    taken = await bus.intake.take()
    strange = {
        "double": 1e300,
        "beyond": 2**80,
        "object": object,
        "large": "x" * 200_000,
        "last": 1,
    }
    delivery = Delivery(
        body=b"1", routing_key=topology.intake, headers=strange, settlement=taken.settlement
    )

    await bus.dead_letter(delivery, "bad_headers", "too strange")

    [letter] = await contents(broker.url, topology.dead_queue)
    assert letter.headers["double"] == "1e+300"
    assert letter.headers["beyond"] == str(2**80)
    assert "large" not in letter.headers
    assert letter.headers["last"] == 1
    assert letter.headers["x-wavewright-kind"] == "bad_headers"


async def test_a_reason_that_is_long_is_cut(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    await bus.publish(message(topology, 1))
    await bus.dead_letter(await bus.intake.take(), "bad_json", "x" * 10_000)

    [letter] = await contents(broker.url, topology.dead_queue)
    assert len(str(letter.headers["x-wavewright-reason"])) == 500


async def test_a_sender_cannot_write_the_reason(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    forged = {"x-wavewright-reason": "fine: nothing", "x-wavewright-kind": "fine"}
    await send_raw(broker.url, topology, b"x", forged)
    await bus.dead_letter(await bus.intake.take(), "bad_json", "no")

    [letter] = await contents(broker.url, topology.dead_queue)
    assert letter.headers["x-wavewright-reason"] == "bad_json: no"
    assert letter.headers["x-wavewright-kind"] == "bad_json"


async def reply_to(broker: Broker | RunningBroker, queue: str) -> dict[str, object]:
    """Return the only message of a queue."""
    [reply] = await contents(broker.url, queue)
    return {"type": reply.type, "correlation": reply.correlation_id, **json.loads(reply.body)}


async def test_a_sender_with_a_reply_address_is_told_why_its_message_was_dead_lettered(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    own = f"{topology.intake}.replies"
    async with await aio_pika.connect(broker.url) as connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(own)
        await send_raw(broker.url, topology, b"{", message_id="m-1", reply_to=own)
        await bus.dead_letter(await bus.intake.take(), "not_json", "line 1: no value")
        reply = await reply_to(broker, own)
        await queue.delete(if_empty=False)

    assert reply == {
        "type": "message_rejected",
        "correlation": "m-1",
        "message_id": "m-1",
        "kind": "not_json",
        "reason": "line 1: no value",
    }


async def test_a_reply_goes_to_no_queue_of_the_daemons_own(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology
) -> None:
    await send_raw(broker.url, topology, b"{", message_id="m-1", reply_to=topology.intake)
    await bus.dead_letter(await bus.intake.take(), "not_json", "line 1: no value")

    assert await contents(broker.url, topology.intake) == []


async def test_a_reply_address_that_is_gone_changes_nothing(
    broker: Broker | RunningBroker, bus: Bus, topology: Topology, notices: Notices
) -> None:
    await send_raw(broker.url, topology, b"{", message_id="m-1", reply_to="nobody.is.there")
    await bus.dead_letter(await bus.intake.take(), "not_json", "line 1: no value")

    assert len(await contents(broker.url, topology.dead_queue)) == 1
    assert notices.of("reply_failed") == []
