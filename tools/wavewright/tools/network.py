"""What clients of models, MCP servers and the web share: a limit on how often they ask, and whom
they trust.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING

import anyio

if TYPE_CHECKING:
    import ssl


MINUTE_SECONDS = 60.0


class RateLimiter:
    """Lets so many through in any span of time, as early as that allows.

    >>> import anyio
    >>> from wavewright.tools import RateLimiter
    >>> async def let_through() -> int:
    ...     limiter = RateLimiter(2, span=0.01)
    ...     for _ in range(3):
    ...         await limiter.wait()
    ...     return 3
    >>> anyio.run(let_through)
    3
    """

    def __init__(self, most: int, span: float = MINUTE_SECONDS) -> None:
        self._starts: deque[float] = deque(maxlen=most)
        self._span = span
        self._lock = anyio.Lock()

    async def wait(self) -> None:
        """Return when one more may begin."""
        # A token bucket would let twice as many through in the minute after a pause, and providers
        # count minutes.
        async with self._lock:
            if len(self._starts) == self._starts.maxlen:
                await anyio.sleep_until(self._starts[0] + self._span)
            self._starts.append(anyio.current_time())


class ProviderLimiter:
    """The limits of one provider, for all requests to it through the same open models: how many at
    once, and how many in any minute, in order of arrival.
    """

    def __init__(self, *, concurrency: int | None = None, pace: RateLimiter | None = None) -> None:
        self._slots = nullcontext() if concurrency is None else anyio.Semaphore(concurrency)
        self._rate = pace

    @asynccontextmanager
    async def slot(self) -> AsyncGenerator[None]:
        """Wait for a free slot and for the rate, and free the slot at the end."""
        async with self._slots:
            if self._rate is not None:
                await self._rate.wait()
            yield


def kept_tls_context() -> ssl.SSLContext:
    """Return the context of all clients: reading the authorities takes longer than a question to a
    model near by.
    """
    return _context_of(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=4)
def _context_of(file: str | None, folder: str | None) -> ssl.SSLContext:
    import httpx2  # only where a model or a server is asked

    del file, folder  # they are where it looks
    return httpx2.create_ssl_context()
