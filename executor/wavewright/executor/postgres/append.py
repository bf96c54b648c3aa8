"""The rows of one commit, and how they get into the database exactly once.

An *append* knows beforehand what it will leave behind, so that after a broken connection the database can be asked
whether it is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from operator import itemgetter
from typing import Final, Self

from wavewright.config.errors import WavewrightError
from wavewright.executor.events.types import RunFinished, RunStarted
from wavewright.executor.postgres.driver import Connection, PostgresTransaction
from wavewright.executor.postgres.session import AlreadyCommitted
from wavewright.executor.postgres.transaction import (
    PostgresStoreTransaction,
    message_columns,
    put_messages,
)
from wavewright.executor.store.commands import (
    ANY_ORDER,
    AppendEntry,
    LockOrder,
    QueuedTransaction,
    job_lock_order,
)
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.job_rows import OutboxRows, OutgoingRow
from wavewright.executor.store.job_tables import JobTables
from wavewright.executor.store.job_transactions import put_outbox_rows
from wavewright.executor.store.leases import HeldLease
from wavewright.executor.store.transaction import storable_text
from wavewright.planner.types import RunId

# One statement is one transaction and one way to the server and back: most appends are nothing else. The rows of
# runs that are not held any more are left out, and what is held is told. Nothing is written whose turn is taken.
_APPEND: Final = """
    WITH turn AS (
        UPDATE opening SET turn = $2, beat = beat + 1, beat_at = clock_seconds() WHERE no = $1 AND turn < $2
        RETURNING clock_seconds() AS now
    ), held AS (
        SELECT run.no FROM turn, run JOIN unnest($3::bigint[], $4::bigint[]) AS mine (no, fence)
        ON run.no = mine.no AND run.fence = mine.fence FOR SHARE OF run
    ), written AS (
        INSERT INTO event (run, seq, at, kind, step, status, key, crc, body)
        SELECT new.run, new.seq, new.at, new.kind, new.step, new.status, new.key, new.crc, new.body
        FROM unnest($5::bigint[], $6::bigint[], $7::double precision[], $8::text[], $9::text[], $10::text[],
                    $11::text[], $12::bigint[], $13::text[])
             WITH ORDINALITY AS new (run, seq, at, kind, step, status, key, crc, body, place)
        WHERE new.run IN (SELECT no FROM held) ORDER BY new.place
    ){more}
    SELECT (SELECT now FROM turn), (SELECT coalesce(array_agg(no), '{{}}') FROM held)"""
_OPEN: Final = """
    opened AS (
        UPDATE run SET job = coalesce(new.job, run.job), created = coalesce(new.created, run.created),
                       status = NULL, finished = NULL, steps = NULL
        FROM unnest($14::bigint[], $15::text[], $16::double precision[]) AS new (no, job, created)
        WHERE run.no = new.no AND run.no IN (SELECT no FROM held)
    )"""
_COMMITTED_RUNS: Final = """
    SELECT mine.no FROM unnest($1::bigint[], $2::bigint[]) AS mine (no, seq)
    WHERE mine.seq < 0 OR EXISTS (SELECT FROM event WHERE event.run = mine.no AND event.seq = mine.seq)"""
# Counts what the append has written, so it is a statement of its own.
_FINISH: Final = """
    UPDATE run SET status = $2, finished = $3, steps = counted.steps, ok = counted.ok, failed = counted.failed
    FROM count_steps($1) AS counted WHERE no = $1"""


async def _put_outbox_rows(
    transaction: PostgresStoreTransaction, run: RunId, rows: OutboxRows, written: Sequence[RunId]
) -> None:
    try:
        await put_outbox_rows(transaction, rows, written)
    except JournalError as error:
        raise OutboxRowsRefused(run, error) from error


class OutboxRowsRefused(WavewrightError):
    """What goes beside one run's events cannot be written, so that those are not, either."""

    def __init__(self, run: RunId, error: JournalError) -> None:
        super().__init__(str(error))
        self.run = run
        self.error = error


