"""The tables of the journal's file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

APPLICATION_ID: Final = 0x57617665
"""`Wave` in ASCII; what `file` and `PRAGMA application_id` show."""
FORMAT: Final = 10
"""Of the tables and of the events' bodies; in `PRAGMA user_version`."""
FIRST_RELEASED_FORMAT: Final = 9
"""That of 0.1.0: a journal of it, or of any release since, is migrated when it is opened."""

_SCHEDULES_AND_NOTICES: Final = (
    # Of a schedule: up to where it is decided, and who has paused it; of an instant, what came of it.
    """
    CREATE TABLE IF NOT EXISTS schedule (
        name TEXT PRIMARY KEY, seen REAL, paused_by TEXT, paused_at REAL
    )""",
    """
    CREATE TABLE IF NOT EXISTS schedule_instant (
        name TEXT NOT NULL, instant REAL NOT NULL, outcome TEXT NOT NULL, job TEXT,
        PRIMARY KEY (name, instant)
    )""",
    # Of a rule of notices: since when it is there, and what was sent; then what it tells, and why
    # that was refused for good.
    """
    CREATE TABLE IF NOT EXISTS notice_rule (
        name TEXT PRIMARY KEY, begun REAL NOT NULL, seen REAL NOT NULL,
        sent REAL, tries INTEGER NOT NULL DEFAULT 0, retry REAL
    )""",
    """
    CREATE TABLE IF NOT EXISTS notice (
        rule TEXT NOT NULL, event TEXT NOT NULL, kind TEXT NOT NULL, said TEXT NOT NULL,
        at REAL NOT NULL, run TEXT NOT NULL,
        message TEXT, leased REAL, sent REAL, refused TEXT, PRIMARY KEY (rule, event)
    )""",
)
MIGRATIONS: Final[Mapping[int, tuple[str, ...]]] = {
    9: (
        *_SCHEDULES_AND_NOTICES,
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
    "CREATE INDEX run_status ON run (status, no)",
    # By what a list of runs is filtered; derived from `event`, in the same transactions.
    """
    CREATE TABLE run_label (
        kind TEXT NOT NULL, value TEXT NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (kind, value, run)
    ) WITHOUT ROWID""",
    "CREATE INDEX run_label_of ON run_label (run)",
    # `body` comes last, so that a search by key reads none of a long one.
    """
    CREATE TABLE event (
        id INTEGER PRIMARY KEY,
        run INTEGER NOT NULL REFERENCES run (no),
        seq INTEGER NOT NULL,
        at REAL NOT NULL,
        kind TEXT NOT NULL,
        step TEXT,
        status TEXT,
        key TEXT,
        crc INTEGER NOT NULL,
        hash BLOB NOT NULL,
        body TEXT NOT NULL
    )""",
    "CREATE UNIQUE INDEX event_order ON event (run, seq)",
    # The end of each run's hash chain: apart from the events, or a cut could not be seen.
    "CREATE TABLE run_head (run INTEGER PRIMARY KEY, events INTEGER NOT NULL, hash BLOB NOT NULL)",
    # What is left of a run that was removed.
    """
    CREATE TABLE removed_run (
        run TEXT PRIMARY KEY, events INTEGER NOT NULL, hash BLOB NOT NULL, removed REAL NOT NULL
    ) WITHOUT ROWID""",
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
    # A model call: reserved while `settled` is 0, then what it came to. In the units of
    # `limits.Amount`.
    """
    CREATE TABLE model_call (
        id INTEGER PRIMARY KEY,
        at REAL NOT NULL,
        day TEXT NOT NULL,
        run TEXT, job TEXT, step TEXT,
        role TEXT NOT NULL,
        calls INTEGER NOT NULL, tokens INTEGER NOT NULL, usd INTEGER NOT NULL, seconds INTEGER NOT NULL,
        settled INTEGER NOT NULL DEFAULT 0,
        model TEXT, outcome TEXT, took REAL
    )""",
    "CREATE INDEX model_call_seconds ON model_call (model, role, id) WHERE took IS NOT NULL",
    # Derived from `model_call`, in the same transactions: a budget is asked for at every call.
    """
    CREATE TABLE budget_total (
        counter TEXT NOT NULL, name TEXT NOT NULL, step TEXT NOT NULL,
        calls INTEGER NOT NULL, tokens INTEGER NOT NULL, usd INTEGER NOT NULL, seconds INTEGER NOT NULL,
        PRIMARY KEY (counter, name, step)
    ) WITHOUT ROWID""",
    """
    CREATE TABLE job (
        no INTEGER PRIMARY KEY,
        job TEXT NOT NULL UNIQUE,
        run TEXT NOT NULL UNIQUE,
        state TEXT NOT NULL,
        received REAL NOT NULL,
        weight REAL NOT NULL,
        attempts INTEGER NOT NULL,
        failures INTEGER NOT NULL,
        iteration INTEGER NOT NULL,
        package TEXT,
        feedback TEXT NOT NULL,
        sent TEXT NOT NULL,
        reason TEXT NOT NULL,
        not_before REAL,
        finished REAL,
        since REAL NOT NULL,
        queue_rank REAL NOT NULL
    )""",
    "CREATE INDEX job_begun ON job (queue_rank, no) WHERE state = 'running'",
    # A daemon's heartbeat renews its few leases among all the runs ever made.
    "CREATE INDEX run_owned ON run (owner) WHERE owner IS NOT NULL",
    "CREATE INDEX job_queued ON job (queue_rank, no, weight, not_before, since) WHERE state = 'queued'",
    # Apart, since a change of a row writes all of it anew, and a request can be long.
    "CREATE TABLE job_request (no INTEGER PRIMARY KEY REFERENCES job (no), request TEXT NOT NULL)",
    # Messages that had an effect, and those that wait for their turn: these have a text in `kept`.
    # One is ripe when what it is about has changed, so that those that still wait are not read each
    # time.
    """
    CREATE TABLE inbox (
        no INTEGER PRIMARY KEY,
        message TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        source TEXT NOT NULL,
        at REAL NOT NULL,
        received REAL NOT NULL,
        subject TEXT NOT NULL,
        iteration INTEGER,
        kept TEXT,
        is_ripe INTEGER NOT NULL DEFAULT 0
    )""",
    "CREATE INDEX inbox_kept ON inbox (subject, no) WHERE kept IS NOT NULL",
    "CREATE INDEX inbox_ripe ON inbox (no) WHERE is_ripe",
    """
    CREATE TABLE outbox (
        no INTEGER PRIMARY KEY,
        message TEXT NOT NULL UNIQUE,
        kind TEXT NOT NULL,
        exchange TEXT NOT NULL,
        routing_key TEXT NOT NULL,
        job TEXT,
        headers TEXT NOT NULL,
        at REAL NOT NULL,
        sent REAL,
        refused TEXT,
        owner TEXT,
        leased REAL
    )""",
    "CREATE INDEX outbox_waiting ON outbox (no) WHERE sent IS NULL AND refused IS NULL",
    "CREATE INDEX outbox_by_job ON outbox (job, no) WHERE sent IS NULL AND refused IS NULL",
    "CREATE INDEX outbox_refused ON outbox (no) WHERE refused IS NOT NULL",
    # Only of messages that were not sent: what a sent one said, its run's events say.
    "CREATE TABLE outbox_body (no INTEGER PRIMARY KEY REFERENCES outbox (no), body BLOB NOT NULL)",
    """
    CREATE TABLE decision (
        no INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        job TEXT NOT NULL,
        run TEXT NOT NULL,
        subject TEXT NOT NULL,
        question TEXT NOT NULL,
        options TEXT NOT NULL,
        context TEXT NOT NULL,
        binding TEXT NOT NULL,
        asked REAL NOT NULL,
        expires REAL,
        choice TEXT,
        answered_by TEXT,
        answered REAL,
        used REAL
    )""",
    "CREATE INDEX decision_of_job ON decision (job)",
    "CREATE INDEX decision_open ON decision (no) WHERE choice IS NULL",
    *_SCHEDULES_AND_NOTICES,
)
"""Statements that make a new file."""
