"""What one provider lets us do: requests at once, and requests begun in a minute.

A *turnstile* is passed by every request to a provider that goes through the same open models, whoever asks; who came
first goes first. No more requests begin in any minute than the limit says.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio

MINUTE_SECONDS = 60.0


class RateLimiter:
    """Lets so many through in any span of time, as early as that allows."""

    def __init__(self, most: int, span: float = MINUTE_SECONDS) -> None:
        self._starts: deque[float] = deque(maxlen=most)
        self._max_starts = most
        self._span = span
        self._lock = anyio.Lock()

    async def wait(self) -> None:
        """Return when one more may begin."""
        # A token bucket would let twice as many through in the minute after a pause, and providers count minutes.
        async with self._lock:
            if len(self._starts) == self._max_starts:
                await anyio.sleep_until(self._starts[0] + self._span)
            self._starts.append(anyio.current_time())


class ProviderLimiter:
    """The limits of one provider."""

    def __init__(self, *, concurrency: int | None = None, pace: RateLimiter | None = None) -> None:
        self._slots = None if concurrency is None else anyio.Semaphore(concurrency)
        self._rate = pace

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None]:
        """Wait for a place and for the pace, and give the place back at the end."""
        if self._slots is None:
            await self._wait_for_rate()
            yield
            return
        async with self._slots:
            await self._wait_for_rate()
            yield

    async def _wait_for_rate(self) -> None:
        if self._rate is not None:
            await self._rate.wait()
