"""Which exchanges and queues there are, as data.

The *topology* is one topic exchange, a quorum queue for whoever listens, and a dead-letter exchange with a queue
where every message ends that cannot be taken in. Each queue is bound under its own name. A message that was taken
`MOST_DELIVERIES` times and never settled is buried, so none goes round for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from wavewright.config.sections import DaemonSection

MOST_DELIVERIES: Final = 5
"""Times that a message is given out; the next time it is buried instead, with the reason."""

REASON_HEADER: Final = "x-wavewright-reason"
"""Of a dead letter: the kind of its fault, a colon, and what was wrong with it."""
KIND_HEADER: Final = "x-wavewright-kind"
QUEUE_HEADER: Final = "x-wavewright-queue"
"""Of a dead letter: the queue that it was taken from."""
ATTEMPTS_HEADER: Final = "x-wavewright-attempts"
"""Of a dead letter whose job was given up: how often it was begun."""
SENDER_HEADER: Final = "x-wavewright-user-id"
"""Of a dead letter: the broker's user who sent it."""

_MAX_MESSAGE_TTL: Final = 2**31 - 1
"""Deliveries of a dead letter: newer brokers drop a message after 20 unless told otherwise."""


@dataclass(frozen=True, slots=True)
class QueueDeclaration:
    """A queue as it is declared; the broker refuses to have it declared in two ways."""

    name: str
    exchange: str
    binding: str
    arguments: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Topology:
    """The names of everything at the broker."""

    exchange: str = "wavewright.topic"
    intake: str = "wavewright.jobs"
    """The queue that is taken from."""
    outlets: tuple[str, ...] = ("wavewright.packages", "user.decisions", "job.status")
    """The queues that are written to: declared, so that what is sent waits for whoever reads it."""
    dead_exchange: str = "wavewright.dlx"
    dead_queue: str = "wavewright.dead"
    delivery_limit: int = MOST_DELIVERIES
    """After so many deliveries the broker itself lays a message aside, should nobody have come so far as to do it."""

    def exchanges(self) -> tuple[str, ...]:
        """Return the exchanges; all are durable topic exchanges."""
        return (self.exchange, self.dead_exchange)

    def routes(self) -> tuple[tuple[str, str], ...]:
        """Return the exchanges that whoever takes from the intake writes to, each with a routing key."""
        return (*((self.exchange, name) for name in self.outlets), (self.dead_exchange, self.intake))

    def queues(self) -> Iterator[QueueDeclaration]:
        """Return the queues, each with its binding; all are durable quorum queues."""
        yield QueueDeclaration(
            self.dead_queue,
            self.dead_exchange,
            "#",
            {"x-queue-type": "quorum", "x-delivery-limit": _MAX_MESSAGE_TTL},
        )
        for name in dict.fromkeys((self.intake, *self.outlets)):
            yield QueueDeclaration(name, self.exchange, name, self._arguments())

    def _arguments(self) -> dict[str, str | int]:
        return {
            "x-queue-type": "quorum",
            "x-delivery-limit": self.delivery_limit,
            "x-dead-letter-exchange": self.dead_exchange,
            # A message on its way to the dead letters is kept until it is there.
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }


def topology_of(section: DaemonSection) -> Topology:
    """Return the topology by the names of the settings."""
    queues = section.queues
    return Topology(
        exchange=section.exchange,
        intake=queues.intake,
        outlets=(queues.packages, queues.decisions, queues.status),
        dead_exchange=section.dead_letter_exchange,
        dead_queue=queues.dead,
        delivery_limit=section.delivery_limit,
    )
