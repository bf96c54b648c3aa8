"""The driver's connections, transactions and errors.

An error is recognised by its class, never by its text; each has one message and one fix. The place
is the database's address without the password; no message repeats the address as it was given.
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

import asyncpg
from asyncpg import exceptions as pg

from wavewright.config.value_types import has_valid_ports, servers_of
from wavewright.executor.store.errors import (
    EventUnwritable,
    JournalDamaged,
    JournalError,
    JournalNotOpened,
    JournalNotWritten,
    JournalUnreachable,
)

DRIVER_ERRORS: Final = (
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    OSError,
)
"""What a call of the driver raises; a connection that does not answer in time is an `OSError` too.
"""

_CONNECTION_ERRORS: Final = (
    pg.PostgresConnectionError,
    pg.AdminShutdownError,
    pg.CrashShutdownError,
    pg.CannotConnectNowError,
    pg.IdleSessionTimeoutError,
    pg.IdleInTransactionSessionTimeoutError,
    pg.TooManyConnectionsError,
    # What asyncpg makes of a server that ends a connection while nothing is asked.
    asyncpg.InternalClientError,
    OSError,
)
"""Errors of the connection, not of the request: another connection may succeed."""


def is_conflict(error: Exception) -> bool:
    """Return whether the transaction was rolled back for another one's sake, so that it may succeed
    now.
    """
    return isinstance(error, pg.DeadlockDetectedError | pg.SerializationError)


def is_connection_lost(error: Exception) -> bool:
    """Return whether the connection is at fault, so that another connection may succeed."""
    return isinstance(error, _CONNECTION_ERRORS)


def display_url(url: str) -> str:
    """Return a database's address as it may be shown: without a password, and without options that
    may hold one.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "postgresql://…"
    if "@" in f"{parts.path}{parts.query}{parts.fragment}" or not has_valid_ports(parts):
        # A part of a password stands there where a character in it was not escaped.
        return "postgresql://…"
    user = f"{unquote(parts.username)}@" if parts.username else ""
    return f"postgresql://{user}{servers_of(parts)}{parts.path}"


class _Explanation(NamedTuple):
    """What an error of the server means to users."""

    errors: type[Exception] | tuple[type[Exception], ...]
    raised: type[JournalError]
    message: str
    """`{}` stands for the server's own message."""
    hint: str


_OPENING_ERRORS: Final = (
    _Explanation(
        (pg.InvalidPasswordError, pg.InvalidAuthorizationSpecificationError),
        JournalNotOpened,
        "the database refuses the user or the password",
        "check the user and password of the address, where '%' is written %25, and the server's"
        " pg_hba.conf",
    ),
    _Explanation(
        pg.InvalidCatalogNameError,
        JournalNotOpened,
        "there is no such database on the server",
        "make it with `createdb NAME`, or name another one",
    ),
    _Explanation(
        pg.InsufficientPrivilegeError,
        JournalNotOpened,
        "the database's user may not make or use the journal's tables",
        "let an administrator run `GRANT CREATE ON DATABASE … TO …`, or make the user the owner",
    ),
    _Explanation(
        (asyncpg.ClientConfigurationError, ValueError),
        JournalNotOpened,
        "the address of the database is faulty",
        "write postgresql://USER:PASSWORD@HOST:PORT/DATABASE, and correct the options after a '?', such as"
        " sslmode=verify-full",
    ),
    _Explanation(
        (pg.UndefinedObjectError, pg.InvalidParameterValueError, pg.CantChangeRuntimeParamError),
        JournalNotOpened,
        "the server refuses an option of the address: {}",
        "correct or remove it, after the '?' of the address",
    ),
)
_USE_ERRORS: Final = (
    _Explanation(
        pg.DiskFullError,
        JournalNotWritten,
        "the server's disk is full",
        "free some space there and resume the run; all that was journaled before is safe",
    ),
    _Explanation(
        pg.ReadOnlySQLTransactionError,
        JournalNotWritten,
        "the database is read-only",
        "name the primary server: a standby takes no events",
    ),
    _Explanation(
        pg.InsufficientPrivilegeError,
        JournalNotWritten,
        "the database's user may not write the journal's tables",
        "let an administrator grant it, or make the user the owner of the schema 'wavewright'",
    ),
    _Explanation(
        pg.QueryCanceledError,
        JournalNotWritten,
        "the database ended a statement before it was done: {}",
        "raise `statement_timeout` of the address or the database's user, or see who cancelled it",
    ),
    _Explanation(
        (pg.LockNotAvailableError, pg.DeadlockDetectedError),
        JournalNotWritten,
        "another program keeps the journal locked",
        "end that program (a backup, an open transaction in psql) and resume the run",
    ),
    _Explanation(
        pg.ProgramLimitExceededError,
        EventUnwritable,
        "an event is longer than PostgreSQL can hold (1 GB)",
        "let the step write its output to a file and return the path",
    ),
    _Explanation(
        (pg.DataCorruptedError, pg.IndexCorruptedError),
        JournalDamaged,
        "the journal is damaged: {}",
        "restore the database from a backup, or name another one to start anew",
    ),
    _Explanation(
        (pg.UndefinedTableError, pg.UndefinedColumnError, pg.InvalidSchemaNameError),
        JournalNotWritten,
        "the journal's tables were changed or dropped while it was open",
        "restore the schema 'wavewright' and resume the run, or start the job anew",
    ),
    _Explanation(
        Exception,
        JournalError,
        "the journal cannot be used: {}",
        "see the server's log for the cause",
    ),
)


