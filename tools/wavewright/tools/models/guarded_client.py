"""An HTTP client with a bound on the response, which loads no provider's library.

A small compressed body can expand to a huge one. The *guard* decompresses bodies piece by piece and
ends a response that exceeds its limit, so memory is bounded.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

import httpx2

from wavewright.tools.network import kept_tls_context

MAX_DECODED_BYTES = 8 * 2**20
"""Of one decompressed response. An answer of 16,000 tokens is less than a hundredth of it."""
_CHUNK_BYTES = 64 * 2**10
_LAST_BYTES = 64
"""Of a stream of events, among which its end is looked for."""
_ZLIB_OR_GZIP = 32 + zlib.MAX_WBITS
"""Lets zlib tell the two formats apart."""


class UnknownEncoding(httpx2.DecodingError):
    """A response has a compression that was not requested."""


class ResponseTooLarge(httpx2.DecodingError):
    """A response exceeds the limit."""


def guarded_client(*, max_bytes: int = MAX_DECODED_BYTES) -> httpx2.AsyncClient:
    """Return a client for providers of models and for webhooks; the caller closes it.

    It has no clock of its own beyond connecting: those that ask have.

    >>> import anyio
    >>> from wavewright.tools import guarded_client
    >>> async def is_open() -> bool:
    ...     async with guarded_client(max_bytes=1000) as client:
    ...         return not client.is_closed
    >>> anyio.run(is_open)
    True
    """

    async def guard(response: httpx2.Response) -> None:
        _guard_response(response, max_bytes)

    # A hook and not a transport: with a transport of ours the client would not look for proxies in
    # the environment.
    return httpx2.AsyncClient(
        verify=kept_tls_context(),
        timeout=httpx2.Timeout(None, connect=10.0),
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
    response.stream = _GuardedStream(
        response.stream,
        max_bytes,
        is_packed=encoding in {"gzip", "x-gzip", "deflate"},
        is_json="json" in response.headers.get("content-type", ""),
    )
    # The body is decompressed already.
    response.headers.pop("content-encoding", None)
    response.headers.pop("content-length", None)


class _GuardedStream(httpx2.AsyncByteStream):
    def __init__(
        self,
        packed: httpx2.AsyncByteStream,
        max_bytes: int,
        *,
        is_packed: bool,
        is_json: bool,
    ) -> None:
        self._packed = packed
        self._is_packed = is_packed
        self._max_bytes = max_bytes
        self._reading: AsyncGenerator[bytes] | None = None
        self._keeps_all = is_json
        self.kept = bytearray()
        """What was read: all of JSON, of anything else the end."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        self._reading = self._read()
        return self._reading

    async def _read(self) -> AsyncGenerator[bytes]:
        total = 0
        async with (
            aclosing(_read_closing(self._packed)) as packed,
            aclosing(self._unpacked(packed)) as pieces,
        ):
            async for piece in pieces:
                total += len(piece)
                if total > self._max_bytes:
                    raise ResponseTooLarge(
                        f"the answer is larger than {self._max_bytes // 2**20} MiB unpacked"
                    )
                self.kept += piece
                if not self._keeps_all:
                    del self.kept[:-_LAST_BYTES]
                yield piece

    async def _unpacked(self, packed: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        if not self._is_packed:
            async for piece in packed:
                yield piece
            return
        unfold = zlib.decompressobj(_ZLIB_OR_GZIP)
        try:
            async for piece in packed:
                rest = piece
                while rest:
                    yield unfold.decompress(rest, _CHUNK_BYTES)
                    rest = unfold.unconsumed_tail
            yield unfold.flush()
        except zlib.error as error:
            raise httpx2.DecodingError("the answer is not packed as it says") from error
        if not unfold.eof:
            raise httpx2.DecodingError("the answer is not packed as it says: its end is missing")

    async def aclose(self) -> None:
        # A body that was left in the middle is closed here; the garbage collector would close it at
        # any moment, and its layers in any order, which fails.
        if self._reading is not None:
            await self._reading.aclose()
        await self._packed.aclose()


def guarded_body(response: httpx2.Response) -> bytes:
    """Return what was read of a response's body, without the space at its end: all of JSON, of
    anything else the end.
    """
    stream = response.stream
    return bytes(stream.kept).rstrip() if isinstance(stream, _GuardedStream) else b""


async def _read_closing(stream: httpx2.AsyncByteStream) -> AsyncGenerator[bytes]:
    pieces = aiter(stream)
    try:
        async for piece in pieces:
            yield piece
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
