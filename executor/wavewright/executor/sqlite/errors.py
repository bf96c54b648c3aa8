"""The errors of SQLite and of the system, as errors of the journal.

An error is recognised by its code, never by its text; each has one message and one fix.
"""

from __future__ import annotations

import errno
import os
import re
import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from wavewright.executor.store.errors import (
    EventUnwritable,
    JournalDamaged,
    JournalError,
    JournalLocked,
    JournalNotOpened,
    JournalNotWritten,
)

if TYPE_CHECKING:
    from pathlib import Path

_FREE_SPACE: Final = "free some space and resume the run; all that was journaled before is safe"
_MIN_FREE_BYTES: Final = 64 * 1024
"""Bytes below which a disk is full for a journal: its shared memory alone grows by 32 KiB at a
time.
"""
DATABASE_ERRORS: Final = (sqlite3.Error, UnicodeDecodeError)
"""What SQLite's driver raises; the second where a text of a damaged file is no UTF-8."""
_PLACE_OF_DAMAGE: Final = re.compile(r"On ((?:tree )?page \d+(?: cell \d+)?)(?: at )?([^:]*): (.*)")
_CHOOSE_WRITABLE_PATH: Final = "give a path where files can be written"


def _primary_code(error: Exception) -> int:
    """Return SQLite's result code without its extension; 0 for an error of the driver's own."""
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF


def is_locked(error: sqlite3.Error) -> bool:
    """Return whether waiting may help: another connection has the lock."""
    return _primary_code(error) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def explain_opening(
    error: Exception, path: Path, connection: sqlite3.Connection | None = None
) -> JournalError:
    """Return what keeps the journal from being opened."""
    place = str(path)
    match error:
        case JournalError():
            return error
        case sqlite3.Error() if _primary_code(error) == sqlite3.SQLITE_NOTADB:
            return JournalNotOpened(
                "the file is not a journal, nor any database, or its beginning is damaged",
                place=place,
                hint="give another path, or a copy from before; the file was left as it is",
            )
        case sqlite3.Error() if is_locked(error):
            return JournalLocked(
                "another program keeps the journal locked",
                place=place,
                hint="end that program (a backup, an open database browser) and try again",
            )
        case sqlite3.Error() if _primary_code(error) in (
            sqlite3.SQLITE_CANTOPEN,
            sqlite3.SQLITE_READONLY,
        ):
            return JournalNotOpened(
                "the journal cannot be opened for writing",
                place=place,
                hint=f"check its permissions, or {_CHOOSE_WRITABLE_PATH}",
            )
        case sqlite3.Error() | UnicodeDecodeError():
            return explain_use(error, path, connection)
        case OSError(errno=errno.ENOSPC) | OSError(errno=errno.EDQUOT):
            return JournalNotWritten("the disk is full", place=place, hint=_FREE_SPACE)
        case FileNotFoundError():
            return JournalNotOpened(
                "there is no journal",
                place=place,
                hint="`wavewright run JOB` makes one, or give another path",
            )
        case IsADirectoryError():
            return JournalNotOpened(
                "a folder is no journal", place=place, hint="give the path of a file in it"
            )
        case FileExistsError() | NotADirectoryError():
            return JournalNotOpened(
                "the journal cannot be opened: a file is where its folder should be",
                place=place,
                hint="give a path in a folder where files can be written",
            )
        case OSError():
            reason = error.strerror or str(error)
            return JournalNotOpened(
                f"the journal cannot be opened: {reason}", place=place, hint=_CHOOSE_WRITABLE_PATH
            )
        case _:
            return JournalNotOpened(
                f"no file can have this path: {error}",
                place=repr(place),
                hint=_CHOOSE_WRITABLE_PATH,
            )


@contextmanager
def explained(
    path: Path, connection: sqlite3.Connection | None = None, run: str | None = None
) -> Generator[None]:
    """Raise what goes wrong in a block as an error of a journal that was opened.

    Raises:
        JournalError: with the place and the fix.
    """
    try:
        yield
    except DATABASE_ERRORS as error:
        raise explain_use(error, path, connection, run) from error


def explain_use(
    error: Exception,
    path: Path,
    connection: sqlite3.Connection | None = None,
    run: str | None = None,
) -> JournalError:
    """Return what went wrong in a journal that was opened."""
    place = str(path) if run is None else f"{path}, run {run}"
    match _primary_code(error):
        case sqlite3.SQLITE_FULL:
            return JournalNotWritten("the disk is full", place=place, hint=_FREE_SPACE)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return JournalNotWritten(
                "the journal is read-only",
                place=place,
                hint=f"make file and folder writable, or {_CHOOSE_WRITABLE_PATH}",
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return JournalNotWritten(
                "another program keeps the journal locked",
                place=place,
                hint="end that program (a backup, an open database browser) and resume the run",
            )
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB:
            return damaged_error(_first_finding(error, connection), path, place)
        # Every statement is a constant of ours: one that SQLite does not understand meets tables
        # that are not as they were made.
        case sqlite3.SQLITE_ERROR:
            return damaged_error(_first_finding(error, connection), path, place)
        case _ if isinstance(error, UnicodeDecodeError) or "decode to UTF-8" in str(error):
            return damaged_error("a text in it is no UTF-8", path, place)
        case sqlite3.SQLITE_IOERR if _is_full(path):
            # What SQLite keeps beside the file (its shared memory) does not tell a full disk from a
            # broken one.
            return JournalNotWritten("the disk is full", place=place, hint=_FREE_SPACE)
        case sqlite3.SQLITE_IOERR:
            return JournalNotWritten(
                f"the disk failed: {error}",
                place=place,
                hint="check the disk and its free space, then resume the run; what was journaled before is safe",
            )
        case sqlite3.SQLITE_TOOBIG:
            return EventUnwritable(
                "an event is longer than SQLite can hold (1 GB)",
                place=place,
                hint="let the step write its output to a file and return the path",
            )
        case _:
            return JournalError(
                f"the journal cannot be used: {error}",
                place=place,
                hint=f"`sqlite3 {path} 'PRAGMA integrity_check'` tells more",
            )


def damaged_error(finding: str, path: Path, place: str) -> JournalDamaged:
    """Return the error of a journal that is not what was written, with what can be saved."""
    known = _PLACE_OF_DAMAGE.search(finding)
    where = f": {finding}" if known is None else f" at {known[1]}{known[2]}: {known[3]}"
    return JournalDamaged(
        f"the journal is damaged{where}",
        place=place,
        hint=f"copy the file; `sqlite3 {path} .recover` saves what can be read; move it aside to start anew",
    )


def _is_full(path: Path) -> bool:
    try:
        disk = os.statvfs(path.parent)
    except OSError:
        return False
    return disk.f_bavail * disk.f_frsize < _MIN_FREE_BYTES


def _first_finding(error: Exception, connection: sqlite3.Connection | None) -> str:
    """Return what SQLite's own check finds first; the error where it finds nothing or cannot run."""
    if connection is not None:
        try:
            for (finding,) in connection.execute("PRAGMA quick_check(1)"):
                if finding != "ok":
                    return " ".join(str(finding).split())
        except DATABASE_ERRORS:
            pass
    return str(error)
