"""The tables in the database.

They lie in one schema, `wavewright`, beside whatever else the database holds, and are created in
one transaction by one process at a time. The tables of an older release are migrated, all or
nothing; those of a newer one are refused and left as they are.
Events may be added, never changed: the database itself refuses that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from wavewright.executor.postgres.driver import Connection, PostgresTransaction
from wavewright.executor.store.errors import JournalNotOpened

FORMAT: Final = 9
"""Of the tables and of the events' bodies; in the table `format`."""
FIRST_RELEASED_FORMAT: Final = 8
"""That of 0.1.0: the tables of it, or of any release since, are migrated when they are opened."""

_SCHEDULES_AND_NOTICES: Final = """
    -- Of a schedule: up to where it is decided, and who has paused it; of an instant, what came of it.
    CREATE TABLE IF NOT EXISTS schedule (
        name text PRIMARY KEY, seen double precision, paused_by text, paused_at double precision
    );
    CREATE TABLE IF NOT EXISTS schedule_instant (
        name text NOT NULL, instant double precision NOT NULL, outcome text NOT NULL, job text,
        PRIMARY KEY (name, instant)
    );
    -- Of a rule of notices: since when it is there, and what was sent; then what it tells, and why
    -- that was refused for good.
    CREATE TABLE IF NOT EXISTS notice_rule (
        name text PRIMARY KEY, begun double precision NOT NULL, seen double precision NOT NULL,
        sent double precision, tries bigint NOT NULL DEFAULT 0, retry double precision
    );
    CREATE TABLE IF NOT EXISTS notice (
        rule text NOT NULL, event text NOT NULL, kind text NOT NULL, said text NOT NULL,
        at double precision NOT NULL, run text NOT NULL,
        message text, leased double precision, sent double precision, refused text, PRIMARY KEY (rule, event)
    );
"""
MIGRATIONS: Final[Mapping[int, str]] = {
    # The label of a run's goal, as `goal_label` makes it; none where its first event is damaged.
    8: f"""{_SCHEDULES_AND_NOTICES}
    INSERT INTO run_label (kind, value, run)
    SELECT 'goal', right(coalesce(as_json(body) -> 'goal' ->> 'origin', ''), 300) || chr(10) || left(run.job, 200),
           run.no
    FROM run JOIN event ON event.run = run.no AND event.seq = 0
    WHERE event.kind = 'run_started' AND as_json(body) IS NOT NULL ON CONFLICT DO NOTHING""",  # noqa: S608 - a constant
}
"""By format: the statements that make the following format of it, in one transaction."""
LOCK: Final = 0x57617665
"""`Wave` in ASCII: the number of the advisory lock that one process at a time has while it makes
tables.
"""

