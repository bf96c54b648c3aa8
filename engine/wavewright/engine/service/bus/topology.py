"""The exchanges and queues of a daemon, and the users of its broker, as data.

The *topology* is a topic exchange with the intake and the queues that the daemon publishes to, and
a dead-letter exchange with one queue. Each queue is a quorum queue, bound under its own name. A
message that was delivered `MAX_DELIVERIES` times without being settled is dead-lettered.

`definitions` is what RabbitMQ loads at start. Each *identity* of the settings with a broker user
becomes that user, with the right to send to the daemon and to read the queues that are addressed to
it, and no other. The daemon's own user may declare and use the whole topology. Passwords are read
from the environment and written only as salted hashes.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from wavewright.config import WavewrightError, exit_codes
from wavewright.config.sections import DaemonSection, IdentitySettings
from wavewright.planner import Json, JsonObject

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

_UNLIMITED: Final = 2**31 - 1
"""Delivery limit of the dead-letter queue: newer brokers drop a message after 20 deliveries by
default.
"""


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
    """The queues that the daemon publishes to: declared, so that messages wait there for a
    consumer.
    """
    dead_exchange: str = "wavewright.dlx"
    dead_queue: str = "wavewright.dead"
    delivery_limit: int = MAX_DELIVERIES
    """Deliveries after which the broker dead-letters a message by itself, where no daemon has done
    so.
    """

    def exchanges(self) -> tuple[str, ...]:
        """Return the exchanges; all are durable topic exchanges."""
        return (self.exchange, self.dead_exchange)

    @property
    def queue_names(self) -> frozenset[str]:
        """Return the names of the queues."""
        return frozenset({self.intake, *self.outlets, self.dead_queue})

    def routes(self) -> tuple[tuple[str, str], ...]:
        """Return the exchanges that a daemon publishes to, each with a routing key."""
        return (
            *((self.exchange, name) for name in self.outlets),
            (self.dead_exchange, self.intake),
        )

    def queues(self) -> Iterator[QueueDeclaration]:
        """Return the queues, each with its binding; all are durable quorum queues."""
        yield QueueDeclaration(
            self.dead_queue,
            self.dead_exchange,
            "#",
            {"x-queue-type": "quorum", "x-delivery-limit": _UNLIMITED},
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


PASSWORD_PREFIX: Final = "WAVEWRIGHT_BROKER_PASSWORD_"  # noqa: S105 - the name of a variable
_SALT_BYTES: Final = 4
_HASHING: Final = "rabbit_password_hashing_sha256"
_NOTHING: Final = "^$"


class NoPasswordError(WavewrightError):
    """A user of the broker has no password; the message names every variable that is missing."""

    exit_code = exit_codes.MISUSE


@dataclass(frozen=True, slots=True)
class BrokerUser:
    """A user of the broker with its rights, as patterns of names of exchanges and queues."""

    name: str
    configure: str
    write: str
    read: str
    topic_write: str | None = None
    """Pattern of routing keys that it may publish with; any if absent."""
    topic_read: str = ".*"
    """Pattern of routing keys that it may subscribe to."""


def password_variable(user: str) -> str:
    """Return the environment variable that holds a user's password."""
    return PASSWORD_PREFIX + re.sub(r"[^A-Z0-9]", "_", user.upper())


def broker_users(section: DaemonSection, daemon_user: str) -> tuple[BrokerUser, ...]:
    """Return the daemon's user and those of the identities, in the order of the settings."""
    own = _pattern_of(
        section.exchange, section.dead_letter_exchange, *_queues(section), watches=section.exchange
    )
    # The default exchange, by which a rejection reaches the reply address of its sender.
    own_or_reply = f"{own[:-2]}|amq[.]default)$"
    senders = dict[str, dict[str, IdentitySettings]]()
    for sender, identity in section.identities.items():
        if identity.user_id is not None and identity.user_id != daemon_user:
            senders.setdefault(identity.user_id, {})[sender] = identity
    return (
        BrokerUser(daemon_user, own, own_or_reply, own),
        *(_user_of(user, theirs, section) for user, theirs in senders.items()),
    )


def daemon_user_of(url: str | None) -> str:
    """Return the user in the broker's address; a default name if there is none."""
    user = urlsplit(url).username if url is not None else None
    return unquote(user) if user else "wavewright"


