"""What one provider lets us do: requests at once, and requests begun in a minute.

A *turnstile* is passed by every request to a provider that goes through the same open models, whoever asks; who came
first goes first. No more requests begin in any minute than the limit says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

MINUTE = 60.0


class Pace:
    """Lets so many through in any span of time, as early as that allows."""

    def __init__(self, most: int, span: float = MINUTE) -> None:
        self._begun: deque[float] = deque(maxlen=most)
        self._most = most
        self._span = span
        self._turn = anyio.Lock()

    async def wait(self) -> None:
        """Return when one more may begin."""
        # A token bucket would let twice as many through in the minute after a pause, and providers count minutes.
        async with self._turn:
            if len(self._begun) == self._most:
                await anyio.sleep_until(self._begun[0] + self._span)
            self._begun.append(anyio.current_time())


class Turnstile:
    """The limits of one provider."""

    def __init__(self, *, concurrency: int | None = None, pace: Pace | None = None) -> None:
        self._places = None if concurrency is None else anyio.Semaphore(concurrency)
        self._pace = pace

    @asynccontextmanager
    async def passed(self) -> AsyncGenerator[None]:
        """Wait for a place and for the pace, and give the place back at the end."""
        if self._places is None:
            await self._pass_pace()
            yield
            return
        async with self._places:
            await self._pass_pace()
            yield

    async def _pass_pace(self) -> None:
        if self._pace is not None:
            await self._pace.wait()
