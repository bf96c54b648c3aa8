"""The sessions of browsers that have shown a token: random, kept as hashes, for twelve hours, and
revocable by any process of the project.
"""

from __future__ import annotations

import contextlib
import secrets
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from wavewright.engine.interfaces.view.people import token_hash

SESSION_SECONDS: Final = 12 * 3600.0
_TABLE: Final = """
    CREATE TABLE IF NOT EXISTS session (
        hash TEXT PRIMARY KEY, credential TEXT NOT NULL, name TEXT NOT NULL, ends REAL NOT NULL
    ) WITHOUT ROWID"""


class Sessions:
    """The sessions of a project, in a file; or in memory, where there is none."""

    def __init__(self, file: Path | None, clock: Callable[[], float] = time.time) -> None:
        """Open the file, which is made where there is none; only its owner can read it.

        Args:
            file: The file; sessions end with the process where it is absent or cannot be written.
            clock: Seconds since the epoch.
        """
        self._clock = clock
        self._database = _open(file)

    def begin(self, credential: str, name: str | None) -> str:
        """Begin a session and return its secret.

        Args:
            credential: Hash of the token that was shown.
            name: Whose it is; None for the token of the page.
        """
        secret, now = secrets.token_urlsafe(32), self._clock()
        with self._database:
            self._database.execute("DELETE FROM session WHERE ends <= ?", (now,))
            self._database.execute(
                "INSERT INTO session VALUES (?, ?, ?, ?)",
                (token_hash(secret), credential, name or "", now + SESSION_SECONDS),
            )
        return secret

    def credential(self, secret: str) -> str | None:
        """Return the hash of the token that a session was begun with; None where there is no such
        session any more.
        """
        found = self._database.execute(
            "SELECT credential FROM session WHERE hash = ? AND ends > ?",
            (token_hash(secret), self._clock()),
        ).fetchone()
        return None if found is None else str(found[0])

    def end(self, secret: str) -> None:
        """End a session."""
        with self._database:
            self._database.execute("DELETE FROM session WHERE hash = ?", (token_hash(secret),))

    def revoke(self, name: str | None) -> int:
        """End the sessions of a person, or all of them where none is named; return how many."""
        with self._database:
            if name is None:
                return self._database.execute("DELETE FROM session").rowcount
            return self._database.execute("DELETE FROM session WHERE name = ?", (name,)).rowcount

    def close(self) -> None:
        """Close the file."""
        self._database.close()


def _open(file: Path | None) -> sqlite3.Connection:
    if file is not None:
        with contextlib.suppress(OSError, sqlite3.Error):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch(mode=0o600)
            return _with_table(sqlite3.connect(file, timeout=2.0))
    return _with_table(sqlite3.connect(":memory:"))


def _with_table(database: sqlite3.Connection) -> sqlite3.Connection:
    with database:
        database.execute(_TABLE)
    return database
