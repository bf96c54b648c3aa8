"""An HTTP client that reads no more than it should.

A small body can unfold to a huge one. The *guard* unfolds bodies itself, piece by piece with a bound on each, and ends
a response that grows past its limit: no answer, however packed, takes more memory than that.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator

import httpx2

MAX_DECODED_BYTES = 8 * 2**20
"""Of one response, unfolded. Sixteen thousand tokens of an answer are below a hundredth of it."""
_CHUNK_BYTES = 64 * 2**10
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS
"""Lets zlib tell the two formats apart."""


class ResponseTooLarge(httpx2.DecodingError):
    """A response went on past the limit."""


class UnknownEncoding(httpx2.DecodingError):
    """A response is packed in a way that nobody asked for."""


def guarded_client(
    *, connect_seconds: float = 10.0, max_bytes: int = MAX_DECODED_BYTES
) -> httpx2.AsyncClient:
    """Return a client for models' providers; whoever gets it closes it.

    It has no clock of its own beyond connecting: those that ask have.
    """

    async def guard(response: httpx2.Response) -> None:
        _guard_response(response, max_bytes)

    # A hook and not a transport: with a transport of ours the client would not look for proxies in the environment.
    return httpx2.AsyncClient(
        timeout=httpx2.Timeout(None, connect=connect_seconds),
        limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
        headers={"Accept-Encoding": "gzip"},
        event_hooks={"response": [guard]},
    )


def _guard_response(response: httpx2.Response, max_bytes: int) -> None:
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in {"identity", "", "gzip", "x-gzip", "deflate"}:
        raise UnknownEncoding(f"the answer is packed as {encoding!r}, which was not asked for")
    if not isinstance(response.stream, httpx2.AsyncByteStream):
        return
    response.stream = _GuardedStream(response.stream, encoding in {"gzip", "x-gzip", "deflate"}, max_bytes)
    # Unpacked here already.
    response.headers.pop("content-encoding", None)
    response.headers.pop("content-length", None)


class _GuardedStream(httpx2.AsyncByteStream):
    def __init__(self, packed: httpx2.AsyncByteStream, is_packed: bool, max_bytes: int) -> None:  # noqa: FBT001
        self._packed = packed
        self._is_packed = is_packed
        self._max_bytes = max_bytes

    async def __aiter__(self) -> AsyncIterator[bytes]:
        total = 0
        async for piece in self._unpacked():
            total += len(piece)
            if total > self._max_bytes:
                raise ResponseTooLarge(f"the answer is larger than {self._max_bytes // 2**20} MiB unpacked")
            yield piece

    async def _unpacked(self) -> AsyncIterator[bytes]:
        if not self._is_packed:
            async for piece in self._packed:
                yield piece
            return
        unfold = zlib.decompressobj(_ZLIB_OR_GZIP)
        try:
            async for packed in self._packed:
                rest = packed
                while rest:
                    yield unfold.decompress(rest, _CHUNK_BYTES)
                    rest = unfold.unconsumed_tail
            yield unfold.flush()
        except zlib.error as error:
            raise httpx2.DecodingError("the answer is not packed as it says") from error
        if not unfold.eof:
            raise httpx2.DecodingError("the answer is not packed as it says: its end is missing")

    async def aclose(self) -> None:
        await self._packed.aclose()
