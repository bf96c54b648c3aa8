"""The fleet's tables, beside the journal's in the same database: calls with their answers,
emissions, goals, workers.

They lie in the schema `wavewright_fleet`, with the queue of PgQueuer. A row of `call` is a call
with its request and, later, its answer; the queue holds only the row's id. The first worker that
sets `begun` makes the call; one that finds it set leaves the call alone, so a call begins at most
once. An answer is written once: a worker that was taken for lost writes nothing. The statement that
writes it takes the call out of the queue.

Writes wait for a database that is away, and what comes while one is under way is grouped.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, TypeAlias, TypeVar, cast

import anyio
import asyncpg
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel

from wavewright.executor.postgres.driver import (
    DRIVER_ERRORS,
    Connection,
    display_url,
    explain_opening,
    is_conflict,
    is_connection_lost,
    unreachable_error,
)
from wavewright.executor.postgres.schema import LOCK
from wavewright.executor.store.errors import JournalNotOpened

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
    AnyConnection: TypeAlias = Connection | PoolConnectionProxy[asyncpg.Record]

_T = TypeVar("_T")
SCHEMA: Final = "wavewright_fleet"
ANSWERED: Final = "wavewright_fleet_answered"
"""Channel of the ids of calls that have an answer or, after `EMITTED`, a new emission; several with
a space between.
"""
EMITTED: Final = "+"
QUEUED: Final = "wavewright_fleet_queue"
"""Channel on which PgQueuer says that calls came."""
CANCELLED: Final = "wavewright_fleet_cancelled"
"""Channel of the ids of calls that are not wanted any more."""

_FORMAT: Final = "8"
_TABLES: Final = """
    -- Of what workers take out of the queue nobody is told.
    DROP TRIGGER tg_pgqueuer_changed ON wavewright_fleet.pgqueuer;
    CREATE TRIGGER tg_pgqueuer_changed AFTER INSERT ON wavewright_fleet.pgqueuer
    EXECUTE FUNCTION wavewright_fleet.fn_pgqueuer_changed();
    -- Nor is it logged: a call has a row of its own.
    CREATE FUNCTION wavewright_fleet.leave_out() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
    CREATE TRIGGER leave_out BEFORE INSERT ON wavewright_fleet.pgqueuer_log
    FOR EACH ROW EXECUTE FUNCTION wavewright_fleet.leave_out();
    -- Indexes that no statement of the fleet uses.
    DROP INDEX wavewright_fleet.pgqueuer_ep_ea_idx, wavewright_fleet.pgqueuer_priority_id_id1_idx,
        wavewright_fleet.pgqueuer_queue_manager_id_idx, wavewright_fleet.pgqueuer_updated_id_id1_idx;
    CREATE TABLE wavewright_fleet.call (
        id text PRIMARY KEY,
        run text NOT NULL,
        request bytea NOT NULL,
        sent timestamptz NOT NULL DEFAULT now(),
        -- The process that wants the answer: the last one that has sent it.
        coordinator text NOT NULL,
        -- The worker that makes it, and the database's user as which that is connected.
        begun timestamptz, worker text, db_user name,
        answer bytea
    -- What is begun and answered has its new versions on the page of the old one, and needs no entry in an index.
    ) WITH (fillfactor = 40);
    CREATE INDEX call_of_run ON wavewright_fleet.call (run);
    -- Numbered by the worker, so that one which is sent a second time is there once.
    CREATE TABLE wavewright_fleet.emission (
        call text, no bigint, body bytea NOT NULL, is_text boolean NOT NULL, PRIMARY KEY (call, no)
    );
    -- What the tools of a run are made with, once for each run.
    CREATE TABLE wavewright_fleet.goal (run text PRIMARY KEY, goal bytea NOT NULL);
    CREATE TABLE wavewright_fleet.worker (
        name text PRIMARY KEY, slots integer NOT NULL, entrypoints text[] NOT NULL, labels text[] NOT NULL,
        heartbeat timestamptz NOT NULL DEFAULT now(), db_user name NOT NULL DEFAULT session_user
    );