@dataclass(frozen=True, slots=True)
class AppendTransaction:
    """The entries of some runs, all held here."""

    leases: Mapping[RunId, HeldLease]
    rows: Sequence[Sequence[object]]
    """Of the events."""
    started_runs: Sequence[Sequence[object]]
    """Runs that begin or go on after their end: their numbers, and jobs and times of beginning where these are new."""
    messages: Sequence[tuple[int, OutgoingRow]]
    """What must go out, each with the number of its run."""
    next_seq: Mapping[RunId, int]
    """Afterwards, by run."""
    is_finished: Mapping[RunId, bool]
    """Afterwards, by run."""
    ends: Mapping[RunId, RunFinished]
    """Of runs that end with it."""
    outbox_rows: Sequence[tuple[RunId, OutboxRows]]
    """What goes beside the events of those runs, where it is more than messages."""
    begin: Callable[[Connection, float], PostgresStoreTransaction]
    """Returns the job store's side of the transaction, given when it began."""
    works: Sequence[QueuedTransaction]
    """What others want done in the same transaction."""
    attempts: list[tuple[PostgresStoreTransaction, Sequence[object]]] = field(
        default_factory=list[tuple[PostgresStoreTransaction, Sequence[object]]]
    )
    """The job store's side of each attempt with the results of the works; only the last can be committed."""

    @classmethod
    def from_entries(
        cls,
        entries: Sequence[AppendEntry],
        holds: Mapping[RunId, HeldLease],
        begin: Callable[[Connection, float], PostgresStoreTransaction],
        works: Sequence[QueuedTransaction],
    ) -> Self:
        """Return the append of these entries, with what others want done beside it."""
        next_seq = {run: hold.seq for run, hold in holds.items()}
        is_finished = {run: hold.is_finished for run, hold in holds.items()}
        rows = list[Sequence[object]]()
        opened = dict[RunId, Sequence[object]]()
        ends = dict[RunId, RunFinished]()
        messages = list[tuple[int, OutgoingRow]]()
        for entry in entries:
            run, no = entry.run, holds[entry.run].no
            for seq, (at, kind, step, status, key, crc, body) in enumerate(entry.rows, next_seq[run]):
                rows.append((no, seq, at, kind, storable_text(step), status, storable_text(key), crc, body))
            next_seq[run] += len(entry.rows)
            if is_finished[run] and not entry.is_run_end:
                is_finished[run] = False
                opened.setdefault(run, (no, None, None))
                ends.pop(run, None)
            for mark in entry.run_events:
                if isinstance(mark, RunStarted):
                    opened[run] = (no, storable_text(mark.job), mark.at)
                else:
                    is_finished[run] = True
                    ends[run] = mark
            if entry.outbox_rows is not None:
                messages += [(no, message) for message in entry.outbox_rows.messages]
        besides = [(entry.run, entry.outbox_rows) for entry in entries if entry.outbox_rows is not None]
        return cls(
            holds,
            rows,
            [*opened.values()],
            messages,
            next_seq,
            is_finished,
            ends,
            [one for one in besides if one[1].decisions or one[1].taken or one[1].change],
            begin,
            works,
        )

    async def execute(self, connection: Connection, opening: int, turn: int) -> set[int]:
        """Write all of it in one transaction and return the numbers of the runs that are held still.

        Raises:
            OutboxRowsRefused: nothing was written.
        """
        if not (self.ends or self.outbox_rows or self.works):
            held, _ = await self._insert(connection, opening, turn, self.messages)
            return held
        async with PostgresTransaction(connection):
            held, now = await self._insert(connection, opening, turn, ())
            for run, end in self.ends.items():
                if (no := self.leases[run].no) in held:
                    await connection.execute(_FINISH, no, end.status, end.at)
            transaction = self.begin(connection, now)
            results = dict[int, object]()
            for _, work in sorted(self._works(held, transaction, results), key=itemgetter(0)):
                await work()
            self.attempts.append((transaction, [results[number] for number in range(len(self.works))]))
        return held

    def _works(
        self, held: set[int], transaction: PostgresStoreTransaction, results: dict[int, object]
    ) -> Iterator[tuple[LockOrder, Callable[[], Awaitable[None]]]]:
        """Return what is done once the events are written, with its lock order."""
        if decisions := [decision for _, rows in self.outbox_rows for decision in rows.decisions]:
            yield job_lock_order(None), partial(JobTables(transaction).lock_decisions, decisions)
        written = [run for run, lease in self.leases.items() if lease.no in held]
        for run, rows in self.outbox_rows:
            if run in written:
                job = None if rows.change is None else rows.change.job
                yield job_lock_order(job), partial(_put_outbox_rows, transaction, run, rows, written)
        if messages := [message for no, message in self.messages if no in held]:
            yield ANY_ORDER, partial(transaction.put_messages, messages)

        async def work(number: int) -> None:
            results[number] = await self.works[number].work(transaction)

        for number, queued in enumerate(self.works):
            yield queued.lock_order, partial(work, number)

    async def _insert(
        self, connection: Connection, opening: int, turn: int, messages: Sequence[tuple[int, OutgoingRow]]
    ) -> tuple[set[int], float]:
        """Return the numbers of the runs that are held still, and the time by the database's clock."""
        numbers = [hold.no for hold in self.leases.values()]
        fences = [hold.fence for hold in self.leases.values()]
        columns = [*_columns(self.rows, 9)]
        if self.started_runs:
            columns += _columns(self.started_runs, 3)
        if messages:
            columns += message_columns(messages)
        query = _append_statement(opens=bool(self.started_runs), tells=bool(messages))
        row = await connection.fetchrow(query, opening, turn, numbers, fences, *columns)
        assert row is not None
        now, held = row
        if now is None:
            raise AlreadyCommitted
        return set(held), now

    async def find_committed(self, connection: Connection) -> set[int]:
        """Return the numbers of the runs whose events are there, once it is known that all of it was committed."""
        numbers = [hold.no for hold in self.leases.values()]
        rows = await connection.fetch(_COMMITTED_RUNS, numbers, [seq - 1 for seq in self.next_seq.values()])
        return {no for (no,) in rows}

    def mark_committed(self) -> None:
        """Take note, in the holds, that it is written."""
        for run, hold in self.leases.items():
            hold.seq, hold.is_finished = self.next_seq[run], self.is_finished[run]


@cache
def _append_statement(*, opens: bool, tells: bool) -> str:
    """Return the statement of an append that opens runs or puts messages; what is not needed is not planned."""
    parts = [_OPEN] if opens else []
    if tells:
        parts.append(put_messages(17 if opens else 14, where="run IN (SELECT no FROM held)"))
    return _APPEND.format(more="".join(f",{part}" for part in parts))


def _columns(rows: Sequence[Sequence[object]], count: int) -> list[list[object]]:
    return [[row[column] for row in rows] for column in range(count)]
