"""Answers of web servers, kept in a SQLite file that all processes of a user share.

Each operation opens the file anew, so that any thread may call it. A file that cannot be used is no error: then
nothing is kept.
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wavewright.tools.web.guarded_client import WebAnswer

MAX_CACHE_BYTES: Final = 256 * 2**20

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS answers (
    key TEXT PRIMARY KEY, url TEXT NOT NULL, status INTEGER NOT NULL, headers TEXT NOT NULL, content BLOB NOT NULL,
    fetched_at REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS answers_by_age ON answers (fetched_at);
"""
_OLDEST_BEYOND_THE_BOUND: Final = """
DELETE FROM answers WHERE key IN (
    SELECT key FROM (
        SELECT key, sum(length(content) + length(headers)) OVER (ORDER BY fetched_at DESC, key) AS total FROM answers
    ) WHERE total > ?
)
"""


@dataclass(frozen=True, slots=True)
class PageCache:
    """Answers by key, the newest `max_bytes` of them."""

    file: Path
    max_bytes: int = MAX_CACHE_BYTES

    def get(self, key: str) -> WebAnswer | None:
        """Return the answer that is kept for a key."""
        with suppress(sqlite3.Error, OSError), self._transaction() as connection:
            row = connection.execute(
                "SELECT url, status, headers, content, fetched_at FROM answers WHERE key = ?", (key,)
            ).fetchone()
            if row is not None:
                url, status, headers, content, fetched_at = row
                return WebAnswer(
                    url, status, json.loads(headers), content, dt.datetime.fromtimestamp(fetched_at, dt.UTC)
                )
        return None

    def put(self, key: str, answer: WebAnswer) -> None:
        """Keep an answer in place of an older one, and remove the oldest beyond the bound."""
        with suppress(sqlite3.Error, OSError), self._transaction() as connection:
            connection.execute(
                "REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?)",
                (
                    key,
                    answer.url,
                    answer.status,
                    json.dumps(dict(answer.headers)),
                    answer.content,
                    answer.fetched_at.timestamp(),
                ),
            )
            connection.execute(_OLDEST_BEYOND_THE_BOUND, (self.max_bytes,))

    @contextmanager
    def _transaction(self) -> Generator[sqlite3.Connection]:
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.file, timeout=10)) as connection, connection:
            connection.executescript(_SCHEMA)
            yield connection
