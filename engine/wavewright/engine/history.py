"""What earlier calls of a tool took, as the journal tells it.

A tool's *history* is the seconds of its latest calls that brought something, and what models took for them. It is
read without writing anything, out of no more than the latest events, so that a journal of years costs no more than
one of yesterday.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from wavewright.engine.dry_run_reuse import StoredCall
from wavewright.executor.journal_faults import explain_use
from wavewright.executor.journal_file import open_journal_file
from wavewright.planner.types import RunId, StepKey

WINDOW: Final = 20_000
"""Latest events that are looked through."""
REMEMBERED: Final = 50
"""Latest calls of one tool that are looked at."""

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
    SELECT json_extract(body, '$.seconds'), json_extract(body, '$.index')
    FROM event WHERE id = ? AND json_valid(body)"""
_USES: Final = """
    SELECT run, json_extract(body, '$.use.step'), json_extract(body, '$.use.index'),
           json_extract(body, '$.use.model'),
           coalesce(json_extract(body, '$.use.input_tokens'), 0)
             + coalesce(json_extract(body, '$.use.output_tokens'), 0),
           json_extract(body, '$.use.usd')
    FROM event WHERE id > ? AND kind = 'model_called' AND json_valid(body)"""

_INDEXED: Final = "SELECT max(event) FROM result WHERE key = ?"
_LATEST_KEYS: Final = "SELECT id, key FROM event WHERE id > ? AND key IS NOT NULL ORDER BY id"
_WHOSE: Final = "SELECT run.run, event.at FROM event JOIN run ON run.no = event.run WHERE event.id = ?"


@dataclass(frozen=True, slots=True)
class PastSpend:
    """What models took for one call of a tool."""

    models: frozenset[str]
    """Whoever was asked for it."""
    tokens: int
    usd: float | None
    """None where a price was not known."""


@dataclass(frozen=True, slots=True)
class PastCalls:
    """The latest calls of one tool that brought something, the latest first."""

    seconds: tuple[float, ...] = ()
    spends: tuple[PastSpend, ...] = ()
    """Of those calls for which a model was asked."""

    def of_model(self, model: str) -> tuple[PastSpend, ...]:
        """Return what was spent where this model alone was asked: another has other words and another price."""
        return tuple(spend for spend in self.spends if spend.models == frozenset({model}))


History = Mapping[str, PastCalls]
"""Past calls by tool."""
NO_HISTORY: Final[History] = MappingProxyType({})


def read_history(journal: Path, tools: Collection[str]) -> History:
    """Return the history of these tools; of none where there is no journal.

    Raises:
        JournalError: there is one, and it cannot be read.
    """
    if not journal.exists():
        return NO_HISTORY
    connection = open_journal_file(journal, patience=2.0, is_read_only=True)
    try:
        return _Scan(connection, frozenset(tools)).history()
    except sqlite3.Error as error:
        raise explain_use(error, journal, connection) from error
    finally:
        connection.close()


def find_stored(journal: Path, keys: set[StepKey]) -> dict[StepKey, StoredCall]:
    """Return the newest whole and unblocked call under each key, as far as the index and the latest events tell.

    Raises:
        JournalError: there is a journal, and it cannot be read.
    """
    if not keys or not journal.exists():
        return {}
    connection = open_journal_file(journal, patience=2.0, is_read_only=True)
    try:
        return _stored(connection, keys)
    except sqlite3.Error as error:
        raise explain_use(error, journal, connection) from error
    finally:
        connection.close()


def _stored(connection: sqlite3.Connection, keys: set[StepKey]) -> dict[StepKey, StoredCall]:
    newest: dict[StepKey, int] = {}
    for key in keys:
        (event,) = connection.execute(_INDEXED, (key,)).fetchone()
        if event is not None:
            newest[key] = event
    (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM event").fetchone()
    (upto,) = connection.execute("SELECT upto FROM indexed").fetchone()
    latest = connection.execute(_LATEST_KEYS, (max(upto, last - WINDOW),))
    newest |= {key: event for event, key in latest if key in keys}
    rows = {key: connection.execute(_WHOSE, (event,)).fetchone() for key, event in newest.items()}
    return {key: StoredCall(RunId(run), at) for key, (run, at) in rows.items()}


@dataclass(frozen=True, slots=True)
class _RunSteps:
    """What the steps of one run call."""

    tools: Mapping[str, str]
    fans: frozenset[str]
    """Steps that run once an item: their items are the calls."""


class _Scan:
    """One look through the latest events."""

    def __init__(self, connection: sqlite3.Connection, tools: frozenset[str]) -> None:
        self._connection = connection
        self._tools = tools
        (last,) = connection.execute("SELECT coalesce(max(id), 0) FROM event").fetchone()
        self._after = last - WINDOW
        self._steps = dict[int, _RunSteps]()
        self._spends = dict[tuple[int, str, int | None], PastSpend]()

    def history(self) -> History:
        calls = self._latest_calls()
        if any(calls.values()):
            self._read_uses()
        return {tool: self._past(found) for tool, found in calls.items() if found}

    def _latest_calls(self) -> dict[str, list[tuple[int, int, str]]]:
        """Return, by tool, event, run and step of its latest calls."""
        found: dict[str, list[tuple[int, int, str]]] = {tool: [] for tool in self._tools}
        wanted = set(self._tools)
        for event, run, kind, step in self._connection.execute(_ENDINGS, (self._after,)):
            steps = self._steps_of(run)
            tool = steps.tools.get(step)
            if tool not in wanted or (kind == "step_finished") == (step in steps.fans):
                continue
            found[tool].append((event, run, step))
            if len(found[tool]) == REMEMBERED:
                wanted.discard(tool)
                if not wanted:
                    break
        return found

    def _steps_of(self, run: int) -> _RunSteps:
        if run not in self._steps:
            tools: dict[str, str] = {}
            fans: set[str] = set()
            for (body,) in self._connection.execute(_PLANS, (run, run, self._after)).fetchall():
                for step, tool, is_fan in self._connection.execute(_STEPS, (body,)):
                    tools[step] = tool
                    if is_fan:
                        fans.add(step)
            self._steps[run] = _RunSteps(tools, frozenset(fans))
        return self._steps[run]

    def _read_uses(self) -> None:
        for run, step, index, model, tokens, usd in self._connection.execute(_USES, (self._after,)):
            if step is None:
                continue
            place = run, step, index
            before = self._spends.get(place, PastSpend(frozenset(), 0, 0.0))
            self._spends[place] = PastSpend(
                before.models | {model},
                before.tokens + tokens,
                None if usd is None or before.usd is None else before.usd + usd,
            )

    def _past(self, calls: list[tuple[int, int, str]]) -> PastCalls:
        seconds: list[float] = []
        spends: list[PastSpend] = []
        for event, run, step in calls:
            row = self._connection.execute(_CALL, (event,)).fetchone()
            if row is None:
                continue
            seconds.append(float(row[0] or 0.0))
            spend = self._spends.get((run, step, row[1]))
            if spend is not None:
                spends.append(spend)
        return PastCalls(tuple(seconds), tuple(spends))
