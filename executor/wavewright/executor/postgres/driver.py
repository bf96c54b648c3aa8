"""The driver's connections and transactions, and its errors in the user's words.

An error is recognised by its code, never by its text; each has one message and one fix. The place is the database's
address without the password, and no message repeats the address as it was given.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final, TypeAlias
from urllib.parse import unquote, urlsplit

import asyncpg
from asyncpg import exceptions as pg

from wavewright.executor.store.errors import (
    EventUnwritable,
    JournalDamaged,
    JournalError,
    JournalNotOpened,
    JournalNotWritten,
    JournalUnreachable,
)

DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""What a call of the driver raises; a connection that does not answer in time is an `OSError` too."""

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
"""What another try may not meet: the connection, not the request, is at fault."""


def is_conflict(error: Exception) -> bool:
    """Return whether another transaction was in the way, so that this one, undone, may succeed now."""
    return isinstance(error, pg.DeadlockDetectedError | pg.SerializationError)


def is_connection_lost(error: Exception) -> bool:
    """Return whether the connection is at fault, so that another one may do."""
    return isinstance(error, _CONNECTION_ERRORS)


def display_url(url: str) -> str:
    """Return a database's address as it may be shown: without a password, and without options that may hold one."""
    try:
        parts = urlsplit(url)
        user = f"{unquote(parts.username)}@" if parts.username else ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return "postgresql://…"
    if "@" in f"{parts.path}{parts.query}{parts.fragment}":
        # Where a password has a '/' in it that was not escaped, its rest stands here.
        return "postgresql://…"
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname or ""
    return f"postgresql://{user}{host}{port}{parts.path}"


def explain_opening(error: Exception, place: str) -> JournalError:
    """Return what keeps the database from being used as a journal."""
    match error:
        case JournalError():
            return error
        case pg.InvalidPasswordError() | pg.InvalidAuthorizationSpecificationError():
            return JournalNotOpened(
                "the database refuses the user or the password",
                place=place,
                hint="check the user and password of the address, and the server's pg_hba.conf",
            )
        case pg.InvalidCatalogNameError():
            return JournalNotOpened(
                "there is no such database on the server",
                place=place,
                hint="make it with `createdb NAME`, or name another one",
            )
        case pg.InsufficientPrivilegeError():
            return JournalNotOpened(
                "the database's user may not make or use the journal's tables",
                place=place,
                hint="let an administrator run `GRANT CREATE ON DATABASE … TO …`, or make the user the owner",
            )
        case asyncpg.ClientConfigurationError() | ValueError():
            return JournalNotOpened(
                "the address of the database is faulty",
                place=place,
                hint="write postgresql://USER:PASSWORD@HOST:PORT/DATABASE",
            )
        case _ if is_connection_lost(error):
            return unreachable_error(error, place)
        case _:
            return explain_use(error, place)


def unreachable_error(error: Exception, place: str) -> JournalError:
    """Return the error for a database that does not answer."""
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
            reason = "a file that its address names is not there: a certificate, or the server's socket"
        case OSError() if error.strerror:
            reason = error.strerror
        case _:
            reason = "the connection broke"
    return JournalUnreachable(
        f"the database cannot be reached: {reason}",
        place=place,
        hint="start the server or mend the way to it, then go on; all that was journaled before is safe",
    )


def explain_use(error: Exception, place: str, run: str | None = None) -> JournalError:
    """Return what went wrong in a database that was opened."""
    where = place if run is None else f"{place}, run {run}"
    match error:
        case JournalError():
            return error
        case _ if is_connection_lost(error):
            return unreachable_error(error, where)
        case pg.DiskFullError():
            return JournalNotWritten(
                "the server's disk is full",
                place=where,
                hint="free some space there and resume the run; all that was journaled before is safe",
            )
        case pg.ReadOnlySQLTransactionError():
            return JournalNotWritten(
                "the database is read-only",
                place=where,
                hint="name the primary server: a standby takes no events",
            )
        case pg.InsufficientPrivilegeError():
            return JournalNotWritten(
                "the database's user may not write the journal's tables",
                place=where,
                hint="let an administrator grant it, or make the user the owner of the schema 'wavewright'",
            )
        case pg.LockNotAvailableError() | pg.QueryCanceledError() | pg.DeadlockDetectedError():
            return JournalNotWritten(
                "another program keeps the journal locked",
                place=where,
                hint="end that program (a backup, an open transaction in psql) and resume the run",
            )
        case pg.ProgramLimitExceededError():
            return EventUnwritable(
                "an event is longer than PostgreSQL can hold (1 GB)",
                place=where,
                hint="let the step write its output to a file and return the path",
            )
        case pg.DataCorruptedError() | pg.IndexCorruptedError():
            return JournalDamaged(
                f"the journal is damaged: {_server_message(error)}",
                place=where,
                hint="restore the database from a backup, or name another one to start anew",
            )
        case pg.UndefinedTableError() | pg.UndefinedColumnError() | pg.InvalidSchemaNameError():
            return JournalNotWritten(
                "the journal's tables were changed or dropped while it was open",
                place=where,
                hint="restore the schema 'wavewright' and resume the run, or start the job anew",
            )
        case _:
            return JournalError(
                f"the journal cannot be used: {_server_message(error)}",
                place=where,
                hint="the server's log tells more",
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
            # What was wrong before is what is told.
            with suppress(*DRIVER_ERRORS):
                await self._connection.execute("ROLLBACK")
