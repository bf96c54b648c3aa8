"""The broker's address, and a connection to it that is opened again whenever it ends.

An address names a user other than `guest`, except on loopback, certificate files that exist, and no
unknown option. Only its `url` holds the password.

`wait_connected` returns the open connection as soon as there is one. A connection that is silent
for three heartbeats is replaced. Wrong settings raise an error at the first attempt only; after
that reconnecting goes on for ever.
"""

from __future__ import annotations

import logging
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

import aio_pika
import anyio
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import (
    CONNECTION_EXCEPTIONS,
    AuthenticationError,
    InvalidFrameError,
    ProbableAuthenticationError,
)
from aiormq.exceptions import ConnectionClosed, ConnectionNotAllowed

from wavewright.config import did_you_mean
from wavewright.config.value_types import is_loopback
from wavewright.engine.service.bus.faults import (
    CHANNEL_ERRORS,
    CLOSE_SECONDS,
    REPORT_SECONDS,
    BrokerEventHandler,
    BusDown,
    BusError,
    BusMisconfigured,
    describe_error,
    translate_errors,
)

DEFAULT_PORTS: Final = {"amqp": 5672, "amqps": 5671}
FILE_OPTIONS: Final = ("cafile", "certfile", "keyfile")
OPTIONS: Final = (*FILE_OPTIONS, "capath", "heartbeat")
HEARTBEAT: Final = 10
"""Seconds; a connection that is silent for three of them is closed. The usual 60 would take three
minutes to notice.
"""
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
    hint = (
        "write it as amqp://user:password@host:5672/vhost, or amqps:// for an encrypted connection"
    )
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
    if parts.scheme == "amqp" and (
        file_options := [name for name in (*FILE_OPTIONS, "capath") if name in options]
    ):
        raise BusMisconfigured(
            f"the option {file_options[0]!r} has no effect: amqp:// is not encrypted",
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


# The library's log records are shown where logging is configured, and otherwise not mixed into a
# command's output.
for _library in ("aio_pika", "aiormq"):
    logging.getLogger(_library).addHandler(logging.NullHandler())

CONNECT_SECONDS: Final = 10.0
FIRST_PAUSE: Final = 0.05
"""Seconds before the first attempt to reconnect; twice as long after each that failed."""
MAX_PAUSE: Final = 1.0


@dataclass(frozen=True, slots=True)
class _LiveConnection:
    """One connection, and an event that is set when it ends."""

    connection: AbstractConnection
    ended: anyio.Event
    reasons: list[str]
    """Why it ended, as far as that is known."""


class BrokerConnection:
    """At most one connection at a time, which `keep_connected` replaces when it ends."""

    def __init__(self, address: BrokerAddress, name: str, on_event: BrokerEventHandler) -> None:
        self._address = address
        self._name = name
        self._on_event = on_event
        self._session: _LiveConnection | None = None
        self._changed = anyio.Event()
        self.alarm: str | None = None
        """Why the broker takes no messages now, as `AlarmWatch` has found; None where it does."""

    @property
    def place(self) -> str:
        """The broker's address, without the password."""
        return self._address.shown

    @property
    def is_up(self) -> bool:
        """Whether there is an open connection now."""
        return self._session is not None and not self._session.ended.is_set()

    def fields(self) -> dict[str, str]:
        """Return the fields of an event about this connection."""
        return {"broker": self.place, "connection": self._name}

    async def wait_connected(self) -> AbstractConnection:
        """Return the open connection, waiting until there is one."""
        while (session := self._session) is None:
            await self._changed.wait()
        return session.connection

    async def open(self) -> None:
        """Connect for the first time, or again where that connection has ended before
        `keep_connected` runs.

        Raises:
            BusMisconfigured: settings or broker must be changed first.
            BusDown: no broker answers.
        """
        if self._session is not None:
            await self._detach(self._session)
        await self._attach(await self._connect())

    async def keep_connected(self) -> None:
        """Connect again whenever the connection ends, until this is cancelled."""
        while True:
            session = self._session
            assert session is not None, "`open` comes first"
            await session.ended.wait()
            await self._detach(session)
            await self._reconnect()

    async def drop(self, connection: AbstractConnection) -> None:
        """Close a connection that does not answer any more, and open the next one."""
        session = self._session
        if session is not None and session.connection is connection:
            session.reasons.append("the broker confirmed nothing")
            session.ended.set()

    async def wait_unblocked(self) -> None:
        """Return once the broker takes messages."""
        connection = await self.wait_connected()
        if (transport := connection.transport) is not None:
            await transport.connection.ready()

    async def close(self) -> None:
        """Close the connection; `keep_connected` must not run any more."""
        if self._session is not None:
            await self._detach(self._session, is_lost=False)

    async def _reconnect(self) -> None:
        pause, reported, due = FIRST_PAUSE, "", 0.0
        while True:
            await anyio.sleep(pause)
            try:
                await self._attach(await self._connect())
            except BusError as error:
                if error.message != reported or anyio.current_time() >= due:
                    self._on_event("broker_away", self.fields() | {"error": error.message})
                    reported, due = error.message, anyio.current_time() + REPORT_SECONDS
                pause = min(pause * 2, MAX_PAUSE)
            else:
                return

    async def _connect(self) -> AbstractConnection:
        connection: AbstractConnection | None = None
        try:
            with anyio.fail_after(CONNECT_SECONDS):
                connection = await translate_errors(
                    aio_pika.connect(
                        self._address.url, client_properties={"connection_name": self._name}
                    ),
                    place=self.place,
                )
        except TimeoutError as error:
            raise BusDown(
                f"the broker did not answer within {CONNECT_SECONDS:g} s",
                place=self.place,
                hint=_UNREACHABLE_HINT,
            ) from error
        except BusDown as error:
            raise _classify_failure(error, self._address) from error
        return connection

    async def _attach(self, connection: AbstractConnection) -> None:
        ended, reasons = anyio.Event(), list[str]()

        def end(_sender: object, cause: BaseException | None = None, *_: object) -> None:
            if cause is not None:
                reasons.append(describe_error(cause))
            ended.set()

        connection.close_callbacks.add(end)
        transport = connection.transport
        if transport is None or transport.connection.is_closed:
            ended.set()
        self._session = _LiveConnection(connection, ended, reasons)
        self._wake_waiters()
        self._on_event("broker_connected", self.fields())

    async def _detach(self, session: _LiveConnection, *, is_lost: bool = True) -> None:
        self._session = None
        self._wake_waiters()
        if is_lost:
            reason = session.reasons[0] if session.reasons else "the connection ended"
            self._on_event("broker_lost", self.fields() | {"error": reason})
        # The broker does not read a connection that it blocks.
        patience = CLOSE_SECONDS if self.alarm is None else 0.1
        with anyio.move_on_after(patience, shield=True):
            try:
                await translate_errors(session.connection.close(), place=self.place)
            except CHANNEL_ERRORS:
                # It is closed already.
                return

    def _wake_waiters(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()


_WRONG_HOSTNAME_CODES: Final = frozenset({62, 64})
"""OpenSSL's codes of a valid certificate of another host: by its name, by its address."""
_RULE_BROKEN_CODES: Final = range(79, 95)
"""OpenSSL's codes of a chain that breaks a rule of RFC 5280, such as an issuer that is not an
authority.
"""
_UNREACHABLE_HINT: Final = (
    "is the broker running, and is this its address? it is set by WAVEWRIGHT_AMQP_URL"
)


def _classify_failure(error: BusDown, address: BrokerAddress) -> BusError:
    """Return `BusMisconfigured` where trying again is no use, else `BusDown`, each with a hint."""
    cause = error.__cause__
    place = address.shown
    root = cause.__cause__ if cause is not None and cause.__cause__ is not None else cause
    if isinstance(cause, ProbableAuthenticationError | AuthenticationError):
        return BusMisconfigured(
            f"the broker refuses the user {address.user!r} or its password",
            place=place,
            hint="check the address in WAVEWRIGHT_AMQP_URL with rabbitmqctl authenticate_user",
        )
    if isinstance(
        cause, ConnectionNotAllowed | ConnectionClosed | InvalidFrameError
    ) and _is_of_vhost(cause):
        return BusMisconfigured(
            f"the broker refuses {address.user!r} access to the virtual host of this address",
            place=place,
            hint="add it with rabbitmqctl add_vhost, or grant access with rabbitmqctl set_permissions",
        )
    if isinstance(root, ssl.SSLCertVerificationError):
        if root.verify_code in _WRONG_HOSTNAME_CODES:
            hint = "use the host name of the certificate in the address"
        elif root.verify_code in _RULE_BROKEN_CODES:
            hint = "issue certificates that follow RFC 5280; Python 3.13 and later check all of its rules"
        else:
            hint = "name the authority that signed it: amqps://…?cafile=ca.pem"
        return BusMisconfigured(
            f"the broker's certificate is not trusted: {root.verify_message}",
            place=place,
            hint=hint,
        )
    if isinstance(root, ssl.SSLError):
        return BusMisconfigured(
            f"no encrypted connection to the broker: {root.reason or root}",
            place=place,
            hint="check the port: for amqps it is 5671 by default",
        )
    if isinstance(root, CONNECTION_EXCEPTIONS):
        return BusDown(
            f"no broker answers: {describe_error(root)}", place=place, hint=_UNREACHABLE_HINT
        )
    return error


def _is_of_vhost(cause: BaseException) -> bool:
    # The library does not pass on the broker's reason for closing a connection that opens a virtual host;
    # https://github.com/mosquito/aiormq, Connection._rpc: the close is an unexpected frame in place of `OpenOk`.
    return "vhost" in str(cause) or "Connection.OpenOk" in str(cause)