"""
# What workers may do, as functions with the rights of the tables' owner: a user of the role
# `wavewright_worker` has no other way to write. A call belongs to the worker that has begun it and
# to the database's user as which that is connected. A worker's name is its fence: it is of no
# worker that ever was, so one that was taken for lost has no call any more.
FUNCTIONS: Final = """
    -- Whether a process may have calls of a run made, and forget them: of a run that the journal beside these tables
    -- has, only the process that owns it. One that was suspended while another process took the run over, ended it and
    -- forgot its calls would else send them as if they had never been made.
    CREATE FUNCTION wavewright_fleet.may_call(of_run text, process text) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
        IF to_regclass('wavewright.run') IS NULL THEN
            RETURN true;
        END IF;
        RETURN NOT EXISTS (SELECT FROM wavewright.run WHERE run.run = of_run) OR EXISTS (
            SELECT FROM wavewright.run JOIN wavewright.session ON session.no = run.owner
            WHERE run.run = of_run AND concat_ws(' ', session.host, session.pid, session.process_start) = process
        );
    END $$;
    -- Also what this worker has begun by a statement whose result was lost with its connection.
    CREATE FUNCTION wavewright_fleet.begin_calls(ids text[], by_worker text)
    RETURNS TABLE (id text, request bytea) LANGUAGE sql AS $$
        UPDATE wavewright_fleet.call SET begun = coalesce(begun, now()), worker = by_worker, db_user = session_user
        WHERE call.id = ANY (ids) AND answer IS NULL
        AND (begun IS NULL OR (worker = by_worker AND db_user = session_user))
        RETURNING call.id, call.request
    $$;
    -- The queue's row of an answer is removed with it, and no other.
    CREATE FUNCTION wavewright_fleet.answer_calls(ids text[], jobs bigint[], answers bytea[], by_worker text)
    RETURNS SETOF text LANGUAGE sql AS $$
        WITH given AS (SELECT * FROM unnest(ids, jobs, answers) AS given (id, job, answer)),
        own AS (
            SELECT given.* FROM given JOIN wavewright_fleet.call USING (id)
            WHERE call.worker = by_worker AND call.db_user = session_user
        ),
        ended AS (
            DELETE FROM wavewright_fleet.pgqueuer AS queued USING own
            WHERE queued.id = own.job AND queued.payload = convert_to(own.id, 'UTF8')
        )
        UPDATE wavewright_fleet.call SET answer = own.answer FROM own
        WHERE call.id = own.id AND call.answer IS NULL
        AND call.worker = by_worker AND call.db_user = session_user
        RETURNING call.id
    $$;
    -- Of answered calls, such as those whose worker died.
    CREATE FUNCTION wavewright_fleet.drop_answered(jobs bigint[]) RETURNS void LANGUAGE sql AS $$
        DELETE FROM wavewright_fleet.pgqueuer AS queued WHERE queued.id = ANY (jobs) AND NOT EXISTS (
            SELECT FROM wavewright_fleet.call WHERE call.id = convert_from(queued.payload, 'UTF8') AND answer IS NULL
        )
    $$;
    -- Of calls that this worker makes and was not taken for lost with.
    CREATE FUNCTION wavewright_fleet.emit(
        calls text[], numbers bigint[], bodies bytea[], texts boolean[], by_worker text
    ) RETURNS SETOF text LANGUAGE sql AS $$
        INSERT INTO wavewright_fleet.emission (call, no, body, is_text)
        SELECT given.call, given.no, given.body, given.is_text
        FROM unnest(calls, numbers, bodies, texts) AS given (call, no, body, is_text)
        JOIN wavewright_fleet.call AS own ON own.id = given.call
        AND own.worker = by_worker AND own.db_user = session_user AND own.answer IS NULL
        ON CONFLICT DO NOTHING RETURNING emission.call
    $$;
    CREATE FUNCTION wavewright_fleet.beat(
        by_worker text, its_slots integer, its_entrypoints text[], its_labels text[], jobs bigint[]
    ) RETURNS void LANGUAGE sql AS $$
        UPDATE wavewright_fleet.pgqueuer AS queued SET heartbeat = now()
        WHERE queued.id = ANY (jobs) AND EXISTS (
            SELECT FROM wavewright_fleet.call WHERE call.id = convert_from(queued.payload, 'UTF8')
            AND (worker IS NULL OR (worker = by_worker AND db_user = session_user))
        );
        INSERT INTO wavewright_fleet.worker AS known (name, slots, entrypoints, labels)
        VALUES (by_worker, its_slots, its_entrypoints, its_labels)
        ON CONFLICT (name) DO UPDATE
        SET heartbeat = now(), slots = excluded.slots, entrypoints = excluded.entrypoints, labels = excluded.labels
        WHERE known.db_user = session_user;
    $$;
    -- Also the rows of workers that have long been dead.
    CREATE FUNCTION wavewright_fleet.leave(by_worker text) RETURNS void LANGUAGE sql AS $$
        DELETE FROM wavewright_fleet.worker
        WHERE (name = by_worker AND db_user = session_user) OR heartbeat < now() - interval '1 day'
    $$;
    DO $$ DECLARE made regprocedure; BEGIN
        FOR made IN SELECT oid FROM pg_proc WHERE pronamespace = 'wavewright_fleet'::regnamespace
            AND proname IN ('begin_calls', 'answer_calls', 'drop_answered', 'emit', 'beat', 'leave')
        LOOP
            EXECUTE format('ALTER FUNCTION %s SECURITY DEFINER SET search_path = pg_catalog, pg_temp', made);
            EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', made);
        END LOOP;
    END $$;
