"""The budgets of a day and of a cycle, over those of runs and jobs, and the standing job, which
runs in cycles.

Once the daily budget is spent, no job starts until the next day (UTC).

A run whose reservation exceeds the day's remaining budget is not refused, since its result would
suffer: it is interrupted, and its job continues the next day. A standing job whose cycle has spent
its budget is stopped in the same way until its next cycle.

A budget is *nearly spent* when at most a tenth of it is left.

The *standing job* is what the settings ask the daemon to do by itself. Its id is made of the
settings that make it, so that a daemon that starts again continues the same job, and other settings
make another job. Its state is that of any job: the job store and the journal.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
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
from wavewright.planner import JsonObject, RunId, content_hash
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
from wavewright.tools import RequestedGoal
from wavewright.tools.message_contract import GOAL_KEY

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

        def add(run: RunId) -> None:
            runs.append(run)
            self._runs[run] = cancellation

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
    return any(remaining <= 0 for _, remaining, _ in left.bounds())


def format_instant(at: float) -> str:
    """Return an instant in ISO 8601, in UTC and whole seconds."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class DaemonBudgetStore:
    """The budget store of a daemon: over that of its journal, the rules of a day and of a cycle.

    Calls that exceed what the day or the cycle has left are deferred, and their runs stopped; every
    other refusal is passed on. A budget that is nearly spent is warned of.
    """

    def __init__(
        self, budget_store: InspectableBudgetStore, day: DailyBudget, warnings: BudgetWarnings
    ) -> None:
        self._store = budget_store
        self._day = day
        self._warnings = warnings
        self._cycles = dict[RunId, Cycles]()
        """By run of a standing job or of one of its targets."""
        self._open = 0
        """Calls whose reservation is being made or is not settled."""
        self._settled = 0
        """Calls that were settled so far."""
        self._changed = anyio.Event()
        """Set, and replaced, with each call that is not open any more."""

    def count_for_cycle(self, run: RunId, cycles: Cycles) -> None:
        """Count the calls of a run for the cycle of its job."""
        self._cycles[run] = cycles

    def end_attempt(self, cycles: Cycles) -> None:
        """Count no more calls for the cycles of an attempt."""
        self._cycles = {run: known for run, known in self._cycles.items() if known is not cycles}

    def limit_run(self, run: RunId, budget: Budget | None) -> None:
        """Limit a run to the budget of its goal."""
        self._store.limit_run(run, budget)

    async def reserve(self, account: BudgetScope, amount: Spend) -> Reservation:
        """Reserve an amount; where it exceeds what the day or the cycle has left, stop the run.

        Raises:
            BudgetExceeded: another budget, or that of a whole day or cycle, is too small for the
                amount.
            CallDeferred: the run is stopped; the call is made when the run continues.
        """
        cycles = self._cycles_of(account)
        if cycles is None:
            return await self._reserve_today(account, amount)
        await cycles.require(amount.tokens)
        reservation = await self._reserve_today(account, amount)
        cycles.reserve(reservation.id, amount.tokens)
        return reservation

    async def _reserve_today(self, account: BudgetScope, amount: Spend) -> Reservation:
        while True:
            settled = self._settled
            try:
                return await self._reserve_once(account, amount)
            except BudgetExceeded as refusal:
                if refusal.scope != "day" or not await self._fits_a_fresh_day(account, amount):
                    raise
                # Other calls may come to less than was reserved for them. So those that are open
                # are waited for, and what was settled meanwhile may have left enough.
                if settled == self._settled and not self._open:
                    self._day.mark_spent(str(refusal), account.run)
                    raise CallDeferred from refusal
            if settled == self._settled:
                await self._changed.wait()

    async def _reserve_once(self, account: BudgetScope, amount: Spend) -> Reservation:
        self._open += 1
        try:
            return await self._store.reserve(account, amount)
        except BaseException:
            self._close_call()
            raise

    async def _fits_a_fresh_day(self, account: BudgetScope, amount: Spend) -> bool:
        """Whether a whole day's budget suffices for the amount; an unknown price never fits."""
        day = (await self._store.left(account)).day
        return day.spent != Spend() and _has_room(_unspent(day), amount)

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by what was spent, and warn of budgets that are nearly spent."""
        try:
            await self._store.settle(reservation, spent, use)
        finally:
            self._settled += 1
            self._close_call()
            if (cycles := self._cycles_of(reservation.scope)) is not None:
                cycles.settle(reservation.id, spent.tokens)
        self._warnings.note(reservation.scope, await self._store.left(reservation.scope))

    def _close_call(self) -> None:
        self._open -= 1
        self._changed.set()
        self._changed = anyio.Event()

    def _cycles_of(self, account: BudgetScope) -> Cycles | None:
        return None if account.run is None else self._cycles.get(account.run)

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what a scope could reserve on a fresh day, since calls that exceed this day's
        budget are deferred.

        So a plan is refused only for a call that no day's budget would suffice for. The budget of a
        cycle is left out, for the same reason.
        """
        left = await self._store.left(account)
        return replace(left, day=_unspent(left.day), spans_days=True)

    async def unsettled(self, run: RunId) -> Sequence[Reservation]:
        """Return the reservations of a run that are not settled."""
        return await self._store.unsettled(run)

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return the durations of past calls, in seconds."""
        return await self._store.past_seconds(model, role)


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
    for measure, remaining, _ in left.bounds():
        asked: float = getattr(amount, measure)
        # An unknown price is not finite.
        if not isfinite(asked) or asked > remaining + _ROUNDING_TOLERANCE:
            return False
    return True


NEARLY_SPENT_SHARE: Final = 0.1
"""Share of a budget that is left when a warning is logged."""
MAX_WARNED: Final = 1_000
"""Budgets that are remembered as warned of; of more, those that were spent of last."""


class BudgetWarnings:
    """Logs once that the budget of a run, of a job or of a day is nearly spent."""

    def __init__(self, log: StructuredLog, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._warned = dict[tuple[str, str], None]()
        """Kind and owner of budgets, the one that was spent of last at the end."""

    def note(self, scope: BudgetScope, allowance: Allowance) -> None:
        """Warn of the budgets of a scope that are nearly spent, as far as that is new."""
        today = datetime.fromtimestamp(self._clock(), UTC).date().isoformat()
        for kind, owner, left in (
            ("run", scope.run or "", allowance.run),
            ("job", scope.job or "", allowance.job),
            ("day", today, allowance.day),
        ):
            for measure, remaining, used in left.bounds():
                if remaining > NEARLY_SPENT_SHARE * (used + remaining):
                    continue
                budget = (f"{kind} {measure}", owner)
                if budget not in self._warned:
                    self._log.write(
                        "budget_warning",
                        "warning",
                        budget_type=budget[0],
                        used=used,
                        remaining=remaining,
                        run=scope.run,
                    )
                self._remember(budget)

    def _remember(self, budget: tuple[str, str]) -> None:
        self._warned.pop(budget, None)
        self._warned[budget] = None
        if len(self._warned) > MAX_WARNED:
            del self._warned[next(iter(self._warned))]


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
