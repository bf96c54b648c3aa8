"""Cycles of a standing job: one target each, with a pause after each and a budget of tokens.

A *cycle* starts with a target and ends when that target has ended or when the budget of the cycle is spent; the target
then continues in the next cycle. What a cycle has used follows from the journal, so a cycle continues after a crash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import anyio

from wavewright.engine.pipeline.cancellation import CancellationToken
from wavewright.planner.ports.budgets import BudgetExceeded, CallDeferred

STOP_GRACE_SECONDS: Final = 3.0
"""How long other calls of a stopped run may go on."""
_WARNING_SHARE: Final = 0.1
"""Share of the budget that is left when a warning is given."""

OnTokens = Callable[[int, int], None]
"""Called with the tokens that are used and those that remain."""


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

        Other calls may use less than was reserved for them, so those in progress are waited for first.

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
