"""The fleet's tables, beside the journal's in the same database: calls with their answers, emissions, goals, workers.

They lie in the schema `wavewright_fleet`, with the queue of PgQueuer. A row of `call` is a call with its request and,
later, its answer; the queue holds only the row's id. The first worker that sets `begun` makes the call; one that finds
it set leaves the call alone, so a call begins at most once. An answer is written once: a worker that was taken for lost
writes nothing.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar, cast

import anyio
import asyncpg
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.adapters.persistence.qb import QueryBuilderEnvironment, QueryQueueBuilder
from pgqueuer.adapters.persistence.queries import Queries
from pgqueuer.domain.settings import DBSettings, Durability
from pgqueuer.domain.types import Channel

from wavewright.executor.postgres.driver import (
    DRIVER_ERRORS,
    display_url,
    explain_opening,
    is_connection_lost,
    unreachable_error,
)
from wavewright.executor.postgres.schema import LOCK
from wavewright.executor.store.errors import JournalNotOpened

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from asyncpg.pool import PoolConnectionProxy

    from wavewright.executor.postgres.driver import Connection

    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
    AnyConnection: TypeAlias = Connection | PoolConnectionProxy[asyncpg.Record]

_T = TypeVar("_T")
SCHEMA: Final = "wavewright_fleet"
ANSWERED: Final = "wavewright_fleet_answered"
"""Channel of the ids of calls that have an answer, or a new emission."""

_FORMAT: Final = "3"
_TABLES: Final = """
    CREATE TABLE wavewright_fleet.call (
        id text PRIMARY KEY,
        run text NOT NULL,
        request bytea NOT NULL,
        sent timestamptz NOT NULL DEFAULT now(),
        -- The worker that makes it, and the database's user as which that is connected.
        begun timestamptz, worker text, db_user name,
        answer bytea
    );
    CREATE INDEX call_of_run ON wavewright_fleet.call (run);
    CREATE TABLE wavewright_fleet.emission (
        no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, call text NOT NULL, body bytea NOT NULL,
        is_text boolean NOT NULL
    );
    CREATE INDEX emission_of_call ON wavewright_fleet.emission (call, no);
    -- What the tools of a run are made with, once for each run.
    CREATE TABLE wavewright_fleet.goal (run text PRIMARY KEY, goal bytea NOT NULL);
    CREATE TABLE wavewright_fleet.worker (
        name text PRIMARY KEY, slots integer NOT NULL, entrypoints text[] NOT NULL, labels text[] NOT NULL,
        heartbeat timestamptz NOT NULL DEFAULT now()
    );
