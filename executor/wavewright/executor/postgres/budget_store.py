"""What is put aside and spent, in the database.

An *entry* is one model call: what was put aside for it, and once it is settled what it came to. Whatever several
calls want at once is one transaction; who wants something waits for whoever is in the middle of it, so that no token
is given out twice, on however many machines.

A purse in the journal's database: what models cost is counted together for all runs, processes and machines.

All that calls want while the database is busy is the purse's next transaction, so that two hundred calls at once cost
a few. Done means synced: what was put aside counts as spent until it is settled, whatever becomes of this process.
"""

from __future__ import annotations

import itertools
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple, Self

from wavewright.config.sections import BudgetsSection
from wavewright.executor.budgets.limits import (
    MEASURES,
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
from wavewright.executor.budgets.stores import CALL_HISTORY_SIZE, BudgetCommand, QueuedBudgetStore, reject
from wavewright.executor.postgres.driver import DRIVER_ERRORS, Connection, explain_use, storable_text
from wavewright.executor.postgres.session import PATIENCE_SECONDS, PostgresSession
from wavewright.executor.postgres.writer import WriterHandlers, WriterThread
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.leases import this_owner
from wavewright.planner.ports.budgets import Allowance, BudgetExceeded, BudgetScope, Reservation
from wavewright.planner.ports.model_port import Role

if TYPE_CHECKING:
    import asyncpg


_LOCK: Final = 0x50757273
"""`Purs` in ASCII: the number of the advisory lock that whoever puts something aside has."""
_LATEST_DAY: Final = "SELECT max(name) FROM purse_total WHERE pot = 'day'"
_TOTALS: Final = """
    SELECT pot, name, step, calls, tokens, usd, seconds
    FROM purse_total JOIN unnest($1::text[], $2::text[], $3::text[]) AS wanted (pot, name, step)
    USING (pot, name, step)"""
_RESERVED: Final = """
    SELECT id, day, run, job, step, role, calls, tokens, usd, seconds FROM purse_entry
    WHERE id = ANY($1::bigint[]) AND NOT settled"""
_IDS: Final = """
    SELECT nextval(pg_get_serial_sequence('purse_entry', 'id')) FROM generate_series(1, $1)"""
_RESERVE: Final = """
    INSERT INTO purse_entry (id, at, day, run, job, step, role, calls, tokens, usd, seconds)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"""
_SETTLE: Final = """
    UPDATE purse_entry SET settled = true, calls = $2, tokens = $3, usd = $4, seconds = $5,
    model = $6, outcome = $7, took = $8 WHERE id = $1"""
_ADD: Final = """
    INSERT INTO purse_total AS total VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (pot, name, step) DO UPDATE SET
    calls = total.calls + excluded.calls, tokens = total.tokens + excluded.tokens,
    usd = total.usd + excluded.usd, seconds = total.seconds + excluded.seconds"""
_PAST: Final = """
    SELECT took FROM purse_entry WHERE model = $1 AND role = $2 AND took IS NOT NULL ORDER BY id DESC LIMIT $3"""


class PostgresBudgetTables:
    """The purse's tables, open."""

    def __init__(
        self,
        url: str,
        budgets: BudgetLimits,
        *,
        clock: Callable[[], float],
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Connect at the first call of anything here.

        Args:
            url: The database's address.
            budgets: What to hold calls to.
            clock: Seconds since the epoch.
            patience: Seconds for which a database that was there and does not answer is waited for.
        """
        self._budgets = budgets
        self._clock = clock
        self.session = PostgresSession(url, owner=this_owner(), patience=patience)

    async def close(self) -> None:
        """Close the connection; closing again does nothing."""
        await self.session.close()

    async def transact(self, wishes: Sequence[BudgetRequest]) -> list[BudgetReply]:
        """Fulfil all wishes in one transaction, in this order; a refusal undoes nothing but itself.

        Raises:
            JournalError: the database cannot be reached; whatever was done before is not done twice.
        """
        return await self.session.transact(lambda connection, _: self._apply(connection, wishes))

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what an account could still reserve, and what was spent."""

        async def ask(connection: Connection) -> Allowance:
            day = await self._today(connection)
            totals = await _totals(connection, counters_of(account, day))
            return self._budgets.left(account, day, lambda pot: totals.get(_key(pot), NO_AMOUNT))

        return await self.session.read(ask)

    async def past_seconds(self, model: str, role: Role) -> tuple[float, ...]:
        """Return the seconds of the latest answered calls of a model in a role, the latest last."""
        rows = await self.session.read(
            lambda connection: connection.fetch(_PAST, storable_text(model), role, CALL_HISTORY_SIZE)
        )
        return tuple(took for (took,) in reversed(rows))

    async def _apply(self, connection: Connection, wishes: Sequence[BudgetRequest]) -> list[BudgetReply]:
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        day = await self._today(connection)
        till = await _ReservationBatch.load(connection, wishes, self._budgets, day=day, now=self._clock())
        answers = [till.apply(wish) for wish in wishes]
        await till.write(connection)
        return answers

    async def _today(self, connection: Connection) -> str:
        return budget_day(self._clock(), await connection.fetchval(_LATEST_DAY))


class _OpenReservation(NamedTuple):
    """An entry that is not settled."""

    day: str
    account: BudgetScope
    amount: Amount


class _ReservationBatch:
    """What a transaction has read and will write."""

    def __init__(
        self,
        budgets: BudgetLimits,
        *,
        day: str,
        now: float,
        ids: Iterable[int],
        aside: dict[int, _OpenReservation],
        totals: Mapping[BudgetCounter, Amount],
    ) -> None:
        self._budgets = budgets
        self._day = day
        self._now = now
        self._ids = iter(ids)
        self._reserved = aside
        """Entries that are to be settled and are not yet."""
        self._totals = dict(totals)
        self._added = defaultdict[BudgetCounter, Amount](Amount)
        self._new = list[tuple[object, ...]]()
        self._settled = list[tuple[object, ...]]()

    @classmethod
    async def load(
        cls,
        connection: Connection,
        wishes: Sequence[BudgetRequest],
        budgets: BudgetLimits,
        *,
        day: str,
        now: float,
    ) -> _ReservationBatch:
        """Read all that the wishes are about."""
        reserves = [wish for wish in wishes if isinstance(wish, Reserve)]
        settles = [wish.id for wish in wishes if isinstance(wish, Settle)]
        pots = itertools.chain.from_iterable(counters_of(wish.account, day) for wish in reserves)
        rows = await connection.fetch(_RESERVED, settles) if settles else []
        ids = await connection.fetch(_IDS, len(reserves)) if reserves else []
        return cls(
            budgets,
            day=day,
            now=now,
            ids=(number for (number,) in ids),
            aside={row["id"]: _open_reservation(row) for row in rows},
            totals=await _totals(connection, pots) if reserves else {},
        )

    def apply(self, wish: BudgetRequest) -> BudgetReply:
        if isinstance(wish, Reserve):
            return self._reserve(wish)
        self._settle(wish)
        return None

    def _reserve(self, wish: Reserve) -> Reservation | BudgetExceeded:
        account = wish.account
        try:
            asked = self._budgets.check(account, self._day, wish.amount, self._total)
        except BudgetExceeded as refusal:
            return refusal
        number = next(self._ids)
        owner = (
            storable_text(account.run),
            storable_text(account.job),
            storable_text(account.step),
            account.role,
        )
        self._new.append((number, self._now, self._day, *owner, *asked))
        self._add(counters_of(account, self._day), asked)
        return Reservation(number, account, asked.spend())

    def _settle(self, wish: Settle) -> None:
        standing = self._reserved.pop(wish.id, None)
        if standing is None:
            return
        use = wish.use
        spent = NO_AMOUNT if use is None else settled_amount(wish.spent, standing.amount)
        seen = (
            (None, None, None)
            if use is None
            else (storable_text(use.model), use.outcome, plausible_seconds(use))
        )
        self._settled.append((wish.id, *spent, *seen))
        # On the day on which it was put aside: what is in flight at midnight belongs to the day before.
        self._add(counters_of(standing.account, standing.day), spent.minus(standing.amount))

    def _total(self, pot: BudgetCounter) -> Amount:
        return self._totals.get(_key(pot), NO_AMOUNT)

    def _add(self, pots: Iterable[BudgetCounter], amount: Amount) -> None:
        for pot in map(_key, pots):
            self._totals[pot] = self._totals.get(pot, NO_AMOUNT).plus(amount)
            self._added[pot] = self._added[pot].plus(amount)

    async def write(self, connection: Connection) -> None:
        if self._new:
            await connection.executemany(_RESERVE, self._new)
        if self._settled:
            await connection.executemany(_SETTLE, self._settled)
        if self._added:
            await connection.executemany(_ADD, [(*pot, *amount) for pot, amount in self._added.items()])


def _open_reservation(row: asyncpg.Record) -> _OpenReservation:
    account = BudgetScope(run=row["run"], job=row["job"], step=row["step"], role=row["role"])
    return _OpenReservation(row["day"], account, Amount(*(row[measure] for measure in MEASURES)))


def _key(pot: BudgetCounter) -> BudgetCounter:
    """Return a pot by the name that the database can hold."""
    return pot._replace(name=storable_text(pot.name), step=storable_text(pot.step))


async def _totals(connection: Connection, pots: Iterable[BudgetCounter]) -> dict[BudgetCounter, Amount]:
    wanted = list(map(_key, dict.fromkeys(pots)))
    kinds, names, steps = ([pot[place] for pot in wanted] for place in range(3))
    rows = await connection.fetch(_TOTALS, kinds, names, steps)
    return {BudgetCounter(*tuple(row)[:3]): Amount(*tuple(row)[3:]) for row in rows}


_HEARTBEAT_SECONDS: Final = 60.0
"""A purse holds no run: its opening shows only that it is not forgotten."""


class PostgresBudgetStore(QueuedBudgetStore):
    """A purse that every process with the same database shares, and that outlives them."""

    def __init__(
        self,
        url: str,
        budgets: BudgetsSection | None = None,
        clock: Callable[[], float] = time.time,
        *,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Connect as soon as it is entered, or at the first call.

        Args:
            url: The database's address.
            budgets: The configured budgets; none where absent.
            clock: Seconds since the epoch.
            patience: Seconds for which a database that was there and does not answer is waited for.
        """
        super().__init__(BudgetLimits(budgets or BudgetsSection.model_construct()))
        self._store = PostgresBudgetTables(url, self._budgets, clock=clock, patience=patience)
        self.place = self._store.session.place
        """The address as it may be shown."""
        self._writer = WriterThread[BudgetCommand](
            "purse",
            self.place,
            WriterHandlers(self._write, _reject, self._store.session.heartbeat, self._store.close),
            pause=_HEARTBEAT_SECONDS,
        )

    async def __aenter__(self) -> Self:
        """Connect.

        Raises:
            JournalError: the database cannot be used, with the mend.
        """
        try:
            await self.left(BudgetScope())
        except BaseException:
            self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what an account could still reserve, and what was spent.

        Raises:
            JournalError: the database cannot be read.
        """
        return await self._writer.query(lambda: self._store.left(account))

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return the seconds of the latest answered calls of a model in a role, the latest last.

        Raises:
            JournalError: the database cannot be read.
        """
        return await self._writer.query(lambda: self._store.past_seconds(model, role))

    async def aclose(self) -> None:
        """Write what is pending and close; closing again does nothing."""
        self._is_closed = True
        await self._writer.aclose()

    def close(self) -> None:
        """Close without an event loop; what was handed over is written first."""
        self._is_closed = True
        self._writer.stop()

    def _check_open(self) -> None:
        self._writer.check_open()

    def _enqueue(self, post: BudgetCommand, /) -> None:
        self._writer.put(post)

    async def _write(self, orders: Sequence[BudgetCommand]) -> None:
        try:
            answers = await self._store.transact([order.request for order in orders])
        except (*DRIVER_ERRORS, JournalError) as error:
            reject(orders, explain_use(error, self.place))
            return
        self._resolve(orders, answers)


def _reject(order: BudgetCommand, fault: JournalError) -> None:
    reject([order], fault)
