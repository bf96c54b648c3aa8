"""What goes into the job store beside a run's events, in their transaction.

The journal's store calls this after it has checked the fence of the run whose events it writes; a job whose root run
is another one is changed only where that one is held here, too.

The rows of one commit, and how they get into the database exactly once.

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
from wavewright.executor.postgres.driver import Connection, PostgresTransaction, storable_text
from wavewright.executor.postgres.job_tables import PostgresJobTables
from wavewright.executor.postgres.outbox import PostgresOutboxTables, message_columns, put_messages
from wavewright.executor.postgres.session import AlreadyCommitted, TransactionWork
from wavewright.executor.postgres.writer import ANY_ORDER, LockOrder, QueuedTransaction, job_lock_order
from wavewright.executor.store.commands import AppendEntry
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.job_records import JobChange, JobId, JobRow
from wavewright.executor.store.job_rows import OutboxRows, OutgoingRow
from wavewright.executor.store.job_rules import change_job, resume_job
from wavewright.executor.store.leases import HeldLease
from wavewright.planner.types import RunId


async def put_outbox_rows(
    tables: PostgresJobTables, beside: OutboxRows, now: float, check: Callable[[RunId], Awaitable[None]]
) -> RunId | None:
    """Write what goes beside events, but for messages; return the run of a job that nobody works on any more.

    Args:
        tables: The job store's, in the transaction of the events, with the decisions locked that are asked.
        beside: What to write.
        now: Seconds since the epoch, by the database's clock.
        check: Raises where a run is not held here.

    Raises:
        RunLost: the job that is changed is not held here.
        JournalError: there is no such job, it has ended otherwise, or an answer is not there to be taken.
    """
    job = None if beside.change is None else await require_job(tables, beside.change.job)
    await tables.ask(beside.decisions)
    for decision in beside.taken:
        if not await tables.take(decision, now):
            raise JournalError(
                f"the answer to decision {decision} cannot be taken: it was taken before, has expired or was not given",
                hint="resume the run; it asks again",
            )
    if beside.change is None or job is None:
        return None
    await check(job.run)
    await tables.save_job(await changed_job(tables, job, beside.change, now))
    return None if beside.change.state == "running" else job.run


async def changed_job(tables: PostgresJobTables, job: JobRow, change: JobChange, now: float) -> JobRow:
    """Return a job as its owner says that it stands; one that waits for an answer which is there goes on.

    Raises:
        JournalError: it has ended, and not so.
    """
    job = change_job(job, change, now)
    is_answered = job.state == "parked" and await tables.has_untaken_answer(job.job, now)
    return resume_job(job, now) if is_answered else job


async def require_job(tables: PostgresJobTables, job: JobId) -> JobRow:
    """Return a job that must be there, its row locked.

    Raises:
        JournalError: it is not.
    """
    found = await tables.find_job(job, locked=True)
    if found is None:
        raise JournalError(f"there is no job {job}", hint="a job is made by the message that asks for it")
    return found


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
# Whoever may give it up was checked to hold it.
_GIVE_UP: Final = "UPDATE run SET owner = NULL WHERE run = $1"
# Counts what the append has written, so it is a statement of its own.
_FINISH: Final = """
    UPDATE run SET status = $2, finished = $3, steps = counted.steps, ok = counted.ok, failed = counted.failed
    FROM count_steps($1) AS counted WHERE no = $1"""


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
    check: Callable[[Connection, RunId], Awaitable[None]]
    """Raises, in a transaction, where a run is not held here."""
    transactions: Sequence[QueuedTransaction] = ()
    """What others want done in the same transaction."""
    released: list[RunId] = field(default_factory=list[RunId])
    """Runs of jobs that nobody works on any more, once it is written."""
    results: dict[int, object] = field(default_factory=dict[int, object])
    """What the wishes brought, by their places among them, once it is written."""

    @classmethod
    def from_entries(
        cls,
        entries: Sequence[AppendEntry],
        holds: Mapping[RunId, HeldLease],
        check: Callable[[Connection, RunId], Awaitable[None]],
        wishes: Sequence[QueuedTransaction] = (),
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
            check,
            wishes,
        )

    async def execute(self, connection: Connection, opening: int, turn: int) -> set[int]:
        """Write all of it in one transaction and return the numbers of the runs that are held still.

        Raises:
            BesideRefused: nothing was written.
        """
        if not (self.ends or self.outbox_rows or self.transactions):
            held, _ = await self._insert(connection, opening, turn, self.messages)
            return held
        async with PostgresTransaction(connection):
            held, now = await self._insert(connection, opening, turn, ())
            for run, end in self.ends.items():
                if (no := self.leases[run].no) in held:
                    await connection.execute(_FINISH, no, end.status, end.at)
            # Whichever attempt comes as far as here gives up and answers the same.
            self.released.clear()
            for _, work in sorted(self._works(held), key=itemgetter(0)):
                await work(connection, now)
        return held

    def _works(self, held: set[int]) -> Iterator[tuple[LockOrder, TransactionWork[None]]]:
        """Return what is done once the events are written, with its place."""
        if decisions := [decision for _, beside in self.outbox_rows for decision in beside.decisions]:
            yield (
                job_lock_order(None),
                lambda connection, _: PostgresJobTables(connection).lock_decisions(decisions),
            )
        for run, beside in self.outbox_rows:
            if self.leases[run].no in held:
                job = None if beside.change is None else beside.change.job
                yield job_lock_order(job), partial(self._put_outbox_rows, held, run, beside)
        if messages := [message for no, message in self.messages if no in held]:
            yield ANY_ORDER, lambda connection, _: PostgresOutboxTables(connection).put(messages)
        for number, wish in enumerate(self.transactions):
            yield wish.lock_order, partial(self._execute_queued, number, wish)

    async def _put_outbox_rows(
        self, held: set[int], run: RunId, beside: OutboxRows, connection: Connection, now: float
    ) -> None:
        """Write what goes beside the events of a run, but for messages."""

        async def check(of_job: RunId) -> None:
            # A run whose events are written was checked with them.
            if of_job not in self.leases or self.leases[of_job].no not in held:
                await self.check(connection, of_job)

        try:
            given_up = await put_outbox_rows(PostgresJobTables(connection), beside, now, check)
        except JournalError as error:
            raise OutboxRowsRefused(run, error) from error
        if given_up is not None:
            await connection.execute(_GIVE_UP, given_up)
            self.released.append(given_up)

    async def _execute_queued(
        self, number: int, wish: QueuedTransaction, connection: Connection, now: float
    ) -> None:
        self.results[number] = await wish.work(connection, now)

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
