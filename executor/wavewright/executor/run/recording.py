"""What is recorded of a run: events, committed to the journal and then applied to the state.

Events are *recorded* as they happen and *committed* in batches: events that were recorded while the
journal was writing form the next batch. Only committed events change the state, reach the listener
and free dependants, so nothing depends on an event that a crash could undo.

Below the recorder are the endings of calls, items and whole fan-outs, as events.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, TypeAlias

import anyio

from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import (
    ErrorKind,
    Event,
    ItemFinished,
    StepError,
    StepFinished,
    StepStarted,
    StepStatus,
)
from wavewright.executor.run.failures import UNCLEAR_KINDS
from wavewright.executor.run.ports import Clock
from wavewright.executor.run.rules import FromEqualCall, FromRetriedRun, OutputSource
from wavewright.executor.run.scheduled_calls import FanOut, ScheduledCall
from wavewright.executor.store.journal import Journal, MemoryJournal
from wavewright.executor.store.leases import LEASE_SECONDS
from wavewright.planner import Json, RunId, StepId, StepKey
from wavewright.planner.diagnostics.diagnostic import counted

Listener: TypeAlias = Callable[[Event], None]
ItemStatus: TypeAlias = Literal["ok", "empty", "failed", "reused"]

_FOLD_BATCH = 1024
"""Maximum of committed events that are not folded into the state; in bulk they cost a fraction."""
_SECONDS_BEFORE_START_IS_COMMITTED = 0.2
"""How long the start of a step that nobody waits for may go without being committed."""


class EventRecorder:
    """Records and commits the events of one run; without a journal only the state has them."""

    def __init__(
        self,
        run: RunId,
        journal: Journal | None,
        state: RunState,
        on_event: Listener | None,
        clock: Clock,
        redact: Callable[[Event], tuple[Event, Event]],
    ) -> None:
        self.on_commit: Callable[[Iterable[Event]], None] = lambda _events: None
        """Called with committed events; it may record more."""
        self._state = state
        self._unfolded: list[Event] = []
        self._run = run
        self._journal = journal
        self._on_event = on_event
        self._redact = redact
        self._pending: list[Event] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._wake: asyncio.Future[None] | None = None
        self._closed = False
        self._start_timer: asyncio.TimerHandle | None = None
        self._clock = clock
        self._lease_checked_at = self._instant()
        """When the journal was last written to, which only the owner of the lease can."""
        self.is_instant = journal is None or isinstance(journal, MemoryJournal)
        """Whether a commit never waits, so that no task is needed for it."""

    @property
    def state(self) -> RunState:
        """The state after all committed events."""
        if self._unfolded:
            self._fold()
        return self._state

    def _fold(self) -> None:
        self._state = fold(self._unfolded, self._state)
        self._unfolded.clear()

    def record(self, event: Event) -> None:
        """Record an event; it is applied once it is committed."""
        self._pending.append(event)
        self._wake_up()

    def record_start(self, step: StepId) -> None:
        """Record that a step runs, for those who watch; it is committed with the next event, or a
        moment later.
        """
        if self._journal is None and self._on_event is None:
            return
        self._pending.append(StepStarted(self._clock.wall(), step))
        if self._start_timer is None:
            loop = asyncio.get_running_loop()
            self._start_timer = loop.call_later(
                _SECONDS_BEFORE_START_IS_COMMITTED, self._commit_starts
            )

    def _commit_starts(self) -> None:
        self._start_timer = None
        self.commit_now()
        self._wake_up()

    async def committed(self) -> None:
        """Wait until everything recorded so far is in the journal."""
        if self._pending and not self.is_instant:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    async def check_lease(self) -> None:
        """Raise where another owner may have taken the run's lease.

        A lease is taken over when its owner has not renewed it for longer than its duration. A
        process that was suspended for so long checks the lease here before it makes a call.

        Raises:
            JournalError: another owner has the run, or the journal cannot be reached.
        """
        if self.is_instant or self._journal is None:
            return
        asked_at = now, wall = self._instant()
        held_at, held_wall = self._lease_checked_at
        # The monotonic clock stops while the machine sleeps, and the wall clock may be set.
        if 0 <= now - held_at < LEASE_SECONDS and 0 <= wall - held_wall < LEASE_SECONDS:
            return
        await self._journal.append(self._run, [])
        self._lease_checked_at = asked_at

    def _instant(self) -> tuple[float, float]:
        return self._clock.monotonic(), self._clock.wall()

    def commit_now(self) -> None:
        """Commit recorded events, where the journal never waits."""
        while self._pending and self.is_instant:
            batch, self._pending = self._pending, []
            journaled, published = self._redacted(batch)
            if self._journal is not None:
                # A `MemoryJournal` has written when `append` returns.
                self._journal.append(self._run, journaled)
            self._apply_committed(batch, published)
            self.on_commit(batch)

    async def _commit_pending(self) -> None:
        while self._pending and self._journal is not None:
            batch, self._pending = self._pending, []
            waiting, self._waiting = self._waiting, []
            asked_at = self._instant()
            journaled, published = self._redacted(batch)
            await self._journal.append(self._run, journaled)
            self._lease_checked_at = asked_at
            self._apply_committed(batch, published)
            for future in waiting:
                if not future.done():
                    future.set_result(None)
            self.on_commit(batch)

    def _redacted(self, batch: list[Event]) -> tuple[Sequence[Event], Sequence[Event]]:
        """Return events as they are journaled, and as the listener gets them."""
        if self._journal is None and self._on_event is None:
            return batch, batch
        journaled, published = zip(*map(self._redact, batch), strict=True)
        return journaled, published

    def _apply_committed(self, batch: list[Event], published: Sequence[Event]) -> None:
        self._unfolded += batch
        if len(self._unfolded) >= _FOLD_BATCH:
            self._fold()
        if self._on_event is not None:
            for event in published:
                self._on_event(event)

    async def commit_until_closed(self) -> None:
        """Commit recorded events until `close` was called and none is left.

        Shielded from cancellation, so that a cancelled run journals what has ended.
        """
        with anyio.CancelScope(shield=True):
            while True:
                await self._commit_pending()
                if self._closed:
                    return
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake

    def close(self) -> None:
        """Let `commit_until_closed` return once all events are committed."""
        self._closed = True
        if self._start_timer is not None:
            self._start_timer.cancel()
        self._wake_up()

    def _wake_up(self) -> None:
        # The future is cancelled where the event loop is closed; nothing is written then.
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
        self._wake = None


# -- endings


def step_ending(
    call: ScheduledCall,
    status: StepStatus,
    output: Json,
    clock: Clock,
    *,
    error: StepError | None = None,
    reason: str | None = None,
    fan_out: FanOut | None = None,
) -> StepFinished:
    """Return the ending of a step, now, without its gates."""
    items = None
    if fan_out is not None:
        items = len(fan_out_items(fan_out)), len(fan_out.chosen)
    return StepFinished(
        at=clock.wall(),
        step=call.step.id,
        status=status,
        key=call.key,
        output=output,
        error=error,
        started=call.started,
        seconds=clock.monotonic() - call.clock_start,
        attempts=call.attempt,
        items=items,
        reason=reason,
        withheld=call.withheld,
        data=call.written,
        cache_key=call.cache_key,
    )


def item_ending(
    call: ScheduledCall,
    status: ItemStatus,
    output: Json,
    clock: Clock,
    error: StepError | None = None,
) -> ItemFinished:
    """Return the ending of an item's call, now."""
    assert call.item is not None
    return ItemFinished(
        at=clock.wall(),
        step=call.step.id,
        index=call.item,
        key=call.key,
        status=status,
        output=output,
        error=error,
        seconds=clock.monotonic() - call.clock_start,
        attempts=call.attempt,
        withheld=call.withheld,
        data=call.written,
        cache_key=call.cache_key,
    )


