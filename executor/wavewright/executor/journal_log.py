"""The write-ahead log beside the journal's file: grown before it is needed, and copied before it is long.

Every commit goes to the end of the *log*; what is in it is copied into the file now and then, after which the log is
written from its start again. Nothing depends on when that happens: what is in the log is read as part of the journal.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path

from wavewright.executor.journal_file import Transaction


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
        self._has_room = False
        self._bytes = 0
        """What was written since it was last copied, near enough."""

    @property
    def is_long(self) -> bool:
        """Whether it should be copied."""
        return self._bytes > self._long

    def note(self, written: int) -> None:
        """Take note of what a commit has written, in bytes."""
        self._bytes += written

    def copy(self) -> None:
        """Copy it into the file, after which it is written from its start again."""
        self._bytes = 0
        with suppress(sqlite3.Error):
            # Nothing is lost: the next copy may succeed.
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def make_room(self) -> None:
        """Let it grow to its full length before that is needed.

        A commit within the file's length takes about half as long as one that makes the file grow. What is written
        here is rolled back, and no more than room for commits; it is synced here, or the first commit would be.
        """
        if self._has_room:
            return
        self._has_room = True
        with suppress(sqlite3.Error, OSError):
            if self._file.exists() and self._file.stat().st_size >= self._long:
                return
            (pages,) = self._connection.execute("PRAGMA cache_size").fetchone()
            # With a small cache the pages are written before their fate is known.
            self._connection.execute("PRAGMA cache_size = -64")
            try:
                with Transaction(self._connection, patience=0) as transaction:
                    self._connection.execute("INSERT INTO result VALUES (zeroblob(?), 0)", (self._long,))
                    transaction.roll_back()
            finally:
                self._connection.execute(f"PRAGMA cache_size = {int(pages)}")
            with self._file.open("rb") as log:
                os.fsync(log.fileno())
