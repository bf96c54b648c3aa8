"""The history of tools: durations and model costs of their latest calls, read from the journal.

Only the latest events are read, so the cost does not grow with the age of the journal, and nothing
is written. In a file and in PostgreSQL the same events count. A database is read in a handful of
queries that extract fields there, so outputs are never transferred.
"""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Awaitable, Callable, Collection, Generator, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import anyio

from wavewright.engine.rehearsal.dry_run.kept_results import StoredCall
from wavewright.executor.sqlite.database import open_journal_file
from wavewright.executor.sqlite.errors import DATABASE_ERRORS, explain_use
from wavewright.planner.types import RunId, StepKey

if TYPE_CHECKING:
    from wavewright.executor.store.transaction import Statements

_T = TypeVar("_T")

HISTORY_WINDOW: Final = 20_000
"""Maximum of latest events that are searched."""
MAX_CALLS_PER_TOOL: Final = 50
"""Maximum of latest calls of one tool."""


@dataclass(frozen=True, slots=True)
class CallSpend:
    """The model cost of one call of a tool."""

    models: frozenset[str]
    """The models that were asked."""
    tokens: int
    usd: float | None
    """None if a price is unknown."""


@dataclass(frozen=True, slots=True)
class PastCalls:
    """The latest calls of one tool with an output, the latest first."""

    seconds: tuple[float, ...] = ()
    spends: tuple[CallSpend, ...] = ()
    """Of the calls that asked a model."""

    def of_model(self, model: str) -> tuple[CallSpend, ...]:
        """Return the costs of calls that asked only this model; token counts and prices of others
        differ.
        """
        return tuple(spend for spend in self.spends if spend.models == frozenset({model}))


History: TypeAlias = Mapping[str, PastCalls]
"""Past calls by tool."""
NO_HISTORY: Final[History] = MappingProxyType({})


@dataclass(slots=True)
class RunSteps:
    """The tools that the steps of one run call."""

    tools: dict[str, str] = field(default_factory=dict[str, str])
    fan_outs: set[str] = field(default_factory=set[str])
    """Steps with `for_each`, whose calls are their items."""

    def add(self, step: str, tool: str, *, is_fan: bool) -> None:
        """Add a step of an accepted plan; earlier plans are added first."""
        self.tools[step] = tool
        if is_fan:
            self.fan_outs.add(step)


class CallEnding(NamedTuple):
    """An event that ends a call, or a step of several calls."""

    event: int
    run: int
    kind: str
    step: str


class CallModelUse(NamedTuple):
    """A model call, with the tool call that it was for."""

    run: int
    step: str | None
    item: int | None
    model: str
    tokens: int
    usd: float | None


class LatestCalls:
    """The latest calls of some tools, collected from the newest event backwards."""

    def __init__(self, tools: Collection[str]) -> None:
        self._found: dict[str, list[CallEnding]] = {tool: [] for tool in tools}
        self._wanted = set(tools)

    def add_ending(self, ending: CallEnding, steps: RunSteps) -> bool:
        """Add an ending, and return whether it was the last that is needed."""
        tool = steps.tools.get(ending.step)
        if tool in self._wanted and (ending.kind == "step_finished") != (
            ending.step in steps.fan_outs
        ):
            self._found[tool].append(ending)
            if len(self._found[tool]) == MAX_CALLS_PER_TOOL:
                self._wanted.discard(tool)
        return not self._wanted

    @property
    def events(self) -> list[int]:
        """Ids of the events in which the calls ended."""
        return [ending.event for endings in self._found.values() for ending in endings]

    def history(
        self, calls: Mapping[int, tuple[float, int | None]], uses: Iterable[CallModelUse]
    ) -> History:
        """Return the history.

        Args:
            calls: By event, the seconds of a call and its item's index; without damaged events.
            uses: Model calls, the earliest first.
        """
        spends = _sum_uses(uses)
        return {
            tool: _past_calls(
                [ending for ending in endings if ending.event in calls], calls, spends
            )
            for tool, endings in self._found.items()
            if endings
        }


_CallPlace: TypeAlias = tuple[int, str, int | None]
"""Run, step and item of a call."""


def _sum_uses(uses: Iterable[CallModelUse]) -> dict[_CallPlace, CallSpend]:
    spends = dict[_CallPlace, CallSpend]()
    for use in uses:
        if use.step is None:
            continue
        place = use.run, use.step, use.item
        before = spends.get(place, CallSpend(frozenset(), 0, 0.0))
        spends[place] = CallSpend(
            before.models | {use.model},
            before.tokens + use.tokens,
            None if use.usd is None or before.usd is None else before.usd + use.usd,
        )
    return spends


def _past_calls(
    endings: list[CallEnding],
    calls: Mapping[int, tuple[float, int | None]],
    spends: Mapping[_CallPlace, CallSpend],
) -> PastCalls:
    places = [(ending.run, ending.step, calls[ending.event][1]) for ending in endings]
    return PastCalls(
        tuple(calls[ending.event][0] for ending in endings),
        tuple(spends[place] for place in places if place in spends),
    )


# `body` is the last column: rows that are only counted need not read a long output.
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
_OWNER_QUERY: Final = (
    "SELECT run.run, event.at FROM event JOIN run ON run.no = event.run WHERE event.id = ?"
)


def read_history(journal: Path | str, tools: Collection[str]) -> History:
    """Return the history of these tools in a file or in a database; empty if there is no file.

    Raises:
        JournalError: there is a journal that cannot be read.
    """
    if isinstance(journal, str):
        return _read_database(journal, partial(_history_in_database, tools=tools))
    if not journal.exists():
        return NO_HISTORY
    with _open_for_reading(journal) as connection:
        return _history(connection, tools)


