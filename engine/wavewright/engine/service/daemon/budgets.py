"""The budgets of a day and of a cycle, over those of runs and jobs, and the standing job, which
runs in cycles.

Once the daily budget is spent, no job starts until the next day (UTC).

A run whose reservation exceeds the day's remaining budget is not refused, since its result would
suffer: it is interrupted, and its job continues the next day. A standing job whose cycle has spent
its budget is stopped in the same way until its next cycle.

The *standing job* is what the settings ask the daemon to do by itself. Its id is made of the
settings that make it, so that a daemon that starts again continues the same job, and other settings
make another job. Its state is that of any job: the job store and the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Final

import anyio

from wavewright.config.sections import DaemonSection
from wavewright.engine.run.cancellation import (
    STOP_GRACE_SECONDS,
    CancellationToken,
    Cycles,
)
from wavewright.engine.service.job_store.records import (
    PRIORITY_KEY,
    JobId,
    JobRequested,
    JobRow,
    MessageId,
    ReceivedMessage,
)
from wavewright.engine.service.messages.decoding import SOURCE_KEY
from wavewright.engine.service.messages.models import standing_job_id
from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.planner.language.hashing import content_hash
from wavewright.planner.ports.budgets import (
    Allowance,
    BudgetExceeded,
    BudgetScope,
    CallDeferred,
    InspectableBudgetStore,
    RemainingBudget,
    Reservation,
    Spend,
    WrapperBudgetStore,
)
from wavewright.planner.ports.model_port import ModelUse
from wavewright.planner.types import JsonObject, RunId
from wavewright.tools.message_contract import GOAL_KEY, RequestedGoal

_ROUNDING_TOLERANCE: Final = 1e-9
"""Rounding error of sums of dollars and seconds."""
MAX_CLOCK_POLL_SECONDS: Final = 1.0
"""How often the clock is read: it may have been set."""


def next_day_start(now: float) -> float:
    """Return the start of the next day (UTC), in seconds since the epoch."""
    today = datetime.fromtimestamp(now, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return (today + timedelta(days=1)).timestamp()


class DailyBudget:
    """Whether the day's budget is spent, and the runs to stop when it is."""

    def __init__(
        self,
        clock: Callable[[], float],
        on_spent: Callable[[str, float], None],
        on_renewed: Callable[[], None] = lambda: None,
    ) -> None:
        """Begin with a budget that is not spent.

        Args:
            clock: Seconds since the epoch.
            on_spent: Called once a day when its budget is spent, with the reason and the start of
                the next day.
            on_renewed: Called once when the next day has begun.
        """
        self._clock = clock
        self._on_spent = on_spent
        self._on_renewed = on_renewed
        self._resumes_at: float | None = None
        self._runs = dict[RunId, CancellationToken]()

    @property
    def paused_until(self) -> float | None:
        """When jobs continue, where the budget is spent; else None."""
        if self._resumes_at is not None and self._clock() >= self._resumes_at:
            self._resumes_at = None
            self._on_renewed()
        return self._resumes_at

    def mark_spent(self, reason: str, run: RunId | None) -> None:
        """Note that the budget is spent, and stop the run whose reservation failed."""
        if self.paused_until is None:
            self._resumes_at = next_day_start(self._clock())
            self._on_spent(reason, self._resumes_at)
        if run is not None:
            self.stop_run(run)

    def stop_run(self, run: RunId) -> None:
        """Stop a run that cannot call its model for now; its job continues later."""
        known = self._runs.get(run)
        # An unknown run would wait for ever, so all runs are stopped for it.
        for cancellation in self._runs.values() if known is None else (known,):
            cancellation.drain(STOP_GRACE_SECONDS)

    @contextmanager
    def stops_when_spent(
        self, run: RunId, cancellation: CancellationToken
    ) -> Generator[Callable[[RunId], None]]:
        """Stop the run when its reservation exceeds the day's remaining budget, while the block
        runs.

        Gives a function that adds a further run to stop with it: that of one of its targets.
        """
        runs = list[RunId]()

        def add(one: RunId) -> None:
            runs.append(one)
            self._runs[one] = cancellation

        add(run)
        try:
            yield add
        finally:
            for one in runs:
                self._runs.pop(one, None)

    async def wait_available(self) -> None:
        """Return once the budget is not spent."""
        while (until := self.paused_until) is not None:  # noqa: ASYNC110 - it waits for a time of day
            await anyio.sleep(min(max(until - self._clock(), 0.0), MAX_CLOCK_POLL_SECONDS))


