"""Runs and their events read back from the journal's tables, in SQL that both databases share.

Reading changes no event and needs no lease, so a run is read while another process writes it. Each
event has a checksum and its place in the run: one that was altered or is missing is an error and
never returned.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from wavewright.executor.events.state import step_ids
from wavewright.executor.events.types import Event
from wavewright.executor.store.entries import goal_label, retry_label
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.journal import (
    REVIEWED_STATUSES,
    CancelRequest,
    LeftAnswer,
    RunHead,
    RunRow,
    StoredOutput,
    first_hash,
    match_run,
    reusable_output,
    run_status,
)
from wavewright.executor.store.leases import (
    event_damaged_error,
    judge_lease,
    read_event,
    read_lease,
)
from wavewright.executor.store.transaction import Row, Statements, StoreTransaction
from wavewright.planner import RunId, StepKey, as_object

_MOST_RETRIES: Final = 1_000
"""Retries of one run that are looked at; those that were begun last."""


async def load(transaction: StoreTransaction, run: RunId, after: int = 0) -> list[Event]:
    """Return the run's events in order, without the first `after`; none for a run that does not
    exist.

    Raises:
        JournalDamaged: one is not what was written, names it; `salvage` returns those before it.
    """
    # A run that is held here changes here only; a daemon loads each new one.
    if transaction.is_empty(run):
        return []
    events, fault = await salvage(transaction, run, after)
    if fault is not None:
        raise fault
    return events


async def salvage(
    transaction: StoreTransaction, run: RunId, after: int = 0
) -> tuple[list[Event], JournalError | None]:
    """Return the run's events up to the first that cannot be read, and what is wrong with that one.

    The first `after` are left out.
    """
    events, place = list[Event](), transaction.place
    # Bytes, since a damaged text need not be UTF-8.
    rows = await transaction.fetch(
        f"""SELECT event.seq, event.kind, event.crc, {transaction.body_bytes}
            FROM event JOIN run ON run.no = event.run WHERE run.run = $1 AND event.seq >= $2
            ORDER BY event.seq""",  # noqa: S608 - constants
        run,
        after,
    )
    for expected, (seq, kind, crc, body) in enumerate(rows, after):
        if seq != expected:
            return events, event_damaged_error(run, expected, "it is missing", place=place)
        try:
            events.append(read_event(run, seq, kind, crc, body, place=place))
        except JournalError as fault:
            return events, fault
    return events, None


async def head(transaction: StoreTransaction, run: RunId) -> RunHead:
    """Return the head of a run's hash chain; that of no event for a run that has none."""
    row = await transaction.fetch_one(
        """SELECT run_head.events, run_head.hash FROM run_head JOIN run ON run.no = run_head.run
           WHERE run.run = $1""",
        run,
    )
    return (
        RunHead(0, first_hash(run).hex()) if row is None else RunHead(row[0], bytes(row[1]).hex())
    )


async def find_output(transaction: StoreTransaction, key: StepKey) -> StoredOutput | None:
    """Return the newest whole and unblocked output that any run journaled under the key."""
    row = await transaction.newest_event(key)
    if row is None:
        return None
    run, seq, kind, crc, body = row
    return reusable_output(run, read_event(run, seq, kind, crc, body, place=transaction.place))


async def list_runs(transaction: StoreTransaction) -> list[RunRow]:
    """Return all runs, the newest first."""
    runs = await _run_rows(transaction, "")
    return sorted(runs, key=lambda run: (run.started, run.run), reverse=True)


async def list_achieved(
    transaction: StoreTransaction, *, job: str, origin: str, before: RunId | None, limit: int
) -> list[RunRow]:
    """Return the achieved runs with the label of a job that were begun last, before a run if named."""
    return await list_newest_runs(
        transaction,
        status="achieved",
        labels=[goal_label(job, origin)],
        before=before,
        limit=limit,
    )


async def list_retries(transaction: StoreTransaction, *, origin: RunId) -> list[RunRow]:
    """Return the runs that retry a run, directly or through others, the newest first."""
    labels = [retry_label(origin)]
    return await list_newest_runs(transaction, labels=labels, limit=_MOST_RETRIES)


