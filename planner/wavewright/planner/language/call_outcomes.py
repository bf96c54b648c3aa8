"""Whether it is known what became of a call that failed.

The rule ("Unclear" in `docs/explanation/semantics.md`): the outcome is unknown where the call may
have reached what it acts upon and no answer says that it was refused. Its time was up, its
connection broke, or the server failed while it worked (5xx). It is known where nothing was sent, as
with a connection that is refused, where a server refused to act (4xx, or 503 with `Retry-After`),
and where the tool itself raises any other exception to say that it failed. One that it raises
`from` another, or while it handles another, says nothing of its own: it is as that one.

Exceptions are judged by the names of their classes, since no library of them need be installed, and
since `retry.on` of a plan has their names alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final


def is_before_any_effect(names: Iterable[str]) -> bool:
    """Whether an exception with classes of these names is raised before anything was sent."""
    return not _BEFORE_ANY_EFFECT.isdisjoint(map(_own_name, names))


def is_broken_off(names: Iterable[str]) -> bool:
    """Whether an exception with classes of these names is raised while a call is under way."""
    own = {_own_name(name) for name in names}
    if is_before_any_effect(own):
        return False
    # Libraries call their timeouts so: `TimeoutError`, `ReadTimeout`, `TimeoutExpired`.
    return any(name in _BROKEN_OFF or "timeout" in name.lower() for name in own)


def is_unknown_by_status(status: int, *, has_retry_after: bool) -> bool:
    """Whether the status of an HTTP answer leaves the outcome of its call unknown."""
    if status == HTTPStatus.SERVICE_UNAVAILABLE and has_retry_after:
        # A server that names a time has put the request off, and not begun with it.
        return False
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR


def _own_name(name: str) -> str:
    """Return the name of a class without its module."""
    return name.rpartition(".")[2]


_BEFORE_ANY_EFFECT: Final = frozenset(
    {
        # The operating system refused.
        "ConnectionRefusedError",
        "FileExistsError",
        "FileNotFoundError",
        "IsADirectoryError",
        "NotADirectoryError",
        "PermissionError",
        # There is no address, or its certificate is not trusted.
        "NameResolutionError",
        "SSLCertVerificationError",
        "gaierror",
        # A library of HTTP had no connection over which it could send.
        "ClientConnectorError",
        "ConnectError",
        "ConnectTimeout",
        "ConnectTimeoutError",
        "EndpointConnectionError",
        "NewConnectionError",
        "PoolTimeout",
        "UnsupportedProtocol",
    }
)
"""Exceptions that are raised before anything was sent or written."""
_BROKEN_OFF: Final = frozenset(
    {
        "BrokenExecutor",
        "BrokenPipeError",
        "BrokenProcessPool",
        "BrokenResourceError",
        "BrokenThreadPool",
        "CancelledError",
        "ClientPayloadError",
        "ConnectionAbortedError",
        "ConnectionClosedError",
        "ConnectionDoesNotExistError",
        "ConnectionResetError",
        "ContentDecodingError",
        "DecodingError",
        "EOFError",
        "EndOfStream",
        "IncompleteRead",
        "IncompleteReadError",
        "ProtocolError",
        "ReadError",
        "RemoteDisconnected",
        "RemoteProtocolError",
        "ServerDisconnectedError",
        "WriteError",
    }
)
"""Exceptions of a connection that broke, or of work that was cut off."""
