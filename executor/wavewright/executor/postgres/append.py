"""The rows of one commit, and how they get into the database exactly once.

An *append* knows beforehand what it will leave behind, so that after a broken connection the
database can be asked whether it is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from operator import itemgetter
from typing import Final, NamedTuple, Self

from wavewright.config import WavewrightError
from wavewright.executor.events.json_values import storable_text
from wavewright.executor.events.types import RunStarted
from wavewright.executor.postgres.driver import Connection, PostgresTransaction
from wavewright.executor.postgres.session import AlreadyCommitted
from wavewright.executor.postgres.transaction import PostgresStoreTransaction
from wavewright.executor.store.entries import AppendEntry
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.journal import next_hash
from wavewright.executor.store.leases import HeldLease
from wavewright.executor.store.transaction import (
    Alongside,
    LockOrder,
    QueuedTransaction,
    lock_order_of,
)
from wavewright.planner import RunId

# Most appends are this statement alone: one transaction and one round trip. Rows of runs that are
# not held any more are left out. Nothing is written where the transaction id was taken before.
_APPEND: Final = """
    WITH begun AS (
        UPDATE session SET transaction_id = $2, heartbeat = heartbeat + 1, heartbeat_at = clock_seconds()
        WHERE no = $1 AND transaction_id < $2
        RETURNING clock_seconds() AS now
    ), held AS (
        SELECT run.no FROM begun, run JOIN unnest($3::bigint[], $4::bigint[]) AS mine (no, fence)
        ON run.no = mine.no AND run.fence = mine.fence FOR SHARE OF run
    ), new AS (
        SELECT * FROM unnest($5::bigint[], $6::bigint[], $7::double precision[], $8::text[], $9::text[], $10::text[],
                             $11::text[], $12::bigint[], $13::text[], $14::bytea[])
                      WITH ORDINALITY AS new (run, seq, at, kind, step, status, key, crc, body, hash, place)
        WHERE new.run IN (SELECT no FROM held)
    ), written AS (
        INSERT INTO event (run, seq, at, kind, step, status, key, crc, body, hash)
        SELECT run, seq, at, kind, step, status, key, crc, body, hash FROM new ORDER BY place
    ), heads AS (
        INSERT INTO run_head (run, events, hash)
        SELECT * FROM unnest($3::bigint[], $15::bigint[], $16::bytea[]) AS head (run, events, hash)
        WHERE head.run IN (SELECT no FROM held)
        ON CONFLICT (run) DO UPDATE SET events = EXCLUDED.events, hash = EXCLUDED.hash
    ){more}
    SELECT (SELECT now FROM begun), (SELECT coalesce(array_agg(no), '{{}}') FROM held)"""
# What the same statement writes is not in the tables yet: the steps of a run that ends are counted
# with its new events.
_CHANGE_RUNS: Final = """
    changed AS (
        UPDATE run SET job = coalesce(change.job, run.job), created = coalesce(change.created, run.created),
                       status = change.status, finished = change.finished,
                       steps = counted.steps, ok = counted.ok, failed = counted.failed
        FROM unnest($17::bigint[], $18::text[], $19::double precision[], $20::text[], $21::double precision[])
             AS change (no, job, created, status, finished)
        LEFT JOIN LATERAL (
            SELECT count(*) AS steps, count(*) FILTER (WHERE status IN ('ok', 'empty', 'reused')) AS ok,
                   count(*) FILTER (WHERE status = 'failed') AS failed
            FROM (SELECT DISTINCT ON (step) status FROM (
                      SELECT step, status, seq FROM event WHERE run = change.no AND kind = 'step_finished'
                      UNION ALL SELECT step, status, seq FROM new WHERE run = change.no AND kind = 'step_finished'
                  ) AS ending ORDER BY step, seq DESC) AS last_ending
        ) AS counted ON change.status IS NOT NULL
        WHERE run.no = change.no AND run.no IN (SELECT no FROM held)
    )"""
_LABEL_RUNS: Final = """
    labelled AS (
        INSERT INTO run_label (kind, value, run)
        SELECT DISTINCT kind, value, no
        FROM unnest(${0}::bigint[], ${1}::text[], ${2}::text[]) AS label (no, kind, value)
        WHERE no IN (SELECT no FROM held) ON CONFLICT DO NOTHING
    )"""
_COMMITTED_RUNS: Final = """
    SELECT mine.no FROM unnest($1::bigint[], $2::bigint[]) AS mine (no, seq)
    WHERE mine.seq < 0 OR EXISTS (SELECT FROM event WHERE event.run = mine.no AND event.seq = mine.seq)"""


async def _lock_names(transaction: PostgresStoreTransaction, names: Sequence[str]) -> None:
    for name in names:
        await transaction.lock(name)


async def _write_alongside(
    transaction: PostgresStoreTransaction,
    run: RunId,
    alongside: Alongside,
    written: Sequence[RunId],
) -> None:
    try:
        await alongside.write(transaction, written)
    except JournalError as error:
        raise AlongsideRefused(run, error) from error


class AlongsideRefused(WavewrightError):
    """What goes alongside one run's events cannot be written, so that those are not, either."""

    def __init__(self, run: RunId, error: JournalError) -> None:
        super().__init__(str(error))
        self.run = run
        self.error = error


