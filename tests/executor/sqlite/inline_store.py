"""The tables of a journal's file in the thread of a test: their coroutines never wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeVar

from wavewright.executor.sqlite.event_store import SqliteEventStore
from wavewright.executor.store.entries import AppendEntry
from wavewright.executor.store.errors import JournalError
from wavewright.executor.store.leases import LeaseProbe
from wavewright.executor.store.transaction import TransactionWork
from wavewright.executor.store.writer import run_inline
from wavewright.planner.types import RunId

T = TypeVar("T")


class InlineEventStore:
    """A `SqliteEventStore` without a writer thread."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        """Open the file as a `SqliteEventStore` does."""
        self.store = SqliteEventStore(*arguments, **options)
        self.reader = self.store.reader

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def claim(self, run: RunId, *, unmoved: int | None = None) -> LeaseProbe | None:
        return run_inline(self.store.claim(run, unmoved=unmoved))

    def release(self, run: RunId) -> None:
        run_inline(self.store.release(run))

    def holds(self, run: RunId) -> bool:
        return self.store.holds(run)

    def heartbeat(self) -> None:
        run_inline(self.store.heartbeat())

    def write(self, entries: Sequence[AppendEntry]) -> dict[RunId, JournalError]:
        return run_inline(self.store.write(entries))

    def execute(self, works: Sequence[TransactionWork[Any]]) -> Sequence[object]:
        return run_inline(self.store.execute(works))

    def read(self, ask: TransactionWork[T]) -> T:
        return run_inline(self.store.read(ask))

    def close(self) -> None:
        run_inline(self.store.close())