_TABLES: Final = f"""
    CREATE SCHEMA IF NOT EXISTS wavewright;

    CREATE TABLE format (format integer NOT NULL, lone boolean PRIMARY KEY DEFAULT true CHECK (lone));
    INSERT INTO format (format) VALUES ({FORMAT});

    -- One clock for all owners.
    CREATE FUNCTION clock_seconds() RETURNS double precision LANGUAGE sql VOLATILE AS
    $$ SELECT extract(epoch FROM clock_timestamp())::double precision $$;

    -- One owner of runs: a process that has the journal open. `transaction_id` is that of its last transaction; it
    -- tells after a lost connection whether that was committed.
    CREATE TABLE session (
        no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        token text NOT NULL UNIQUE,
        host text NOT NULL, pid bigint NOT NULL, process_start text NOT NULL, pid_namespace text NOT NULL,
        heartbeat bigint NOT NULL DEFAULT 0, heartbeat_at double precision NOT NULL, lease double precision NOT NULL,
        transaction_id bigint NOT NULL DEFAULT 0
    ) WITH (fillfactor = 20);

    CREATE TABLE run (
        no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        run text NOT NULL UNIQUE,
        job text NOT NULL DEFAULT '',
        created double precision NOT NULL,
        finished double precision,
        status text,
        steps bigint, ok bigint, failed bigint,
        fence bigint NOT NULL DEFAULT 0,
        owner bigint REFERENCES session (no),
        since double precision,
        -- Who had it last, for an owner who comes back late.
        host text, pid bigint,
        -- Who requested its cancellation: any process writes it, and the owner, which alone adds events, reads it.
        cancel_by text, cancel_at double precision
    );
    CREATE INDEX run_status ON run (status, no);
    -- By what a list of runs is filtered; derived from `event`, in the same transactions.
    CREATE TABLE run_label (
        kind text NOT NULL, value text NOT NULL, run bigint NOT NULL, PRIMARY KEY (kind, value, run)
    );
    CREATE INDEX run_label_of ON run_label (run);
    CREATE INDEX run_owner ON run (owner) WHERE owner IS NOT NULL;

    -- Without a foreign key to `run`: every append has locked its runs' rows, and the check would cost a query a row.
    CREATE TABLE event (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        run bigint NOT NULL,
        seq bigint NOT NULL,
        at double precision NOT NULL,
        kind text NOT NULL,
        step text,
        status text,
        key text,
        crc bigint NOT NULL,
        hash bytea NOT NULL,
        body text NOT NULL
    );
    CREATE UNIQUE INDEX event_order ON event (run, seq);
    -- The end of each run's hash chain: apart from the events, or a cut could not be seen.
    CREATE TABLE run_head (
        run bigint PRIMARY KEY, events bigint NOT NULL, hash bytea NOT NULL
    ) WITH (fillfactor = 50);
    -- What is left of a run that was removed.
    CREATE TABLE removed_run (
        run text PRIMARY KEY, events bigint NOT NULL, hash bytea NOT NULL, removed double precision NOT NULL
    );
    CREATE INDEX event_key ON event (key, id) WHERE key IS NOT NULL;

    CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the journal is append-only: an event is never changed or deleted'; END $$;
    CREATE TRIGGER event_kept BEFORE UPDATE OR TRUNCATE ON event
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
    -- A run is removed whole, its own row first.
    CREATE FUNCTION refuse_loss() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN
        IF EXISTS (SELECT FROM removed JOIN wavewright.run ON run.no = removed.run) THEN
            RAISE EXCEPTION 'the journal is append-only: an event is deleted with its run only';
        END IF;
        RETURN NULL;
    END $$;
    CREATE TRIGGER event_removed AFTER DELETE ON event REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_loss();

    -- A model call: reserved until it is settled, then what it came to. In the units of `limits.Amount`.
    CREATE TABLE model_call (
        id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
        at double precision NOT NULL,
        day text NOT NULL,
        run text, job text, step text,
        role text NOT NULL,
        calls bigint NOT NULL, tokens bigint NOT NULL, usd bigint NOT NULL, seconds bigint NOT NULL,
        settled boolean NOT NULL DEFAULT false,
        model text, outcome text, took double precision
    );
    CREATE INDEX model_call_seconds ON model_call (model, role, id) WHERE took IS NOT NULL;

    -- Derived from `model_call`, in the same transactions: a budget is asked for at every call.
    CREATE TABLE budget_total (
        counter text NOT NULL, name text NOT NULL, step text NOT NULL,
        calls bigint NOT NULL, tokens bigint NOT NULL, usd bigint NOT NULL, seconds bigint NOT NULL,
        PRIMARY KEY (counter, name, step)
    ) WITH (fillfactor = 50);

    CREATE TABLE job (
        no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        job text NOT NULL UNIQUE,
        run text NOT NULL UNIQUE,
        state text NOT NULL,
        received double precision NOT NULL,
        weight double precision NOT NULL,
        attempts bigint NOT NULL,
        failures bigint NOT NULL,
        iteration bigint NOT NULL,
        package text,
        feedback text NOT NULL,
        sent text NOT NULL,
        reason text NOT NULL,
        not_before double precision,
        finished double precision,
        since double precision NOT NULL,
        queue_rank double precision NOT NULL
    ) WITH (fillfactor = 70);
    CREATE INDEX job_queued ON job (queue_rank, no) WHERE state = 'queued';
    CREATE INDEX job_begun ON job (queue_rank, no) WHERE state = 'running';
    -- Apart, since a change of a row writes all of it anew, and a request can be long.
    CREATE TABLE job_request (no bigint PRIMARY KEY, request text NOT NULL);

    -- Messages that had an effect, and those that wait for their turn: these have a text in `kept`. One is ripe when
    -- what it is about has changed, so that those that still wait are not read each time.
    CREATE TABLE inbox (
        no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        message text NOT NULL UNIQUE,
        kind text NOT NULL,
        source text NOT NULL,
        at double precision NOT NULL,
        received double precision NOT NULL,
        subject text NOT NULL,
        iteration bigint,
        kept text,
        is_ripe boolean NOT NULL DEFAULT false
    );
    CREATE INDEX inbox_kept ON inbox (subject, no) WHERE kept IS NOT NULL;
    CREATE INDEX inbox_ripe ON inbox (no) WHERE is_ripe;

    CREATE TABLE outbox (
        no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        message text NOT NULL UNIQUE,
        kind text NOT NULL,
        exchange text NOT NULL,
        routing_key text NOT NULL,
        job text,
        headers text NOT NULL,
        at double precision NOT NULL,
        sent double precision,
        refused text,
        owner text,
        leased double precision
    );
    CREATE INDEX outbox_waiting ON outbox (no) WHERE sent IS NULL AND refused IS NULL;
    CREATE INDEX outbox_by_job ON outbox (job, no) WHERE sent IS NULL AND refused IS NULL;
    CREATE INDEX outbox_refused ON outbox (no) WHERE refused IS NOT NULL;
    -- Only of messages that were not sent: what a sent one said, its run's events say.
    CREATE TABLE outbox_body (no bigint PRIMARY KEY, body bytea NOT NULL);

    CREATE TABLE decision (
        no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        id text NOT NULL UNIQUE,
        job text NOT NULL,
        run text NOT NULL,
        subject text NOT NULL,
        question text NOT NULL,
        options text NOT NULL,
        context text NOT NULL,
        binding text NOT NULL,
        asked double precision NOT NULL,
        expires double precision,
        choice text,
        answered_by text,
        answered double precision,
        used double precision
    );
    CREATE INDEX decision_of_job ON decision (job);
    CREATE INDEX decision_open ON decision (no) WHERE choice IS NULL;

    {_SCHEDULES_AND_NOTICES}
    -- An event's body, for forecasts; none of one that is damaged.
    CREATE FUNCTION as_json(text) RETURNS json LANGUAGE plpgsql IMMUTABLE AS
    $$ BEGIN RETURN $1::json; EXCEPTION WHEN invalid_text_representation THEN RETURN NULL; END $$;
"""  # noqa: S608 - a constant
_COLUMNS: Final = """
    SELECT relname, attname, format_type(atttypid, atttypmod) FROM pg_class
    JOIN pg_namespace ON pg_namespace.oid = relnamespace LEFT JOIN pg_attribute ON attrelid = pg_class.oid
    WHERE nspname = 'wavewright'"""