async def is_daily_budget_spent(budget_store: InspectableBudgetStore) -> bool:
    """Whether the day's budget is spent already, by daemons and runs before this one."""
    left = (await budget_store.left(BudgetScope())).day
    return any(
        bound is not None and bound <= 0
        for bound in (left.calls, left.tokens, left.usd, left.seconds)
    )


def format_instant(at: float) -> str:
    """Return an instant in ISO 8601, in UTC and whole seconds."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _PendingCall:
    """A call with a reservation that is being made or is not settled."""


class PausingBudgetStore(WrapperBudgetStore):
    """A budget store that stops a run where the day's budget is spent, and passes on every other
    refusal.
    """

    def __init__(self, budget_store: InspectableBudgetStore, day: DailyBudget) -> None:
        super().__init__(budget_store)
        self._daily = day
        self._reserved = dict[int, _PendingCall]()
        """Calls with a reservation that is not settled, by the reservation's id."""
        self._reserving = set[_PendingCall]()
        self._settled = anyio.Event()

    async def reserve(self, account: BudgetScope, amount: Spend) -> Reservation:
        """Reserve an amount; where it exceeds the day's remaining budget, stop the run.

        Other calls may use less than was reserved for them, so those in progress are waited for
        first.

        Raises:
            BudgetExceeded: another budget, or a whole day's, is too small for the amount.
            CallDeferred: the run is stopped; the call is made when the run continues.
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
                    # Other reservations may have been made meanwhile.
                    awaited, is_first = awaited | self._pending, False
                    is_last = not awaited
                if is_last:
                    self._daily.mark_spent(str(refusal), account.run)
                    raise CallDeferred from refusal
            awaited = await self._wait_for_settlement(awaited)

    async def _wait_for_settlement(self, awaited: set[_PendingCall]) -> set[_PendingCall]:
        """Wait until at least one of these calls is settled; return the others."""
        while (left := awaited & self._pending) == awaited:
            await self._settled.wait()
        return left

    @property
    def _pending(self) -> set[_PendingCall]:
        return {*self._reserved.values(), *self._reserving}

    async def _reserve_once(self, account: BudgetScope, amount: Spend) -> Reservation:
        call = _PendingCall()
        self._reserving.add(call)
        try:
            reservation = await self._store.reserve(account, amount)
            self._reserved[reservation.id] = call
        finally:
            self._reserving.discard(call)
            self._notify_settled()
        return reservation

    async def _fits_a_fresh_day(self, account: BudgetScope, amount: Spend) -> bool:
        """Whether a whole day's budget suffices for the amount; an unknown price never fits."""
        day = (await self._store.left(account)).day
        return day.spent != Spend() and _has_room(_unspent(day), amount)

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by what was spent."""
        try:
            await self._store.settle(reservation, spent, use)
        finally:
            self._reserved.pop(reservation.id, None)
            self._notify_settled()

    def _notify_settled(self) -> None:
        self._settled.set()
        self._settled = anyio.Event()

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what a scope could reserve on a fresh day, since calls that exceed this day's
        budget are deferred.

        So a plan is refused only for a call that no day's budget would suffice for.
        """
        left = await self._store.left(account)
        return replace(left, day=_unspent(left.day), spans_days=True)


def _unspent(left: RemainingBudget) -> RemainingBudget:
    """Return what remains of a budget of which nothing is spent."""
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
    # An unknown price is not finite.
    return all(
        bound is None or (isfinite(asked) and asked <= bound + _ROUNDING_TOLERANCE)
        for bound, asked in bounds
    )


