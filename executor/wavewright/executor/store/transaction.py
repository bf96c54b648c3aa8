"""One transaction of an open journal: the port that a database's adapter implements, and what is
put into one.

Who writes into the journal's database says its SQL once; an adapter runs it and holds what differs:
how parameters are bound, how rows are locked, and where a lease is kept. Leases that a transaction
acquires or releases count from its commit on.

Rows that are written *alongside* events are their owner's: a journal writes them in the transaction
of the events, or neither, and does not know what they are.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, TypeAlias, TypeVar

from wavewright.executor.store.errors import JournalError, RunLost
from wavewright.executor.store.leases import (
    HeldLease,
    LeaseProbe,
    RunHolder,
    judge_lease,
    read_lease,
)
from wavewright.executor.store.writer import call_on_loop, set_exception, set_result
from wavewright.planner import RunId

_T = TypeVar("_T")


Row: TypeAlias = Sequence[Any]


class Statements(ABC):
    """Executes SQL on one connection.

    A statement numbers its parameters from `$1`; a list is one parameter, for `in_list`.
    `clock_seconds()` is the store's clock in every statement of a journal.
    """

    for_update: ClassVar[str]
    """Locks the rows that a `SELECT` returns, and waits for them."""
    body_bytes: ClassVar[str]
    """The body of an event as bytes, also where it is damaged."""

    @abstractmethod
    async def fetch(self, statement: str, *values: object) -> Sequence[Row]:
        """Return the rows of a statement."""

    @abstractmethod
    async def execute(self, statement: str, *values: object) -> None:
        """Execute a statement without rows."""

    @abstractmethod
    async def defer(self, statement: str, *values: object) -> None:
        """Execute a statement without rows before the next one, or at the end of the transaction.

        What is deferred together is one round trip to a server and sees the rows as they were
        before all of it: no two of these statements may write the same row.
        """

    @abstractmethod
    async def flush(self) -> None:
        """Execute what was deferred."""

    @abstractmethod
    async def execute_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Execute a statement once for each row of parameters."""

    @staticmethod
    @abstractmethod
    def in_list(parameter: str, kind: str) -> str:
        """Return the condition that a column is in a list of that SQL type, given as a parameter."""

    @staticmethod
    @abstractmethod
    def body_field(name: str) -> str:
        """Return an expression for a field of the body of an event, as a number or as text; NULL
        where there is none, and in a body that is damaged.
        """

    @staticmethod
    @abstractmethod
    def skip_locked(table: str) -> str:
        """Return what locks a table's rows in a `SELECT`, and leaves out those that another
        transaction has locked.
        """

    @abstractmethod
    async def delete_events(self, runs: Sequence[int]) -> None:
        """Delete the events of runs that have been deleted, given by number."""

    @staticmethod
    @abstractmethod
    def lock_of(parameter: str) -> str:
        """Return an expression that waits for the lock of the name in a parameter, and holds it as
        `lock` does.
        """

    @abstractmethod
    async def try_lock(self, name: str) -> bool:
        """Hold a lock of that name until the transaction ends, unless another transaction has it."""

    async def lock(self, name: str) -> None:
        """Hold a lock of that name until the transaction ends; wait while another transaction has
        it.
        """
        await self.fetch(f"SELECT {self.lock_of('$1')}", name)

    async def fetch_one(self, statement: str, *values: object) -> Row | None:
        """Return the first row of a statement, if it has one."""
        rows = await self.fetch(statement, *values)
        return rows[0] if rows else None

    async def has_rows(self, statement: str, *values: object) -> bool:
        """Return whether a statement has rows."""
        return bool(await self.fetch(statement, *values))


