"""The exchanges and queues of a daemon, as data.

The *topology* is a topic exchange with the intake and the queues that the daemon publishes to, and a dead-letter
exchange with one queue. Each queue is a quorum queue, bound under its own name. A message that was delivered
`MAX_DELIVERIES` times without being settled is dead-lettered.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from wavewright.config.sections import DaemonSection

MAX_DELIVERIES: Final = 5
"""Deliveries of a message; after them it is dead-lettered with the reason."""

REASON_HEADER: Final = "x-wavewright-reason"
"""Of a dead letter: the kind of its fault, a colon, and the reason."""
KIND_HEADER: Final = "x-wavewright-kind"
QUEUE_HEADER: Final = "x-wavewright-queue"
"""Of a dead letter: the queue that it was read from."""
ATTEMPTS_HEADER: Final = "x-wavewright-attempts"
"""Of the dead letter of a job: its number of attempts."""
SENDER_HEADER: Final = "x-wavewright-user-id"
"""Of a dead letter: the broker's user who sent the message."""

_MAX_MESSAGE_TTL: Final = 2**31 - 1
"""Delivery limit of the dead-letter queue: newer brokers drop a message after 20 deliveries by default."""


@dataclass(frozen=True, slots=True)
class QueueDeclaration:
    """A queue as it is declared; the broker refuses to declare it again with other arguments."""

    name: str
    exchange: str
    binding: str
    arguments: Mapping[str, str | int]


@dataclass(frozen=True, slots=True)
class Topology:
    """The names of exchanges and queues."""

    exchange: str = "wavewright.topic"
    intake: str = "wavewright.jobs"
    """The queue that the daemon consumes."""
    outlets: tuple[str, ...] = ("wavewright.packages", "user.decisions", "job.status")
    """The queues that the daemon publishes to: declared, so that messages wait there for a consumer."""
    dead_exchange: str = "wavewright.dlx"
    dead_queue: str = "wavewright.dead"
    delivery_limit: int = MAX_DELIVERIES
    """Deliveries after which the broker dead-letters a message by itself, where no daemon has done so."""

    def exchanges(self) -> tuple[str, ...]:
        """Return the exchanges; all are durable topic exchanges."""
        return (self.exchange, self.dead_exchange)

    def routes(self) -> tuple[tuple[str, str], ...]:
        """Return the exchanges that a daemon publishes to, each with a routing key."""
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
            # A message stays in its queue until the dead-letter exchange has confirmed it.
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }


def topology_of(section: DaemonSection) -> Topology:
    """Return the topology with the names of the settings."""
    queues = section.queues
    return Topology(
        exchange=section.exchange,
        intake=queues.intake,
        outlets=(queues.packages, queues.decisions, queues.status),
        dead_exchange=section.dead_letter_exchange,
        dead_queue=queues.dead,
        delivery_limit=section.delivery_limit,
    )
