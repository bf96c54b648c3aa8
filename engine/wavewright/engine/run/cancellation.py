"""What interrupts or cancels a run from outside: signals, a caller, a cancel request, or a spent
budget of a cycle.

A run that is interrupted, by Ctrl-C, SIGTERM or a caller, can be resumed; a cancel request ends the
run for good, and its end is journaled with who wanted it, and when.

A *cycle* of a standing job starts with a target and ends when that target has ended or when the
budget of the cycle is spent; the target then continues in the next cycle. What a cycle has used
follows from the journal, so a cycle continues after a crash.
"""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import anyio

from wavewright.config.identities import Identity
from wavewright.engine.run.target_waves import target_runs
from wavewright.executor import Event, Journal, JournalError, Noted, RunFinished, fold
from wavewright.executor.run.ports import DrainSignal
from wavewright.executor.store.journal import CancelRequest
from wavewright.planner import RunId
from wavewright.planner.ports.budgets import BudgetExceeded, CallDeferred

POLL_SECONDS: Final = 1.0
"""Between two queries for a cancel request."""
STOP_GRACE_SECONDS: Final = 3.0
"""How long other calls of a stopped run may go on."""
_WARNING_SHARE: Final = 0.1
"""Share of a cycle's budget that is left when a warning is given."""

FindCancelRequest: TypeAlias = Callable[[RunId], Awaitable[CancelRequest | None]]
"""Returns who has requested the cancellation of a run, if there is a request."""


class CancellationToken:
    """Cancels everything that runs inside its scopes; scopes opened after `cancel` are cancelled at
    once.
    """

    def __init__(self) -> None:
        self._scopes: dict[anyio.CancelScope, DrainSignal | None] = {}
        self.is_cancelled = False
        self.request: CancelRequest | None = None
        """The cancel request, where that is why it is cancelled."""
        self.is_draining = False
        """Whether nothing more may start."""

    @property
    def has_open_scopes(self) -> bool:
        """Whether something runs that `cancel` would cancel."""
        return bool(self._scopes)

    def drain(self, within: float | None = None) -> None:
        """Start nothing more, and cancel once nothing is running.

        Args:
            within: Seconds after which everything is cancelled; None for no limit.
        """
        if within is not None:
            asyncio.get_running_loop().call_later(within, self.cancel)
        self.is_draining = True
        for drain_signal in [*self._scopes.values()]:
            if drain_signal is not None:
                drain_signal.start_draining(self._cancel_if_idle)
        self._cancel_if_idle()

    def cancel(self) -> None:
        """Cancel every open scope."""
        self.is_cancelled = True
        for scope in self._scopes:
            scope.cancel()

    async def cancel_on_request(
        self, run: Callable[[], RunId | None], find: FindCancelRequest
    ) -> None:
        """Wait for a cancel request, and cancel; a store that cannot be read is asked again."""
        while self.request is None:
            await anyio.sleep(POLL_SECONDS)
            begun = run()
            if begun is None:
                # A new run has no id before its first event, and nobody can have named it.
                continue
            with suppress(JournalError):
                self.request = await find(begun)
        self.cancel()

    @contextmanager
    def scope(self, drain_signal: DrainSignal | None = None) -> Generator[anyio.CancelScope]:
        """Open a scope that `cancel` cancels; without a drain signal it counts as running while it
        is open.
        """
        with anyio.CancelScope() as scope:
            self._scopes[scope] = drain_signal
            if self.is_cancelled:
                scope.cancel()
            elif self.is_draining and drain_signal is not None:
                drain_signal.start_draining(self._cancel_if_idle)
            try:
                yield scope
            finally:
                del self._scopes[scope]
                self._cancel_if_idle()

    def _cancel_if_idle(self) -> None:
        """Cancel if nothing is running any more."""
        is_idle = all(
            drain_signal is not None and drain_signal.is_drained
            for drain_signal in self._scopes.values()
        )
        if self.is_draining and not self.is_cancelled and is_idle:
            self.cancel()


@contextmanager
def signals_wake_loop() -> Generator[None]:
    """Open a context in which each signal that Python handles wakes the running event loop.

    Python calls a signal's handler in the main thread, the next time that thread executes Python
    code. A signal that the system delivers to another thread, or just before the loop begins to
    wait for I/O, does not end that wait: without a wakeup descriptor the handler would be called
    only after some other event.

    It is entered on the event loop of the main thread. Handlers stay as they are.
    """
    loop = asyncio.get_running_loop()
    reader, writer = socket.socketpair()
    with reader, writer:
        writer.setblocking(False)
        loop.add_reader(reader, reader.recv, 4096)
        before = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(reader)


