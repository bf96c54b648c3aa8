"""Whether it is known what became of a call that failed.

The rule ("Unknown" in `docs/explanation/semantics.md`): the outcome is unknown where the call may
have reached what it acts upon and nobody says that it was refused. It is known where nothing was
sent, where what it acts upon has answered that it refused, and where the tool itself raises an
exception to say that it failed. Whatever says none of this leaves the outcome unknown.

Here stands what the classes of exceptions and the codes of answers say; how an exception of a tool
is read is in `executor/run/exceptions.py`. Classes are known by their names, since no library of them
need be installed, and since `retry.on` of a plan has the names alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Final


def is_unknown_by_class(names: Iterable[str]) -> bool | None:
    """Return whether the class of an exception leaves the outcome of its call unknown; None where
    it says nothing.

    The nearest class that is known decides: `redis.BusyLoadingError` is a refusal, though it is
    derived from a `ConnectionError`.

    Args:
        names: Names of the class and of those that it is derived from, the nearest first; with
            their modules (`redis.exceptions.ResponseError`) or without.
    """
    for full_name in names:
        package, name = full_name.partition(".")[0], full_name.rpartition(".")[2]
        if name in _NOTHING_SENT or f"{package}.{name}" in _REFUSALS:
            return False
        # Libraries call their timeouts so: `TimeoutError`, `ReadTimeout`, `TimeoutExpired`.
        if name in _BROKEN_OFF or "timeout" in name.lower():
            return True
    return None


def is_of_connection(names: Iterable[str]) -> bool:
    """Whether an exception with classes of these names is of a connection, and does not say whether
    anything was sent.
    """
    return not _OF_CONNECTION.isdisjoint(name.rpartition(".")[2] for name in names)


def is_unknown_by_status(status: int, *, has_retry_after: bool) -> bool:
    """Whether the status of an HTTP answer leaves the outcome of its call unknown."""
    if status == HTTPStatus.SERVICE_UNAVAILABLE and has_retry_after:
        # A server that names a time has put the request off, and not begun with it.
        return False
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR


def is_unknown_by_sqlstate(state: str) -> bool:
    """Whether the SQLSTATE of a database leaves the outcome of a statement unknown.

    By any other a database says that the statement was not carried out, or was rolled back.
    """
    return state.startswith(_LOST_SQLSTATE_CLASSES) or state in _LOST_SQLSTATES


def is_unknown_by_mysql_number(number: int) -> bool:
    """Whether the number of an error of MySQL leaves the outcome of a statement unknown."""
    return number in _LOST_BY_MYSQL


def is_unknown_by_grpc_code(code: str) -> bool:
    """Whether a status code of gRPC, by its name, leaves the outcome of a call unknown."""
    return code not in _GRPC_REFUSALS


def is_unknown_by_ftp_code(code: str) -> bool:
    """Whether a reply of an FTP server, by its code, leaves the outcome of a transfer unknown."""
    return code in _FTP_BROKEN_OFF


_NOTHING_SENT: Final = frozenset(
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
        "ProxyConnectionError",
        "UnsupportedProtocol",
        # A client of a database, of a mail server or of a cloud had no connection or no request.
        "MaxConnectionsError",
        "NoCredentialsError",
        "NoValidConnectionsError",
        "ParamValidationError",
        "SMTPNotSupportedError",
        "ServerSelectionTimeoutError",
        "WaitQueueTimeoutError",
    }
)
"""Exceptions that are raised before anything was sent or written."""
_REFUSALS: Final = frozenset(
    {
        "aiormq.DeliveryError",
        "ftplib.error_perm",
        "imaplib.error",
        "pika.NackError",
        "pika.UnroutableError",
        "pymongo.OperationFailure",
        "pymongo.WriteError",
        "redis.AuthenticationError",
        "redis.BusyLoadingError",
        "redis.ResponseError",
        "redis.WatchError",
        "smtplib.SMTPRecipientsRefused",
        "smtplib.SMTPResponseException",
    }
)
"""Answers that a request was refused; by package, since urllib3 calls `ResponseError` what a server
answered again and again with 503, and httpx calls `WriteError` a connection that broke.
"""
_BROKEN_OFF: Final = frozenset(
    {
        "BadStatusLine",
        "BrokenExecutor",
        "BrokenPipeError",
        "BrokenProcessPool",
        "BrokenResourceError",
        "BrokenThreadPool",
        "BrokenWorkerInterpreter",
        "BrokenWorkerProcess",
        "BulkWriteError",
        "CancelledError",
        "ClientPayloadError",
        "ConnectionAbortedError",
        "ConnectionClosed",
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
        "ResponseStreamingError",
        "SMTPServerDisconnected",
        "SSLEOFError",
        "SSLZeroReturnError",
        "ServerDisconnectedError",
        "StreamLostError",
        "WriteConcernError",
        "WriteError",
        "abort",
    }
)
"""Exceptions of a connection that broke, or of work that was cut off or done in part."""
_OF_CONNECTION: Final = frozenset(
    {
        "AMQPConnectionError",
        "APIConnectionError",
        "AdminShutdown",
        "AutoReconnect",
        "ConnectionError",
        "ConnectionException",
        "ConnectionFailure",
        "CrashShutdown",
        "HTTPClientError",
        "InterfaceError",
        "KafkaConnectionError",
        "OperationalError",
        "TransactionResolutionUnknown",
    }
)
"""Errors of a connection that clients raise whether they had sent or not."""
_LOST_SQLSTATE_CLASSES: Final = ("08", "57P")
"""Errors of a connection, and of a server that goes down or ends the session."""
_LOST_SQLSTATES: Final = frozenset({"40003", "HY000", "HYT00", "HYT01"})
"""A completion that is not known; of ODBC an error that only the driver knows, and timeouts."""
_LOST_BY_MYSQL: Final = frozenset({0, 1053, 1927, 2006, 2013, 2055, 4031})
"""A server that goes down, and connections that broke or were ended."""
_GRPC_REFUSALS: Final = frozenset(
    {
        "ABORTED",
        "ALREADY_EXISTS",
        "FAILED_PRECONDITION",
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "OUT_OF_RANGE",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "UNAUTHENTICATED",
        "UNIMPLEMENTED",
    }
)
"""Codes by which a server says that it did not act. The others stand for lost answers, too:
`CANCELLED`, `DATA_LOSS`, `DEADLINE_EXCEEDED`, `INTERNAL`, `UNAVAILABLE`, `UNKNOWN`.
"""
_FTP_BROKEN_OFF: Final = frozenset({"421", "426", "451"})
"""The server ends the session, or broke a transfer off that may be there in part."""
