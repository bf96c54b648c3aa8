"""Events as rows of the journal's tables, made before the writer is asked to write them.

An *entry* is what one append writes. It is text already, so that an event that is not JSON is refused where it comes
from, and nothing that changes afterwards changes what is written.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final, NamedTuple

from wavewright.executor.codec import CodecError, encode
from wavewright.executor.events import Event, ItemFinished, Noted, RunFinished, RunStarted, StepFinished
from wavewright.executor.job_store.records import OutboxWrites
from wavewright.executor.job_store.texts import OutboxRows, outbox_rows
from wavewright.executor.journal import reusable_key
from wavewright.executor.journal_errors import EventUnwritable
from wavewright.planner.types import RunId

# Named once: building a union of types for every event takes longer than asking it.
_FINISHED: Final = (StepFinished, ItemFinished)
_RUN_EVENTS: Final = (RunStarted, RunFinished)
_AFTER_END: Final = (RunFinished, Noted)


class EventRow(NamedTuple):
    """An event as it stands in the `event` table."""

    at: float
    kind: str
    step: str | None
    status: str | None
    key: str | None
    crc: int
    body: str


class AppendEntry(NamedTuple):
    """The events of one append, ready to be written."""

    run: RunId
    rows: Sequence[EventRow]
    run_events: Sequence[RunStarted | RunFinished]
    """Events that change the run's own row."""
    is_run_end: bool
    """Whether the events leave a finished run finished."""
    outbox_rows: OutboxRows | None = None
    """What the job store takes in the same transaction."""


def append_entry(run: RunId, events: Sequence[Event], alongside: OutboxWrites | None = None) -> AppendEntry:
    """Return the events as rows, and what is written alongside.

    Raises:
        EventUnwritable: an event is not JSON.
    """
    rows = list[EventRow]()
    marks = list[RunStarted | RunFinished]()
    is_end = True
    try:
        for event in events:
            rows.append(_row(event))
            if isinstance(event, _RUN_EVENTS):
                marks.append(event)
            is_end = is_end and isinstance(event, _AFTER_END)
    except CodecError as error:
        raise EventUnwritable(
            str(error),
            place=f"run {run}",
            mend="a tool returns JSON values only: see the output of that step",
        ) from error
    return AppendEntry(run, rows, marks, is_end, None if alongside is None else outbox_rows(alongside))


def _row(event: Event) -> EventRow:
    kind, body = encode(event)
    crc = zlib.crc32(body.encode("ascii"))
    if isinstance(event, _FINISHED):
        return EventRow(event.at, kind, event.step, event.status, reusable_key(event), crc, body)
    return EventRow(event.at, kind, getattr(event, "step", None), None, None, crc, body)
