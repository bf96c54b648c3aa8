"""The way of events into the journal, and from there into the state.

Events are *recorded* as they happen and *committed* in batches, one batch a tick of the event loop: whatever was
recorded while the journal was writing goes out together. Only committed events change the state, reach the
listener and let dependants start, so nobody ever acts on what a crash could undo. The state holds them as they
happened; the journal keeps no secret that no later step reads, and the listener is told of none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence

import anyio

from wavewright.executor.clock import Clock
from wavewright.executor.events import Event
from wavewright.executor.journal import Journal, MemoryJournal
from wavewright.executor.lease import LEASE_SECONDS
from wavewright.executor.state import RunState, fold
from wavewright.planner.types import RunId

Listener = Callable[[Event], None]

_FOLD_BATCH = 1024
"""Committed events that may wait to be folded: in bulk they cost a fraction of what each costs alone."""


class EventRecorder:
    """The events of one run on their way; without a journal they live in the state alone."""

    def __init__(
        self,
        run: RunId,
        journal: Journal | None,
        state: RunState,
        on_event: Listener | None,
        clock: Clock,
        journaled: Callable[[Event], tuple[Event, Event]],
    ) -> None:
        self._state = state
        self._unfolded: list[Event] = []
        self._run = run
        self._journal = journal
        self._on_event = on_event
        self._journaled = journaled
        self._pending: list[Event] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._wake: asyncio.Future[None] | None = None
        self._closed = False
        self._clock = clock
        self._lease_checked_at = self._instant()
        """When the journal last took something, which it does for the run's owner alone."""
        self.is_instant = journal is None or isinstance(journal, MemoryJournal)
        """Whether a commit never waits, so that it needs no task of its own."""

    @property
    def state(self) -> RunState:
        """The state after all that is committed."""
        if self._unfolded:
            self._fold()
        return self._state

    def _fold(self) -> None:
        self._state = fold(self._unfolded, self._state)
        self._unfolded.clear()

    def record(self, event: Event) -> None:
        """Note an event; it counts once it is committed."""
        self._pending.append(event)
        self._wake_up()

    async def committed(self) -> None:
        """Wait until everything recorded so far is in the journal."""
        if self._pending and not self.is_instant:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(future)
            await future

    async def check_lease(self) -> None:
        """Return where nobody else can have the run by now.

        Whoever replaces an owner waits for longer than a lease without a sign of it. A process that was stopped for
        so long, and goes on, finds out here and not by what it does a second time.

        Raises:
            JournalError: another owner came, or nobody can tell.
        """
        if self.is_instant or self._journal is None:
            return
        asked_at = now, wall = self._instant()
        held_at, held_wall = self._lease_checked_at
        # The machine's monotonic clock stands still while the machine sleeps, and the other one may be set.
        if 0 <= now - held_at < LEASE_SECONDS and 0 <= wall - held_wall < LEASE_SECONDS:
            return
        await self._journal.append(self._run, [])
        self._lease_checked_at = asked_at

    def _instant(self) -> tuple[float, float]:
        return self._clock.monotonic(), self._clock.wall()

    def commit_now(self, apply: Callable[[Iterable[Event]], None]) -> None:
        """Commit what is pending to a journal that never waits, and apply it; applying may record more."""
        while self._pending:
            batch, self._pending = self._pending, []
            kept, told = self._redacted(batch)
            if self._journal is not None:
                # A `MemoryJournal` is done when it returns.
                self._journal.append(self._run, kept)
            self._apply_committed(batch, told)
            apply(batch)

    async def _commit_pending(self, apply: Callable[[Iterable[Event]], None]) -> None:
        while self._pending and self._journal is not None:
            batch, self._pending = self._pending, []
            waiting, self._waiting = self._waiting, []
            asked_at = self._instant()
            kept, told = self._redacted(batch)
            await self._journal.append(self._run, kept)
            self._lease_checked_at = asked_at
            self._apply_committed(batch, told)
            for future in waiting:
                if not future.done():
                    future.set_result(None)
            apply(batch)

    def _redacted(self, batch: list[Event]) -> tuple[Sequence[Event], Sequence[Event]]:
        """Return events as they are journaled, and as the listener is told of them."""
        if self._journal is None and self._on_event is None:
            return batch, batch
        kept, told = zip(*map(self._journaled, batch), strict=True)
        return kept, told

    def _apply_committed(self, batch: list[Event], told: Sequence[Event]) -> None:
        self._unfolded += batch
        if len(self._unfolded) >= _FOLD_BATCH:
            self._fold()
        if self._on_event is not None:
            for event in told:
                self._on_event(event)

    async def commit_until_closed(self, apply: Callable[[Iterable[Event]], None]) -> None:
        """Commit whatever is recorded, until `close` was called and nothing is left.

        Shielded: a run that is cancelled still writes down what it has done.
        """
        with anyio.CancelScope(shield=True):
            while True:
                await self._commit_pending(apply)
                if self._closed:
                    return
                self._wake = asyncio.get_running_loop().create_future()
                await self._wake

    def close(self) -> None:
        """Let `commit_until_closed` return once nothing is left."""
        self._closed = True
        self._wake_up()

    def _wake_up(self) -> None:
        # Cancelled where the event loop ends under the run: nothing is written any more then.
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)
        self._wake = None
