"""All that is said to the journal's database, one call at a time.

The *store* is plain and synchronous: one thread at a time uses it. Every write names the *fence* under which this
owner holds the run and is refused, in the same transaction, once another owner has a higher one. A transaction is
written whole or not at all, and what one run cannot write costs no other run anything.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from wavewright.executor.events import RunStarted
from wavewright.executor.journal_errors import JournalError, RunBusy, RunLost
from wavewright.executor.journal_faults import explain_use, is_locked
from wavewright.executor.journal_file import open_journal_file, wait_for_lock
from wavewright.executor.journal_reader import COUNTS, JournalReader, read_hold
from wavewright.executor.journal_rows import Entry
from wavewright.executor.lease import LEASE_SECONDS, Hold, Owner, judge_hold, this_owner
from wavewright.planner.types import RunId

_LONG_LOG: Final = 4 * 2**20
"""Bytes of the write-ahead log after which it is copied into the file."""
_COMMIT_BYTES: Final = 3 * 4096
"""What a commit adds to the log beside the events' texts: the last page of the table, of its index, and a run's."""

_INSERT: Final = """
    INSERT INTO event (run, seq, at, kind, step, status, key, crc, body) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
_OWNED: Final = (
    "SELECT no, fence, owner, host, pid, born, realm, since, beat, beat_at, lease FROM run WHERE run = ?"
)


class MustWait(Exception):
    """Another connection has the lock, and the caller did not want to wait."""


@dataclass(frozen=True, slots=True)
class Watch:
    """The run's owner may be dead: it is, if its beat does not move while the hold is watched."""

    hold: Hold


@dataclass(slots=True)
class _Held:
    no: int
    fence: int
    seq: int
    """Of the next event."""
    is_finished: bool


