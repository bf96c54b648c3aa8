"""The budget store in the journal's file or database.

What models cost is counted together for all runs and processes. All that
calls request while a transaction is written is the next one, so that two hundred calls at once cost
a few commits. Done means durable: what was reserved counts as spent until it is settled, whatever
becomes of this process.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from anyio.abc import AsyncResource

from wavewright.config.sections import BudgetsSection
from wavewright.executor.budgets.limits import (
    BudgetLimits,
    BudgetReply,
    BudgetRequest,
    Reserve,
    Settle,
)
from wavewright.executor.budgets.tables import BudgetDatabase, BudgetTables
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.writer import (
    CoroutineRunner,
    WriterHandlers,
    WriterThread,
    call_on_loop,
    set_exception,
)
from wavewright.planner import RunId
from wavewright.planner.language.plan import Budget
from wavewright.planner.ports.budgets import (
    Allowance,
    BudgetExceeded,
    BudgetScope,
    Reservation,
    Spend,
)
from wavewright.planner.ports.model_port import ModelUse, Role

_HEARTBEAT_SECONDS: Final = 60.0
"""A budget store holds no run: its heartbeat only keeps its session's row."""


@dataclass(slots=True)
class _QueuedRequest:
    """A request, and the future of its reply."""

    request: BudgetRequest
    loop: asyncio.AbstractEventLoop
    waiting: asyncio.Future[BudgetReply]


class StoredBudgetStore(AsyncResource):
    """A budget store that every process with the same file or database shares, and that outlives
    them.
    """

    def __init__(
        self,
        database: BudgetDatabase,
        budgets: BudgetsSection | None = None,
        clock: Callable[[], float] = time.time,
        *,
        runner: Callable[[], AbstractContextManager[CoroutineRunner]] = asyncio.Runner,
    ) -> None:
        """Start the writer thread.

        Args:
            database: The file or the database.
            budgets: The configured budgets; none where absent.
            clock: Seconds since the epoch.
            runner: Makes what runs the database's coroutines, on the thread.
        """
        self._limits = BudgetLimits(budgets or BudgetsSection.model_construct())
        self._tables = BudgetTables(database, self._limits, clock=clock)
        self._writer = WriterThread[_QueuedRequest](
            "budget store",
            database.place,
            WriterHandlers(self._write, _reject, database.heartbeat, database.close),
            heartbeat_seconds=_HEARTBEAT_SECONDS,
            runner=runner,
        )

    def limit_run(self, run: RunId, budget: Budget | None) -> None:
        """Hold a run to its goal's own budget, beside the configured ones, in this process."""
        self._limits.limit_run(run, budget)

    async def reserve(self, account: BudgetScope, amount: Spend) -> Reservation:
        """Reserve an amount; it is durable when this returns.

        Raises:
            BudgetExceeded: it is more than is left; nothing was reserved then.
            JournalError: it cannot be written.
        """
        reply = await self._request(Reserve(account, amount))
        if isinstance(reply, BudgetExceeded):
            raise reply
        assert reply is not None
        return reply

    async def settle(self, reservation: Reservation, spent: Spend, use: ModelUse) -> None:
        """Replace a reservation by what it came to and remember the use; repeating it changes
        nothing.

        It is done as soon as this is called: not even a caller that is cancelled while waiting
            leaves it undone.

        Raises:
            JournalError: it cannot be written.
        """
        await self._request(Settle(reservation.id, spent, use))

    async def unsettled(self, run: RunId) -> Sequence[Reservation]:
        """Return the reservations of a run that are not settled, the oldest first.

        Raises:
            JournalError: it cannot be read.
        """
        return await self._writer.query(lambda: self._tables.unsettled(run))

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what a scope could still reserve, and what was spent.

        Raises:
            JournalError: it cannot be read.
        """
        return await self._writer.query(lambda: self._tables.left(account))

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return the seconds of the latest answered calls of a model in a role, the latest last.

        Raises:
            JournalError: it cannot be read.
        """
        return await self._writer.query(lambda: self._tables.past_seconds(model, role))

    async def aclose(self) -> None:
        """Write what is pending and close; closing again does nothing."""
        await self._writer.aclose()

    def close(self) -> None:
        """Close without an event loop; what was handed over is written first."""
        self._writer.stop()

    def _request(self, request: BudgetRequest) -> asyncio.Future[BudgetReply]:
        self._writer.check_open()
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[BudgetReply] = loop.create_future()
        self._writer.put(_QueuedRequest(request, loop, waiting))
        return waiting

    async def _write(self, queued: Sequence[_QueuedRequest]) -> None:
        try:
            replies = await self._tables.transact(
                [queued_change.request for queued_change in queued]
            )
        except JournalError as error:
            for queued_change in queued:
                _reject(queued_change, error)
            return
        for queued_change, reply in zip(queued, replies, strict=True):
            call_on_loop(queued_change.loop, self._resolve, queued_change, reply)

    def _resolve(self, queued: _QueuedRequest, reply: BudgetReply) -> None:
        if not queued.waiting.done():
            queued.waiting.set_result(reply)
        elif isinstance(reply, Reservation) and not self._writer.is_closed:
            # The caller was cancelled meanwhile and will make no call: nothing is spent.
            settle = Settle(reply.id, Spend(), None)
            self._writer.put(_QueuedRequest(settle, queued.loop, queued.waiting))


def _reject(queued: _QueuedRequest, error: JournalError) -> None:
    call_on_loop(queued.loop, set_exception, queued.waiting, error)