"""
# Those that are there already, from before a crash, are not queued again. Nothing is sent of a run that another process
# owns, or has ended: then the run has no goal here.
SEND: Final = """
    WITH given AS (
        SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[])
        WITH ORDINALITY AS given (id, run, request, entrypoint, place)
    ),
    own AS MATERIALIZED (
        SELECT run FROM wavewright_fleet.goal WHERE run = ANY ($2) AND wavewright_fleet.may_call(run, $6)
    ),
    sent AS (
        INSERT INTO wavewright_fleet.call (id, run, request, coordinator)
        SELECT id, run, request, $5 FROM given WHERE run IN (SELECT run FROM own)
        ON CONFLICT (id) DO UPDATE SET coordinator = excluded.coordinator RETURNING id, xmax = 0 AS is_new
    ),
    queued AS (
        INSERT INTO wavewright_fleet.pgqueuer (priority, entrypoint, payload, status)
        SELECT 0, entrypoint, convert_to(id, 'UTF8'), 'queued' FROM given JOIN sent USING (id)
        WHERE is_new ORDER BY place
    )
    SELECT id, is_new FROM sent"""
SEND_GOAL: Final = """
    INSERT INTO wavewright_fleet.goal (run, goal) SELECT $1::text, $2::bytea
    WHERE wavewright_fleet.may_call($1, $3)
    ON CONFLICT DO NOTHING"""
READ_GOAL: Final = "SELECT goal FROM wavewright_fleet.goal WHERE run = $1"
BEGIN: Final = "SELECT id, request FROM wavewright_fleet.begin_calls($1, $2)"
ANSWER: Final = """
    SELECT pg_notify('wavewright_fleet_answered', string_agg(id, ' '))
    FROM wavewright_fleet.answer_calls($1, $2, $3, $4) AS answered (id) HAVING count(*) > 0"""
DROP: Final = "SELECT wavewright_fleet.drop_answered($1)"
EMIT: Final = """
    SELECT pg_notify('wavewright_fleet_answered', '+' || string_agg(DISTINCT call, ' '))
    FROM wavewright_fleet.emit($1, $2, $3, $4, $5) AS kept (call) HAVING count(*) > 0"""
# Of a worker without a heartbeat; none had one while the server was away. Returns those that are
# not there any more.
DECLARE_LOST: Final = """
    WITH lost AS (
        UPDATE wavewright_fleet.call SET answer = $2
        WHERE id = ANY ($1) AND begun IS NOT NULL AND answer IS NULL AND NOT EXISTS (
            SELECT FROM wavewright_fleet.worker
            WHERE name = call.worker AND heartbeat > now() - make_interval(secs => $3)
        ) AND pg_postmaster_start_time() < now() - make_interval(secs => $3)
        RETURNING convert_to(id, 'UTF8') AS payload
    ),
    ended AS (DELETE FROM wavewright_fleet.pgqueuer AS job USING lost WHERE job.payload = lost.payload)
    SELECT id FROM unnest($1::text[]) AS given (id)
    WHERE NOT EXISTS (SELECT FROM wavewright_fleet.call WHERE call.id = given.id)"""
# Not where another process continues the run. A call that no worker has begun is as if it had never
# been sent.
CANCEL: Final = """
    WITH own AS (SELECT id FROM wavewright_fleet.call WHERE id = ANY ($1) AND coordinator = $2),
    unsent AS (DELETE FROM wavewright_fleet.call USING own WHERE call.id = own.id AND begun IS NULL),
    ended AS (
        DELETE FROM wavewright_fleet.pgqueuer AS job USING own WHERE job.payload = convert_to(own.id, 'UTF8')
    )
    SELECT pg_notify('wavewright_fleet_cancelled', id) FROM own"""
# Every user of the database may send a notice. A call that is wanted stays in the queue until its
# answer, and no worker can take it out.
READ_CANCELLED: Final = """
    SELECT id FROM unnest($1::text[], $2::bigint[]) AS held (id, job)
    WHERE NOT EXISTS (SELECT FROM wavewright_fleet.pgqueuer AS queued WHERE queued.id = held.job)"""
READ_ANSWERS: Final = (
    "SELECT id, answer FROM wavewright_fleet.call WHERE id = ANY ($1) AND answer IS NOT NULL"
)
# Texts are removed when they are read; the others stay, since a run that is continued may have to
# read them again.
TAKE_EMISSIONS: Final = """
    WITH seen AS (SELECT * FROM unnest($1::text[], $2::bigint[]) AS seen (call, no)),
    texts AS (
        DELETE FROM wavewright_fleet.emission USING seen WHERE emission.call = seen.call AND is_text
        RETURNING emission.no, emission.call, body, emission.no > seen.no AS is_new
    )
    SELECT no, call, body, true AS is_text FROM texts WHERE is_new
    UNION ALL
    SELECT emission.no, call, body, false FROM wavewright_fleet.emission JOIN seen USING (call)
    WHERE emission.no > seen.no AND NOT is_text
    ORDER BY no"""
IS_KNOWN: Final = "SELECT id FROM wavewright_fleet.call WHERE id = $1"
FORGET: Final = """
    WITH own AS MATERIALIZED (SELECT $1::text AS run WHERE wavewright_fleet.may_call($1, $2)),
    gone AS (DELETE FROM wavewright_fleet.call USING own WHERE call.run = own.run AND answer IS NOT NULL RETURNING id),
    emitted AS (DELETE FROM wavewright_fleet.emission WHERE call IN (SELECT id FROM gone))
    DELETE FROM wavewright_fleet.goal USING own WHERE goal.run = own.run"""
FORGET_OLD: Final = """
    WITH gone AS (DELETE FROM wavewright_fleet.call WHERE sent < now() - interval '30 days' RETURNING id, run),
    emitted AS (DELETE FROM wavewright_fleet.emission WHERE call IN (SELECT id FROM gone))
    DELETE FROM wavewright_fleet.goal WHERE run IN (SELECT run FROM gone)"""
HEARTBEAT: Final = "SELECT wavewright_fleet.beat($1, $2, $3, $4, $5::bigint[])"
LEAVE: Final = "SELECT wavewright_fleet.leave($1)"
LIVE_WORKERS: Final = """
    SELECT slots, entrypoints, labels FROM wavewright_fleet.worker
    WHERE heartbeat > now() - make_interval(secs => $1)"""
WAITING_FOR_OTHERS: Final = """
    SELECT entrypoint, count(*) FROM wavewright_fleet.pgqueuer WHERE status = 'queued' AND NOT entrypoint = ANY ($1)
    GROUP BY entrypoint"""


@dataclass(frozen=True, slots=True)
class FleetDatabase:
    """An open pool of connections to the database of a fleet.

    A cancellation waits for the answer of a statement: the driver would send the server a request
    to cancel it, over a connection that breaks when the pool is closed meanwhile.
    """

    pool: Pool
    url: str

    async def fetch(self, query: str, *values: object) -> list[asyncpg.Record]:
        """Return the rows of a statement, in a transaction of its own."""
        return await _to_its_end(self.pool.fetch(query, *values))


def queue_on(connection: AnyConnection) -> Queries:
    """Return the queue's operations over a connection."""
    settings = DBSettings(db_schema=SCHEMA, channel=Channel(QUEUED), durability=Durability.balanced)
    # One of a pool has the same methods.
    driver = AsyncpgDriver(cast("Connection", connection))
    environment = QueryBuilderEnvironment(settings=settings)
    return Queries(driver, qbe=environment, qbq=QueryQueueBuilder(settings=settings))


