"""What earlier calls of a tool took, as the journal tells it.

It is read without writing anything, out of no more than the latest events, so that a journal of years costs no more
than one of yesterday. The journal is a file here; `history_in_database` reads one in PostgreSQL.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Generator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from wavewright.engine.dry_run_reuse import StoredCall
from wavewright.engine.past_calls import (
    HISTORY_WINDOW,
    NO_HISTORY,
    CallEnding,
    CallModelUse,
    History,
    LatestCalls,
    RunSteps,
)
from wavewright.executor.journal_faults import explain_use
from wavewright.executor.journal_file import open_journal_file
from wavewright.planner.types import RunId, StepKey

# `body` stands last in a row: what is only counted here reads none of a long output.
_ENDINGS: Final = """
    SELECT id, run, kind, step FROM event
    WHERE id > ? AND kind IN ('step_finished', 'item_finished') AND status IN ('ok', 'empty') ORDER BY id DESC"""
_PLANS: Final = """
    SELECT body FROM event WHERE id IN (
        (SELECT id FROM event WHERE run = ? AND kind = 'plan_accepted' ORDER BY seq LIMIT 1),
        (SELECT max(id) FROM event WHERE run = ? AND kind = 'plan_accepted' AND id > ?))"""
_STEPS: Final = """
    SELECT json_extract(step.value, '$.id'), json_extract(step.value, '$.tool'),
           json_type(step.value, '$.for_each') IS NOT NULL
    FROM json_each(?, '$.plan.steps') AS step"""
_CALL: Final = """
    SELECT coalesce(json_extract(body, '$.seconds'), 0.0), json_extract(body, '$.index')
    FROM event WHERE id = ? AND json_valid(body)"""
_USES: Final = """
    SELECT run, json_extract(body, '$.use.step'), json_extract(body, '$.use.index'),
           json_extract(body, '$.use.model'),
           coalesce(json_extract(body, '$.use.input_tokens'), 0)
             + coalesce(json_extract(body, '$.use.output_tokens'), 0),
           json_extract(body, '$.use.usd')
    FROM event WHERE id > ? AND kind = 'model_called' AND json_valid(body)"""

_INDEXED: Final = "SELECT max(event) FROM result WHERE key = ?"
_LATEST_KEYS_QUERY: Final = "SELECT id, key FROM event WHERE id > ? AND key IS NOT NULL ORDER BY id"
_OWNER_QUERY: Final = "SELECT run.run, event.at FROM event JOIN run ON run.no = event.run WHERE event.id = ?"


def read_history(journal: Path, tools: Collection[str]) -> History:
    """Return the history of these tools; of none where there is no journal.

    Raises:
        JournalError: there is one, and it cannot be read.
    """
    if not journal.exists():
        return NO_HISTORY
    with _open_for_reading(journal) as connection:
        return _history(connection, tools)


def find_stored(journal: Path, keys: set[StepKey]) -> dict[StepKey, StoredCall]:
    """Return the newest whole and unblocked call under each key, as far as the index and the latest events tell.

    Raises:
        JournalError: there is a journal, and it cannot be read.
    """
    if not keys or not journal.exists():
        return {}
    with _open_for_reading(journal) as connection:
        return _find_stored(connection, keys)


@contextmanager
def _open_for_reading(journal: Path) -> Generator[sqlite3.Connection]:
    with closing(open_journal_file(journal, patience=2.0, is_read_only=True)) as connection:
        try:
            yield connection
        except sqlite3.Error as error:
            raise explain_use(error, journal, connection) from error


def _find_stored(connection: sqlite3.Connection, keys: set[StepKey]) -> dict[StepKey, StoredCall]:
    newest: dict[StepKey, int] = {}
    for key in keys:
        (event,) = connection.execute(_INDEXED, (key,)).fetchone()
        if event is not None:
            newest[key] = event
    (upto,) = connection.execute("SELECT upto FROM indexed").fetchone()
    latest = connection.execute(_LATEST_KEYS_QUERY, (max(upto, _last_event(connection) - HISTORY_WINDOW),))
    newest |= {key: event for event, key in latest if key in keys}
    rows = {key: connection.execute(_OWNER_QUERY, (event,)).fetchone() for key, event in newest.items()}
    return {key: StoredCall(RunId(run), at) for key, (run, at) in rows.items()}


def _history(connection: sqlite3.Connection, tools: Collection[str]) -> History:
    after = _last_event(connection) - HISTORY_WINDOW
    calls = LatestCalls(tools)
    steps = dict[int, RunSteps]()
    for ending in map(CallEnding._make, connection.execute(_ENDINGS, (after,))):
        if ending.run not in steps:
            steps[ending.run] = _steps_of(connection, ending.run, after)
        if calls.add_ending(ending, steps[ending.run]):
            break
    if not calls.events:
        return NO_HISTORY
    rows = {event: connection.execute(_CALL, (event,)).fetchone() for event in calls.events}
    uses = map(CallModelUse._make, connection.execute(_USES, (after,)))
    return calls.history({event: row for event, row in rows.items() if row is not None}, uses)


def _steps_of(connection: sqlite3.Connection, run: int, after: int) -> RunSteps:
    steps = RunSteps()
    for (body,) in connection.execute(_PLANS, (run, run, after)).fetchall():
        for step, tool, is_fan in connection.execute(_STEPS, (body,)):
            steps.add(step, tool, is_fan=is_fan)
    return steps


def _last_event(connection: sqlite3.Connection) -> int:
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM event").fetchone()
    return int(last)
