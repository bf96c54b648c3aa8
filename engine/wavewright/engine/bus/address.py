"""The broker's address: an AMQP URL, validated before anything connects.

It names a user other than `guest`, except on loopback, certificate files that exist, and no unknown option. Only `url`
holds the password; `shown` does not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from wavewright.config.suggestions import did_you_mean
from wavewright.config.value_types import is_loopback
from wavewright.engine.bus.errors import BusMisconfigured

DEFAULT_PORTS: Final = {"amqp": 5672, "amqps": 5671}
FILE_OPTIONS: Final = ("cafile", "certfile", "keyfile")
OPTIONS: Final = (*FILE_OPTIONS, "capath", "heartbeat")
HEARTBEAT: Final = 10
"""Seconds; a connection that is silent for three of them is closed. The usual 60 would take three minutes to notice."""
_MAX_HEARTBEAT: Final = 600


@dataclass(frozen=True, slots=True)
class BrokerAddress:
    """A validated AMQP URL and its parts."""

    url: str = field(repr=False)
    """Holds the password: for the connection only."""
    shown: str
    user: str
    is_encrypted: bool
    is_loopback: bool


def read_address(url: str) -> BrokerAddress:
    """Return the address of a URL such as `amqps://user:password@host/vhost?cafile=ca.pem`.

    Raises:
        BusMisconfigured: the URL is invalid, or its user is `guest` on another host.
    """
    parts = _split(url)
    shown = _shown(parts)
    user = unquote(parts.username or "")
    is_local = is_loopback(parts.hostname or "")
    if user in ("", "guest") and not is_local:
        raise BusMisconfigured(
            "the user 'guest' is refused: its password is known to everybody"
            if user
            else "no user is named, and the user 'guest' is refused: its password is known to everybody",
            place=shown,
            hint="add a user to the broker (rabbitmqctl add_user) and name it: amqps://user:password@host/vhost",
        )
    return BrokerAddress(
        url=parts._replace(query=urlencode(_options(parts, shown))).geturl(),
        shown=shown,
        user=user or "guest",
        is_encrypted=parts.scheme == "amqps",
        is_loopback=is_local,
    )


def _split(url: str) -> SplitResult:
    hint = "write it as amqp://user:password@host:5672/vhost, or amqps:// for an encrypted connection"
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        # The text of this error holds the password where that is in the place of the port.
        raise BusMisconfigured("the broker's address cannot be read", hint=hint) from None
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname or port == 0:
        raise BusMisconfigured("the broker's address is not an AMQP URL", hint=hint)
    return parts


def _shown(parts: SplitResult) -> str:
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    port = parts.port or DEFAULT_PORTS[parts.scheme]
    user = f"{quote(unquote(parts.username))}@" if parts.username else ""
    return f"{parts.scheme}://{user}{host}:{port}{parts.path or '/'}"


def _options(parts: SplitResult, shown: str) -> dict[str, str]:
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name, value in options.items():
        _check_option(name, value, shown)
    if parts.scheme == "amqp" and (found := [name for name in (*FILE_OPTIONS, "capath") if name in options]):
        raise BusMisconfigured(
            f"the option {found[0]!r} has no effect: amqp:// is not encrypted",
            place=shown,
            hint="begin the address with amqps://",
        )
    return {"heartbeat": str(HEARTBEAT)} | options


def _check_option(name: str, value: str, shown: str) -> None:
    if name not in OPTIONS:
        raise BusMisconfigured(
            f"the broker's address has the unknown option {name!r}",
            place=shown,
            hint=did_you_mean(name, OPTIONS) or f"the options are {', '.join(OPTIONS)}",
        )
    if name in FILE_OPTIONS and not Path(value).is_file():
        raise BusMisconfigured(f"{name} names {value!r}, which does not exist", place=shown)
    if name == "heartbeat" and not (value.isdecimal() and 1 <= int(value) <= _MAX_HEARTBEAT):
        raise BusMisconfigured(
            f"heartbeat is {value!r}, not a whole number of seconds from 1 to {_MAX_HEARTBEAT}",
            place=shown,
        )