"""
# Those that are there already, from before a crash, are not queued again.
SEND: Final = """
    WITH given AS (
        SELECT * FROM unnest($1::text[], $2::text[], $3::bytea[], $4::text[])
        WITH ORDINALITY AS given (id, run, request, entrypoint, place)
    ),
    sent AS (
        INSERT INTO wavewright_fleet.call (id, run, request) SELECT id, run, request FROM given
        ON CONFLICT DO NOTHING RETURNING id
    )
    INSERT INTO wavewright_fleet.pgqueuer (priority, entrypoint, payload, status)
    SELECT 0, entrypoint, convert_to(id, 'UTF8'), 'queued' FROM given JOIN sent USING (id) ORDER BY place
    RETURNING convert_from(payload, 'UTF8') AS call"""
SEND_GOAL: Final = "INSERT INTO wavewright_fleet.goal (run, goal) VALUES ($1, $2) ON CONFLICT DO NOTHING"
READ_GOAL: Final = "SELECT goal FROM wavewright_fleet.goal WHERE run = $1"
# Also what this worker has begun by a statement whose result was lost with its connection.
BEGIN: Final = """
    UPDATE wavewright_fleet.call SET begun = coalesce(begun, now()), worker = $2, db_user = current_user
    WHERE id = ANY ($1) AND (begun IS NULL OR worker = $2) AND answer IS NULL
    RETURNING id, request"""
ANSWER: Final = """
    WITH given AS (SELECT * FROM unnest($1::text[], $2::bytea[]) AS given (id, answer)),
    answered AS (
        UPDATE wavewright_fleet.call SET answer = given.answer FROM given
        WHERE call.id = given.id AND call.answer IS NULL AND call.worker = $3
        RETURNING call.id
    )
    SELECT pg_notify('wavewright_fleet_answered', id) FROM answered"""
# Of a call that another worker began and did not end.
LOSE: Final = """
    WITH lost AS (
        UPDATE wavewright_fleet.call SET answer = $2, db_user = current_user
        WHERE id = $1 AND answer IS NULL AND worker <> $3 RETURNING id
    )
    SELECT pg_notify('wavewright_fleet_answered', id) FROM lost"""
# Of calls that this worker makes and was not taken for lost with.
EMIT: Final = """
    WITH given AS (
        SELECT * FROM unnest($1::text[], $2::bytea[], $3::boolean[])
        WITH ORDINALITY AS given (call, body, is_text, place)
    ),
    kept AS (
        INSERT INTO wavewright_fleet.emission (call, body, is_text)
        SELECT given.call, body, is_text FROM given JOIN wavewright_fleet.call AS own
        ON own.id = given.call AND own.worker = $4 AND own.answer IS NULL
        ORDER BY place RETURNING call
    )
    SELECT pg_notify('wavewright_fleet_answered', call) FROM (SELECT DISTINCT call FROM kept) AS calls"""
# A call that no worker has begun is as if it had never been sent.
CANCEL: Final = """
    WITH unsent AS (DELETE FROM wavewright_fleet.call WHERE id = ANY ($1) AND begun IS NULL)
    DELETE FROM wavewright_fleet.pgqueuer AS job USING unnest($1::text[]) AS given (call)
    WHERE job.payload = convert_to(given.call, 'UTF8') RETURNING job.id"""
# Begun, and nobody beats for it: its worker died. Also where no worker is left that would take it from the queue.
DECLARE_LOST: Final = """
    UPDATE wavewright_fleet.call SET answer = $2
    WHERE id = ANY ($1) AND begun IS NOT NULL AND answer IS NULL AND NOT EXISTS (
        SELECT FROM wavewright_fleet.pgqueuer AS job
        WHERE job.payload = convert_to(call.id, 'UTF8') AND job.heartbeat > now() - make_interval(secs => $3)
    )"""
READ_ANSWERS: Final = (
    "SELECT id, answer FROM wavewright_fleet.call WHERE id = ANY ($1) AND answer IS NOT NULL"
)
# Texts are removed when they are read; the others stay, since a run that is continued may have to read them again.
TAKE_EMISSIONS: Final = """
    WITH seen AS (SELECT * FROM unnest($1::text[], $2::bigint[]) AS seen (call, no)),
    texts AS (
        DELETE FROM wavewright_fleet.emission USING seen WHERE emission.call = seen.call AND is_text
        RETURNING emission.no, emission.call, body
    )
    SELECT no, call, body, true AS is_text FROM texts
    UNION ALL
    SELECT emission.no, call, body, false FROM wavewright_fleet.emission JOIN seen USING (call)
    WHERE emission.no > seen.no AND NOT is_text
    ORDER BY no"""
IS_KNOWN: Final = "SELECT id FROM wavewright_fleet.call WHERE id = $1"
FORGET: Final = """
    WITH gone AS (DELETE FROM wavewright_fleet.call WHERE run = $1 AND answer IS NOT NULL RETURNING id),
    emitted AS (DELETE FROM wavewright_fleet.emission WHERE call IN (SELECT id FROM gone))
    DELETE FROM wavewright_fleet.goal WHERE run = $1"""
FORGET_OLD: Final = """
    WITH logged AS (DELETE FROM wavewright_fleet.pgqueuer_log WHERE created < now() - interval '1 day'),
    gone AS (DELETE FROM wavewright_fleet.call WHERE sent < now() - interval '30 days' RETURNING id)
    DELETE FROM wavewright_fleet.emission WHERE call IN (SELECT id FROM gone)"""
HEARTBEAT: Final = """
    INSERT INTO wavewright_fleet.worker (name, slots, entrypoints, labels) VALUES ($1, $2, $3, $4)
    ON CONFLICT (name) DO UPDATE
    SET heartbeat = now(), slots = excluded.slots, entrypoints = excluded.entrypoints, labels = excluded.labels"""
LEAVE: Final = "DELETE FROM wavewright_fleet.worker WHERE name = $1 OR heartbeat < now() - interval '1 day'"
LIVE_WORKERS: Final = """
    SELECT slots, entrypoints, labels FROM wavewright_fleet.worker
    WHERE heartbeat > now() - make_interval(secs => $1)"""
WAITING_FOR_OTHERS: Final = """
    SELECT entrypoint, count(*) FROM wavewright_fleet.pgqueuer WHERE status = 'queued' AND NOT entrypoint = ANY ($1)
    GROUP BY entrypoint"""


@dataclass(frozen=True, slots=True)
class FleetDatabase:
    """An open pool of connections to the database of a fleet.

    A cancellation waits for the answer of a statement: the driver would send the server a request to cancel it, over
    a connection that breaks when the pool is closed meanwhile.
    """

    pool: Pool
    url: str

    async def fetch(self, query: str, *values: object) -> list[asyncpg.Record]:
        """Return the rows of a statement, in a transaction of its own."""
        return await _to_its_end(self.pool.fetch(query, *values))

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AnyConnection]:
        """Open a transaction for a block."""
        with anyio.CancelScope(shield=True):
            async with self.pool.acquire() as connection, connection.transaction():
                yield connection


def queue_on(connection: AnyConnection) -> Queries:
    """Return the queue's operations over a connection."""
    # One of a pool has the same methods.
    return queue_over(AsyncpgDriver(cast("Connection", connection)))


