"""What the tests of the journal in a database share: runs, events, and looking at them from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from tests.executor.event_examples import step_finished
from wavewright.executor.events import Event
from wavewright.executor.postgres.journal import PostgresJournal
from wavewright.planner.types import RunId

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
