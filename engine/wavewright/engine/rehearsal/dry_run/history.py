"""The history of tools: durations and model costs of their latest calls, read from the journal.

Only the latest events are read, so the cost does not grow with the age of the journal, and nothing
is written. In a file and in PostgreSQL the same events count. The fields of a call are extracted
where the journal is, so outputs are never transferred.
"""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar

from wavewright.engine.rehearsal.dry_run.kept_results import StoredCall
from wavewright.engine.run.session import run_to_end
from wavewright.executor import Event, PlanAccepted
from wavewright.executor.events.codec import decode
from wavewright.executor.events.types import ModelCalled
from wavewright.executor.sqlite.database import open_journal_file
from wavewright.executor.sqlite.errors import explained
from wavewright.executor.sqlite.transaction import SqliteStatements
from wavewright.executor.store.writer import run_inline
from wavewright.planner import RunId, StepKey, as_list, as_object

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


def read_history(journal: Path | str, tools: Collection[str]) -> History:
    """Return the history of these tools in a file or in a database; empty if there is no file.

    Raises:
        JournalError: there is a journal that cannot be read.
    """
    ask = partial(_history, tools=tools)
    return run_to_end(partial(read_journal, journal, ask)) or NO_HISTORY


def find_stored(journal: Path | str, keys: set[StepKey]) -> dict[StepKey, StoredCall]:
    """Return the newest complete and unblocked call for each key; of a file, of its index and
    latest events.

    Raises:
        JournalError: there is a journal that cannot be read.
    """
    if not keys:
        return {}
    search = _find_in_database if isinstance(journal, str) else _find_in_file
    return run_to_end(partial(read_journal, journal, partial(search, keys=keys))) or {}


class _Ending(NamedTuple):
    """An event that ends a call, or a step of several calls."""

    event: int
    run: int
    kind: str
    step: str


_StepTools: TypeAlias = dict[str, tuple[str, str]]
"""Of the steps of one run: the tool, and the kind of event that ends a call of it."""
_CallPlace: TypeAlias = tuple[int, str, int | None]
"""Run, step and item of a call."""

_BATCH_SIZE: Final = 1000
"""Maximum endings whose plans are read in one query."""
_NEWEST: Final = "SELECT coalesce(max(id), 0) FROM event"
# `body` is the last column: rows that are only counted need not read a long output.
_ENDINGS: Final = """
    SELECT id, run, kind, step FROM event
    WHERE id > $1 AND kind IN ('step_finished', 'item_finished') AND status IN ('ok', 'empty') ORDER BY id DESC"""


async def _history(statements: Statements, tools: Collection[str]) -> History:
    ((newest,),) = await statements.fetch(_NEWEST)
    after = newest - HISTORY_WINDOW
    endings = await _latest_endings(statements, tools, after)
    if not any(endings.values()):
        return NO_HISTORY
    calls = await _calls_of(statements, list(itertools.chain.from_iterable(endings.values())))
    spends = await _spends(statements, after)
    return {
        tool: _past_calls(
            [calls[ending.event] for ending in of_tool if ending.event in calls], spends
        )
        for tool, of_tool in endings.items()
        if of_tool
    }


def _past_calls(
    calls: list[tuple[float, _CallPlace]], spends: Mapping[_CallPlace, CallSpend]
) -> PastCalls:
    return PastCalls(
        tuple(seconds for seconds, _ in calls),
        tuple(spends[place] for _, place in calls if place in spends),
    )


async def _latest_endings(
    statements: Statements, tools: Collection[str], after: int
) -> dict[str, list[_Ending]]:
    """Return the ends of the latest calls of each tool, the latest first."""
    latest: dict[str, list[_Ending]] = {tool: [] for tool in tools}
    steps = dict[int, _StepTools]()
    endings = (_Ending(*row) for row in await statements.fetch(_ENDINGS, after))
    while chunk := list(itertools.islice(endings, _BATCH_SIZE)):
        unknown = {ending.run for ending in chunk} - steps.keys()
        steps |= await _steps_of(statements, unknown, after)
        for ending in chunk:
            tool, kind = steps[ending.run].get(ending.step, ("", ""))
            known = latest.get(tool, [])
            if ending.kind == kind and len(known) < MAX_CALLS_PER_TOOL:
                known.append(ending)
        if all(len(known) == MAX_CALLS_PER_TOOL for known in latest.values()):
            break
    return latest


async def _steps_of(
    statements: Statements, runs: Collection[int], after: int
) -> dict[int, _StepTools]:
    """Return the steps of the first plan of each run, and of the latest within the window."""
    steps: dict[int, _StepTools] = {run: {} for run in runs}
    of_runs = f"FROM run WHERE no {statements.in_list('$1', 'bigint')}"
    plans = "FROM event WHERE event.run = run.no AND kind = 'plan_accepted'"
    # The first is near the beginning of its run: the events of a long one are not gone through.
    rows = await statements.fetch(
        f"""SELECT run, {statements.body_bytes} FROM event WHERE id IN (
                SELECT (SELECT id {plans} ORDER BY seq LIMIT 1) {of_runs}
                UNION SELECT (SELECT max(id) {plans} AND id > $2) {of_runs})
            ORDER BY id""",  # noqa: S608 - constants
        list(runs),
        after,
    )
    for run, body in rows:
        accepted = _decoded("plan_accepted", body)
        plan = accepted.plan if isinstance(accepted, PlanAccepted) else {}
        for step in map(as_object, as_list(plan.get("steps"))):
            ends_by = "item_finished" if "for_each" in step else "step_finished"
            steps[run][str(step.get("id"))] = str(step.get("tool")), ends_by
    return steps


