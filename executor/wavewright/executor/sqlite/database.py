"""The journal's file: a SQLite database, opened and checked, with its write-ahead log.

The header holds an *application id* and a *format*. Databases of other programs and of newer
releases are refused before anything is read, and are left as they are; the tables of an older
release are migrated, all or nothing. The database refuses to change events once they are appended.

The log is grown in advance, and copied into the file before it is long; when that happens never
changes what is read.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import stat
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, Self, TypeVar

from wavewright.executor.sqlite.errors import (
    DATABASE_ERRORS,
    damaged_error,
    explain_opening,
    is_locked,
)
from wavewright.executor.sqlite.schema import (
    APPLICATION_ID,
    FIRST_RELEASED_FORMAT,
    FORMAT,
    MIGRATIONS,
    TABLES,
)
from wavewright.executor.store.errors import JournalNotOpened


def open_journal_file(
    path: Path, *, patience: float, is_read_only: bool = False
) -> sqlite3.Connection:
    """Open the journal at that path; unless it is only to be read, create it where there is none.

    The folder is created for its owner alone (0700), and so is the file (0600).
    A journal that is there and cannot be written is opened to be read: whoever looks at a copy sees
    its runs, and the first write says that it is read-only.

    Args:
        path: The file.
        patience: Seconds to wait for another program's lock.
        is_read_only: Neither create nor write; a file on a read-only disk can then be read as well.

    Raises:
        JournalError: with the place and the fix.
    """
    try:
        if not is_read_only:
            _create_file(path)
        _check_file(path)
        is_read_only = is_read_only or is_only_readable(path)
        connection = _connect(path, is_read_only=is_read_only)
    except (OSError, ValueError, sqlite3.Error) as error:
        raise explain_opening(error, path) from error
    try:
        _wait_for_lock(patience, lambda: _set_up(connection, path, is_read_only=is_read_only))
    except DATABASE_ERRORS as error:
        fault = explain_opening(error, path, connection)
        if is_read_only and _needs_its_log(error, path):
            fault = JournalNotOpened(
                f"the journal is read-only, and so is its newest part beside it ({path.name}-wal):"
                " they can be read only where files can be written",
                place=str(path),
                hint="copy both to a folder that can be written, and name the copy in"
                " WAVEWRIGHT_JOURNAL",
            )
        connection.close()
        raise fault from error
    except BaseException:
        connection.close()
        raise
    return connection


def _create_file(path: Path) -> None:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileNotFoundError as error:
        # In a folder of the system's own, such as /proc, where nothing can be made.
        raise PermissionError(errno.EPERM, "its folder cannot be made", str(path)) from error
    with suppress(FileExistsError):
        # Before SQLite does, which would leave it to the umask; its -wal and -shm files take over
        # the mode.
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _check_file(path: Path) -> None:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        # Opening a pipe or a device could wait for ever.
        raise OSError(errno.EINVAL, "not a regular file", str(path))


def is_only_readable(path: Path) -> bool:
    """Return whether a journal that is there cannot be written, for want of rights or since its disk
    is read-only.
    """
    beside = [path.with_name(f"{path.name}-{kind}") for kind in ("wal", "shm")]
    can_have_log = os.access(path.parent, os.W_OK) or all(file.exists() for file in beside)
    return not (os.access(path, os.W_OK) and can_have_log)


def _needs_its_log(error: Exception, path: Path) -> bool:
    """Return whether a journal that is only read was not opened since SQLite cannot make the shared
    memory by which it finds what the log has.
    """
    cannot_open = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_CANTOPEN
    return cannot_open and _has_text(path.with_name(path.name + "-wal"))


def _connect(path: Path, *, is_read_only: bool) -> sqlite3.Connection:
    options = ""
    if is_read_only:
        # With no -wal beside it the file is whole and no process writes it; a disk that is
        # read-only cannot hold the -shm file that SQLite wants otherwise.
        is_frozen = not os.access(path.parent, os.W_OK) and not _has_text(
            path.with_name(path.name + "-wal")
        )
        options = "?immutable=1" if is_frozen else "?mode=ro"
    uri = f"{path.absolute().as_uri()}{options or '?mode=rw'}"
    # Waiting for locks is done here, so that the event loop's thread never waits; see
    # SqliteEventStore.
    return sqlite3.connect(uri, uri=True, timeout=0, isolation_level=None, check_same_thread=False)


def _has_text(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _set_up(connection: sqlite3.Connection, path: Path, *, is_read_only: bool) -> None:
    connection.execute("PRAGMA trusted_schema = OFF")
    if _is_new(connection):
        if is_read_only:
            raise JournalNotOpened(
                "the file is empty", place=str(path), hint="give the path of a journal"
            )
        _create_tables(connection)
    if _checked_format(connection, path) < FORMAT:
        if is_read_only:
            _migrate_to_read(connection, path)
        else:
            _migrate(connection, path)
    if is_read_only:
        return
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise JournalNotOpened(
            f"the file system refuses SQLite's write-ahead log (it offers {mode!r})",
            place=str(path),
            hint="keep the journal on a local disk",
        )
    for pragma in (
        "synchronous = FULL",
        # On macOS fsync alone leaves the disk's own cache; elsewhere these two change nothing.
        "fullfsync = ON",
        "checkpoint_fullfsync = ON",
        # The writer thread checkpoints between commits, so that no step waits for it.
        "wal_autocheckpoint = 0",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _is_new(connection: sqlite3.Connection) -> bool:
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return objects == 0 and _application_and_version(connection) == (0, 0)


def _application_and_version(connection: sqlite3.Connection) -> tuple[int, int]:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return application, version


def _create_tables(connection: sqlite3.Connection) -> None:
    # Must be said before there is anything in the file; what removed runs leave can be given back
    # to the disk then.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    with SqliteTransaction(connection, patience=0):
        # Another process may have come first.
        if _is_new(connection):
            for statement in TABLES:
                connection.execute(statement)


_MAX_FORMAT: Final = 1_000
"""No release will have more formats."""


def _checked_format(connection: sqlite3.Connection, path: Path) -> int:
    """Return the format of a journal that this release can read, or migrate.

    Raises:
        JournalError: the file is damaged, no journal, or of a release that is too new or too old.
    """
    application, version = _application_and_version(connection)
    # One bit of our own number is another: no program has chosen that one.
    is_flipped = (application ^ APPLICATION_ID).bit_count() == 1
    if is_flipped or not 0 <= version <= _MAX_FORMAT:
        raise damaged_error("what its header says of its format is none", path, str(path))
    if application != APPLICATION_ID:
        raise JournalNotOpened(
            "the file is a database of another program, not a journal",
            place=str(path),
            hint="give another path; the file was left as it is",
        )
    if version > FORMAT:
        raise JournalNotOpened(
            f"the journal has format {version}, made by a newer wavewright; this one reads format {FORMAT}",
            place=str(path),
            hint="upgrade wavewright, or give another path; the file was left as it is",
        )
    if version < FIRST_RELEASED_FORMAT:
        raise JournalNotOpened(
            f"the journal has format {version}, made before the first release; this one reads format {FORMAT}",
            place=str(path),
            hint="read it with the program that made it, or give another path; the file was left as it is",
        )
    return version


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    with SqliteTransaction(connection, patience=0):
        # Another process may have come first.
        for older in range(_checked_format(connection, path), FORMAT):
            for statement in MIGRATIONS[older]:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {FORMAT}")


def _migrate_to_read(connection: sqlite3.Connection, path: Path) -> None:
    """Migrate a journal that is only to be read, by a connection of its own that may write.

    Raises:
        JournalNotOpened: the file cannot be written.
    """
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise JournalNotOpened(
            "the journal was made by an older wavewright, and must be written once to be read",
            place=str(path),
            hint="copy it to where it can be written, and give that path",
        )
    with closing(_connect(path, is_read_only=False)) as writing:
        _migrate(writing, path)
    # What the first connection has read of the tables is stale: SQLite reads it again.
    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()


class SqliteTransaction:
    """All or nothing: committed at the end of a `with` block, rolled back where that raises."""

    __slots__ = ("_connection", "_patience")

    def __init__(self, connection: sqlite3.Connection, patience: float) -> None:
        """Begin within so many seconds, also while the lock is held; 0 for at once or not at all."""
        self._connection = connection
        self._patience = patience

    def __enter__(self) -> Self:
        if self._patience:
            _wait_for_lock(self._patience, lambda: self._connection.execute("BEGIN IMMEDIATE"))
        else:
            self._connection.execute("BEGIN IMMEDIATE")
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None and self._connection.in_transaction:
                self._connection.execute("COMMIT")
        finally:
            self.roll_back()

    def roll_back(self) -> None:
        """Undo what was not committed; SQLite may have done so already."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")


