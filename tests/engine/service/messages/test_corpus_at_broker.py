"""The corpus over a real broker: sent in its senders' names, and taken in by the daemon's intake."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import aio_pika
import anyio
import pytest
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage, HeadersType

from tests.engine.service.messages.message_corpus import (
    KEY,
    MessageReceiver,
    Row,
    contract,
    delivery_of,
    open_receiver,
    rows,
)
from tests.engine.service.messages.sample_messages import JOB, envelope
from tests.support.rabbitmq import Broker, RunningBroker, clear, contents
from wavewright.config.sections import DaemonSection, QueuesSection
from wavewright.config.settings import load_settings
from wavewright.engine.run.services import open_services
from wavewright.engine.service.bus.alarms import ALARM_POLL_SECONDS
from wavewright.engine.service.bus.bus import Bus, BusSettings, open_bus
from wavewright.engine.service.bus.topology import Topology
from wavewright.engine.service.daemon.budgets import DailyBudget
from wavewright.engine.service.daemon.dispatcher import Dispatcher, MessageHandler
from wavewright.engine.service.daemon.job_runner import JobRunner
from wavewright.engine.service.daemon.model_circuit import ModelCircuitBreaker
from wavewright.engine.service.daemon.reports import Reporter
from wavewright.engine.service.job_store.records import JobId
from wavewright.engine.service.messages.delivery import SIGNATURE_HEADER, Delivery, sign
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.engine.service.operations.monitoring import Telemetry

PATIENCE = 30.0
A_MOMENT = 1.0
"""Seconds that a good message may be kept waiting on purpose; how busy the machine is does not
count.
"""
GOOD_JOB = JobId(JOB)


@dataclass(frozen=True)
class Street:
    """Queues at a broker, the bus between them and a daemon, and somebody who sends in the senders'
    names.
    """

    broker: Broker
    topology: Topology
    bus: Bus
    channel: AbstractChannel

    async def post(self, deliveries: list[Delivery]) -> None:
        """Send messages as their senders would."""
        exchange = await self.channel.get_exchange(self.topology.exchange)
        for one in deliveries:
            message = aio_pika.Message(
                one.body,
                headers=cast("HeadersType", dict(one.headers)),
                content_type=one.content_type,
                content_encoding=one.content_encoding,
                expiration=None if one.expiration is None else int(one.expiration) / 1_000,
                reply_to=one.reply_to,
                user_id=one.user_id,
                delivery_mode=2,
            )
            await exchange.publish(message, one.routing_key)

    async def left_in(self, queue: str) -> list[AbstractIncomingMessage]:
        return await contents(self.broker.url, queue)

    async def come_to(self, queue: str) -> list[AbstractIncomingMessage]:
        """Return what is in a queue as soon as there is something: a refused message is sent on by
        the broker itself, after the refusal.
        """
        with anyio.fail_after(PATIENCE):
            while not (messages := await self.left_in(queue)):  # noqa: ASYNC110 - the broker does it
                await anyio.sleep(0.05)
        return messages


async def unheard(message: AbstractIncomingMessage) -> None:
    """Hear an answer and do nothing."""


@pytest.fixture(scope="module")
async def street(broker: Broker | RunningBroker) -> AsyncIterator[Street]:
    if not isinstance(broker, Broker):
        pytest.skip(
            "nobody may send in the names of others at the broker of WAVEWRIGHT_TEST_AMQP_URL"
        )
    topology = broker.topology()
    connection = await aio_pika.connect(broker.postman)
    async with (
        open_bus(BusSettings(broker.url, topology)) as bus,
        connection,
        connection.channel() as channel,
    ):
        # Whoever names this queue to be answered to must listen to it; no answer ever comes.
        answers = await channel.get_queue("amq.rabbitmq.reply-to", ensure=False)
        await answers.consume(unheard, no_ack=True)
        yield Street(broker, topology, bus, channel)
    await clear(broker.url, topology)


@asynccontextmanager
async def open_job_runner(
    receiver: MessageReceiver, street: Street, folder: Path
) -> AsyncGenerator[JobRunner]:
    settings = load_settings(folder, {})
    section = DaemonSection(
        exchange=street.topology.exchange,
        dead_letter_exchange=street.topology.dead_exchange,
        queues=QueuesSection(intake=street.topology.intake, status=street.topology.outlets[1]),
    )
    async with open_services(settings) as services:
        yield JobRunner(
            settings=settings,
            journal=receiver.stores.journal,
            jobs=receiver.stores.jobs,
            services=services,
            reporter=Reporter(section),
            watch=Telemetry(StructuredLog(agent="tester", domain="tests", stream=io.StringIO())),
            daily_budget=DailyBudget(lambda: receiver.now, lambda _reason, _until: None),
            model_circuit=ModelCircuitBreaker(lambda: receiver.now, lambda _run: None),
            wake_relay=street.bus.relay.wake,
            clock=lambda: receiver.now,
        )


def good_message(queue: str) -> Delivery:
    """Return an ordinary job request, signed for a queue."""
    document = envelope(
        {"job_id": JOB, "job": {"name": "words"}},
        timestamp=contract()["now"],
        target_agent="world_lore_researcher",
    )
    body = json.dumps(document).encode()
    named = {name: str(document[name]) for name in ("message_id", "timestamp")}
    signature = sign(KEY, body=body, routing_key=queue, **named)
    return Delivery(
        body=body,
        routing_key=queue,
        content_type="application/json",
        user_id="svc_ui",
        headers={SIGNATURE_HEADER: signature},
    )


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds of every pause that was begun, without those of the watch over the broker's
    alarms, for which no message waits.
    """
    begun, sleep = list[float](), anyio.sleep

    async def sleeping(seconds: float) -> None:
        if seconds != ALARM_POLL_SECONDS:
            begun.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(anyio, "sleep", sleeping)
    return begun


@pytest.mark.anyio
@pytest.mark.parametrize("row", rows(), ids=lambda row: f"{row['id']}-{row['why']}")
async def test_a_message_comes_to_its_end_and_the_good_one_behind_it_is_taken_in(
    row: Row, street: Street, tmp_path: Path, pauses: list[float]
) -> None:
    bus, queue = street.bus, street.topology.intake
    sent = delivery_of(row, queue, street.topology.outlets[0])
    await street.post([*[sent] * row["deliveries"], good_message(queue)])
    async with (
        open_receiver(tmp_path / "journal.sqlite", contract()) as receiver,
        open_job_runner(receiver, street, tmp_path) as job_runner,
    ):
        intake = MessageHandler(bus, job_runner, receiver.rules, Dispatcher(job_runner, 1))
        with anyio.fail_after(PATIENCE):
            for _ in range(row["deliveries"] + 1):
                await intake.handle(await bus.intake.take())
        assert sum(pauses) < A_MOMENT
        if row["kind"] == "max_deliveries":
            await receiver.fail_until_dead(job_runner.reporter.state_reports)
            await bus.relay.flush(receiver.stores.jobs)
        good = await receiver.stores.jobs.find_job(GOOD_JOB)

    assert good is not None
    assert await street.left_in(queue) == []
    if row["actions"] == ["dead_letter"]:
        letters = await street.come_to(street.topology.dead_queue)
    else:
        letters = await street.left_in(street.topology.dead_queue)
    if "dead_letter" not in row["actions"]:
        assert letters == []
    for letter in letters:
        assert str(letter.headers["x-wavewright-reason"]).startswith(f"{row['kind']}: ")
        assert row["kind"] == "max_deliveries" or letter.body == sent.body
