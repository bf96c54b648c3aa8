"""Read runs and their events back from the journal's database.

The *reader* never changes an event and needs no ownership, so it reads a run while another process writes it. Each
event carries a checksum and its place in the run: a text that was altered or is missing is told, never given out.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from wavewright.executor.events.codec import to_json
from wavewright.executor.events.types import Event
from wavewright.executor.sqlite.database import SqliteTransaction, open_journal_file
from wavewright.executor.sqlite.errors import explain_use
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.journal import (
    RunRow,
    RunStatus,
    StoredOutput,
    match_run,
    reusable_output,
    run_status,
)
from wavewright.executor.store.leases import (
    Lease,
    current_pid_namespace,
    event_damaged_error,
    judge_lease,
    read_event,
    read_lease,
)
from wavewright.planner.types import RunId, StepKey

STEP_COUNTS: Final = """
    SELECT count(*), coalesce(sum(status IN ('ok', 'empty', 'reused')), 0), coalesce(sum(status = 'failed'), 0)
    FROM (SELECT status, max(seq) FROM event WHERE run = ? AND kind = 'step_finished' GROUP BY step)"""
"""Of one run: steps by their last ending; all, good and failed."""
_TAIL: Final = 1000
"""Events that `find_output` looks through without an index before it brings the index up to date."""


class JournalReader:
    """Runs and events of an open journal."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        *,
        clock: Callable[[], float] = time.time,
        pid_namespace: str | None = None,
    ) -> None:
        """Read through this connection; see `open` for a path.

        Args:
            path: The file, for messages.
            connection: To the open journal.
            clock: Seconds since the epoch.
            pid_namespace: Where pids can be looked at; this one where not given.
        """
        self.path = path
        self._connection = connection
        self._clock = clock
        self._pid_namespace = current_pid_namespace() if pid_namespace is None else pid_namespace

    @classmethod
    def open(cls, path: Path | str, *, patience: float = 10.0) -> Self:
        """Open a journal to read it, be it on a read-only disk or in use by others.

        Raises:
            JournalError: with the place and the fix.
        """
        path = Path(path)
        return cls(path, open_journal_file(path, patience=patience, is_read_only=True))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; closing again does nothing."""
        self._connection.close()

    def load(self, run: RunId) -> list[Event]:
        """Return the run's events in order; none for a run that does not exist.

        Raises:
            JournalDamaged: one is not what was written, names it; `salvage` returns those before it.
        """
        events, fault = self.salvage(run)
        if fault is not None:
            raise fault
        return events

    def salvage(self, run: RunId) -> tuple[list[Event], JournalError | None]:
        """Return the run's events up to the first that cannot be read, and what is wrong with that one."""
        events = list[Event]()
        try:
            for event in self._events(run):
                events.append(event)
        except JournalError as fault:
            return events, fault
        except sqlite3.Error as error:
            return events, explain_use(error, self.path, self._connection, run)
        return events, None

    def _events(self, run: RunId) -> Iterator[Event]:
        # Bytes, since a damaged text need not be UTF-8.
        rows = self._connection.execute(
            """SELECT event.seq, event.kind, event.crc, CAST(event.body AS BLOB)
               FROM event JOIN run ON run.no = event.run WHERE run.run = ? ORDER BY event.seq""",
            (run,),
        )
        for expected, (seq, kind, crc, body) in enumerate(rows):
            if seq != expected:
                raise event_damaged_error(run, expected, "it is missing", place=str(self.path))
            yield self._decoded(run, seq, kind, crc, body)

    def _decoded(self, run: RunId, seq: int, kind: str, crc: int, body: bytes | None) -> Event:
        return read_event(run, seq, kind, crc, body, place=str(self.path))

    def export(self, run: RunId) -> Iterator[str]:
        """Give the run as JSON Lines, an event a line, with its `seq` and `kind` first.

        Raises:
            JournalDamaged: after the lines that can be read.
        """
        events, fault = self.salvage(run)
        for seq, event in enumerate(events):
            yield json.dumps({"seq": seq, **to_json(event)}, ensure_ascii=True)
        if fault is not None:
            raise fault

    def find_output(self, key: StepKey) -> StoredOutput | None:
        """Return the newest whole and unblocked output that any run journaled under the key."""
        try:
            (last,) = self._connection.execute("SELECT coalesce(max(id), 0) FROM event").fetchone()
            (upto,) = self._connection.execute("SELECT upto FROM indexed").fetchone()
            if last - upto > _TAIL:
                upto = self._index(last)
            (newest,) = self._connection.execute(
                """SELECT max(coalesce((SELECT max(id) FROM event WHERE id > ? AND key = ?), 0),
                              coalesce((SELECT max(event) FROM result WHERE key = ?), 0))""",
                (upto, key, key),
            ).fetchone()
            row = self._connection.execute(
                """SELECT run.run, event.seq, event.kind, event.crc, CAST(event.body AS BLOB)
                   FROM event JOIN run ON run.no = event.run WHERE event.id = ?""",
                (newest,),
            ).fetchone()
        except sqlite3.Error as error:
            raise explain_use(error, self.path, self._connection) from error
        return None if row is None else reusable_output(row[0], self._decoded(*row))

    def _index(self, last: int) -> int:
        """Bring the index up to that event; return where it stands."""
        try:
            with SqliteTransaction(self._connection, patience=0):
                self._connection.execute(
                    """INSERT OR IGNORE INTO result SELECT key, id FROM event
                       WHERE id > (SELECT upto FROM indexed) AND id <= ? AND key IS NOT NULL ORDER BY key""",
                    (last,),
                )
                self._connection.execute("UPDATE indexed SET upto = max(upto, ?)", (last,))
        except sqlite3.OperationalError:
            # Locked, full or read-only: the search is slower and finds the same.
            pass
        (upto,) = self._connection.execute("SELECT upto FROM indexed").fetchone()
        return int(upto)

    def list_runs(self) -> list[RunRow]:
        """Return all runs, the newest first."""
        try:
            rows = self._connection.execute(
                """SELECT owner, host, pid, process_start, pid_namespace, since, heartbeat, heartbeat_at, lease,
                          no, run, job, created, finished, status, steps, ok, failed
                   FROM run ORDER BY created DESC, run DESC"""
            ).fetchall()
            tokens = self._tokens_by_run()
            return [
                self._summary(read_lease(row[:9]), *row[9:15], counts=row[15:], tokens=tokens.get(row[10], 0))
                for row in rows
            ]
        except sqlite3.Error as error:
            raise explain_use(error, self.path, self._connection) from error

    def _tokens_by_run(self) -> dict[str, int]:
        """Return the tokens that the budget store counts for each run."""
        sums = "SELECT name, tokens FROM budget_total WHERE counter = 'run' AND step = ''"
        return dict(self._connection.execute(sums).fetchall())

    def _summary(
        self,
        hold: Lease | None,
        no: int,
        run: RunId,
        job: str,
        created: float,
        finished: float | None,
        status: RunStatus | None,
        *,
        counts: tuple[int | None, int, int],
        tokens: int,
    ) -> RunRow:
        steps, ok, failed = counts
        if steps is None:
            steps, ok, failed = self._connection.execute(STEP_COUNTS, (no,)).fetchone()
        is_owned = (
            hold is not None
            and judge_lease(hold, now=self._clock(), pid_namespace=self._pid_namespace) == "busy"
        )
        return RunRow(
            run=run,
            job=job,
            status=run_status(status, is_owned=is_owned),
            started=created,
            finished=finished,
            steps=steps,
            ok=ok,
            failed=failed,
            owner=str(hold.owner) if hold is not None and is_owned else None,
            tokens=tokens,
        )

    def find_run(self, prefix: str) -> RunId:
        """Return the run whose id, or whose tail after the last `-`, starts so.

        Raises:
            RunNotFound: none does, or several do.
        """
        try:
            runs = [RunId(run) for (run,) in self._connection.execute("SELECT run FROM run")]
        except sqlite3.Error as error:
            raise explain_use(error, self.path, self._connection) from error
        return match_run(prefix, runs, place=str(self.path))