class JournalStore:
    """The journal's database, open."""

    def __init__(
        self,
        path: Path | str,
        *,
        owner: Owner | None = None,
        clock: Callable[[], float] = time.time,
        lease: float = LEASE_SECONDS,
        patience: float = 10.0,
    ) -> None:
        """Open the file, and create it where there is none.

        Args:
            path: The file.
            owner: Who opens it; this process where not given.
            clock: Seconds since the epoch.
            lease: Seconds for which an owner on another machine is believed without a beat.
            patience: Seconds to wait for another program's lock.

        Raises:
            JournalError: with the place and the mend.
        """
        self.path = Path(path)
        self.lease = lease
        self.last_write = 0.0
        """Seconds that the last transaction took."""
        self.faults = dict[RunId, JournalError]()
        """Runs to which nothing more is written here, and why, until they are opened again."""
        self._owner = owner or this_owner()
        self._clock = clock
        self._patience = patience
        self._held = dict[RunId, _Held]()
        self._log = self.path.with_name(self.path.name + "-wal")
        self._has_room = False
        self._logged = 0
        """Bytes of the write-ahead log since it was last copied, near enough."""
        self._connection = open_journal_file(self.path, patience=patience)
        self.reader = JournalReader(self.path, self._connection, clock=clock, realm=self._owner.realm)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Give up all runs and close the file; closing again does nothing."""
        try:
            for run in list(self._held):
                self.release(run)
        except JournalError:
            # The process ends; whoever comes next finds it gone.
            pass
        finally:
            self._connection.close()

    # Owning runs

    def holds(self, run: RunId) -> bool:
        """Return whether this store is the run's owner."""
        return run in self._held

    def claim(self, run: RunId, *, unmoved: int | None = None) -> Watch | None:
        """Become the run's owner; or return how long to watch its present one first.

        Args:
            run: The run, new or known.
            unmoved: The beat of a watch that is over.

        Raises:
            RunBusy: its owner lives.
        """
        if run in self._held:
            if run not in self.faults:
                raise RunBusy(
                    f"run {run} is open already in this process",
                    place=str(self.path),
                    mend="wait for it to end",
                )
            del self._held[run]
        self.faults.pop(run, None)
        self._make_room()
        try:
            self._begin(patience=self._patience)
            try:
                held = self._take(run, unmoved)
                self._connection.execute("COMMIT")
            finally:
                self._rollback()
        except sqlite3.Error as error:
            raise explain_use(error, self.path, self._connection, run) from error
        if isinstance(held, Watch):
            return held
        self._held[run] = held
        return None

    def _make_room(self) -> None:
        """Let the write-ahead log grow to its full length before it is needed.

        A commit within the file's length takes about half as long as one that makes the file grow. What is written
        here is rolled back, and no more than room for commits.
        """
        if self._has_room:
            return
        self._has_room = True
        with suppress(sqlite3.Error, OSError):
            if self._log.exists() and self._log.stat().st_size >= _LONG_LOG:
                return
            (pages,) = self._connection.execute("PRAGMA cache_size").fetchone()
            self._begin(patience=0)
            try:
                # With a small cache the pages are written before their fate is known.
                self._connection.execute("PRAGMA cache_size = -64")
                self._connection.execute("INSERT INTO result VALUES (zeroblob(?), 0)", (_LONG_LOG,))
            finally:
                self._rollback()
                self._connection.execute(f"PRAGMA cache_size = {int(pages)}")

    def _take(self, run: RunId, unmoved: int | None) -> _Held | Watch:
        """Write this owner into the run's row, within a transaction."""
        now = self._clock()
        row = self._connection.execute(_OWNED, (run,)).fetchone()
        if row is None:
            self._connection.execute("INSERT INTO run (run, created) VALUES (?, ?)", (run, now))
            row = self._connection.execute(_OWNED, (run,)).fetchone()
        no, fence, hold = row[0], row[1], read_hold(row[2:])
        # Its own hold is left over from a fault.
        if hold is not None and hold.owner.token != self._owner.token:
            match judge_hold(hold, now=now, realm=self._owner.realm):
                case "busy":
                    raise self.busy(run, hold)
                case "watch" if hold.beat != unmoved:
                    return Watch(hold)
                case _:
                    pass
        owner = self._owner
        self._connection.execute(
            """UPDATE run SET fence = ?, owner = ?, host = ?, pid = ?, born = ?, realm = ?,
               since = ?, beat = beat + 1, beat_at = ?, lease = ? WHERE no = ?""",
            (
                fence + 1,
                owner.token,
                owner.host,
                owner.pid,
                owner.born,
                owner.realm,
                now,
                now,
                self.lease,
                no,
            ),
        )
        (seq,) = self._connection.execute(
            "SELECT coalesce(max(seq) + 1, 0) FROM event WHERE run = ?", (no,)
        ).fetchone()
        (status,) = self._connection.execute("SELECT status FROM run WHERE no = ?", (no,)).fetchone()
        return _Held(no, fence + 1, seq, status is not None)

    def busy(self, run: RunId, hold: Hold) -> RunBusy:
        """Return the error that names the run's owner."""
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(hold.since))
        mend = f"wait for it to end, or stop it (pid {hold.owner.pid} on {hold.owner.host}) and resume"
        if hold.owner.realm != self._owner.realm:
            mend += f"; if it died, the run is free {hold.lease:.0f} s after its last sign of life"
        return RunBusy(
            f"run {run} is open in another process: {hold.owner}, since {since}",
            place=str(self.path),
            mend=mend,
        )

    def release(self, run: RunId) -> None:
        """Give the run up; nothing where it is not held."""
        held = self._held.pop(run, None)
        self.faults.pop(run, None)
        if held is None:
            return
        try:
            self._begin(patience=self._patience)
            try:
                self._connection.execute(
                    "UPDATE run SET owner = NULL WHERE no = ? AND fence = ?", (held.no, held.fence)
                )
                self._connection.execute("COMMIT")
            finally:
                self._rollback()
        except sqlite3.Error as error:
            raise explain_use(error, self.path, self._connection, run) from error

    def beat(self) -> None:
        """Show that the owner of the held runs lives. A beat that is not written is made up for by the next."""
        if not self._held:
            return
        try:
            self._begin(patience=0)
            try:
                self._connection.execute(
                    "UPDATE run SET beat = beat + 1, beat_at = ? WHERE owner = ?",
                    (self._clock(), self._owner.token),
                )
                self._connection.execute("COMMIT")
            finally:
                self._rollback()
        except sqlite3.Error:
            # A full disk or a lock will be told to whoever appends; readers judge by the process first.
            return

    # Writing

    def write(self, entries: Sequence[Entry], *, may_wait: bool = True) -> dict[RunId, JournalError]:
        """Write the entries in one transaction and return, run by run, what could not be written and why.

        Nothing more is written to a run that is returned, until it is claimed again.

        Raises:
            MustWait: `may_wait` is false and another connection has the lock; nothing was written.
        """
        good = [entry for entry in entries if entry.run not in self.faults]
        started = time.perf_counter()
        try:
            if good:
                self._write_at_once(good, patience=self._patience if may_wait else 0)
        except sqlite3.Error as error:
            if not may_wait and self._is_refused(error):
                raise MustWait from error
            self._write_apart(good, error)
        except JournalError as error:
            self._write_apart(good, error)
        self.last_write = time.perf_counter() - started
        return {entry.run: self.faults[entry.run] for entry in entries if entry.run in self.faults}

    def _write_apart(self, entries: Sequence[Entry], error: sqlite3.Error | JournalError) -> None:
        """Write each run's entries by themselves after they failed together; note the fault of a lone run."""
        runs = dict.fromkeys(entry.run for entry in entries)
        if len(runs) > 1:
            for run in runs:
                self.write([entry for entry in entries if entry.run == run])
            return
        (run,) = runs
        fault = (
            error if isinstance(error, JournalError) else explain_use(error, self.path, self._connection, run)
        )
        self.faults[run] = fault

    @staticmethod
    def _is_refused(error: sqlite3.Error) -> bool:
        return isinstance(error, sqlite3.OperationalError) and is_locked(error)

    def _write_at_once(self, entries: Sequence[Entry], *, patience: float) -> None:
        connection = self._connection
        self._begin(patience=patience)
        try:
            held = self._fenced({entry.run for entry in entries})
            seqs = {run: hold.seq for run, hold in held.items()}
            values = list[tuple[object, ...]]()
            for entry in entries:
                no, seq = held[entry.run].no, seqs[entry.run]
                for row in entry.rows:
                    values.append((no, seq, *row))
                    seq += 1
                seqs[entry.run] = seq
            connection.executemany(_INSERT, values)
            ended = {run: hold.is_finished for run, hold in held.items()}
            for entry in entries:
                ended[entry.run] = self._mark(entry, held[entry.run].no, is_finished=ended[entry.run])
            connection.execute("COMMIT")
        finally:
            self._rollback()
        self._logged += _COMMIT_BYTES + sum(len(row.body) for entry in entries for row in entry.rows)
        for run, hold in held.items():
            hold.seq, hold.is_finished = seqs[run], ended[run]
            self._held[run] = hold

    def _fenced(self, runs: set[RunId]) -> dict[RunId, _Held]:
        """Return how the runs are held, within a transaction; claims those not yet opened.

        Raises:
            RunLost: another owner came.
            RunBusy: the run was never opened here and is another's.
        """
        found = dict[RunId, _Held]()
        for run in runs:
            held = self._held.get(run)
            if held is None:
                taken = self._take(run, None)
                if isinstance(taken, Watch):
                    raise self.busy(run, taken.hold)
                found[run] = taken
                continue
            fence, host, pid = self._connection.execute(
                "SELECT fence, host, pid FROM run WHERE no = ?", (held.no,)
            ).fetchone()
            if fence != held.fence:
                raise RunLost(
                    f"run {run} was taken over by pid {pid} on {host}; nothing more is written from here",
                    place=str(self.path),
                    mend=f"follow it there, or `wavewright show {run}`",
                )
            found[run] = held
        return found

    def _mark(self, entry: Entry, no: int, *, is_finished: bool) -> bool:
        """Bring the run's row up to date and return whether the run has ended."""
        if is_finished and not entry.is_end:
            self._connection.execute(
                "UPDATE run SET status = NULL, finished = NULL, steps = NULL WHERE no = ?", (no,)
            )
            is_finished = False
        for mark in entry.marks:
            if isinstance(mark, RunStarted):
                self._connection.execute(
                    "UPDATE run SET job = ?, created = ? WHERE no = ?", (mark.job, mark.at, no)
                )
            else:
                counts = self._connection.execute(COUNTS, (no,)).fetchone()
                self._connection.execute(
                    "UPDATE run SET status = ?, finished = ?, steps = ?, ok = ?, failed = ? WHERE no = ?",
                    (mark.status, mark.at, *counts, no),
                )
                is_finished = True
        return is_finished

    def has_long_log(self) -> bool:
        """Return whether the write-ahead log should be copied into the file."""
        return self._logged > _LONG_LOG

    def copy_log(self) -> None:
        """Copy the write-ahead log into the file, after which it is written from its start again."""
        self._logged = 0
        with suppress(sqlite3.Error):
            # Nothing is lost: the log is read as part of the journal, and the next copy may succeed.
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()

    def _begin(self, *, patience: float) -> None:
        if patience:
            wait_for_lock(patience, lambda: self._connection.execute("BEGIN IMMEDIATE"))
        else:
            self._connection.execute("BEGIN IMMEDIATE")

    def _rollback(self) -> None:
        """Undo what was not committed; SQLite may have done so already."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
