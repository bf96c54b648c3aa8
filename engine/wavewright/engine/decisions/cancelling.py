"""The end of a cancelled run: it is journaled with who wanted it, and when."""

from __future__ import annotations

from typing import Final

from wavewright.engine.targets.waves import target_runs
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import Event, Noted, RunFinished
from wavewright.executor.store.journal import CancelRequest, Journal
from wavewright.planner.types import RunId

CANCELLED: Final = "cancelled"
"""Topic of the note of who has cancelled a run."""


async def end_cancelled(journal: Journal, run: RunId, request: CancelRequest, now: float) -> list[Event]:
    """Journal the end of a run that is open here, and of the runs of its targets; return the events of its own.

    Raises:
        RunBusy: another process has the run of a target open.
        JournalError: the end could not be written.
    """
    events: list[Event] = [
        Noted(now, CANCELLED, {"by": request.by, "requested": request.at}),
        RunFinished(now, "cancelled", cancel_reason(request)),
    ]
    for target in target_runs(fold(await journal.load(run))):
        if not has_ended(fold(await journal.load(target))):
            await journal.append(target, events)
            await journal.close_run(target)
    await journal.append(run, events)
    return events


def cancel_reason(request: CancelRequest) -> str:
    """Return why a run or a job has ended that was cancelled."""
    return f"cancelled by {request.by}"


def has_ended(state: RunState) -> bool:
    """Whether the run has an end, and cannot be resumed."""
    return state.finished is not None and not state.is_interrupted
