"""A broker in a folder, for whoever dies too often for a real one.

It keeps the promises that the daemon relies on: what was sent to it is there until it is
acknowledged, what was taken and not acknowledged is delivered again and counted, and what it has
confirmed it has. The daemon's own relay and intake work with it.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path

from aio_pika import Message

from tests.crash.crash_points import reach
from tests.crash.crash_project import INTAKE, add_line, read_lines
from wavewright.engine.service.bus.publisher import PublishBatch
from wavewright.engine.service.job_store.records import OutgoingMessage
from wavewright.engine.service.messages.delivery import Delivery
from wavewright.planner.types import JsonObject


@dataclass(frozen=True)
class Sent:
    """A message that the broker has confirmed."""

    message: str
    kind: str
    queue: str
    sha256: str
    body: JsonObject


class _Intake:
    """What a daemon asks of its queue."""

    empty_at: float | None = None


class FileBroker:
    """One intake queue and one log of what went out."""

    intake = _Intake()

    def __init__(self, folder: Path) -> None:
        """Use a folder, and make it where there is none."""
        self._queue = folder / "intake"
        self._queue.mkdir(parents=True, exist_ok=True)
        self._deliveries = folder / "deliveries.jsonl"
        self._sent = folder / "sent.jsonl"
        self._confirmed = folder / "confirmed.jsonl"
        self._dead = folder / "dead.jsonl"
        self.in_hand: set[str] = set()

    # For whoever sends to the daemon

    def put(self, message: OutgoingMessage) -> None:
        """Confirm a message to the daemon; it is at the end of the queue."""
        number = len(list(read_lines(self._confirmed)))
        name = f"{number:06}-{message.message}"
        text = json.dumps(
            {"id": message.message, "body": message.body.decode(), "headers": message.headers}
        )
        draft = self._queue.parent / name
        draft.write_text(text)
        draft.rename(self._queue / name)
        add_line(self._confirmed, {"id": message.message})

    def waiting(self) -> list[str]:
        """Return the names of the messages that wait, in their order."""
        return sorted(path.name for path in self._queue.iterdir())

    def known(self) -> set[str]:
        """Return the ids of all messages that were ever confirmed to the daemon's queue."""
        return {str(line["id"]) for line in read_lines(self._confirmed)}

    # For the daemon

    def take(self, number: int = 0) -> Delivery | None:
        """Deliver the message of that place in the queue; none where there are not so many."""
        names = [name for name in self.waiting() if name not in self.in_hand]
        if number >= len(names):
            return None
        name = names[number]
        count = sum(line["name"] == name for line in read_lines(self._deliveries))
        add_line(self._deliveries, {"name": name})
        self.in_hand.add(name)
        content = json.loads((self._queue / name).read_text())
        return Delivery(
            body=content["body"].encode(),
            routing_key=INTAKE,
            content_type="application/json",
            message_id=content["id"],
            headers=content["headers"],
            delivery_count=count,
            settlement=_Settling(self, name),
        )

    async def dead_letter(self, delivery: Delivery, kind: str, reason: str) -> None:
        """Lay a message aside as a dead letter."""
        add_line(self._dead, {"id": delivery.message_id, "kind": kind, "reason": reason})
        await delivery.ack()

    async def ready(self) -> None:
        """Be there."""

    async def open(self) -> object:
        """Be there with every queue."""
        return self

    async def publish_all(self, sending: PublishBatch, timeout: float) -> None:  # noqa: ASYNC109 - as the real one
        """Confirm messages of the daemon's, one after another; it may die between them."""
        for number, batch in enumerate(sending.messages):
            await self.publish(batch.message, batch.exchange, batch.routing_key, timeout)
            sending.results[number] = None

    async def publish(
        self, message: Message, exchange: str, routing_key: str, _timeout: float
    ) -> None:
        """Confirm a message of the daemon's."""
        reach("before publish")
        line: JsonObject = {
            "id": message.message_id,
            "kind": message.type,
            "exchange": exchange,
            "queue": routing_key,
            "sha256": hashlib.sha256(message.body).hexdigest(),
            "body": json.loads(message.body),
        }
        add_line(self._sent, line)
        reach("before confirm")

    def settle(self, name: str) -> None:
        """Forget a message."""
        reach("before ack")
        (self._queue / name).unlink(missing_ok=True)
        self.in_hand.discard(name)
        reach("after ack")

    # For whoever looks on

    def sent(self) -> list[Sent]:
        """Return what went out, repeats included."""
        return [
            Sent(line["id"], line["kind"], line["queue"], line["sha256"], line["body"])
            for line in read_lines(self._sent)
        ]

    def dead(self) -> list[str]:
        """Return the ids of the messages that were dead-lettered."""
        return [str(line["id"]) for line in read_lines(self._dead)]


@dataclass(frozen=True)
class _Settling:
    broker: FileBroker
    name: str

    async def ack(self) -> None:
        self.broker.settle(self.name)

    async def requeue(self) -> None:
        self.broker.in_hand.discard(self.name)


def job_in(text: str) -> str | None:
    """Return the first UUID of a text."""
    found = re.search(r"[0-9a-f]{8}-[0-9a-f-]{27}", text)
    return None if found is None else found[0]
