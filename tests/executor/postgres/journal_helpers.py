"""What the tests of the journal in a database share: runs, events, and looking at them from
outside.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NoReturn, TypeVar

import anyio

from tests.executor.event_examples import step_finished
from tests.support.lossy_proxy import LossyLine
from tests.support.postgres import PostgresServer
from wavewright.executor.events.types import Event
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.planner.types import RunId

T = TypeVar("T")
RUN = RunId("20261121-231907-3f2a7c")
OTHER = RunId("20261121-231908-b00b1e")


async def seen_from_outside(url: str, run: RunId = RUN) -> list[Event]:
    async with PostgresJournal(url) as journal:
        return await journal.load(run)


def steps(count: int, start: int = 0) -> list[Event]:
    return [step_finished(f"s{number}") for number in range(start, start + count)]


async def all_at_once(*appends: Awaitable[None]) -> None:
    async def wait_for(append: Awaitable[None]) -> None:
        await append

    async with anyio.create_task_group() as group:
        for append in appends:
            group.start_soon(wait_for, append)


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for what a thread or a server does."""
    with anyio.fail_after(20):
        while not is_so():  # noqa: ASYNC110 - neither can set an event of this loop
            await anyio.sleep(0.002)


@asynccontextmanager
async def breaking_connections(
    server: PostgresServer, url: str
) -> AsyncGenerator[Callable[[], None]]:
    """Break all connections to a database while the block runs; once more after each call of what
    it gives.

    A client that is slower than the breaks would never get through, so each waits for some
    progress.
    """
    progress = anyio.Event()

    def note_progress() -> None:
        progress.set()

    async def break_them() -> NoReturn:
        nonlocal progress
        while True:
            await anyio.to_thread.run_sync(server.kill_connections, url)
            progress = anyio.Event()
            await progress.wait()
            await anyio.sleep(0.003)

    async with anyio.create_task_group() as group:
        group.start_soon(break_them)
        yield note_progress
        group.cancel_scope.cancel()


@dataclass(frozen=True)
class LostReplies:
    """What a server says while one thing is done; from one of them on they are lost."""

    line: LossyLine

    async def lose(self, done: asyncio.Future[T]) -> None:
        """Wait until something is lost, or nothing was left to lose; then break the connections."""
        await until(lambda: self.line.kept_back.is_set() or done.done())
        self.line.cut_clients()


async def each_lost_in_turn(line: LossyLine, *, stride: int = 1) -> AsyncIterator[LostReplies]:
    """Lose the first answer, at the next turn the second, and so on until a turn needs no more than
    it gets.

    Args:
        line: The way to the server.
        stride: Answers from one turn to the next, where each would take too long.
    """
    for passed in range(0, 200, stride):
        line.hold("answers", after=passed)
        yield LostReplies(line)
        if not line.kept_back.is_set():
            return
    raise AssertionError