async def _to_its_end(work: Awaitable[_T]) -> _T:
    """Return the result of work that is not cancelled halfway."""
    with anyio.CancelScope(shield=True):
        return await work
    raise AssertionError("a shielded scope is not cancelled")


async def listen(url: str, on_notice: Mapping[str, Callable[[str], None]]) -> Connection:
    """Return a connection over which notices of channels are handed to their functions."""

    def take(_connection: object, _pid: int, channel: str, payload: object) -> None:
        on_notice[channel](str(payload))

    connection = await _to_its_end(asyncpg.connect(url, timeout=10.0, command_timeout=30.0))
    await _use_indexes(connection)
    for channel in on_notice:
        await _to_its_end(connection.add_listener(channel, take))
    return connection


@asynccontextmanager
async def open_fleet_database(url: str) -> AsyncGenerator[FleetDatabase]:
    """Open a pool of connections; the tables are made where there are none.

    Raises:
        JournalError: with the place and the fix.
    """
    try:
        pool = await asyncpg.create_pool(
            url,
            min_size=3,
            max_size=3,
            timeout=10.0,
            command_timeout=30.0,
            init=_use_indexes,
            reset=_keep_as_it_is,
        )
    except (*DRIVER_ERRORS, ValueError) as error:
        place = display_url(url)
        lost = isinstance(error, DRIVER_ERRORS) and is_connection_lost(error)
        raise (
            unreachable_error(error, place) if lost else explain_opening(error, place)
        ) from error
    try:
        await _refuse_shared_sessions(pool, display_url(url))
        async with pool.acquire() as connection:
            await _prepare_tables(connection, display_url(url))
        yield FleetDatabase(pool, url)
    finally:
        pool.terminate()


