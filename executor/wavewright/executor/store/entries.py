"""Rows of one append, ready to be written.

An *entry* holds the rows of one append. It is already JSON text, so an event that is not JSON is
refused in the caller, and later changes of its values do not change what is written.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from wavewright.executor.events.codec import CodecError, encode
from wavewright.executor.events.types import (
    Event,
    ItemFinished,
    ModelCalled,
    Noted,
    PlanAccepted,
    RunFinished,
    RunStarted,
    StepFinished,
)
from wavewright.executor.store.errors import EventUnwritable
from wavewright.executor.store.journal import reusable_key
from wavewright.executor.store.transaction import Alongside
from wavewright.planner import RunId

# Named once: building a union of types for every event takes longer than asking it.
_FINISHED: Final = (StepFinished, ItemFinished)
_RUN_EVENTS: Final = (RunStarted, RunFinished)
_LABELLING: Final = (RunStarted, PlanAccepted, ModelCalled)
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


class RunLabel(NamedTuple):
    """Something by which a list of runs is filtered."""

    kind: str
    """`template`, `tag`, `gate`, `model` or `goal`."""
    value: str


class AppendEntry(NamedTuple):
    """The events of one append, ready to be written."""

    run: RunId
    rows: Sequence[EventRow]
    run_events: Sequence[RunStarted | RunFinished]
    """Events that change the run's own row."""
    is_run_end: bool
    """Whether the events leave a finished run finished."""
    alongside: Alongside | None = None
    """What is written in the same transaction."""
    labels: Sequence[RunLabel] = ()
    """What lists of runs are filtered by, as far as these events tell."""


def append_entry(
    run: RunId, events: Sequence[Event], alongside: Alongside | None = None
) -> AppendEntry:
    """Return the events as rows, and what is written alongside.

    Raises:
        EventUnwritable: an event is not JSON.
    """
    # Not `list[EventRow]()`, which takes ten times as long: every event comes here.
    rows: list[EventRow] = []
    marks: list[RunStarted | RunFinished] = []
    labels: dict[RunLabel, None] = {}
    is_end = True
    try:
        for event in events:
            rows.append(event_row(event))
            if isinstance(event, _RUN_EVENTS):
                marks.append(event)
            if isinstance(event, _LABELLING):
                labels |= dict.fromkeys(event_labels(event))
            is_end = is_end and isinstance(event, _AFTER_END)
    except CodecError as error:
        raise EventUnwritable(
            str(error),
            place=f"run {run}",
            hint="a tool returns JSON values only: see the output of that step",
        ) from error
    return AppendEntry(run, rows, marks, is_end, alongside, [*labels])


def goal_label(job: str, origin: str) -> RunLabel:
    """Return the label of the runs of a job, by its name and file.

    It is cut to what PostgreSQL takes into an index, so different jobs can have the same.
    """
    return RunLabel("goal", f"{origin[-300:]}\n{job[:200]}")


def retry_label(origin: RunId) -> RunLabel:
    """Return the label of the runs that retry a run, directly or through others."""
    return RunLabel("retry", origin)


def event_labels(event: Event) -> Iterator[RunLabel]:
    """Yield what an event tells of its run, by which lists of runs are filtered."""
    yield from (label for label in _labels(event) if label.value)


def _labels(event: Event) -> Iterator[RunLabel]:
    match event:
        case ModelCalled():
            yield RunLabel("model", event.use.model)
        case RunStarted():
            yield goal_label(event.job, str(event.goal.get("origin", "")))
            if event.retry is not None:
                yield retry_label(event.retry.origin)
            yield RunLabel("template", str(event.goal.get("name", "")))
            tags = event.goal.get("output_tags")
            yield from (
                RunLabel("tag", str(tag)) for tag in (tags if isinstance(tags, list) else ())
            )
        case PlanAccepted():
            gates = event.plan.get("gates")
            for gate in gates if isinstance(gates, list) else ():
                if isinstance(gate, dict):
                    yield RunLabel("gate", str(gate.get("id", "")))
        case _:
            pass


def event_row(event: Event) -> EventRow:
    """Return an event as it stands in the `event` table.

    Raises:
        CodecError: it is not JSON.
    """
    kind, body = encode(event)
    crc = zlib.crc32(body.encode("ascii"))
    if isinstance(event, _FINISHED):
        return EventRow(event.at, kind, event.step, event.status, reusable_key(event), crc, body)
    return EventRow(event.at, kind, getattr(event, "step", None), None, None, crc, body)


@dataclass(slots=True)
class AppendBatch:
    """What was appended in one tick of the event loop."""

    loop: asyncio.AbstractEventLoop
    entries: list[AppendEntry] = field(default_factory=list[AppendEntry])
    waiting: list[asyncio.Future[None]] = field(default_factory=list["asyncio.Future[None]"])
    """One future an entry."""