def explain_opening(error: Exception, place: str) -> JournalError:
    """Return what keeps the database from being used as a journal."""
    option = _OPTION_FAULT.search(_server_message(error))
    if isinstance(error, asyncpg.ClientConfigurationError) and option is not None:
        return JournalNotOpened(
            f"an option of the address cannot be used: {_server_message(error)}",
            place=place,
            hint="correct it after the '?' of the address, such as sslmode=verify-full&sslrootcert=FILE",
        )
    return _explain(error, place, (*_OPENING_ERRORS, *_USE_ERRORS))


# Other words of the driver quote parts of the address, which may be those of its password.
_OPTION_FAULT: Final = re.compile(r"`ssl\w+` parameter|certificate file|TLS|target_session_attrs")


def explain_use(error: Exception, place: str, run: str | None = None) -> JournalError:
    """Return what went wrong in a database that was opened."""
    return _explain(error, place if run is None else f"{place}, run {run}", _USE_ERRORS)


def _explain(error: Exception, place: str, known: Sequence[_Explanation]) -> JournalError:
    if isinstance(error, JournalError):
        return error
    if is_connection_lost(error):
        return unreachable_error(error, place)
    kind = next(known_kind for known_kind in known if isinstance(error, known_kind.errors))
    return kind.raised(kind.message.format(_server_message(error)), place=place, hint=kind.hint)


def unreachable_error(error: Exception, place: str) -> JournalError:
    """Return the error for a database that does not answer."""
    hint = "start the server or fix the network, then resume; all that was journaled before is safe"
    match error:
        case pg.TooManyConnectionsError():
            reason = "the server has no connection left"
        case pg.CannotConnectNowError():
            reason = "the server is starting or stopping"
        case ConnectionRefusedError():
            reason = "no server listens there"
        case TimeoutError():
            reason = "it does not answer"
        case FileNotFoundError():
            reason = (
                "a file that its address names is not there: a certificate, or the server's socket"
            )
            hint = "correct the path in the address, or start the server"
        case ConnectionError() if type(error) is ConnectionError:
            # What asyncpg raises before the login where it asks for TLS.
            reason = "no encrypted connection was made"
            hint = "turn TLS on in the server, or use an address without sslmode=require, verify-ca or verify-full"
        case OSError() if error.strerror:
            reason = error.strerror
        case _:
            reason = "the connection broke"
    return JournalUnreachable(
        f"the database cannot be reached: {reason}",
        place=place,
        hint=hint,
    )


