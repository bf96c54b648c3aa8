"""The tables of the journal's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wavewright.executor.store.schema import (
    Dialect,
    journal_tables,
    schedule_and_notice_tables,
)

APPLICATION_ID: Final = 0x57617665
"""`Wave` in ASCII; what `file` and `PRAGMA application_id` show."""
FORMAT: Final = 10
"""Of the tables and of the events' bodies; in `PRAGMA user_version`."""
FIRST_RELEASED_FORMAT: Final = 9
"""That of 0.1.0: a journal of it, or of any release since, is migrated when it is opened."""

_DIALECT: Final = Dialect(
    row="INTEGER PRIMARY KEY",
    integer="INTEGER",
    real="REAL",
    bytes="BLOB",
    flag="INTEGER",
    keyed="WITHOUT ROWID",
)
MIGRATIONS: Final[Mapping[int, tuple[str, ...]]] = {
    9: (
        *schedule_and_notice_tables(_DIALECT),
        # The label of a run's goal, as `goal_label` makes it; none where its first event is damaged.
        """
        INSERT OR IGNORE INTO run_label (kind, value, run)
        SELECT 'goal', substr(coalesce(json_extract(body, '$.goal.origin'), ''), -300) || char(10)
                       || substr(run.job, 1, 200), run.no
        FROM run JOIN event ON event.run = run.no AND event.seq = 0
        WHERE event.kind = 'run_started' AND json_valid(body)""",
    )
}
"""By format: the statements that make the following format of it, in one transaction."""

TABLES: Final = (
    """
    CREATE TABLE run (
        no INTEGER PRIMARY KEY,
        run TEXT NOT NULL UNIQUE,
        job TEXT NOT NULL DEFAULT '',
        created REAL NOT NULL,
        finished REAL,
        status TEXT,
        steps INTEGER, ok INTEGER, failed INTEGER,
        fence INTEGER NOT NULL DEFAULT 0,
        owner TEXT, host TEXT, pid INTEGER, process_start TEXT, pid_namespace TEXT,
        since REAL, heartbeat INTEGER NOT NULL DEFAULT 0, heartbeat_at REAL, lease REAL,
        -- Who requested its cancellation: any process writes it, and the owner, which alone adds events, reads it.
        cancel_by TEXT, cancel_at REAL
    )""",
    # A daemon's heartbeat renews its few leases among all the runs ever made.
    "CREATE INDEX run_owned ON run (owner) WHERE owner IS NOT NULL",
    *journal_tables(_DIALECT),
    "CREATE INDEX job_queued ON job (queue_rank, no, weight, not_before, since) WHERE state = 'queued'",
    # Derived from `event`, and behind it by what came after `indexed.upto`: a random key in a
    # B-tree costs a page a step, which is more than all the rest, so it is paid only where outputs
    # are looked up.
    "CREATE TABLE result (key TEXT NOT NULL, event INTEGER NOT NULL, PRIMARY KEY (key, event)) WITHOUT ROWID",
    "CREATE TABLE indexed (upto INTEGER NOT NULL)",
    "INSERT INTO indexed VALUES (0)",
    """
    CREATE TRIGGER event_unchanged BEFORE UPDATE ON event
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an event is never changed'); END""",
    # A run is removed whole, its own row first.
    """
    CREATE TRIGGER event_kept BEFORE DELETE ON event WHEN EXISTS (SELECT 1 FROM run WHERE no = OLD.run)
    BEGIN SELECT RAISE(ABORT, 'the journal is append-only: an event is deleted with its run only'); END""",
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {FORMAT}",
)
"""Statements that make a new file."""
