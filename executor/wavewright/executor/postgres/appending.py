"""The rows of one commit, and how they get into the database exactly once.

An *append* knows beforehand what it will leave behind, so that after a broken connection the database can be asked
whether it is there.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Self

from wavewright.executor.events import RunStarted
from wavewright.executor.job_store.texts import OutgoingRow
from wavewright.executor.journal_errors import JournalError
from wavewright.executor.journal_leases import Held
from wavewright.executor.journal_rows import Entry
from wavewright.executor.postgres.connection import Connection, transaction
from wavewright.executor.postgres.job_beside import put_beside
from wavewright.executor.postgres.job_tables import JobTables
from wavewright.executor.postgres.outbox_tables import OutboxTables
from wavewright.executor.postgres.session import TurnTaken
from wavewright.executor.postgres.texts import plain
from wavewright.planner.types import RunId

# One statement is one transaction and one way to the server and back: most appends are nothing else. The rows of
# runs that are not held any more are left out, and what is held is told. Nothing is written whose turn is taken.
_APPEND: Final = """
    WITH turn AS (
        UPDATE opening SET turn = $2, beat = beat + 1, beat_at = clock_seconds() WHERE no = $1 AND turn < $2
        RETURNING no
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
    )
    SELECT (SELECT count(*) FROM turn), (SELECT coalesce(array_agg(no), '{}') FROM held)"""
_ARE_THERE: Final = """
    SELECT mine.no FROM unnest($1::bigint[], $2::bigint[]) AS mine (no, seq)
    WHERE mine.seq < 0 OR EXISTS (SELECT FROM event WHERE event.run = mine.no AND event.seq = mine.seq)"""
_COLUMNS: Final = 9
_REOPEN: Final = "UPDATE run SET status = NULL, finished = NULL, steps = NULL WHERE no = $1"
_BEGIN: Final = "UPDATE run SET job = $2, created = $3 WHERE no = $1"
# Whoever may give it up was checked to hold it.
_GIVE_UP: Final = "UPDATE run SET owner = NULL WHERE run = $1"
_FINISH: Final = """
    UPDATE run SET status = $2, finished = $3, steps = counted.steps, ok = counted.ok, failed = counted.failed
    FROM count_steps($1) AS counted WHERE no = $1"""


class BesideRefused(Exception):
    """What goes beside one run's events cannot be written, so that those are not, either."""

    def __init__(self, run: RunId, error: JournalError) -> None:
        super().__init__(str(error))
        self.run = run
        self.error = error


@dataclass(frozen=True, slots=True)
class Append:
    """The entries of some runs, all held here."""

    holds: Mapping[RunId, Held]
    columns: Sequence[Sequence[object]]
    """Of the events' rows."""
    next_seq: Mapping[RunId, int]
    """Afterwards, by run."""
    is_finished: Mapping[RunId, bool]
    """Afterwards, by run."""
    beyond: Sequence[Entry]
    """Those that change more than the events."""
    check: Callable[[Connection, RunId], Awaitable[None]]
    """Raises, in a transaction, where a run is not held here."""
    given_up: list[RunId] = field(default_factory=list[RunId])
    """Runs of jobs that nobody works on any more, once it is written."""

    @classmethod
    def of(
        cls,
        entries: Sequence[Entry],
        holds: Mapping[RunId, Held],
        check: Callable[[Connection, RunId], Awaitable[None]],
    ) -> Self:
        """Return the append of these entries."""
        next_seq = {run: hold.seq for run, hold in holds.items()}
        is_finished = {run: hold.is_finished for run, hold in holds.items()}
        rows = list[tuple[object, ...]]()
        beyond = list[Entry]()
        for entry in entries:
            run = entry.run
            for seq, (at, kind, step, status, key, crc, body) in enumerate(entry.rows, next_seq[run]):
                rows.append((holds[run].no, seq, at, kind, plain(step), status, plain(key), crc, body))
            next_seq[run] += len(entry.rows)
            is_marked = bool(entry.marks) or (is_finished[run] and not entry.is_end)
            if is_marked:
                is_finished[run] = any(not isinstance(mark, RunStarted) for mark in entry.marks)
            if is_marked or entry.beside is not None:
                beyond.append(entry)
        columns: list[list[object]] = [[row[column] for row in rows] for column in range(_COLUMNS)]
        return cls(holds, columns, next_seq, is_finished, beyond, check)

    async def make(self, connection: Connection, opening: int, turn: int) -> set[int]:
        """Write all of it in one transaction and return the numbers of the runs that are held still.

        Raises:
            BesideRefused: nothing was written.
        """
        if not self.beyond:
            return await self._insert(connection, opening, turn)
        async with transaction(connection):
            held = await self._insert(connection, opening, turn)
            for entry in self.beyond:
                if self.holds[entry.run].no in held:
                    await _mark(connection, entry, self.holds[entry.run].no)
            # Whoever changes several jobs locks them in one order, see `wishes`.
            in_order = sorted(self.beyond, key=_job_beside)
            given_up = [await self._put_beside(connection, entry, held) for entry in in_order]
            await OutboxTables(connection).put(self._messages(held))
            # Whichever attempt comes as far as here gives up the same.
            self.given_up[:] = [run for run in given_up if run is not None]
        return held

    async def _put_beside(self, connection: Connection, entry: Entry, held: set[int]) -> RunId | None:
        """Write what goes beside the events of a run; return the run that is given up with it."""
        if entry.beside is None or self.holds[entry.run].no not in held:
            return None
        try:
            run = await put_beside(JobTables(connection), entry.beside, partial(self.check, connection))
        except JournalError as error:
            raise BesideRefused(entry.run, error) from error
        if run is not None:
            await connection.execute(_GIVE_UP, run)
        return run

    def _messages(self, held: set[int]) -> list[OutgoingRow]:
        besides = [entry.beside for entry in self.beyond if self.holds[entry.run].no in held]
        return [message for beside in besides if beside is not None for message in beside.messages]

    async def _insert(self, connection: Connection, opening: int, turn: int) -> set[int]:
        numbers = [hold.no for hold in self.holds.values()]
        fences = [hold.fence for hold in self.holds.values()]
        row = await connection.fetchrow(_APPEND, opening, turn, numbers, fences, *self.columns)
        assert row is not None
        turns, held = row
        if not turns:
            raise TurnTaken
        return set(held)

    async def find(self, connection: Connection) -> set[int]:
        """Return the numbers of the runs whose events are there, once it is known that all of it was committed."""
        numbers = [hold.no for hold in self.holds.values()]
        rows = await connection.fetch(_ARE_THERE, numbers, [seq - 1 for seq in self.next_seq.values()])
        return {no for (no,) in rows}

    def settle(self) -> None:
        """Take note, in the holds, that it is written."""
        for run, hold in self.holds.items():
            hold.seq, hold.is_finished = self.next_seq[run], self.is_finished[run]


def _job_beside(entry: Entry) -> str:
    change = None if entry.beside is None else entry.beside.change
    return "" if change is None else change.job


async def _mark(connection: Connection, entry: Entry, no: int) -> None:
    """Bring the run's row up to date."""
    if entry.rows and not entry.is_end:
        await connection.execute(_REOPEN, no)
    for mark in entry.marks:
        if isinstance(mark, RunStarted):
            await connection.execute(_BEGIN, no, plain(mark.job), mark.at)
        else:
            await connection.execute(_FINISH, no, mark.status, mark.at)