def find_stored(journal: Path | str, keys: set[StepKey]) -> dict[StepKey, StoredCall]:
    """Return the newest complete and unblocked call for each key; of a file, of its index and
    latest events.

    Raises:
        JournalError: there is a journal that cannot be read.
    """
    if not keys:
        return {}
    if isinstance(journal, str):
        return _read_database(journal, partial(_find_in_database, keys=keys))
    if not journal.exists():
        return {}
    with _open_for_reading(journal) as connection:
        return _find_stored(connection, keys)


@contextmanager
def _open_for_reading(journal: Path) -> Generator[sqlite3.Connection]:
    with closing(open_journal_file(journal, patience=2.0, is_read_only=True)) as connection:
        try:
            yield connection
        except DATABASE_ERRORS as error:
            raise explain_use(error, journal, connection) from error


def _find_stored(connection: sqlite3.Connection, keys: set[StepKey]) -> dict[StepKey, StoredCall]:
    newest: dict[StepKey, int] = {}
    for key in keys:
        (event,) = connection.execute(_INDEXED, (key,)).fetchone()
        if event is not None:
            newest[key] = event
    (upto,) = connection.execute("SELECT upto FROM indexed").fetchone()
    latest = connection.execute(
        _LATEST_KEYS_QUERY, (max(upto, _last_event(connection) - HISTORY_WINDOW),)
    )
    newest |= {key: event for event, key in latest if key in keys}
    rows = {
        key: connection.execute(_OWNER_QUERY, (event,)).fetchone() for key, event in newest.items()
    }
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


_BATCH_SIZE: Final = 1000
"""Maximum endings whose plans are read in one query."""
_DATABASE_ENDINGS: Final = """
    SELECT id, run, kind, step FROM event
    WHERE id > $1 AND kind IN ('step_finished', 'item_finished') AND status IN ('ok', 'empty') ORDER BY id DESC"""
# The first plan of each run, and the latest within the window.
_DATABASE_STEPS: Final = """
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
_DATABASE_CALLS: Final = """
    SELECT id, (body -> 'seconds')::text, (body -> 'index')::text
    FROM (SELECT id, as_json(body) AS body FROM event WHERE id = ANY($1::bigint[])) AS call WHERE body IS NOT NULL"""
_DATABASE_USES: Final = """
    SELECT run, (use -> 'step')::text, (use -> 'index')::text, (use -> 'model')::text,
           (use -> 'input_tokens')::text, (use -> 'output_tokens')::text, (use -> 'usd')::text
    FROM (SELECT id, run, as_json(body) -> 'use' AS use FROM event WHERE id > $1 AND kind = 'model_called') AS called
    WHERE use IS NOT NULL ORDER BY id"""
_DATABASE_STORED: Final = """
    SELECT DISTINCT ON (event.key) event.key, run.run, event.at FROM event JOIN run ON run.no = event.run
    WHERE event.key = ANY($1::text[]) ORDER BY event.key, event.id DESC"""


def _read_database(url: str, ask: Callable[[Statements], Awaitable[_T]]) -> _T:
    from wavewright.executor.postgres.journal import PostgresJournal

    async def answer() -> _T:
        async with PostgresJournal(url) as journal:
            return await journal.read(ask)

    with ThreadPoolExecutor(1) as alone:
        # The caller's thread may run an event loop already.
        return alone.submit(anyio.run, answer).result()


async def _find_in_database(
    statements: Statements, keys: set[StepKey]
) -> dict[StepKey, StoredCall]:
    rows = await statements.fetch(_DATABASE_STORED, list(keys))
    return {StepKey(key): StoredCall(RunId(run), at) for key, run, at in rows}


async def _history_in_database(statements: Statements, tools: Collection[str]) -> History:
    ((newest,),) = await statements.fetch("SELECT coalesce(max(id), 0) FROM event")
    after = newest - HISTORY_WINDOW
    calls = await _latest_calls(statements, tools, after)
    if not calls.events:
        return NO_HISTORY
    rows = await statements.fetch(_DATABASE_CALLS, calls.events)
    uses = await statements.fetch(_DATABASE_USES, after)
    return calls.history(
        {event: (_value(seconds) or 0.0, _value(index)) for event, seconds, index in rows},
        (_model_use(run, list(map(_value, columns))) for run, *columns in map(tuple, uses)),
    )


async def _latest_calls(statements: Statements, tools: Collection[str], after: int) -> LatestCalls:
    calls = LatestCalls(tools)
    steps = dict[int, RunSteps]()
    endings = (CallEnding(*row) for row in await statements.fetch(_DATABASE_ENDINGS, after))
    while chunk := list(itertools.islice(endings, _BATCH_SIZE)):
        unknown = {ending.run for ending in chunk} - steps.keys()
        steps |= {run: RunSteps() for run in unknown}
        for run, step, tool, is_fan in await statements.fetch(
            _DATABASE_STEPS, list(unknown), after
        ):
            steps[run].add(_value(step), _value(tool), is_fan=is_fan)
        if any(calls.add_ending(ending, steps[ending.run]) for ending in chunk):
            break
    return calls


def _model_use(run: int, columns: Sequence[Any]) -> CallModelUse:
    step, index, model, read, written, usd = columns
    return CallModelUse(run, step, index, model, (read or 0) + (written or 0), usd)


def _value(text: str | None) -> Any:
    return None if text is None else json.loads(text)