def queue_over(driver: AsyncpgDriver) -> Queries:
    """Return the queue's operations over a driver."""
    settings = DBSettings(
        db_schema=SCHEMA, channel=Channel("wavewright_fleet_queue"), durability=Durability.balanced
    )
    environment = QueryBuilderEnvironment(settings=settings)
    return Queries(driver, qbe=environment, qbq=QueryQueueBuilder(settings=settings))


async def _to_its_end(work: Awaitable[_T]) -> _T:
    """Return the result of work that is not cancelled halfway."""
    with anyio.CancelScope(shield=True):
        return await work
    raise AssertionError("a shielded scope is not cancelled")


async def connect(url: str) -> Connection:
    """Return a connection of its own."""
    connection = await _to_its_end(asyncpg.connect(url, timeout=10.0, command_timeout=30.0))
    await _use_indexes(connection)
    return connection


async def listen(url: str, channel: str, on_notice: Callable[[str], None]) -> Connection:
    """Return a connection over which `on_notice` is called with each notice of a channel."""

    def take(_connection: object, _pid: int, _channel: str, payload: object) -> None:
        on_notice(str(payload))

    connection = await connect(url)
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
        raise (unreachable_error(error, place) if lost else explain_opening(error, place)) from error
    try:
        async with pool.acquire() as connection:
            await _prepare_tables(connection, display_url(url))
        yield FleetDatabase(pool, url)
    finally:
        pool.terminate()


async def _use_indexes(connection: AnyConnection) -> None:
    """Have rows found by index: the server keeps a plan that it made while a table was empty.

    The few statements that read a whole table then seem so costly to the server that it would compile them first.
    """
    await _to_its_end(connection.execute("SET enable_seqscan TO off; SET jit TO off"))


async def _keep_as_it_is(connection: AnyConnection) -> None:
    """Reset nothing of a connection that returns to the pool: no use of one leaves anything behind."""
    del connection


async def _prepare_tables(connection: AnyConnection, place: str) -> None:
    # Not by a cast to `regnamespace`: what it found before another process made the tables, it finds again afterwards.
    find_format = """
        SELECT coalesce(obj_description(oid, 'pg_namespace'), '1') FROM pg_namespace
        WHERE nspname = 'wavewright_fleet'"""
    try:
        if (found := await connection.fetchval(find_format)) is not None:
            if found != _FORMAT:
                raise JournalNotOpened(
                    f"the tables of the fleet have the format {found}, and this release wants {_FORMAT}",
                    place=place,
                    hint="they only hold calls that are under way: end all runs and workers, and then "
                    "`DROP SCHEMA wavewright_fleet CASCADE`",
                )
            if not await connection.fetchval("SELECT has_schema_privilege('wavewright_fleet', 'USAGE')"):
                raise JournalNotOpened(
                    "the database's user may not use the tables of the fleet",
                    place=place,
                    hint="let the database's owner give it the rights of docs/deploy/worker-role.sql",
                )
            return
        async with connection.transaction():
            # One process at a time makes tables; the next one finds them.
            await connection.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            if await connection.fetchval(find_format) is None:
                await queue_on(connection).install()
                await connection.execute(f"{_TABLES} COMMENT ON SCHEMA wavewright_fleet IS '{_FORMAT}'")
    except DRIVER_ERRORS as error:
        raise explain_opening(error, place) from error