class CycleBudgetStore(WrapperBudgetStore):
    """A budget store that stops a standing job when the budget of its cycle is spent.

    Calls that exceed the cycle's budget are deferred and not refused, so `left` is that of the
    other budgets.
    """

    def __init__(self, budget_store: InspectableBudgetStore) -> None:
        """Count over another budget store, which has its own limits."""
        super().__init__(budget_store)
        self._cycles = dict[RunId, Cycles]()
        """By run of a standing job or of one of its targets."""

    def count(self, run: RunId, cycles: Cycles) -> None:
        """Count the calls of a run for the cycle of its job."""
        self._cycles[run] = cycles

    def end_attempt(self, cycles: Cycles) -> None:
        """Count no more calls for the cycles of an attempt."""
        self._cycles = {run: known for run, known in self._cycles.items() if known is not cycles}

    async def reserve(self, account: BudgetScope, amount: Spend) -> Reservation:
        """Reserve an amount; where it exceeds what the cycle has left, stop the job.

        Raises:
            BudgetExceeded: a budget, or that of a whole cycle, is too small for the amount.
            CallDeferred: the job is stopped; the call is made when it continues.
        """
        cycles = None if account.run is None else self._cycles.get(account.run)
        if cycles is None:
            return await self._store.reserve(account, amount)
        await cycles.require(amount.tokens)
        reservation = await self._store.reserve(account, amount)
        cycles.reserve(reservation.id, amount.tokens)
        return reservation

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by what was spent."""
        try:
            await self._store.settle(reservation, spent, use)
        finally:
            run = reservation.scope.run
            if run is not None and (cycles := self._cycles.get(run)) is not None:
                cycles.settle(reservation.id, spent.tokens)


STANDING: Final = "standing_job"
"""Kind of the request of the standing job, which comes by no message."""


def standing_job(section: DaemonSection) -> JobId | None:
    """Return the id of the standing job; None where the settings have none."""
    standing = section.standing
    if standing is None:
        return None
    made_of = standing.model_dump(include={"start", "goal", "inputs", "depth", "forks"})
    return standing_job_id(section.agent, section.goal_template or "", content_hash(made_of))


def job_cycles(
    job: JobRow,
    section: DaemonSection,
    clock: Callable[[], float],
    cancellation: CancellationToken,
    log: StructuredLog,
) -> Cycles | None:
    """Return the cycles of an attempt of the standing job; None for any other job."""
    standing = section.standing
    if standing is None or job.job != standing_job(section):
        return None

    def on_warning(used: int, remaining: int) -> None:
        log.write(
            "budget_warning",
            "warning",
            budget_type="cycle",
            used=used,
            remaining=remaining,
            job_id=job.job,
        )

    def on_spent(used: int, remaining: int) -> None:
        log.write(
            "budget_exhausted",
            "warning",
            budget_type="cycle",
            action="pause",
            used=used,
            remaining=remaining,
            job_id=job.job,
        )

    return Cycles(
        standing.pause, standing.tokens_per_cycle, clock, cancellation, on_warning, on_spent
    )


def standing_request(section: DaemonSection, now: float) -> ReceivedMessage:
    """Return the request of the standing job, as if it had come as a message; it has an effect
    once.
    """
    standing, job = section.standing, standing_job(section)
    assert standing is not None, "the settings have a standing job"
    assert job is not None, "and it has an id"
    goal = RequestedGoal(
        goal=standing.goal,
        target=standing.start,
        depth=standing.depth,
        inputs={**standing.inputs, "depth": standing.depth},
        forks=standing.forks,
    )
    request: JsonObject = {
        GOAL_KEY: asdict(goal),
        SOURCE_KEY: section.agent,
        PRIORITY_KEY: section.priority,
    }
    return ReceivedMessage(
        message=MessageId(job),
        kind=STANDING,
        source=section.agent,
        at=now,
        request=JobRequested(job, request),
    )
