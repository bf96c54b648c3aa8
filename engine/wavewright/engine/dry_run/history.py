"""The history of tools: durations and model costs of their latest calls, read from a journal file.

Only the latest events are read, so the cost does not grow with the age of the journal, and nothing is written.
`history_postgres` reads a journal in PostgreSQL.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Generator, Iterable, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from wavewright.engine.dry_run.kept_results import StoredCall
from wavewright.executor.sqlite.database import open_journal_file
from wavewright.executor.sqlite.errors import explain_use
from wavewright.planner.types import RunId, StepKey

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
        """Return the costs of calls that asked only this model; token counts and prices of others differ."""
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
        if tool in self._wanted and (ending.kind == "step_finished") != (ending.step in steps.fan_outs):
            self._found[tool].append(ending)
            if len(self._found[tool]) == MAX_CALLS_PER_TOOL:
                self._wanted.discard(tool)
        return not self._wanted

    @property
    def events(self) -> list[int]:
        """Ids of the events in which the calls ended."""
        return [ending.event for endings in self._found.values() for ending in endings]

    def history(self, calls: Mapping[int, tuple[float, int | None]], uses: Iterable[CallModelUse]) -> History:
        """Return the history.

        Args:
            calls: By event, the seconds of a call and its item's index; without damaged events.
            uses: Model calls, the earliest first.
        """
        spends = _sum_uses(uses)
        return {
            tool: _past_calls([ending for ending in endings if ending.event in calls], calls, spends)
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
_OWNER_QUERY: Final = "SELECT run.run, event.at FROM event JOIN run ON run.no = event.run WHERE event.id = ?"


def read_history(journal: Path, tools: Collection[str]) -> History:
    """Return the history of these tools; empty if there is no journal.

    Raises:
        JournalError: there is a journal that cannot be read.
    """
    if not journal.exists():
        return NO_HISTORY
    with _open_for_reading(journal) as connection:
        return _history(connection, tools)


def find_stored(journal: Path, keys: set[StepKey]) -> dict[StepKey, StoredCall]:
    """Return the newest complete and unblocked call for each key in the index and the latest events.

    Raises:
        JournalError: there is a journal that cannot be read.
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
