"""Users, rights, exchanges and queues of a broker, as the definitions that RabbitMQ loads when it starts.

Each *identity* of the settings that names a broker's user becomes that user, with the right to send to the daemon and
to read the queues that are meant for it, and no other. The daemon's own user may declare and use everything of the
topology. Passwords are read from the environment and leave it only as salted hashes.
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

from wavewright.config.daemon_settings import DaemonSection, IdentitySettings
from wavewright.engine.bus.topology import topology_of
from wavewright.planner.types import Json, JsonObject

PASSWORD_PREFIX: Final = "WAVEWRIGHT_BROKER_PASSWORD_"  # noqa: S105 - the name of a variable
_SALT_BYTES: Final = 4
_HASHING: Final = "rabbit_password_hashing_sha256"
_NOTHING: Final = "^$"


class NoPasswordError(Exception):
    """A user of the broker has no password; the message names every variable that is missing."""


@dataclass(frozen=True, slots=True)
class BrokerUser:
    """One user of the broker, and what it may do; patterns are matched against names of exchanges and queues."""

    name: str
    configure: str
    write: str
    read: str
    topic_write: str | None = None
    """Pattern of routing keys that it may publish under; any where absent."""


def password_variable(user: str) -> str:
    """Return the environment variable that holds a user's password."""
    return PASSWORD_PREFIX + re.sub(r"[^A-Z0-9]", "_", user.upper())


def broker_users(section: DaemonSection, daemon_user: str) -> tuple[BrokerUser, ...]:
    """Return the daemon's user and those of the identities, in the order of the settings."""
    own = _any_of(section.exchange, section.dead_letter_exchange, *_queues(section))
    # The queues of its own that `wavewright tail` looks on by, as `bus.watcher` names them.
    own = f"{own[:-2]}|{re.escape(section.exchange)}[.]watch[.][0-9a-f]+)$"
    users = [BrokerUser(daemon_user, own, own, own)]
    for sender, identity in section.identities.items():
        if identity.user_id is not None and all(user.name != identity.user_id for user in users):
            users.append(_user_of(sender, identity, section))
    return tuple(users)


def daemon_user_of(url: str | None) -> str:
    """Return the user in the broker's address; a name of its own where there is none."""
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
        section: Names, and who there is.
        environment: Passwords, in the variables of `password_variable`.
        vhost: Where all of it lies.
        salt: Gives so many random bytes.

    Raises:
        NoPasswordError: a user has none.
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
                "read": ".*",
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
    """Return a password as RabbitMQ keeps it: the salt, then SHA-256 of salt and password, in base64."""
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode("ascii")


def _user_of(sender: str, identity: IdentitySettings, section: DaemonSection) -> BrokerUser:
    assert identity.user_id is not None
    reads = list[str]()
    if sender == section.validation.target_agent:
        reads.append(section.queues.packages)
    if "user_decision_response" in identity.may_send:
        reads += [section.queues.decisions, section.queues.status]
    return BrokerUser(
        identity.user_id,
        configure=_NOTHING,
        write=_any_of(section.exchange),
        read=_any_of(*reads),
        topic_write=_any_of(section.queues.intake),
    )


def _queues(section: DaemonSection) -> tuple[str, ...]:
    queues = section.queues
    return (queues.intake, queues.packages, queues.decisions, queues.status, queues.dead)


def _any_of(*names: str) -> str:
    return f"^({'|'.join(map(re.escape, names))})$" if names else _NOTHING


def _passwords(users: tuple[BrokerUser, ...], environment: Mapping[str, str]) -> dict[str, str]:
    found = {user.name: environment.get(password_variable(user.name), "") for user in users}
    missing = [password_variable(name) for name, password in found.items() if not password]
    if missing:
        raise NoPasswordError(f"these variables hold no password: {', '.join(missing)}")
    return found