async def prepare_schema(connection: Connection, place: str) -> None:
    """Make the tables where there are none, or migrate those of an older release: all or nothing.

    Raises:
        JournalNotOpened: they are of a newer release, or of another program.
    """
    if await _format_of_tables(connection, place) == FORMAT:
        return
    async with PostgresTransaction(connection):
        # Another process may come at the same time: it waits here, and then finds nothing left to
        # do.
        await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
        known_format = await _format_of_tables(connection, place)
        if known_format is None:
            await connection.execute(_TABLES)
            return
        for older in range(known_format, FORMAT):
            await connection.execute(MIGRATIONS[older])
        await connection.execute("UPDATE wavewright.format SET format = $1", FORMAT)


async def _format_of_tables(connection: Connection, place: str) -> int | None:
    """Return the format of the tables; none where there are none.

    Raises:
        JournalNotOpened: they are of a newer release, of one before the first, or of another
            program.
    """
    # Not `to_regclass`: what it found before another process made the tables, it finds again
    # afterwards.
    columns = await connection.fetch(_COLUMNS)
    if not columns:
        return None
    if ("format", "format", "integer") not in map(tuple, columns):
        raise JournalNotOpened(
            "the database has a schema 'wavewright' of another program",
            place=place,
            hint="name another database; this one was left as it is",
        )
    known_format: int | None = await connection.fetchval("SELECT format FROM wavewright.format")
    if known_format is None or known_format < 1:
        raise JournalNotOpened(
            "the journal does not say which format it has",
            place=place,
            hint="restore the database from a backup, or name another one; this one was left as it is",
        )
    if not FIRST_RELEASED_FORMAT <= known_format <= FORMAT:
        age, fix = (
            ("by a newer wavewright", "upgrade wavewright")
            if known_format > FORMAT
            else ("before the first release", "use the program that made it")
        )
        raise JournalNotOpened(
            f"the journal has format {known_format}, made {age}; this one reads format {FORMAT}",
            place=place,
            hint=f"{fix}, or name another database; this one was left as it is",
        )
    return known_format
