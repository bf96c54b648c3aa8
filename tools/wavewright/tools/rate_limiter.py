"""A limit on how often something begins: requests to a model's provider, or to a web server."""

from __future__ import annotations

from collections import deque

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