class _RunChange(NamedTuple):
    """What becomes of a run's row; `job` and `created` stay where they are None."""

    no: int
    job: str | None = None
    created: float | None = None
    status: str | None = None
    finished: float | None = None


@dataclass(frozen=True, slots=True)
class AppendTransaction:
    """The entries of some runs, all held here."""

    leases: Mapping[RunId, HeldLease]
    rows: Sequence[Sequence[object]]
    """Of the events."""
    run_changes: Sequence[_RunChange]
    """Runs that begin, end or go on after their end."""
    labels: Sequence[tuple[int, str, str]]
    """Of runs, each with the number of its run."""
    heads: Mapping[RunId, tuple[int, bytes]]
    """Afterwards, by run: how many events it has, and the hash of the last one."""
    is_finished: Mapping[RunId, bool]
    """Afterwards, by run."""
    alongside: Sequence[tuple[RunId, Alongside]]
    """What goes alongside the events of those runs."""
    begin: Callable[[Connection, float], PostgresStoreTransaction]
    """Returns the transaction for others than the journal, given when it began."""
    works: Sequence[QueuedTransaction]
    """What others want done in the same transaction."""
    attempts: list[tuple[PostgresStoreTransaction, Sequence[object]]] = field(
        default_factory=list[tuple[PostgresStoreTransaction, Sequence[object]]]
    )
    """The transaction of each attempt with the results of the works; only the last can be committed.
    """

    @classmethod
    def from_entries(
        cls,
        entries: Sequence[AppendEntry],
        leases: Mapping[RunId, HeldLease],
        begin: Callable[[Connection, float], PostgresStoreTransaction],
        works: Sequence[QueuedTransaction],
    ) -> Self:
        """Return the append of these entries, with what others want done beside it."""
        heads = {run: (lease.seq, lease.last_hash) for run, lease in leases.items()}
        is_finished = {run: lease.is_finished for run, lease in leases.items()}
        rows = list[Sequence[object]]()
        changes = dict[RunId, _RunChange]()
        labels = list[tuple[int, str, str]]()
        for entry in entries:
            run, no = entry.run, leases[entry.run].no
            seq, link = heads[run]
            for at, kind, step, status, key, crc, body in entry.rows:
                link = next_hash(link, kind, body)
                texts = (kind, storable_text(step), status, storable_text(key))
                rows.append((no, seq, at, *texts, crc, body, link))
                seq += 1
            heads[run] = (seq, link)
            labels += [(no, kind, storable_text(value)) for kind, value in entry.labels]
            if is_finished[run] and not entry.is_run_end:
                is_finished[run] = False
                changes[run] = changes.get(run, _RunChange(no))._replace(status=None, finished=None)
            for mark in entry.run_events:
                change = changes.get(run, _RunChange(no))
                if isinstance(mark, RunStarted):
                    changes[run] = change._replace(job=storable_text(mark.job), created=mark.at)
                else:
                    is_finished[run] = True
                    changes[run] = change._replace(status=mark.status, finished=mark.at)
        alongside = [
            (entry.run, entry.alongside) for entry in entries if entry.alongside is not None
        ]
        return cls(
            leases,
            rows,
            [*changes.values()],
            labels,
            heads,
            is_finished,
            alongside,
            begin,
            works,
        )

    async def execute(
        self, connection: Connection, session_no: int, transaction_id: int
    ) -> set[int]:
        """Write all of it in one transaction and return the numbers of the runs that are held
        still.

        Raises:
            AlongsideRefused: nothing was written.
        """
        if not (self.alongside or self.works):
            held, _ = await self._insert(connection, session_no, transaction_id)
            return held
        async with PostgresTransaction(connection):
            held, now = await self._insert(connection, session_no, transaction_id)
            transaction = self.begin(connection, now)
            results = dict[int, object]()
            for _, work in sorted(self._works(held, transaction, results), key=itemgetter(0)):
                await work()
            await transaction.flush()
            self.attempts.append(
                (transaction, [results[number] for number in range(len(self.works))])
            )
        return held

    def _works(
        self, held: set[int], transaction: PostgresStoreTransaction, results: dict[int, object]
    ) -> Iterator[tuple[LockOrder, Callable[[], Awaitable[None]]]]:
        """Return what is done once the events are written, with its lock order."""
        if names := sorted(name for _, beside in self.alongside for name in beside.locks):
            yield lock_order_of(""), partial(_lock_names, transaction, names)
        written = [run for run, lease in self.leases.items() if lease.no in held]
        for run, beside in self.alongside:
            if run in written:
                yield (
                    beside.lock_order,
                    partial(_write_alongside, transaction, run, beside, written),
                )

        async def work(number: int) -> None:
            results[number] = await self.works[number].work(transaction)

        for number, queued in enumerate(self.works):
            yield queued.lock_order, partial(work, number)

    async def _insert(
        self, connection: Connection, session_no: int, transaction_id: int
    ) -> tuple[set[int], float]:
        """Return the numbers of the runs that are held still, and the time by the database's clock."""
        numbers = [lease.no for lease in self.leases.values()]
        fences = [lease.fence for lease in self.leases.values()]
        columns = [*_columns(self.rows, 10)]
        columns += _columns([self.heads[run] for run in self.leases], 2)
        if self.run_changes:
            columns += _columns(self.run_changes, len(_RunChange._fields))
        if self.labels:
            columns += _columns(self.labels, 3)
        query = _append_statement(
            changes_runs=bool(self.run_changes),
            labels_runs=bool(self.labels),
        )
        row = await connection.fetchrow(
            query, session_no, transaction_id, numbers, fences, *columns
        )
        assert row is not None
        now, held = row
        if now is None:
            raise AlreadyCommitted
        return set(held), now

    async def find_committed(self, connection: Connection) -> set[int]:
        """Return the numbers of the runs whose events are there, once it is known that all of it
        was committed.
        """
        numbers = [lease.no for lease in self.leases.values()]
        rows = await connection.fetch(
            _COMMITTED_RUNS, numbers, [events - 1 for events, _ in self.heads.values()]
        )
        return {no for (no,) in rows}

    def mark_committed(self) -> None:
        """Take note in the leases that it is written."""
        for run, lease in self.leases.items():
            lease.seq, lease.last_hash = self.heads[run]
            lease.is_finished = self.is_finished[run]


@cache
def _append_statement(*, changes_runs: bool, labels_runs: bool) -> str:
    """Return the statement of an append that changes or labels runs.

    What is not needed is not planned.
    """
    parts = [_CHANGE_RUNS] if changes_runs else []
    first = 17 + (len(_RunChange._fields) if changes_runs else 0)
    if labels_runs:
        parts.append(_LABEL_RUNS.format(first, first + 1, first + 2))
    return _APPEND.format(more="".join(f",{part}" for part in parts))


def _columns(rows: Sequence[Sequence[object]], count: int) -> list[list[object]]:
    return [[row[column] for row in rows] for column in range(count)]