async def list_newest_runs(
    transaction: StoreTransaction,
    *,
    text: str = "",
    status: str = "",
    labels: Sequence[tuple[str, str]] = (),
    before: RunId | None = None,
    limit: int,
) -> list[RunRow]:
    """Return the runs begun last, of jobs whose name contains a text in any case.

    Args:
        transaction: The reading transaction.
        text: Part of the job's name, or of the run's id.
        status: Only runs that ended so; `interrupted` means all that have not ended, since the
            others of their states depend on leases and open questions.
        labels: Only runs that have all of these, each a kind (`template`, `tag`, `gate`, `model`)
            and a value.
        before: Only runs that were begun before this one.
        limit: Maximum number of runs.
    """
    values, conditions = list[object](), list[str]()

    def bound(value: object) -> str:
        values.append(value)
        return f"${len(values)}"

    if text:
        pattern = bound("%" + re.sub("[!%_]", r"!\g<0>", text.lower()) + "%")
        conditions.append(
            f"(lower(run.job) LIKE {pattern} ESCAPE '!' OR run.run LIKE {pattern} ESCAPE '!')"
        )
    if status:
        conditions.append(
            "run.status IS NULL" if status == "interrupted" else f"run.status = {bound(status)}"
        )
    number = "run.no"
    if labels:
        # The first label is looked up in its index, newest run first; the others are then asked of
        # each run.
        number = "first.run"
        (kind, value), *others = labels
        conditions += [
            f"run.no = first.run AND first.kind = {bound(kind)} AND first.value = {bound(value)}"
        ]
        conditions += [
            f"""EXISTS (SELECT 1 FROM run_label AS other WHERE other.run = run.no
                        AND other.kind = {bound(kind)} AND other.value = {bound(value)})"""  # noqa: S608 - parameters
            for kind, value in others
        ]
    if before is not None:
        conditions.append(f"{number} < (SELECT no FROM run WHERE run = {bound(before)})")  # noqa: S608
    where = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    return await _run_rows(
        transaction,
        f"{where} ORDER BY {number} DESC LIMIT {bound(limit)}",
        *values,
        tables="run_label AS first CROSS JOIN run" if labels else "run",
    )


async def request_cancel(
    transaction: StoreTransaction, *, run: RunId, wanted: CancelRequest
) -> None:
    """Keep the request to cancel a run; the first request stands."""
    await transaction.execute(
        "UPDATE run SET cancel_by = $2, cancel_at = $3 WHERE run = $1 AND cancel_by IS NULL",
        run,
        wanted.by,
        wanted.at,
    )


async def find_cancel_request(transaction: StoreTransaction, *, run: RunId) -> CancelRequest | None:
    """Return who has requested the cancellation of a run, if there is a request."""
    row = await transaction.fetch_one("SELECT cancel_by, cancel_at FROM run WHERE run = $1", run)
    return None if row is None or row[0] is None else CancelRequest(*row)


async def leave_answer(transaction: StoreTransaction, *, run: RunId, answer: LeftAnswer) -> None:
    """Keep an answer for the owner of a run; the first one to a question stands."""
    if await find_left_answer(transaction, run=run, nonce=answer.nonce) is None:
        await transaction.execute(
            """INSERT INTO run_label (kind, value, run)
               SELECT $1, $2, no FROM run WHERE run.run = $3""",
            _ANSWER,
            json.dumps([answer.nonce, answer.choice, answer.by]),
            run,
        )


async def find_left_answer(
    transaction: StoreTransaction, *, run: RunId, nonce: str
) -> LeftAnswer | None:
    """Return the answer that was left to a question, if there is one."""
    rows = await transaction.fetch(
        """SELECT value FROM run_label
           WHERE kind = $1 AND run = (SELECT no FROM run WHERE run.run = $2)""",
        _ANSWER,
        run,
    )
    answers = (LeftAnswer(*json.loads(str(row[0]))) for row in rows)
    return next((answer for answer in answers if answer.nonce == nonce), None)


_ANSWER: Final = "answer"
"""Kind of the label that is an answer left for the owner of a run: any process writes it."""


async def list_labels(transaction: StoreTransaction, *, kind: str, limit: int) -> list[str]:
    """Return the values of a kind of label, in their order; each is looked up in the index by
    itself.
    """
    rows = await transaction.fetch(
        """WITH RECURSIVE known (value) AS (
               SELECT min(value) FROM run_label WHERE kind = $1
               UNION ALL
               SELECT (SELECT min(value) FROM run_label WHERE kind = $1 AND value > known.value)
               FROM known WHERE known.value IS NOT NULL)
           SELECT value FROM known WHERE value IS NOT NULL LIMIT $2""",
        kind,
        limit,
    )
    return [value for (value,) in rows]


async def find_row(transaction: StoreTransaction, run: RunId) -> tuple[RunRow, int] | None:
    """Return a run and the number of its events; None where there is no such run."""
    rows = await _run_rows(transaction, "WHERE run.run = $1", run)
    if not rows:
        return None
    [count] = await transaction.fetch_one(
        "SELECT coalesce(max(seq) + 1, 0) FROM event WHERE run = (SELECT no FROM run WHERE run = $1)",
        run,
    ) or (0,)
    [given_up] = await transaction.fetch_one(
        "SELECT reason FROM job WHERE run = $1 AND state IN ('dead', 'failed')", run
    ) or ("",)
    return replace(rows[0], given_up=given_up), count


