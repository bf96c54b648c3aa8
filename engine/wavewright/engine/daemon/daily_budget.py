"""The daily budget: once it is spent, nothing is begun until the next day (UTC).

A run that asks for more than the day has left is not refused, which would cost it its models and its result some of
its worth: it is stopped where it stands, and its job goes on when the day is over.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Final

import anyio

from wavewright.engine.pipeline.cancellation import CancellationToken
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.budgets import (
    Allowance,
    BudgetExceeded,
    BudgetScope,
    CallDeferred,
    InspectableBudgetStore,
    RemainingBudget,
    Reservation,
    Spend,
)
from wavewright.planner.ports.model_port import ModelUse, Role
from wavewright.planner.types import RunId

STOP_GRACE_SECONDS: Final = 3.0
"""For calls that are under way in a run that is stopped; the one that is put off waits for that, and has no end."""
_ROUNDING_TOLERANCE: Final = 1e-9
"""What sums of dollars and seconds may be off by."""
MAX_CLOCK_POLL_SECONDS: Final = 1.0
"""Seconds after which the clock is looked at again: it may have been set."""


def next_day_start(now: float) -> float:
    """Return when the day after an instant begins, in UTC."""
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return (today + timedelta(days=1)).timestamp()


class DailyBudget:
    """Whether the day's budget is spent, and whom that stops."""

    def __init__(
        self,
        clock: Callable[[], float],
        tell_spent: Callable[[str, float], None],
        tell_begun: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin with a day that has something left.

        Args:
            clock: Seconds since the epoch.
            tell_spent: Told once a day that its budget is spent: the reason, and when the next day begins.
            tell_begun: Told once that the next day has begun.
        """
        self._clock = clock
        self._on_spent = tell_spent
        self._on_renewed = tell_begun
        self._resumes_at: float | None = None
        self._runs = dict[RunId, CancellationToken]()

    @property
    def paused_until(self) -> float | None:
        """When work goes on, where the budget is spent."""
        if self._resumes_at is not None and self._clock() >= self._resumes_at:
            self._resumes_at = None
            self._on_renewed()
        return self._resumes_at

    def mark_spent(self, reason: str, run: RunId | None) -> None:
        """Note that the budget is spent, and stop the run that has found out."""
        if self.paused_until is None:
            self._resumes_at = next_day_start(self._clock())
            self._on_spent(reason, self._resumes_at)
        if run is not None:
            self.stop_run(run)

    def stop_run(self, run: RunId) -> None:
        """Stop a run that can ask nothing more for now; its job goes on later."""
        if (cancellation := self._runs.get(run)) is not None:
            cancellation.drain(STOP_GRACE_SECONDS)
        else:
            # Whose it is, is not known here, and it would wait for ever.
            for cancellation in self._runs.values():
                cancellation.drain(STOP_GRACE_SECONDS)

    @contextmanager
    def stops_when_spent(
        self, run: RunId, cancellation: CancellationToken
    ) -> Generator[Callable[[RunId], None]]:
        """Stop the run when it asks for more than the day has left, while the block runs.

        What is given is to be told of each further run that is stopped with it: those of its targets.
        """
        runs = list[RunId]()

        def also(one: RunId) -> None:
            runs.append(one)
            self._runs[one] = cancellation

        also(run)
        try:
            yield also
        finally:
            for one in runs:
                self._runs.pop(one, None)

    async def wait_available(self) -> None:
        """Wait until the budget is not, or no longer, spent."""
        while (until := self.paused_until) is not None:  # noqa: ASYNC110 - a time is waited for, not somebody's word
            await anyio.sleep(min(max(until - self._clock(), 0.0), MAX_CLOCK_POLL_SECONDS))


async def is_daily_budget_spent(budget_store: InspectableBudgetStore) -> bool:
    """Whether the day's budget is spent already: by whoever worked today before this daemon was started."""
    left = (await budget_store.left(BudgetScope())).day
    return any(
        bound is not None and bound <= 0 for bound in (left.calls, left.tokens, left.usd, left.seconds)
    )


def format_instant(at: float) -> str:
    """Return an instant as people read it, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _PendingCall:
    """One call for which something is asked or put aside."""


class PausingBudgetStore:
    """A purse that stops a run at the end of the day's budget, and leaves every other refusal to the run."""

    def __init__(self, budget_store: InspectableBudgetStore, day: DailyBudget) -> None:
        self._store = budget_store
        self._daily = day
        self._reserved = dict[int, _PendingCall]()
        """What was put aside here and is not settled, by the purse's own ids."""
        self._reserving = set[_PendingCall]()
        self._settled = anyio.Event()

    def limit_run(self, run: RunId, budget: Budget | None) -> None:
        """Hold a run to its goal's own budget."""
        self._store.limit_run(run, budget)

    async def reserve(self, account: BudgetScope, amount: Spend) -> Reservation:
        """Put something aside; where the day has not so much left, stop the run.

        What is put aside for other calls may come to less: those that are under way here are waited for first.

        Raises:
            OverBudget: it is more than is left of another budget, or than a whole day has.
            PutOff: the run is stopped; what is under way is not failed, and goes on when the run does.
        """
        awaited, is_first = self._pending, True
        while True:
            is_last = not awaited
            try:
                return await self._reserve_once(account, amount)
            except BudgetExceeded as refusal:
                if refusal.scope != "day" or not await self._fits_a_fresh_day(account, amount):
                    raise
                if is_first:
                    # Some may have been given what they asked for at the same time.
                    awaited, is_first = awaited | self._pending, False
                    is_last = not awaited
                if is_last:
                    self._daily.mark_spent(str(refusal), account.run)
                    raise CallDeferred from refusal
            awaited = await self._wait_for_settlement(awaited)

    async def _wait_for_settlement(self, awaited: set[_PendingCall]) -> set[_PendingCall]:
        """Return which of those are open still, once they are fewer."""
        while (left := awaited & self._pending) == awaited:
            await self._settled.wait()
        return left

    @property
    def _pending(self) -> set[_PendingCall]:
        return {*self._reserved.values(), *self._reserving}

    async def _reserve_once(self, account: BudgetScope, amount: Spend) -> Reservation:
        asked = _PendingCall()
        self._reserving.add(asked)
        try:
            reservation = await self._store.reserve(account, amount)
            self._reserved[reservation.id] = asked
        finally:
            self._reserving.discard(asked)
            self._notify_settled()
        return reservation

    async def _fits_a_fresh_day(self, account: BudgetScope, amount: Spend) -> bool:
        """Whether a fresh day has room for it: what is too much for one, or has no price, is so every day."""
        day = (await self._store.left(account)).day
        return day.spent != Spend() and _has_room(_unspent(day), amount)

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by what it came to."""
        try:
            await self._store.settle(reservation, spent, use)
        finally:
            self._reserved.pop(reservation.id, None)
            self._notify_settled()

    def _notify_settled(self) -> None:
        self._settled.set()
        self._settled = anyio.Event()

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what an account could still reserve, on a fresh day: what this day cannot pay for is put off.

        A plan that is held against it is refused only where no day could pay for it.
        """
        left = await self._store.left(account)
        return replace(left, day=_unspent(left.day))

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return how long calls took before."""
        return await self._store.past_seconds(model, role)


def _unspent(left: RemainingBudget) -> RemainingBudget:
    """Return what there is of a budget while nothing of it is spent."""
    spent = left.spent
    return RemainingBudget(
        None if left.calls is None else left.calls + spent.calls,
        None if left.tokens is None else left.tokens + spent.tokens,
        None if left.usd is None else left.usd + spent.usd,
        None if left.seconds is None else left.seconds + spent.seconds,
    )


def _has_room(left: RemainingBudget, amount: Spend) -> bool:
    bounds = (
        (left.calls, amount.calls),
        (left.tokens, amount.tokens),
        (left.usd, amount.usd),
        (left.seconds, amount.seconds),
    )
    # A price that nobody knows is no finite number.
    return all(
        bound is None or (isfinite(asked) and asked <= bound + _ROUNDING_TOLERANCE) for bound, asked in bounds
    )