async def _refuse_shared_sessions(pool: Pool, place: str) -> None:
    """Refuse a pooler that gives each transaction another connection: no notice comes over one, and
    calls would fail by what others have prepared there.

    It shows by a setting of one connection that another one has.
    """
    token = secrets.token_hex(8)
    told = ""
    try:
        async with pool.acquire() as one, pool.acquire() as another:
            pid = one.get_server_pid()
            if await one.execute(f"SELECT 1 WHERE pg_backend_pid() = {pid:d}") == "SELECT 1":
                return  # The server itself answers.
            for _ in range(_PROBES):
                await one.execute(f"SET wavewright.session TO '{token}'")
                told = await another.execute(
                    f"SELECT 1 WHERE current_setting('wavewright.session', true) = '{token}'"
                )
                if told == "SELECT 1":
                    break
                # The pooler had not yet taken the first one's connection back.
                await anyio.sleep(_PROBE_PAUSE_SECONDS)
    except DRIVER_ERRORS as error:
        raise explain_opening(error, place) from error
    if told == "SELECT 1":
        raise JournalNotOpened(
            "a connection pooler shares its sessions, over which no fleet can listen",
            place=place,
            hint="have the pooler give each connection a session of its own (pgbouncer:"
            " `pool_mode = session`), or name the server's own address",
        )


_PROBES: Final = 20
_PROBE_PAUSE_SECONDS: Final = 0.02
"""A pooler with a session for each connection is so asked for 0.4 s, once."""


