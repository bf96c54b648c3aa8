"""Users, rights, exchanges and queues of a broker, as definitions that RabbitMQ loads at start.

Each *identity* of the settings with a broker user becomes that user, with the right to send to the daemon and to read
the queues that are addressed to it, and no other. The daemon's own user may declare and use the whole topology.
Passwords are read from the environment and written only as salted hashes.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.config.sections import DaemonSection, IdentitySettings
from wavewright.engine.bus.topology import topology_of
from wavewright.planner.types import Json, JsonObject

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
    senders = dict[str, dict[str, IdentitySettings]]()
    for sender, identity in section.identities.items():
        if identity.user_id is not None and identity.user_id != daemon_user:
            senders.setdefault(identity.user_id, {})[sender] = identity
    return (
        BrokerUser(daemon_user, own, own, own),
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
    """Return a password as RabbitMQ stores it: the salt, then SHA-256 of salt and password, in base64."""
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode("ascii")


def _user_of(user: str, identities: Mapping[str, IdentitySettings], section: DaemonSection) -> BrokerUser:
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
        # As `bus.watcher` names them.
        patterns.append(f"{re.escape(watches)}[.]watch[.][0-9a-f]+")
    return f"^({'|'.join(patterns)})$" if patterns else _NOTHING


def _passwords(users: tuple[BrokerUser, ...], environment: Mapping[str, str]) -> dict[str, str]:
    found = {user.name: environment.get(password_variable(user.name), "") for user in users}
    missing = [password_variable(name) for name, password in found.items() if not password]
    if missing:
        raise NoPasswordError(
            f"these variables hold no password: {', '.join(missing)}",
            "set each to a password of its own; `openssl rand -hex 24` makes one",
        )
    return found
