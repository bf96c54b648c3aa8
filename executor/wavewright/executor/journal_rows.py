"""Events as rows of the journal's tables, made before the writer is asked to write them.

An *entry* is what one append writes. It is text already, so that an event that is not JSON is refused where it comes
from, and nothing that changes afterwards changes what is written.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wavewright.executor.codec import CodecError, encode
from wavewright.executor.events import Event, ItemFinished, Noted, RunFinished, RunStarted, StepFinished
from wavewright.executor.journal import reusable_output
from wavewright.executor.journal_errors import JournalNotWritten
from wavewright.planner.types import RunId


class Row(NamedTuple):
    """An event as it stands in the `event` table."""

    at: float
    kind: str
    step: str | None
    status: str | None
    key: str | None
    crc: int
    body: str


@dataclass(frozen=True, slots=True)
class Entry:
    """The events of one append, ready to be written."""

    run: RunId
    rows: tuple[Row, ...]
    marks: tuple[RunStarted | RunFinished, ...]
    """Events that change the run's own row."""
    is_end: bool
    """Whether the events leave a finished run finished."""


def write_entry(run: RunId, events: Sequence[Event]) -> Entry:
    """Return the events as rows.

    Raises:
        JournalNotWritten: an event is not JSON.
    """
    try:
        return Entry(
            run=run,
            rows=tuple(_row(run, event) for event in events),
            marks=tuple(event for event in events if isinstance(event, RunStarted | RunFinished)),
            is_end=all(isinstance(event, RunFinished | Noted) for event in events),
        )
    except CodecError as error:
        raise JournalNotWritten(
            str(error),
            place=f"run {run}",
            mend="a tool returns JSON values only: see the output of that step",
        ) from error


def _row(run: RunId, event: Event) -> Row:
    kind, body = encode(event)
    step = key = status = None
    if isinstance(event, StepFinished | ItemFinished):
        stored = reusable_output(run, event)
        step, status, key = event.step, event.status, None if stored is None else stored.key
    else:
        step = getattr(event, "step", None)
    return Row(event.at, kind, step, status, key, zlib.crc32(body.encode("ascii")), body)