_T = TypeVar("_T")


def _wait_for_lock(patience: float, attempt: Callable[[], _T]) -> _T:
    """Call until it is no longer refused for another's lock; after so many seconds the refusal is
    raised.
    """
    deadline = time.monotonic() + patience
    pause = 0.001
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if not is_locked(error) or time.monotonic() >= deadline:
                raise
        time.sleep(pause)  # noqa: TID251 - SQLite does not notify when a lock is free
        pause = min(pause * 2, 0.05)


_GROWTH_BYTES: Final = 2**20
"""Bytes by which it is grown at once: a short run needs no more, and waits for no more when it is
opened.
"""
_MARGIN_BYTES: Final = 2**18
"""Bytes that must be left before a commit: about twenty small ones, or one of a wide wave."""


class WriteAheadLog:
    """The log of an open journal."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, long: int) -> None:
        """Look after the log through this connection.

        Args:
            path: The journal's file.
            connection: To the journal, outside of any transaction where anything is called here.
            long: Bytes of the log after which it is to be copied.
        """
        self._file = path.with_name(path.name + "-wal")
        self._connection = connection
        self._long = long
        self._room = 0
        """Bytes that it was grown to, or that growing it was tried for."""
        self._bytes = 0
        """What was written since it was last copied, near enough."""

    @property
    def needs_checkpoint(self) -> bool:
        """Whether it should be copied."""
        return self._bytes > self._long

    @property
    def needs_space(self) -> bool:
        """Whether it should be grown before the next commit."""
        return self._room < self._long and self._bytes + _MARGIN_BYTES > self._room

    def record_written(self, written: int) -> None:
        """Take note of what a commit has written, in bytes."""
        self._bytes += written

    def checkpoint(self) -> None:
        """Copy it into the file, after which it is written from its start again."""
        self._bytes = 0
        with suppress(sqlite3.Error):
            # Nothing is lost: the next copy may succeed.
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def preallocate(self) -> None:
        """Let it grow before that is needed, step by step up to its full length.

        A commit within the file's length takes about half as long as one that makes the file grow.
        What is written here is rolled back, and no more than room for commits; it is synced here,
        or the first commit would be.
        """
        if not self.needs_space:
            return
        # Where it cannot be grown now, it is not tried again before every commit.
        self._room = min(self._bytes + _GROWTH_BYTES, self._long)
        with suppress(sqlite3.Error, OSError):
            if self._file.exists() and (size := self._file.stat().st_size) >= self._room:
                self._room = size
                return
            (pages,) = self._connection.execute("PRAGMA cache_size").fetchone()
            # With a small cache the pages are written before their fate is known.
            self._connection.execute("PRAGMA cache_size = -64")
            try:
                with SqliteTransaction(self._connection, patience=0) as transaction:
                    self._connection.execute(
                        "INSERT INTO result VALUES (zeroblob(?), 0)",
                        (min(_GROWTH_BYTES, self._long),),
                    )
                    transaction.roll_back()
            finally:
                self._connection.execute(f"PRAGMA cache_size = {int(pages)}")
            with self._file.open("rb") as log:
                os.fsync(log.fileno())
