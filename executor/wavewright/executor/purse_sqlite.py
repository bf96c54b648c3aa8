"""A purse in the journal's file: what models cost is counted together for all runs and processes.

One thread owns the purse's connection, beside the event loop. All that calls want while it writes is its next
transaction, so that two hundred calls at once cost a few commits. Done means synced: what was put aside counts as
spent until it is settled, whatever becomes of this process.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias, TypeVar

from wavewright.config.model_settings import BudgetsSection
from wavewright.executor.budgets import BudgetLimits
from wavewright.executor.journal_errors import JournalError, JournalStopped
from wavewright.executor.journal_orders import QueryCommand, StopCommand, query_command
from wavewright.executor.purse_orders import BudgetCommand, QueuedBudgetStore, reject
from wavewright.executor.purse_store import SqliteBudgetTables
from wavewright.planner.allowance import Allowance
from wavewright.planner.model_port import Role
from wavewright.planner.spending import BudgetScope

_T = TypeVar("_T")
_MAX_BATCH = 500
_Command: TypeAlias = BudgetCommand | QueryCommand | StopCommand


class SqliteBudgetStore(QueuedBudgetStore):
    """A purse that every process with the same file shares, and that outlives them."""

    def __init__(
        self,
        path: Path | str,
        budgets: BudgetsSection | None = None,
        clock: Callable[[], float] = time.time,
        *,
        patience: float = 10.0,
    ) -> None:
        """Open the journal's file, and create it where there is none.

        Args:
            path: The journal's file; one of an older format is brought to this one.
            budgets: The configured budgets; none where absent.
            clock: Seconds since the epoch.
            patience: Seconds to wait for another program's lock.

        Raises:
            JournalError: with the place and the mend.
        """
        self.path = Path(path)
        super().__init__(BudgetLimits(budgets or BudgetsSection.model_construct()))
        self._store = SqliteBudgetTables(self.path, self._budgets, clock=clock, patience=patience)
        self._commands = queue.SimpleQueue[_Command]()
        self._ended_by: BaseException | None = None
        self._has_ended = False
        """Whether the writer takes no more orders; set before it refuses those that are left."""
        # A daemon: a program that forgets to close the purse must still be able to end.
        self._writer = threading.Thread(target=self._writer_main, name=f"purse {self.path.name}", daemon=True)
        self._writer.start()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # On the event loop

    async def left(self, account: BudgetScope) -> Allowance:
        """Return what an account could still reserve, and what was spent.

        Raises:
            JournalError: the file cannot be read.
        """
        return await self._query(lambda: self._store.left(account))

    async def past_seconds(self, model: str, role: Role) -> Sequence[float]:
        """Return the seconds of the latest answered calls of a model in a role, the latest last.

        Raises:
            JournalError: the file cannot be read.
        """
        return await self._query(lambda: self._store.past_seconds(model, role))

    async def aclose(self) -> None:
        """Write what is pending and close; closing again does nothing."""
        self.close()

    def close(self) -> None:
        """Close without an event loop; what was handed over is written first."""
        if not self._is_closed:
            self._is_closed = True
            self._commands.put(StopCommand())
        self._writer.join()

    def _enqueue(self, post: _Command, /) -> None:
        """Give the writer something to do, and answer it here where the writer ended meanwhile."""
        self._commands.put(post)
        if self._has_ended:
            self._reject_rest()

    async def _query(self, read: Callable[[], _T]) -> _T:
        self._check_open()
        post, waiting = query_command(read, self._broken)
        self._enqueue(post)
        return await waiting

    def _check_open(self) -> None:
        if self._is_closed:
            raise self._closed()

    def _closed(self) -> JournalError:
        if self._ended_by is not None:
            return self._broken(self._ended_by, JournalStopped)
        return JournalError("the purse is closed", place=str(self.path), mend="open it again")

    def _broken(self, cause: BaseException, kind: type[JournalError] = JournalError) -> JournalError:
        fault = kind(
            f"the purse stopped at a fault of its own: {cause!r}",
            place=str(self.path),
            mend="resume the run; what was put aside counts as spent",
        )
        fault.__cause__ = cause
        return fault

    # On the writer's thread

    def _writer_main(self) -> None:
        try:
            while self._run_commands(self._next_batch()):
                pass
        except BaseException as error:  # noqa: BLE001 - the edge of the thread: the fault goes to whoever asks next
            self._ended_by = error
        finally:
            # After an orderly stop nothing is left; after a fault of our own nobody may wait for ever.
            self._is_closed = self._has_ended = True
            self._reject_rest()
            self._store.close()

    def _next_batch(self) -> list[_Command]:
        """Return the next order, and whatever came since the last was taken."""
        posts = [self._commands.get()]
        with suppress(queue.Empty):
            while len(posts) < _MAX_BATCH:
                posts.append(self._commands.get_nowait())
        return posts

    def _run_commands(self, posts: Sequence[_Command]) -> bool:
        """Write all orders in one transaction, then answer the questions; return whether to go on."""
        orders = [post for post in posts if isinstance(post, BudgetCommand)]
        if orders:
            self._write(orders)
        for post in posts:
            if isinstance(post, QueryCommand):
                post.execute()
        return not any(isinstance(post, StopCommand) for post in posts)

    def _write(self, orders: Sequence[BudgetCommand]) -> None:
        try:
            answers = self._store.transact([order.request for order in orders])
        except JournalError as error:
            reject(orders, error)
            return
        except BaseException as error:
            reject(orders, self._broken(error))
            raise
        self._resolve(orders, answers)

    def _reject_rest(self) -> None:
        with suppress(queue.Empty):
            while True:
                post = self._commands.get_nowait()
                if isinstance(post, BudgetCommand):
                    reject([post], self._closed())
                elif isinstance(post, QueryCommand):
                    post.reject(self._closed())
