"""What tests of the bus are made of: messages, an outbox in memory, and notices that are kept."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import anyio
from pydantic import JsonValue

from wavewright.engine.service.bus.faults import BrokerEvent
from wavewright.engine.service.bus.topology import Topology
from wavewright.engine.service.job_store.records import MessageId, OutgoingMessage
from wavewright.engine.service.job_store.store import JobStore


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for a condition that no event reports, for as long as the test may take."""
    while not is_so():  # noqa: ASYNC110 - it happens in the library or at the broker
        await anyio.sleep(0.01)


class Notices:
    """Keeps what the bus tells."""

    def __init__(self) -> None:
        self.told: list[tuple[BrokerEvent, Mapping[str, JsonValue]]] = []

    def __call__(self, name: BrokerEvent, fields: Mapping[str, JsonValue], /) -> None:
        self.told.append((name, fields))

    def names(self) -> list[BrokerEvent]:
        return [name for name, _ in self.told]

    def of(self, name: BrokerEvent) -> list[Mapping[str, JsonValue]]:
        return [fields for told, fields in self.told if told == name]


class MemoryOutbox(JobStore):
    """An outbox without a database and leases: `pending` returns each time what is not marked."""

    def __init__(self, messages: Sequence[OutgoingMessage] = ()) -> None:
        self.waiting = list(messages)
        self.sent: list[MessageId] = []
        self.refused: dict[MessageId, str] = {}
        self._kept: list[OutgoingMessage] = []
        self.renewed: list[list[MessageId]] = []

    async def pending(self, most: int = 100) -> list[OutgoingMessage]:
        return self.waiting[:most]

    async def renew(self, messages: Sequence[MessageId]) -> None:
        self.renewed.append(list(messages))

    async def mark_sent(self, messages: Sequence[MessageId]) -> None:
        self.sent.extend(messages)
        self._settle(set(messages))

    async def mark_refused(self, message: MessageId, reason: str) -> None:
        self.refused[message] = reason
        self._kept += [waiting for waiting in self.waiting if waiting.message == message]
        self._settle({message})

    async def list_refused(self) -> list[OutgoingMessage]:
        return [replace(kept, refused=self.refused[kept.message]) for kept in self._kept]

    async def release(self, messages: Sequence[MessageId]) -> None:
        self.waiting = [kept for kept in self._kept if kept.message in messages] + self.waiting
        self._kept = [kept for kept in self._kept if kept.message not in messages]
        for message in messages:
            del self.refused[message]

    def _settle(self, settled: set[MessageId]) -> None:
        self.waiting = [waiting for waiting in self.waiting if waiting.message not in settled]


def message(
    topology: Topology, number: int, *, key: str | None = None, exchange: str | None = None
) -> OutgoingMessage:
    """Return a message that says its number; to the intake unless a key says otherwise."""
    return OutgoingMessage(
        message=MessageId(str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))),
        kind="job_request",
        exchange=topology.exchange if exchange is None else exchange,
        routing_key=topology.intake if key is None else key,
        body=str(number).encode(),
        headers={"x-number": number},
        at=1_780_000_000.25,
    )