OnTokens = Callable[[int, int], None]
"""Called with the tokens that a cycle has used and those that remain."""


@dataclass(slots=True)
class Cycles:
    """The cycles of one attempt of a standing job."""

    pause: float
    """Seconds between two cycles."""
    tokens: int | None
    """Tokens of one cycle; None for no limit."""
    clock: Callable[[], float]
    """Seconds since the epoch."""
    cancellation: CancellationToken
    """Stops the job when the budget of its cycle is spent."""
    on_warning: OnTokens
    on_spent: OnTokens
    resumes_at: float | None = None
    """When the next cycle starts, where one has ended."""
    is_spent: bool = False
    """Whether the budget of this cycle is spent."""
    _used: int = 0
    _reserved: dict[int, int] = field(default_factory=dict[int, int])
    """Tokens by reservation."""
    _has_warned: bool = False
    _settled: anyio.Event = field(default_factory=anyio.Event)

    def begin(self, used: int) -> None:
        """Begin or continue a cycle that has used some tokens."""
        self._used, self._has_warned = used, False

    def end(self) -> float:
        """End the cycle; return when the next one starts."""
        self.resumes_at = self.clock() + self.pause
        return self.resumes_at

    def is_paused_until(self, at: float) -> bool:
        """Whether the next cycle starts at a later time than now, which is noted."""
        self.resumes_at = at if self.clock() < at else None
        return self.resumes_at is not None

    async def require(self, asked: int) -> None:
        """Return where the cycle has so many tokens left; else stop the job.

        Other calls may use less than was reserved for them, so those in progress are waited for
        first.

        Raises:
            BudgetExceeded: a whole cycle has fewer.
            CallDeferred: the job is stopped; the call is made in the next cycle.
        """
        if self.tokens is None:
            return
        if asked > self.tokens:
            raise BudgetExceeded(
                f"the call may use {asked} tokens, and a cycle has {self.tokens}",
                scope="cycle",
                hint="raise daemon.standing.tokens_per_cycle, or limit the call's output",
            )
        while asked > self.tokens - self._used - sum(self._reserved.values()):
            if not self._reserved:
                if not self.is_spent:
                    self.is_spent = True
                    self.on_spent(self._used, self.tokens - self._used)
                self.cancellation.drain(STOP_GRACE_SECONDS)
                raise CallDeferred("the tokens of the cycle are spent")
            await self._settled.wait()

    def reserve(self, reservation: int, tokens: int) -> None:
        """Reserve tokens for a call."""
        self._reserved[reservation] = tokens

    def settle(self, reservation: int, tokens: int) -> None:
        """Replace a reservation by what the call has used."""
        self._reserved.pop(reservation, None)
        self._used += tokens
        self._settled.set()
        self._settled = anyio.Event()
        if self.tokens is None or self._has_warned:
            return
        left = self.tokens - self._used
        if left <= _WARNING_SHARE * self.tokens:
            self._has_warned = True
            self.on_warning(self._used, max(0, left))


CANCELLED: Final = "cancelled"
"""Topic of the note of who has cancelled a run."""


async def end_cancelled(
    journal: Journal, run: RunId, request: CancelRequest, now: float
) -> list[Event]:
    """Journal the end of a run that is open here, and of the runs of its targets; return the events
    of its own.

    Raises:
        RunBusy: another process has the run of a target open.
        JournalError: the end could not be written.
    """
    events: list[Event] = [
        Noted(now, CANCELLED, {**Identity.parse(request.by).fields, "requested": request.at}),
        RunFinished(now, "cancelled", cancel_reason(request)),
    ]
    # The targets first: a root run that has ended is not looked at again.
    for target in target_runs(fold(await journal.load(run))):
        if not fold(await journal.load(target)).has_ended:
            await journal.append(target, events)
            await journal.close_run(target)
    await journal.append(run, events)
    return events


def cancel_reason(request: CancelRequest) -> str:
    """Return why a run or a job has ended that was cancelled."""
    return f"cancelled by {request.by}"
