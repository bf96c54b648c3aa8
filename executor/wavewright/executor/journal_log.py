"""The write-ahead log beside the journal's file: grown before it is needed, and copied before it is long.

Every commit goes to the end of the *log*; what is in it is copied into the file now and then, after which the log is
written from its start again. Nothing depends on when that happens: what is in the log is read as part of the journal.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from typing import Final

from wavewright.executor.journal_file import SqliteTransaction

_GROWTH_BYTES: Final = 2**20
"""Bytes by which it is grown at once: a short run needs no more, and waits for no more when it is opened."""
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

        A commit within the file's length takes about half as long as one that makes the file grow. What is written
        here is rolled back, and no more than room for commits; it is synced here, or the first commit would be.
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
                        "INSERT INTO result VALUES (zeroblob(?), 0)", (min(_GROWTH_BYTES, self._long),)
                    )
                    transaction.roll_back()
            finally:
                self._connection.execute(f"PRAGMA cache_size = {int(pages)}")
            with self._file.open("rb") as log:
                os.fsync(log.fileno())