async def _use_indexes(connection: AnyConnection) -> None:
    """Have rows found by index: the server keeps a plan that it made while a table was empty.

    The few statements that read a whole table then seem so costly to the server that it would
    compile them first.
    """
    await _to_its_end(connection.execute("SET enable_seqscan TO off; SET jit TO off"))


async def _keep_as_it_is(connection: AnyConnection) -> None:
    """Reset nothing of a connection that returns to the pool: no use of one leaves anything behind."""
    del connection


async def _prepare_tables(connection: AnyConnection, place: str) -> None:
    # Not by a cast to `regnamespace`: what it found before another process made the tables, it
    # finds again afterwards.
    find_format = """
        SELECT coalesce(obj_description(oid, 'pg_namespace'), '1') FROM pg_namespace
        WHERE nspname = 'wavewright_fleet'"""
    try:
        if (known_format := await connection.fetchval(find_format)) is not None:
            if known_format != _FORMAT:
                raise JournalNotOpened(
                    f"the tables of the fleet have the format {known_format}, and this release wants {_FORMAT}",
                    place=place,
                    hint="they only hold calls that are under way: end all runs and workers, and then "
                    "`DROP SCHEMA wavewright_fleet CASCADE`",
                )
            if not await connection.fetchval(
                "SELECT has_schema_privilege('wavewright_fleet', 'USAGE')"
            ):
                raise JournalNotOpened(
                    "the database's user may not use the tables of the fleet",
                    place=place,
                    hint="have docs/deploy/worker-role.sql applied, which gives it the rights",
                )
            return
        async with connection.transaction():
            # One process at a time makes tables; the next one finds them.
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            if await connection.fetchval(find_format) is None:
                await queue_on(connection).install()
                await connection.execute(
                    f"{_TABLES} {FUNCTIONS} COMMENT ON SCHEMA wavewright_fleet IS '{_FORMAT}'"
                )
    except DRIVER_ERRORS as error:
        raise explain_opening(error, place) from error


T = TypeVar("T")
R = TypeVar("R")
MAX_GROUP: Final = 150
"""Rows of one statement: so many ids of calls fit into a notice of PostgreSQL, which has 8,000
bytes.
"""
_PATIENCE_SECONDS: Final = 60.0
_PAUSE_SECONDS: Final = 0.5


async def patiently(work: Callable[[], Awaitable[R]]) -> R:
    """Return the result of a transaction; one that can be repeated waits 60 s for a database that
    is away.

    Raises:
        Exception: what the driver raised at last.
    """
    deadline = anyio.current_time() + _PATIENCE_SECONDS
    while True:
        try:
            return await work()
        except DRIVER_ERRORS as error:
            may_pass = is_conflict(error) or is_connection_lost(error)
            if not may_pass or anyio.current_time() > deadline:
                raise
            await anyio.sleep(_PAUSE_SECONDS)


class GroupedWrites(Generic[T, R]):
    """Writes rows in groups, `patiently`: what comes while one transaction is under way goes into
    the next.
    """

    def __init__(self, write: Callable[[Sequence[T]], Awaitable[Sequence[R]]]) -> None:
        """Take the function that writes some rows in one transaction, all or none, and returns a
        result for each.
        """
        self._write = write
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._wanted = anyio.Event()

    def add(self, row: T) -> asyncio.Future[R]:
        """Write a row; return what becomes its result once it is durable, or the database's error."""
        written: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, written))
        self._wanted.set()
        return written

    async def run(self) -> None:
        """Write what is added, until this is cancelled."""
        while True:
            await self._wanted.wait()
            self._wanted = anyio.Event()
            # Whatever else is added in this turn of the event loop comes along.
            await anyio.lowlevel.checkpoint()
            while self._waiting:
                group, self._waiting = self._waiting[:MAX_GROUP], self._waiting[MAX_GROUP:]
                await self._commit(group)

    async def _commit(self, group: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await patiently(partial(self._write, [row for row, _ in group]))
        except DRIVER_ERRORS as error:
            for _, written in group:
                if not written.done():
                    written.set_exception(error)
            return
        for (_, written), result in zip(group, results, strict=True):
            if not written.done():
                written.set_result(result)