async def _run_rows(
    transaction: StoreTransaction, condition: str, *values: object, tables: str = "run"
) -> list[RunRow]:
    rows = await transaction.fetch(
        f"""SELECT {transaction.lease_columns}, run.run, run.job, run.created, run.finished, run.status,
                   run.steps, run.ok, run.failed, coalesce(budget_total.tokens, 0),
                   coalesce(budget_total.usd, 0), clock_seconds(), run.no
            FROM {tables} {transaction.lease_join}
            LEFT JOIN budget_total ON counter = 'run' AND name = run.run AND step = '' {condition}""",  # noqa: S608 - constants
        *values,
    )
    counts = await count_steps(transaction, [row[-1] for row in rows if row[14] is None])
    rows_found = [_run_row(row, counts.get(row[-1], (0, 0, 0)), transaction) for row in rows]
    numbers = {run.run: row[-1] for run, row in zip(rows_found, rows, strict=True)}
    planned = await _count_planned(
        transaction, [numbers[run.run] for run in rows_found if run.status not in REVIEWED_STATUSES]
    )
    return [
        replace(run, steps=max(run.steps, planned.get(numbers[run.run], 0))) for run in rows_found
    ]


async def _count_planned(statements: Statements, runs: Sequence[int]) -> dict[int, int]:
    """Return of runs, given by number, how many steps the plan has that they follow."""
    if not runs:
        return {}
    rows = await statements.fetch(
        f"""SELECT event.run, {statements.body_bytes} FROM event
            JOIN (SELECT run, max(seq) AS seq FROM event
                  WHERE run {statements.in_list("$1", "bigint")} AND kind = 'plan_accepted' GROUP BY run) AS last
            ON event.run = last.run AND event.seq = last.seq""",  # noqa: S608 - constants
        [*runs],
    )
    return {run: _planned_steps(body) for run, body in rows}


def _planned_steps(body: bytes | None) -> int:
    # Whoever reads the run itself is told that the event is damaged.
    try:
        accepted = as_object(json.loads(body or b"{}"))
    except ValueError:
        return 0
    return len(step_ids(as_object(accepted.get("plan"))))


_DOLLAR: Final = 10**9
"""In the table of budgets, which counts billionths of one."""


def _run_row(row: Row, counted: Sequence[int], transaction: StoreTransaction) -> RunRow:
    run, job, created, finished, status, *stored, tokens, usd, now, _ = row[9:]
    steps, ok, failed = counted if stored[0] is None else stored
    lease = read_lease(row[:9])
    is_owned = (
        lease is not None
        and judge_lease(lease, now=now, pid_namespace=transaction.owner.pid_namespace) == "busy"
    )
    return RunRow(
        run=RunId(run),
        job=job,
        status=run_status(status, is_owned=is_owned),
        started=created,
        finished=finished,
        steps=steps,
        ok=ok,
        failed=failed,
        owner=str(lease.owner) if lease is not None and is_owned else None,
        tokens=tokens,
        usd=usd / _DOLLAR,
    )


async def count_steps(
    statements: Statements, runs: Sequence[int]
) -> dict[int, tuple[int, int, int]]:
    """Return of runs, given by number, how many steps have ended, and how many of them well and as
    failed.

    A step counts by its last end. Runs without one are left out.
    """
    if not runs:
        return {}
    rows = await statements.fetch(
        f"""SELECT last.run, count(*), count(*) FILTER (WHERE status IN ('ok', 'empty', 'reused')),
                   count(*) FILTER (WHERE status = 'failed')
            FROM (SELECT run, step, max(seq) AS seq FROM event
                  WHERE run {statements.in_list("$1", "bigint")} AND kind = 'step_finished' GROUP BY run, step) AS last
            JOIN event ON event.run = last.run AND event.seq = last.seq GROUP BY last.run""",  # noqa: S608 - constants
        [*runs],
    )
    return {run: (steps, ok, failed) for run, steps, ok, failed in rows}


async def find_run(transaction: StoreTransaction, prefix: str) -> RunId:
    """Return the run whose id, or whose tail after the last `-`, starts so.

    Raises:
        RunNotFound: none does, or several do.
    """
    runs = [RunId(run) for (run,) in await transaction.fetch("SELECT run FROM run")]
    return match_run(prefix, runs, place=transaction.place)