def reuse_reason(source: OutputSource) -> str:
    """Return in words whose output a reused one is."""
    if isinstance(source, FromEqualCall):
        return f"an equal call was made by {source.ending.step!r}"
    if isinstance(source, FromRetriedRun):
        return f"taken over from run {source.run!r}"
    return f"run {source.output.run!r} made the same call"


def fan_out_result(fan: FanOut) -> tuple[StepStatus, Json, StepError | None]:
    """Return status, output and error of a `for_each` step all of whose items have ended."""
    ended = fan.ended
    succeeded = [ending for ending in ended if ending.status != "failed"]
    needed = len(ended) if fan.step.min_ok is None else min(fan.step.min_ok, len(ended))
    if len(succeeded) < needed:
        return "failed", None, _fan_out_error(ended, len(succeeded))
    output: Json = [ending.output for ending in succeeded]
    if not output:
        return "empty", output, None
    if all(ending.status == "reused" for ending in ended):
        return "reused", output, None
    return "ok", output, None


def fan_out_items(fan: FanOut) -> list[tuple[int, Json]]:
    """Return index and item of each entry of a fan-out's output."""
    return [
        (ending.index, fan.items[ending.index]) for ending in fan.ended if ending.status != "failed"
    ]


def fan_out_key(keys: Sequence[StepKey | None]) -> StepKey:
    """Return the key of a `for_each` step from those of its items; one that cannot be made has none."""
    digest = hashlib.sha256()
    for key in keys:
        digest.update(b"none" if key is None else key.encode())
    return StepKey(f"items-{digest.hexdigest()}")


def _fan_out_error(ended: list[ItemFinished], succeeded: int) -> StepError:
    """Return the error of a `for_each` step: how many items succeeded, and the first failure of each
    kind.

    Of several kinds the step has none of them, and the hint is that of a call which may have taken
    effect: it is the one that asks something of a person.
    """
    first_of_kind = dict[ErrorKind, tuple[int, StepError]]()
    for ending in ended:
        if ending.error is not None:
            first_of_kind.setdefault(ending.error.kind, (ending.index, ending.error))
    failures = [f"item {index}: {error.message}" for index, error in first_of_kind.values()]
    errors = [error for _, error in first_of_kind.values()]
    unclear = [error for error in errors if error.kind in UNCLEAR_KINDS]
    hinted = [*unclear, *errors][0]
    return StepError(
        kind=errors[0].kind if len(errors) == 1 else "items",
        message=f"{succeeded:,} of {counted(len(ended), 'item')} succeeded; {'; '.join(failures)}",
        attempts=sum(ending.attempts for ending in ended),
        hint=hinted.hint,
        frames=hinted.frames,
    )