class StoreTransaction(Statements):
    """Rows and leases as one transaction of a journal sees them."""

    lease_columns: ClassVar[str]
    """The columns of `read_lease`."""
    lease_join: ClassVar[str]
    """What a `FROM` with the table `run` needs for `lease_columns`."""

    def __init__(self, holder: RunHolder, now: float) -> None:
        """Begin at an instant by the store's clock, 0 where it only reads, with what the open
        journal holds.
        """
        self.now = now
        self.owner = holder.owner
        self.place = holder.place
        self.acquired = dict[RunId, HeldLease]()
        """Leases that this transaction has acquired."""
        self.released = set[RunId]()
        """Runs whose lease this transaction has released."""
        self._held: Mapping[RunId, HeldLease] = holder.held
        self._faults: Mapping[RunId, JournalError] = holder.faults

    # Leases

    def held_lease(self, run: RunId) -> HeldLease | None:
        """Return the lease of a run that is held here, also where something could not be written to
        it.
        """
        return None if run in self.released else self.acquired.get(run) or self._held.get(run)

    def is_empty(self, run: RunId) -> bool:
        """Return whether a run is held here to which nothing was ever appended."""
        held = self._held.get(run)
        return held is not None and held.seq == 0 and run not in self._faults

    async def acquire(self, run: RunId, *, unmoved: int | None) -> LeaseProbe | None:
        """Acquire the lease of a run, or return the lease that must be probed first.

        Args:
            run: The run, new or known.
            unmoved: The heartbeat of a probe that has ended.

        Raises:
            RunBusy: its owner is alive, or another transaction has locked it.
        """
        lease = await self._acquire(run, unmoved)
        if isinstance(lease, LeaseProbe):
            return lease
        self.acquired[run] = lease
        self.released.discard(run)
        return None

    async def check(self, run: RunId, *, despite_faults: bool = False) -> None:
        """Return where the run's lease is held and all that was appended to it is written.

        Args:
            run: The run.
            despite_faults: Whether it does not matter that something could not be written.

        Raises:
            RunLost: it is not held, or another owner has it.
            JournalError: something could not be written.
        """
        fault = self._faults.get(run)
        if isinstance(fault, RunLost) or (fault is not None and not despite_faults):
            raise fault
        held = self.held_lease(run)
        if held is None:
            raise RunLost(f"run {run} is not open here", place=self.place, hint="open it first")
        await self._check(run, held)

    async def release(self, run: RunId) -> None:
        """Release the lease of a run; nothing where it is not held."""
        if (held := self.held_lease(run)) is not None:
            await self._release(held)
            self.acquired.pop(run, None)
            self.released.add(run)

    @abstractmethod
    async def newest_event(self, key: str) -> Row | None:
        """Return the newest event under a step key: its run's id, `seq`, kind, checksum and body."""

    async def owner_of(self, run: RunId) -> str | None:
        """Return who has the run open, for people; None where no live process does."""
        row = await self.fetch_one(
            f"SELECT clock_seconds(), {self.lease_columns} FROM run {self.lease_join} WHERE run.run = $1",  # noqa: S608 - constants
            run,
        )
        lease = None if row is None else read_lease(row[1:])
        if row is None or lease is None:
            return None
        verdict = judge_lease(lease, now=row[0], pid_namespace=self.owner.pid_namespace)
        return str(lease.owner) if verdict == "busy" else None

    @abstractmethod
    async def _acquire(self, run: RunId, unmoved: int | None) -> HeldLease | LeaseProbe: ...

    @abstractmethod
    async def _check(self, run: RunId, held: HeldLease) -> None: ...

    @abstractmethod
    async def _release(self, held: HeldLease) -> None: ...


TransactionWork: TypeAlias = Callable[[StoreTransaction], Awaitable[_T]]
"""Something to do in one transaction; called again where the first attempt was not committed."""


LockOrder: TypeAlias = tuple[int, str]
"""Of a transaction among those that are executed together: what waits for rows that others may have
locked is done in one order on every machine, and what does not wait comes last, so that there is no
deadlock.
"""
ANY_ORDER: Final[LockOrder] = (1, "")
LAST_ORDER: Final[LockOrder] = (2, "")
"""For what locks rows and waits for none."""
SEPARATE: Final[LockOrder] = (3, "")
"""For what waits for rows that are not known beforehand, or locks more after it has waited: it is a
transaction of its own.
"""


def lock_order_of(row: str) -> LockOrder:
    """Return the order of what locks one row, by the row's id; rows of all kinds share one order."""
    return (0, row)


class Alongside(Protocol):
    """What the owner of a run wants written in the transaction of some events, or not at all.

    It is written later than it is handed over, so nothing of it may change meanwhile.
    """

    @property
    def lock_order(self) -> LockOrder:
        """Its order among what else is written in the transaction."""
        ...

    @property
    def locks(self) -> Sequence[str]:
        """Names to lock before anything is written."""
        ...

    async def write(self, transaction: StoreTransaction, written: Sequence[RunId]) -> None:
        """Write it.

        Args:
            transaction: The transaction of the events.
            written: Runs with events in it, whose leases are checked already.

        Raises:
            JournalError: it may not be written, and so the events are not, either.
        """
        ...


@dataclass(slots=True)
class QueuedTransaction:
    """Something to do in a transaction, and the future of its result."""

    work: TransactionWork[Any]
    loop: asyncio.AbstractEventLoop
    waiting: asyncio.Future[Any]
    lock_order: LockOrder

    def resolve(self, result: object) -> None:
        """Publish the result, once it is committed."""
        call_on_loop(self.loop, set_result, self.waiting, result)

    def reject(self, error: JournalError) -> None:
        """Publish why it was not done."""
        call_on_loop(self.loop, set_exception, self.waiting, error)
