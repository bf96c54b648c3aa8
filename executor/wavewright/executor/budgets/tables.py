"""The tables of a budget store: each model call, and the sums of all calls by counter.

A row of `model_call` is one model call: what was reserved for it, and once it is settled what it
came to. What several calls request at once is one transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Final, NamedTuple, Protocol, Self, TypeVar

from wavewright.executor.budgets.limits import (
    CALL_HISTORY_SIZE,
    NO_AMOUNT,
    Amount,
    BudgetCounter,
    BudgetLimits,
    BudgetReply,
    BudgetRequest,
    Reserve,
    Settle,
    budget_day,
    counters_of,
    plausible_seconds,
    settled_amount,
)
from wavewright.executor.events.json_values import storable_text
from wavewright.executor.store.transaction import Row, Statements
from wavewright.planner import RunId
from wavewright.planner.ports.budgets import Allowance, BudgetExceeded, BudgetScope, Reservation
from wavewright.planner.ports.model_port import Role

_T = TypeVar("_T")

_LATEST_DAY: Final = "SELECT max(name) FROM budget_total WHERE counter = 'day'"
_RESERVED: Final = """
    SELECT id, day, run, job, step, role, calls, tokens, usd, seconds FROM model_call WHERE NOT settled AND id """
_UNSETTLED: Final = """
    SELECT id, day, run, job, step, role, calls, tokens, usd, seconds, model FROM model_call
    WHERE NOT settled AND run = $1 ORDER BY id"""
_LATEST_ID: Final = "SELECT coalesce(max(id), 0) FROM model_call"
_RESERVE: Final = """
    INSERT INTO model_call (id, at, day, run, job, step, model, role, calls, tokens, usd, seconds)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)"""
_SETTLE: Final = """
    UPDATE model_call SET settled = true, calls = $1, tokens = $2, usd = $3, seconds = $4,
    model = $5, outcome = $6, took = $7 WHERE id = $8"""
_ADD: Final = """
    INSERT INTO budget_total AS total VALUES ($1, $2, $3, $4, $5, $6, $7)
    ON CONFLICT (counter, name, step) DO UPDATE SET
    calls = total.calls + excluded.calls, tokens = total.tokens + excluded.tokens,
    usd = total.usd + excluded.usd, seconds = total.seconds + excluded.seconds"""
_PAST: Final = """
    SELECT took FROM model_call WHERE model = $1 AND role = $2 AND took IS NOT NULL ORDER BY id DESC LIMIT $3"""


class BudgetDatabase(Protocol):
    """The file or the database, used from one thread."""

    place: str

    async def transact(self, work: Callable[[Statements], Awaitable[_T]]) -> _T:
        """Do all of the work in one transaction, or nothing.

        Raises:
            JournalError: nothing was written.
        """
        ...

    async def read(self, ask: Callable[[Statements], Awaitable[_T]]) -> _T:
        """Return an answer; it may be asked twice.

        Raises:
            JournalError: it cannot be read.
        """
        ...

    async def heartbeat(self) -> None:
        """Show that this owner is alive."""
        ...

    async def close(self) -> None:
        """Close; closing again does nothing."""
        ...


class BudgetTables:
    """The tables of reservations and totals, open."""

    def __init__(
        self, database: BudgetDatabase, limits: BudgetLimits, *, clock: Callable[[], float]
    ) -> None:
        """Hold calls to these limits, by a clock in seconds since the epoch."""
        self.database = database
        self._limits = limits
        self._clock = clock

    async def transact(self, requests: Sequence[BudgetRequest]) -> list[BudgetReply]:
        """Do what is requested in one transaction, in this order; a refusal undoes nothing but
        itself.

        Raises:
            JournalError: nothing was written.
        """

        async def work(statements: Statements) -> list[BudgetReply]:
            # One transaction at a time reserves, so that no token is reserved twice.
            await statements.lock("budgets")
            day = await _today(statements, self._clock())
            batch = await _ReservationBatch.load(
                statements, requests, self._limits, day=day, now=self._clock()
            )
            replies = [batch.apply(request) for request in requests]
            await batch.write(statements)
            return replies

        return await self.database.transact(work)

    async def left(self, scope: BudgetScope) -> Allowance:
        """Return what a scope could still reserve, and what was spent.

        Raises:
            JournalError: it cannot be read.
        """
        now = self._clock()
        return await self.database.read(
            lambda statements: budget_left(statements, scope, self._limits, now)
        )

    async def unsettled(self, run: RunId) -> tuple[Reservation, ...]:
        """Return the reservations of a run that are not settled, the oldest first.

        Raises:
            JournalError: it cannot be read.
        """
        rows = await self.database.read(
            lambda statements: statements.fetch(_UNSETTLED, storable_text(run))
        )
        return tuple(_unsettled_reservation(row) for row in rows)

    async def past_seconds(self, model: str, role: Role) -> tuple[float, ...]:
        """Return the seconds of the latest answered calls of a model in a role, the latest last.

        Raises:
            JournalError: it cannot be read.
        """
        rows = await self.database.read(
            lambda statements: statements.fetch(
                _PAST, storable_text(model), role, CALL_HISTORY_SIZE
            )
        )
        return tuple(took for (took,) in reversed(rows))


async def budget_left(
    statements: Statements, scope: BudgetScope, limits: BudgetLimits, now: float
) -> Allowance:
    """Return what a scope could still reserve at an instant, and what was spent."""
    day = await _today(statements, now)
    totals = await _totals(statements, counters_of(scope, day))
    return limits.left(scope, day, lambda counter: totals.get(_key(counter), NO_AMOUNT))


async def _today(statements: Statements, now: float) -> str:
    ((latest,),) = await statements.fetch(_LATEST_DAY)
    return budget_day(now, latest)


class _OpenReservation(NamedTuple):
    """A reservation that is not settled."""

    day: str
    scope: BudgetScope
    amount: Amount


@dataclass(slots=True)
class _ReservationBatch:
    """What a transaction has read and will write."""

    _limits: BudgetLimits
    _day: str
    _now: float
    _ids: Iterator[int]
    """Of new reservations."""
    _reserved: dict[int, _OpenReservation]
    """Reservations that are to be settled and are not yet."""
    _totals: dict[BudgetCounter, Amount]
    _added: dict[BudgetCounter, Amount] = field(default_factory=dict[BudgetCounter, Amount])
    _new: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])
    _settled: list[tuple[object, ...]] = field(default_factory=list[tuple[object, ...]])

    @classmethod
    async def load(
        cls,
        statements: Statements,
        requests: Sequence[BudgetRequest],
        limits: BudgetLimits,
        *,
        day: str,
        now: float,
    ) -> Self:
        """Read all that the requests are about."""
        reserves = [request for request in requests if isinstance(request, Reserve)]
        settles = [request.id for request in requests if isinstance(request, Settle)]
        counters = chain.from_iterable(counters_of(request.account, day) for request in reserves)
        in_list = statements.in_list("$1", "bigint")
        rows = await statements.fetch(f"{_RESERVED}{in_list}", settles)
        ids = await statements.fetch(_LATEST_ID) if reserves else [(0,)]
        totals = await _totals(statements, counters) if reserves else {}
        reserved = {row[0]: _open_reservation(row) for row in rows}
        return cls(limits, day, now, count(ids[0][0] + 1), reserved, totals)

    def apply(self, request: BudgetRequest) -> BudgetReply:
        if isinstance(request, Reserve):
            return self._reserve(request)
        self._settle(request)
        return None

    def _reserve(self, request: Reserve) -> Reservation | BudgetExceeded:
        scope = request.account
        try:
            reserved = self._limits.check(scope, self._day, request.amount, self._total)
        except BudgetExceeded as refusal:
            return refusal
        number = next(self._ids)
        texts = (scope.run, scope.job, scope.step, scope.model or None)
        names = [storable_text(text) for text in texts]
        self._new.append((number, self._now, self._day, *names, scope.role, *reserved))
        self._add(counters_of(scope, self._day), reserved)
        return Reservation(number, scope, reserved.spend())

    def _settle(self, request: Settle) -> None:
        standing = self._reserved.pop(request.id, None)
        if standing is None:
            return
        use = request.use
        spent = NO_AMOUNT if use is None else settled_amount(request.spent, standing.amount)
        seen = (
            (None, None, None)
            if use is None
            else (storable_text(use.model), use.outcome, plausible_seconds(use))
        )
        self._settled.append((*spent, *seen, request.id))
        # On the day on which it was reserved: what is in flight at midnight belongs to the day
        # before.
        self._add(counters_of(standing.scope, standing.day), spent.minus(standing.amount))

    def _total(self, counter: BudgetCounter) -> Amount:
        return self._totals.get(_key(counter), NO_AMOUNT)

    def _add(self, counters: Iterable[BudgetCounter], amount: Amount) -> None:
        for counter in map(_key, counters):
            self._totals[counter] = self._totals.get(counter, NO_AMOUNT).plus(amount)
            self._added[counter] = self._added.get(counter, NO_AMOUNT).plus(amount)

    async def write(self, statements: Statements) -> None:
        await statements.execute_many(_RESERVE, self._new)
        await statements.execute_many(_SETTLE, self._settled)
        await statements.execute_many(
            _ADD, [(*counter, *amount) for counter, amount in self._added.items()]
        )


def _open_reservation(row: Row) -> _OpenReservation:
    _, day, run, job, step, role, *amount = row
    return _OpenReservation(
        day, BudgetScope(run=run, job=job, step=step, role=role), Amount(*amount)
    )


def _unsettled_reservation(row: Row) -> Reservation:
    number, *columns, model = row
    standing = _open_reservation((number, *columns))
    return Reservation(number, replace(standing.scope, model=model or ""), standing.amount.spend())


def _key(counter: BudgetCounter) -> BudgetCounter:
    """Return a counter by the name that the database can hold."""
    return counter._replace(name=storable_text(counter.name), step=storable_text(counter.step))


async def _totals(
    statements: Statements, counters: Iterable[BudgetCounter]
) -> dict[BudgetCounter, Amount]:
    keys = [_key(counter) for counter in counters]
    where = " AND ".join(
        f"{column} {statements.in_list(f'${place}', 'text')}"
        for place, column in enumerate(("counter", "name", "step"), 1)
    )
    rows = await statements.fetch(
        f"SELECT counter, name, step, calls, tokens, usd, seconds FROM budget_total WHERE {where}",  # noqa: S608
        *([*{counter[place] for counter in keys}] for place in range(3)),
    )
    return {BudgetCounter(*row[:3]): Amount(*row[3:]) for row in rows}
