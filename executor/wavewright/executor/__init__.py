"""From a checked plan to a journaled run."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavewright.executor.clock import Clock, LoopClock
    from wavewright.executor.codec import from_json, to_json
    from wavewright.executor.events import (
        ErrorKind,
        Event,
        GateRecord,
        ItemFinished,
        Noted,
        PlanAccepted,
        RunFinished,
        RunStarted,
        StepError,
        StepFinished,
        StepStarted,
        StepStatus,
        WaveFinished,
        WaveStarted,
    )
    from wavewright.executor.execution import execute, no_gates
    from wavewright.executor.journal import Journal, MemoryJournal, StoredOutput
    from wavewright.executor.journal_errors import (
        JournalDamaged,
        JournalError,
        JournalNotOpened,
        JournalNotWritten,
        RunBusy,
        RunLost,
        RunNotFound,
    )
    from wavewright.executor.journal_reader import JournalReader
    from wavewright.executor.journal_runs import RunRow, new_run_id
    from wavewright.executor.journal_sqlite import SqliteJournal
    from wavewright.executor.ports import GateView, Verify
    from wavewright.executor.purse import MemoryBudgetStore
    from wavewright.executor.purse_sqlite import SqliteBudgetStore
    from wavewright.executor.state import RunState, WaveRecord, blocking_gate, fold, reduce

__all__ = [
    "Clock",
    "ErrorKind",
    "Event",
    "GateRecord",
    "GateView",
    "ItemFinished",
    "Journal",
    "JournalDamaged",
    "JournalError",
    "JournalNotOpened",
    "JournalNotWritten",
    "JournalReader",
    "LoopClock",
    "MemoryBudgetStore",
    "MemoryJournal",
    "Noted",
    "PlanAccepted",
    "RunBusy",
    "RunFinished",
    "RunLost",
    "RunNotFound",
    "RunRow",
    "RunStarted",
    "RunState",
    "SqliteBudgetStore",
    "SqliteJournal",
    "StepError",
    "StepFinished",
    "StepStarted",
    "StepStatus",
    "StoredOutput",
    "Verify",
    "WaveFinished",
    "WaveRecord",
    "WaveStarted",
    "blocking_gate",
    "execute",
    "fold",
    "from_json",
    "new_run_id",
    "no_gates",
    "reduce",
    "to_json",
]

_HOMES = {
    "Clock": "clock",
    "ErrorKind": "events",
    "Event": "events",
    "GateRecord": "events",
    "GateView": "ports",
    "ItemFinished": "events",
    "Journal": "journal",
    "JournalDamaged": "journal_errors",
    "JournalError": "journal_errors",
    "JournalNotOpened": "journal_errors",
    "JournalNotWritten": "journal_errors",
    "JournalReader": "journal_reader",
    "LoopClock": "clock",
    "MemoryJournal": "journal",
    "MemoryPurse": "purse",
    "Noted": "events",
    "PlanAccepted": "events",
    "RunBusy": "journal_errors",
    "RunFinished": "events",
    "RunLost": "journal_errors",
    "RunNotFound": "journal_errors",
    "RunRow": "journal_runs",
    "RunStarted": "events",
    "RunState": "state",
    "SqliteJournal": "journal_sqlite",
    "SqlitePurse": "purse_sqlite",
    "StepError": "events",
    "StepFinished": "events",
    "StepStarted": "events",
    "StepStatus": "events",
    "StoredOutput": "journal",
    "Verify": "ports",
    "WaveFinished": "events",
    "WaveRecord": "state",
    "WaveStarted": "events",
    "blocking_gate": "state",
    "execute": "execution",
    "fold": "state",
    "from_json": "codec",
    "new_run_id": "journal_runs",
    "no_gates": "execution",
    "reduce": "state",
    "to_json": "codec",
}
"""The module of each public name: nothing heavy is imported before it is asked for."""


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(_import_module(f"{__name__}.{_HOMES[name]}"), name)
