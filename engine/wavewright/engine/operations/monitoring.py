"""A warning before a budget is spent, so that somebody can raise it before anything stops.

A budget is *nearly spent* when a tenth of it is left, or less. Each is warned of once: a run's once, the day's once a
day.

Whether the store can be used, as it is told: in the log, over HTTP, in the metrics.

A store that can be read may still not be written, as on a full disk: what kept it from being written stands until
something was written, or nothing has failed for a while. A store that gives no answer at all is told of before those
who wait for it give up. Each fault is told once in the log, and again after a minute.

Everything that watches a daemon, in one place.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import anyio

from wavewright.engine.operations.health import HealthStatus
from wavewright.engine.operations.job_logs import RunLog, log_sent
from wavewright.engine.operations.logs import StructuredLog
from wavewright.engine.operations.metrics import Metrics
from wavewright.engine.operations.tracing import RunTrace
from wavewright.executor.events.types import Event
from wavewright.executor.store.errors import JournalError, JournalNotWritten, JournalUnreachable
from wavewright.executor.store.job_records import JobState, OutgoingMessage
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.budgets import (
    Allowance,
    BudgetScope,
    InspectableBudgetStore,
    RemainingBudget,
    Reservation,
    Spend,
)
from wavewright.planner.ports.model_port import ModelUse, Role
from wavewright.planner.types import RunId

NEARLY_SPENT_SHARE: Final = 0.1
"""The share of a budget that is left when it is warned of."""
MAX_WARNED: Final = 1_000
"""Budgets that are remembered as warned of; of those beyond, the ones spent from longest ago are forgotten."""


class WarningBudgetStore:
    """A purse that says in the log when a budget is nearly spent."""

    def __init__(
        self, budget_store: InspectableBudgetStore, log: StructuredLog, clock: Callable[[], float]
    ) -> None:
        self._store = budget_store
        self._log = log
        self._clock = clock
        self._warned = dict[tuple[str, str], None]()
        """Kind of budget and whose it is, the latest last."""

    def limit_run(self, run: RunId, budget: Budget | None) -> None:
        """Hold a run to its goal's own budget."""
        if budget is None:
            self._keep(lambda _, owner: owner != run)
        self._store.limit_run(run, budget)

    async def reserve(self, account: BudgetScope, amount: Spend) -> Reservation:
        """Put something aside.

        Raises:
            OverBudget: it is more than is left.
        """
        return await self._store.reserve(account, amount)

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by what it came to, and look how much is left."""
        await self._store.settle(reservation, spent, use)
        account = reservation.scope
        allowance = await self._store.left(account)
        for kind, left in (("run", allowance.run), ("job", allowance.job), ("day", allowance.day)):
            for unit, used, remaining in _nearly_spent(left):
                self._warn(f"{kind} {unit}", self._owner(kind, account), used, remaining, account.run)

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what an account could still reserve."""
        return await self._store.left(account)

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return how long calls took before."""
        return await self._store.past_seconds(model, role)

    def _owner(self, kind: str, account: BudgetScope) -> str:
        match kind:
            case "run":
                return account.run or ""
            case "job":
                return account.job or ""
            case _:
                today = datetime.fromtimestamp(self._clock(), UTC).date().isoformat()
                self._keep(lambda kind, owner: owner == today or not kind.startswith("day "))
                return today

    def _warn(self, kind: str, owner: str, used: float, remaining: float, run: RunId | None) -> None:
        is_known = (kind, owner) in self._warned
        self._warned.pop((kind, owner), None)
        self._warned[kind, owner] = None
        if is_known:
            return
        if len(self._warned) > MAX_WARNED:
            del self._warned[next(iter(self._warned))]
        self._log.write(
            "budget_warning", "warning", budget_type=kind, used=used, remaining=remaining, run=run
        )

    def _keep(self, is_kept: Callable[[str, str], bool]) -> None:
        self._warned = {known: None for known in self._warned if is_kept(*known)}


def _nearly_spent(left: RemainingBudget) -> Iterator[tuple[str, float, float]]:
    """Yield unit, what is used and what remains of every bound that is nearly reached."""
    spent = left.spent
    bounds: tuple[tuple[str, float, float | None], ...] = (
        ("calls", spent.calls, left.calls),
        ("tokens", spent.tokens, left.tokens),
        ("usd", spent.usd, left.usd),
        ("seconds", spent.seconds, left.seconds),
    )
    for unit, used, remaining in bounds:
        if remaining is not None and remaining <= NEARLY_SPENT_SHARE * (used + remaining):
            yield unit, used, remaining


STORE_POLL_SECONDS: Final = 2.0
"""How often the store is asked how many jobs there are."""
STORE_TIMEOUT_SECONDS: Final = 4.0
"""After which a store that has not answered is said not to."""
WRITE_FAULT_SECONDS: Final = 35.0
"""How long a fault of writing stands without another try; whoever holds a message tries every half minute."""
REPORT_SECONDS: Final = 60.0


@dataclass(slots=True)
class StoreMonitor:
    """What is known of one store."""

    log: StructuredLog
    metrics: Metrics
    health: HealthStatus
    clock: Callable[[], float] = time.monotonic
    _write_failed_at: float | None = None
    """When it could last not be written."""
    _last_reported: dict[str, float] = field(default_factory=dict[str, float])
    _query_started: float | None = None

    def mark_failed(self, fault: JournalError) -> None:
        """Note that the store could not be used."""
        now = self.clock()
        if isinstance(fault, JournalNotWritten) and not isinstance(fault, JournalUnreachable):
            self._write_failed_at = now
        self.metrics.set_part("store", works=False)
        self.health.mark_failing("store", fault.message)
        if now - self._last_reported.get(fault.message, -REPORT_SECONDS) >= REPORT_SECONDS:
            self._last_reported[fault.message] = now
            self.log.write("error", "error", error=fault)

    def mark_worked(self, *, wrote: bool = False) -> None:
        """Note that the store has answered, and whether something was written."""
        if (
            not wrote
            and self._write_failed_at is not None
            and self.clock() - self._write_failed_at < WRITE_FAULT_SECONDS
        ):
            return
        self._write_failed_at = None
        self._last_reported.clear()
        self.metrics.set_part("store", works=True)
        self.health.mark_working("store")

    async def run(self, count: Callable[[], Awaitable[Mapping[JobState, int]]]) -> None:
        """Ask for the numbers of jobs again and again, until this is cancelled."""
        async with anyio.create_task_group() as both:
            both.start_soon(self._watch_timeouts)
            while True:
                self._query_started = self.clock()
                try:
                    counts = await count()
                except JournalError as fault:
                    self.mark_failed(fault)
                else:
                    self.mark_worked()
                    self.metrics.set_job_counts(counts)
                self._query_started = None
                await anyio.sleep(STORE_POLL_SECONDS)

    async def _watch_timeouts(self) -> None:
        """Say so where an answer is late: those who ask wait with patience, and nobody else would know."""
        while True:
            await anyio.sleep(STORE_TIMEOUT_SECONDS / 4)
            if (
                self._query_started is not None
                and self.clock() - self._query_started >= STORE_TIMEOUT_SECONDS
            ):
                self.mark_failed(
                    JournalError(f"the store has not answered for {STORE_TIMEOUT_SECONDS:g} s and more")
                )


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Log, metrics, health and traces of one daemon."""

    log: StructuredLog
    metrics: Metrics = field(default_factory=Metrics)
    health: HealthStatus = field(default_factory=HealthStatus)
    store: StoreMonitor = field(init=False)

    def __post_init__(self) -> None:
        """Watch the store by the same log, metrics and health."""
        object.__setattr__(self, "store", StoreMonitor(self.log, self.metrics, self.health))

    def note_sent(self, sent: OutgoingMessage) -> None:
        """Count and log a message that the broker has confirmed."""
        self.metrics.count_sent(sent.kind)
        log_sent(self.log, sent)

    @contextmanager
    def observe_run(self, job: str, target: str) -> Generator[Callable[[Event], None]]:
        """Give whatever is to be told of each event of a run, while this process works on it."""
        log, traces = RunLog(self.log, job, target), RunTrace(job)

        def watch(event: Event) -> None:
            log(event)
            traces(event)
            self.metrics.count_event(event, log.tools)

        try:
            yield watch
        finally:
            traces.abandon(time.time())
