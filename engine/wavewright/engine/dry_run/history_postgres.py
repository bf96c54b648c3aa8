"""The history of tools, read from a journal in PostgreSQL.

The same events count as in a journal file. They are read in a handful of queries that extract fields in the database,
so outputs are never transferred.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

import anyio

from wavewright.engine.dry_run.history import (
    HISTORY_WINDOW,
    NO_HISTORY,
    CallEnding,
    CallModelUse,
    History,
    LatestCalls,
    RunSteps,
)
from wavewright.engine.dry_run.kept_results import StoredCall
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.executor.store.transaction import Statements
from wavewright.planner.types import RunId, StepKey

_T = TypeVar("_T")

_BATCH_SIZE: Final = 1000
"""Maximum endings whose plans are read in one query."""
_ENDINGS: Final = """
    SELECT id, run, kind, step FROM event
    WHERE id > $1 AND kind IN ('step_finished', 'item_finished') AND status IN ('ok', 'empty') ORDER BY id DESC"""
# The first plan of each run, and the latest within the window.
_STEPS: Final = """
    WITH wanted AS (SELECT unnest($1::bigint[]) AS run), plan AS (
        SELECT accepted.id, accepted.run, as_json(accepted.body) AS body
        FROM wanted CROSS JOIN LATERAL (
            (SELECT id, run, body FROM event WHERE event.run = wanted.run AND kind = 'plan_accepted'
             ORDER BY seq LIMIT 1)
            UNION
            (SELECT id, run, body FROM event WHERE event.run = wanted.run AND kind = 'plan_accepted' AND id > $2
             ORDER BY seq DESC LIMIT 1)) AS accepted
    )
    SELECT plan.run, (step -> 'id')::text, (step -> 'tool')::text, step -> 'for_each' IS NOT NULL
    FROM plan CROSS JOIN json_array_elements(plan.body -> 'plan' -> 'steps') AS step ORDER BY plan.id"""
# As JSON texts: a name may hold characters that a PostgreSQL text cannot.
_CALLS: Final = """
    SELECT id, (body -> 'seconds')::text, (body -> 'index')::text
    FROM (SELECT id, as_json(body) AS body FROM event WHERE id = ANY($1::bigint[])) AS call WHERE body IS NOT NULL"""
_USES: Final = """
    SELECT run, (use -> 'step')::text, (use -> 'index')::text, (use -> 'model')::text,
           (use -> 'input_tokens')::text, (use -> 'output_tokens')::text, (use -> 'usd')::text
    FROM (SELECT id, run, as_json(body) -> 'use' AS use FROM event WHERE id > $1 AND kind = 'model_called') AS called
    WHERE use IS NOT NULL ORDER BY id"""
_STORED: Final = """
    SELECT DISTINCT ON (event.key) event.key, run.run, event.at FROM event JOIN run ON run.no = event.run
    WHERE event.key = ANY($1::text[]) ORDER BY event.key, event.id DESC"""


def read_history(url: str, tools: Collection[str]) -> History:
    """Return the history of these tools.

    Raises:
        JournalError: the database cannot be read.
    """
    return _read_journal(url, partial(_history, tools=tools))


def find_stored(url: str, keys: set[StepKey]) -> dict[StepKey, StoredCall]:
    """Return the newest call for each key.

    Raises:
        JournalError: the database cannot be read.
    """
    return _read_journal(url, partial(_find_stored, keys=keys)) if keys else {}


def _read_journal(url: str, ask: Callable[[Statements], Awaitable[_T]]) -> _T:
    async def answer() -> _T:
        async with PostgresJournal(url) as journal:
            return await journal.read(ask)

    with ThreadPoolExecutor(1) as alone:
        # The caller's thread may run an event loop already.
        return alone.submit(anyio.run, answer).result()


async def _find_stored(statements: Statements, keys: set[StepKey]) -> dict[StepKey, StoredCall]:
    rows = await statements.fetch(_STORED, list(keys))
    return {StepKey(key): StoredCall(RunId(run), at) for key, run, at in rows}


async def _history(statements: Statements, tools: Collection[str]) -> History:
    ((newest,),) = await statements.fetch("SELECT coalesce(max(id), 0) FROM event")
    after = newest - HISTORY_WINDOW
    calls = await _latest_calls(statements, tools, after)
    if not calls.events:
        return NO_HISTORY
    rows = await statements.fetch(_CALLS, calls.events)
    uses = await statements.fetch(_USES, after)
    return calls.history(
        {event: (_value(seconds) or 0.0, _value(index)) for event, seconds, index in rows},
        (_model_use(run, list(map(_value, columns))) for run, *columns in map(tuple, uses)),
    )


async def _latest_calls(statements: Statements, tools: Collection[str], after: int) -> LatestCalls:
    calls = LatestCalls(tools)
    steps = dict[int, RunSteps]()
    endings = (CallEnding(*row) for row in await statements.fetch(_ENDINGS, after))
    while chunk := list(itertools.islice(endings, _BATCH_SIZE)):
        unknown = {ending.run for ending in chunk} - steps.keys()
        steps |= {run: RunSteps() for run in unknown}
        for run, step, tool, is_fan in await statements.fetch(_STEPS, list(unknown), after):
            steps[run].add(_value(step), _value(tool), is_fan=is_fan)
        if any(calls.add_ending(ending, steps[ending.run]) for ending in chunk):
            break
    return calls


def _model_use(run: int, columns: Sequence[Any]) -> CallModelUse:
    step, index, model, read, written, usd = columns
    return CallModelUse(run, step, index, model, (read or 0) + (written or 0), usd)


def _value(text: str | None) -> Any:
    return None if text is None else json.loads(text)
