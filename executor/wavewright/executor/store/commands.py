"""Commands for the journal's writer thread: batches of entries, and transactions.

An *entry* holds the rows of one append. It is already JSON text, so an event that is not JSON is refused in the caller,
and later changes of its values do not change what is written.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

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
from wavewright.executor.store.errors import EventUnwritable, JournalError
from wavewright.executor.store.journal import reusable_key
from wavewright.executor.store.transaction import TransactionWork
from wavewright.executor.store.writer import call_on_loop, set_exception, set_result
from wavewright.planner.types import RunId

if TYPE_CHECKING:
    from wavewright.executor.store.job_records import OutboxWrites
    from wavewright.executor.store.job_rows import OutboxRows

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
    """`template`, `tag`, `gate` or `model`."""
    value: str


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
    labels: Sequence[RunLabel] = ()
    """What lists of runs are filtered by, as far as these events tell."""


def append_entry(
    run: RunId, events: Sequence[Event], outbox_writes: OutboxWrites | None = None
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
            rows.append(_row(event))
            if isinstance(event, _RUN_EVENTS):
                marks.append(event)
            if isinstance(event, _LABELLING):
                labels |= dict.fromkeys(label for label in _labels(event) if label.value)
            is_end = is_end and isinstance(event, _AFTER_END)
    except CodecError as error:
        raise EventUnwritable(
            str(error),
            place=f"run {run}",
            hint="a tool returns JSON values only: see the output of that step",
        ) from error
    if outbox_writes is None:
        return AppendEntry(run, rows, marks, is_end, labels=[*labels])
    from wavewright.executor.store.job_rows import outbox_rows

    return AppendEntry(run, rows, marks, is_end, outbox_rows(outbox_writes), [*labels])


def _labels(event: RunStarted | PlanAccepted | ModelCalled) -> Iterator[RunLabel]:
    """Yield what an event tells of its run."""
    match event:
        case ModelCalled():
            yield RunLabel("model", event.use.model)
        case RunStarted():
            yield RunLabel("template", str(event.goal.get("name", "")))
            tags = event.goal.get("output_tags")
            yield from (RunLabel("tag", str(tag)) for tag in (tags if isinstance(tags, list) else ()))
        case PlanAccepted():
            gates = event.plan.get("gates")
            for gate in gates if isinstance(gates, list) else ():
                if isinstance(gate, dict):
                    yield RunLabel("gate", str(gate.get("id", "")))


def _row(event: Event) -> EventRow:
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


LockOrder: TypeAlias = tuple[int, str]
"""Of a transaction among those that are executed together: what waits for rows that others may have locked is done in
one order on every machine, and what does not wait comes last, so that there is no deadlock."""
ANY_ORDER: Final[LockOrder] = (1, "")
LAST_ORDER: Final[LockOrder] = (2, "")
"""For what locks rows and waits for none."""
SEPARATE: Final[LockOrder] = (3, "")
"""For what waits for rows that are not known beforehand, or locks more after it has waited: it is a transaction of its
own."""


def job_lock_order(job: str) -> LockOrder:
    """Return the order of what locks a job."""
    return (0, job)


@dataclass(slots=True)
class QueuedTransaction:
    """Something to do in a transaction, and the future of its result."""

    work: TransactionWork[Any]
    loop: asyncio.AbstractEventLoop
    waiting: asyncio.Future[Any]
    lock_order: LockOrder

    def resolve(self, result: object) -> None:
        """Publish the result, once it is committed."""
        call_on_loop(self.loop, set_result, self.waiting, result)

    def reject(self, error: JournalError) -> None:
        """Publish why it was not done."""
        call_on_loop(self.loop, set_exception, self.waiting, error)


def resolve_batch(batch: AppendBatch, faults: dict[RunId, JournalError]) -> None:
    """Resolve the futures of a batch, on its event loop."""
    for entry, future in zip(batch.entries, batch.waiting, strict=True):
        if (fault := faults.get(entry.run)) is None:
            set_result(future, None)
        else:
            set_exception(future, fault)