def definitions(
    section: DaemonSection,
    environment: Mapping[str, str],
    *,
    vhost: str = "/",
    salt: Callable[[int], bytes] = secrets.token_bytes,
) -> JsonObject:
    """Return what RabbitMQ's `load_definitions` reads.

    Args:
        section: The daemon's settings, with names and identities.
        environment: Passwords, in the variables of `password_variable`.
        vhost: The virtual host.
        salt: Returns the given number of random bytes.

    Raises:
        NoPasswordError: a user has no password.
    """
    topology = topology_of(section)
    users = broker_users(section, daemon_user_of(section.amqp_url))
    passwords = _passwords(users, environment)
    in_vhost: JsonObject = {"vhost": vhost}
    return {
        "vhosts": [{"name": vhost}],
        "users": [
            {
                "name": user.name,
                "password_hash": hash_password(passwords[user.name], salt(_SALT_BYTES)),
                "hashing_algorithm": _HASHING,
                "tags": [],
            }
            for user in users
        ],
        "permissions": [
            {
                **in_vhost,
                "user": user.name,
                "configure": user.configure,
                "write": user.write,
                "read": user.read,
            }
            for user in users
        ],
        "topic_permissions": [
            {
                **in_vhost,
                "user": user.name,
                "exchange": section.exchange,
                "write": user.topic_write,
                "read": user.topic_read,
            }
            for user in users
            if user.topic_write is not None
        ],
        "exchanges": [
            {
                **in_vhost,
                "name": name,
                "type": "topic",
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": {},
            }
            for name in topology.exchanges()
        ],
        "queues": [
            {
                **in_vhost,
                "name": queue.name,
                "durable": True,
                "auto_delete": False,
                "arguments": dict[str, Json](queue.arguments),
            }
            for queue in topology.queues()
        ],
        "bindings": [
            {
                **in_vhost,
                "source": queue.exchange,
                "destination": queue.name,
                "destination_type": "queue",
                "routing_key": queue.binding,
                "arguments": {},
            }
            for queue in topology.queues()
        ],
    }


def hash_password(password: str, salt: bytes) -> str:
    """Return a password as RabbitMQ stores it: the salt, then SHA-256 of salt and password, in
    base64.
    """
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode(
        "ascii"
    )


def _user_of(
    user: str, identities: Mapping[str, IdentitySettings], section: DaemonSection
) -> BrokerUser:
    """Return a user with the rights of all its identities."""
    queues = section.queues
    may_send = {kind for identity in identities.values() for kind in identity.may_send}
    published = (queues.decisions, queues.status)
    reads = list[str]()
    if section.validation.target_agent in identities:
        reads.append(queues.packages)
    if "user_decision_response" in may_send:
        reads += published
    # Senders of jobs or answers may subscribe to the replies with queues of their own.
    looks_on = bool(may_send & {"job_request", "user_decision_response"})
    watches = section.exchange if looks_on else None
    return BrokerUser(
        user,
        configure=_pattern_of(watches=watches),
        write=_pattern_of(section.exchange, watches=watches),
        read=_pattern_of(*reads, *([section.exchange] if looks_on else []), watches=watches),
        topic_write=_pattern_of(queues.intake),
        topic_read=_pattern_of(*published) if looks_on else _NOTHING,
    )


def _queues(section: DaemonSection) -> tuple[str, ...]:
    queues = section.queues
    return (queues.intake, queues.packages, queues.decisions, queues.status, queues.dead)


def _pattern_of(*names: str, watches: str | None = None) -> str:
    """Return a pattern of these names, and of the subscribers' queues of an exchange."""
    patterns = [re.escape(name) for name in names]
    if watches is not None:
        # As `Subscription` names them.
        patterns.append(f"{re.escape(watches)}[.]watch[.][0-9a-f]+")
    return f"^({'|'.join(patterns)})$" if patterns else _NOTHING


def _passwords(users: tuple[BrokerUser, ...], environment: Mapping[str, str]) -> dict[str, str]:
    passwords = {user.name: environment.get(password_variable(user.name), "") for user in users}
    missing = [password_variable(name) for name, password in passwords.items() if not password]
    if missing:
        raise NoPasswordError(
            f"these variables hold no password: {', '.join(missing)}",
            "set each to a password of its own; `openssl rand -hex 24` makes one",
        )
    return passwords
