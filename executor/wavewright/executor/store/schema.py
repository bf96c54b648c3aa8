"""The tables of the journal that all databases have, each table written once.

What is not here is different in each: `run`, since a lease is kept in other columns, what refuses to
change an event, and indexes that only one database needs.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Dialect(NamedTuple):
    """The words of a database for what others have other words for."""

    row: str
    """The number of a row, which the database gives."""
    integer: str
    real: str
    bytes: str
    flag: str
    keyed: str
    """Ends a table whose rows are found by their key alone."""


def journal_tables(dialect: Dialect) -> tuple[str, ...]:
    """Return the statements that make the tables and their indexes; the table `run` comes before."""
    return _statements(_TABLES + _SCHEDULES_AND_NOTICES, dialect)


def schedule_and_notice_tables(dialect: Dialect) -> tuple[str, ...]:
    """Return the statements that make the tables of schedules and notices where there are none."""
    return _statements(_SCHEDULES_AND_NOTICES, dialect)


def _statements(text: str, dialect: Dialect) -> tuple[str, ...]:
    written = text.format(**dialect._asdict())
    return tuple(statement.strip() for statement in written.split(";") if statement.strip())


# No comment in these texts has a semicolon: it ends a statement.
_TABLES: Final = """
CREATE INDEX run_status ON run (status, no);
-- By what a list of runs is filtered, derived from `event` in the same transactions.
CREATE TABLE run_label (
    kind text NOT NULL, value text NOT NULL, run {integer} NOT NULL, PRIMARY KEY (kind, value, run)
) {keyed};
CREATE INDEX run_label_of ON run_label (run);

-- Without a foreign key to `run`: every append has locked its runs' rows, and the check would cost
-- a query a row. `body` comes last, so that a search by key reads none of a long one.
CREATE TABLE event (
    id {row},
    run {integer} NOT NULL,
    seq {integer} NOT NULL,
    at {real} NOT NULL,
    kind text NOT NULL,
    step text,
    status text,
    key text,
    crc {integer} NOT NULL,
    hash {bytes} NOT NULL,
    body text NOT NULL
);
CREATE UNIQUE INDEX event_order ON event (run, seq);
-- The end of each run's hash chain: apart from the events, or a cut could not be seen.
CREATE TABLE run_head (run {integer} PRIMARY KEY, events {integer} NOT NULL, hash {bytes} NOT NULL);
-- What is left of a run that was removed.
CREATE TABLE removed_run (
    run text PRIMARY KEY, events {integer} NOT NULL, hash {bytes} NOT NULL, removed {real} NOT NULL
) {keyed};

-- A model call: reserved until it is settled, then what it came to. In the units of `limits.Amount`.
CREATE TABLE model_call (
    id {row},
    at {real} NOT NULL,
    day text NOT NULL,
    run text, job text, step text,
    role text NOT NULL,
    calls {integer} NOT NULL, tokens {integer} NOT NULL, usd {integer} NOT NULL, seconds {integer} NOT NULL,
    settled {flag} NOT NULL DEFAULT false,
    model text, outcome text, took {real}
);
CREATE INDEX model_call_seconds ON model_call (model, role, id) WHERE took IS NOT NULL;
-- Derived from `model_call`, in the same transactions: a budget is asked for at every call.
CREATE TABLE budget_total (
    counter text NOT NULL, name text NOT NULL, step text NOT NULL,
    calls {integer} NOT NULL, tokens {integer} NOT NULL, usd {integer} NOT NULL, seconds {integer} NOT NULL,
    PRIMARY KEY (counter, name, step)
) {keyed};

CREATE TABLE job (
    no {row},
    job text NOT NULL UNIQUE,
    run text NOT NULL UNIQUE,
    state text NOT NULL,
    received {real} NOT NULL,
    weight {real} NOT NULL,
    attempts {integer} NOT NULL,
    failures {integer} NOT NULL,
    iteration {integer} NOT NULL,
    package text,
    feedback text NOT NULL,
    sent text NOT NULL,
    reason text NOT NULL,
    not_before {real},
    finished {real},
    since {real} NOT NULL,
    queue_rank {real} NOT NULL
);
CREATE INDEX job_begun ON job (queue_rank, no) WHERE state = 'running';
-- Apart, since a change of a row writes all of it anew, and a request can be long.
CREATE TABLE job_request (no {integer} PRIMARY KEY, request text NOT NULL);

-- Messages that had an effect, and those that wait for their turn: these have a text in `kept`. One
-- is ripe when what it is about has changed, so that those that still wait are not read each time.
CREATE TABLE inbox (
    no {row},
    message text NOT NULL UNIQUE,
    kind text NOT NULL,
    source text NOT NULL,
    at {real} NOT NULL,
    received {real} NOT NULL,
    subject text NOT NULL,
    iteration {integer},
    kept text,
    is_ripe {flag} NOT NULL DEFAULT false
);
CREATE INDEX inbox_kept ON inbox (subject, no) WHERE kept IS NOT NULL;
CREATE INDEX inbox_ripe ON inbox (no) WHERE is_ripe;

CREATE TABLE outbox (
    no {row},
    message text NOT NULL UNIQUE,
    kind text NOT NULL,
    exchange text NOT NULL,
    routing_key text NOT NULL,
    job text,
    headers text NOT NULL,
    at {real} NOT NULL,
    sent {real},
    refused text,
    owner text,
    leased {real}
);
CREATE INDEX outbox_waiting ON outbox (no) WHERE sent IS NULL AND refused IS NULL;
CREATE INDEX outbox_by_job ON outbox (job, no) WHERE sent IS NULL AND refused IS NULL;
CREATE INDEX outbox_refused ON outbox (no) WHERE refused IS NOT NULL;
-- Only of messages that were not sent: what a sent one said, its run's events say.
CREATE TABLE outbox_body (no {integer} PRIMARY KEY, body {bytes} NOT NULL);

CREATE TABLE decision (
    no {row},
    id text NOT NULL UNIQUE,
    job text NOT NULL,
    run text NOT NULL,
    subject text NOT NULL,
    question text NOT NULL,
    options text NOT NULL,
    context text NOT NULL,
    binding text NOT NULL,
    asked {real} NOT NULL,
    expires {real},
    choice text,
    answered_by text,
    answered {real},
    used {real}
);
CREATE INDEX decision_of_job ON decision (job);
CREATE INDEX decision_open ON decision (no) WHERE choice IS NULL;
"""
_SCHEDULES_AND_NOTICES: Final = """
-- Of a schedule: up to where it is decided, and who has paused it.
CREATE TABLE IF NOT EXISTS schedule (
    name text PRIMARY KEY, seen {real}, paused_by text, paused_at {real}
);
-- What came of an instant.
CREATE TABLE IF NOT EXISTS schedule_instant (
    name text NOT NULL, instant {real} NOT NULL, outcome text NOT NULL, job text,
    PRIMARY KEY (name, instant)
);
-- Of a rule of notices: since when it is there, and what was sent.
CREATE TABLE IF NOT EXISTS notice_rule (
    name text PRIMARY KEY, begun {real} NOT NULL, seen {real} NOT NULL,
    sent {real}, tries {integer} NOT NULL DEFAULT 0, retry {real}
);
-- What a rule tells, and why that was refused for good.
CREATE TABLE IF NOT EXISTS notice (
    rule text NOT NULL, event text NOT NULL, kind text NOT NULL, said text NOT NULL,
    at {real} NOT NULL, run text NOT NULL,
    message text, leased {real}, sent {real}, refused text, PRIMARY KEY (rule, event)
);
"""