def _server_message(error: Exception) -> str:
    """Return the server's words without its details, which may quote what was sent."""
    message = str(error).partition("\n")[0].strip()
    return message or type(error).__name__


Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class PostgresTransaction:
    """All or nothing: committed at the end of an `async with` block, rolled back where that raises."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def __aenter__(self) -> None:
        await self._connection.execute("BEGIN")

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self._connection.execute("COMMIT")
        elif not self._connection.is_closed():
            # The first error is the one to report.
            with suppress(*DRIVER_ERRORS):
                await self._connection.execute("ROLLBACK")


_LOCAL_SETTINGS: Final = """
    SET LOCAL search_path TO wavewright, pg_catalog;
    SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off';
    SET LOCAL lock_timeout TO '10s';
    SET LOCAL idle_in_transaction_session_timeout TO '5s'"""
_BEGIN_POOLED: Final = f"BEGIN ISOLATION LEVEL READ COMMITTED; {_LOCAL_SETTINGS}"
_ENDS: Final = frozenset({"COMMIT", "ROLLBACK"})


if TYPE_CHECKING:
    _BaseConnection: TypeAlias = asyncpg.Connection[asyncpg.Record]
else:
    # The class takes no parameters where it runs.
    _BaseConnection = asyncpg.Connection


class PooledConnection(_BaseConnection):
    """A connection through a pooler that may give each transaction another one of the server's.

    Nothing outlives a transaction there: no setting, and no prepared statement. So each statement
    is in a transaction, with the settings of its own; made with `statement_cache_size=0`.
    """

    async def execute(self, query: str, *args: Any, **options: Any) -> str:
        """Execute a statement."""
        if query == "BEGIN":
            return await super().execute(_BEGIN_POOLED)
        if query in _ENDS:
            return await super().execute(query)
        async with self._in_transaction():
            return await super().execute(query, *args, **options)

    async def executemany(self, command: str, args: Any, **options: Any) -> None:
        """Execute a statement with each of these rows."""
        async with self._in_transaction():
            await super().executemany(command, args, **options)

    async def fetch(self, query: str, *args: Any, **options: Any) -> Any:
        """Return the rows of a query."""
        async with self._in_transaction():
            return await super().fetch(query, *args, **options)

    async def fetchrow(self, query: str, *args: Any, **options: Any) -> Any:
        """Return the first row of a query."""
        async with self._in_transaction():
            return await super().fetchrow(query, *args, **options)

    async def fetchval(self, query: str, *args: Any, **options: Any) -> Any:
        """Return the first value of a query."""
        async with self._in_transaction():
            return await super().fetchval(query, *args, **options)

    @asynccontextmanager
    async def _in_transaction(self) -> AsyncGenerator[None]:
        if self.is_in_transaction():
            yield
            return
        async with PostgresTransaction(self):
            yield


def is_pooled(connection: Connection) -> bool:
    """Whether a pooler is between this process and the database."""
    # Of all classes of connections asyncpg answers `isinstance` with yes.
    return type(connection) is PooledConnection


async def connect(url: str, *, seconds: float, answer_seconds: float) -> Connection:
    """Return a connection to a database; a `PooledConnection` where a pooler is in between.

    Args:
        url: The database's address.
        seconds: Within which it is connected.
        answer_seconds: Within which a statement is answered, or the connection is taken for broken.
    """
    connection: Connection = await asyncpg.connect(
        url, timeout=seconds, command_timeout=answer_seconds
    )
    try:
        # A pooler tells its clients another process than that which answers. This is asked without
        # a prepared statement: the pooler may know one of that name from somebody else.
        pid = connection.get_server_pid()
        told = await connection.execute(f"SELECT 1 WHERE pg_backend_pid() = {pid:d}")
    except BaseException:
        connection.terminate()
        raise
    if told == "SELECT 1":
        return connection
    await connection.close(timeout=seconds)
    pooled: Connection = await asyncpg.connect(
        url,
        timeout=seconds,
        command_timeout=answer_seconds,
        statement_cache_size=0,
        connection_class=PooledConnection,
    )
    return pooled