async def _calls_of(
    statements: Statements, endings: Collection[_Ending]
) -> dict[int, tuple[float, _CallPlace]]:
    """Return the seconds and the place of each call, by the event that ends it; none of a damaged
    one.
    """
    field = statements.body_field
    rows = await statements.fetch(
        f"""SELECT id, {field("seconds")}, {field("index")} FROM event
            WHERE id {statements.in_list("$1", "bigint")} AND {field("at")} IS NOT NULL""",  # noqa: S608 - constants
        [ending.event for ending in endings],
    )
    places = {ending.event: (ending.run, ending.step) for ending in endings}
    return {
        event: (float(seconds or 0), (*places[event], None if index is None else int(index)))
        for event, seconds, index in rows
    }


async def _spends(statements: Statements, after: int) -> dict[_CallPlace, CallSpend]:
    """Return what models cost, by the call that asked them."""
    rows = await statements.fetch(
        f"""SELECT run, {statements.body_bytes} FROM event
            WHERE id > $1 AND kind = 'model_called' ORDER BY id""",  # noqa: S608 - a constant
        after,
    )
    spends = dict[_CallPlace, CallSpend]()
    for run, body in rows:
        called = _decoded("model_called", body)
        if not isinstance(called, ModelCalled) or called.use.step is None:
            continue
        use, place = called.use, (run, called.use.step, called.use.index)
        before = spends.get(place, CallSpend(frozenset(), 0, 0.0))
        spends[place] = CallSpend(
            before.models | {use.model},
            before.tokens + use.tokens,
            None if use.usd is None or before.usd is None else before.usd + use.usd,
        )
    return spends


def _decoded(kind: str, body: bytes) -> Event | None:
    """Return an event; None where it is damaged."""
    try:
        return decode(kind, body.decode())
    except ValueError:
        return None


async def _find_in_file(statements: Statements, keys: set[StepKey]) -> dict[StepKey, StoredCall]:
    """Return what the index of outputs has under the keys, or the events after those it is of."""
    newest = dict[StepKey, int]()
    for key in keys:
        ((event,),) = await statements.fetch("SELECT max(event) FROM result WHERE key = $1", key)
        if event is not None:
            newest[key] = event
    ((upto, last),) = await statements.fetch(f"SELECT upto, ({_NEWEST}) FROM indexed")  # noqa: S608 - a constant
    later = await statements.fetch(
        "SELECT key, id FROM event WHERE id > $1 AND key IS NOT NULL ORDER BY id",
        max(upto, last - HISTORY_WINDOW),
    )
    newest |= {key: event for key, event in later if key in keys}
    calls = dict[StepKey, StoredCall]()
    for key, event in newest.items():
        ((run, at),) = await statements.fetch(
            "SELECT run.run, event.at FROM event JOIN run ON run.no = event.run WHERE event.id = $1",
            event,
        )
        calls[key] = StoredCall(RunId(run), at)
    return calls


async def _find_in_database(
    statements: Statements, keys: set[StepKey]
) -> dict[StepKey, StoredCall]:
    rows = await statements.fetch(
        f"""SELECT DISTINCT ON (event.key) event.key, run.run, event.at
            FROM event JOIN run ON run.no = event.run
            WHERE event.key {statements.in_list("$1", "text")} ORDER BY event.key, event.id DESC""",  # noqa: S608 - constants
        list(keys),
    )
    return {StepKey(key): StoredCall(RunId(run), at) for key, run, at in rows}


async def read_journal(place: Path | str, ask: Callable[[Statements], Awaitable[_T]]) -> _T | None:
    """Return an answer from the tables of a file, or of a database given by its address; None where
    there is no file. A file is neither made nor written.

    Raises:
        JournalError: it cannot be read.
    """
    if isinstance(place, str):
        # The driver of a database is an extra.
        from wavewright.executor.postgres.journal import PostgresJournal

        async with PostgresJournal(place) as journal:
            return await journal.read(ask)
    return _read_file(place, ask)


def _read_file(file: Path, ask: Callable[[Statements], Awaitable[_T]]) -> _T | None:
    if not file.exists():
        return None
    connection = open_journal_file(file, patience=_READ_PATIENCE, is_read_only=True)
    with closing(connection), explained(file, connection):
        return run_inline(ask(SqliteStatements(connection)))


_READ_PATIENCE: Final = 2.0
"""Seconds for which a file that another program has locked is waited for."""
