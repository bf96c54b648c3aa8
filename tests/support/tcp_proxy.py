"""A network with faults: a proxy on loopback between a client and a server, told from the test what
goes wrong.

`pass_on` is the network in order. Faults hold for the connections there are and for new ones, until
`pass_on`; `reset`, `cut_after` and `half_open` strike the connections there are. It runs in a
thread of its own, so a test that blocks its event loop blocks no bytes, and tests of other
processes can use it, too.
"""

from __future__ import annotations

import socket
import struct
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Literal, Self, TypeAlias
from urllib.parse import urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream, TaskGroup
from anyio.from_thread import BlockingPortal, start_blocking_portal

Direction: TypeAlias = Literal["out", "back"]
"""`out`: from the client to the server."""
DIRECTIONS: tuple[Direction, Direction] = ("out", "back")

_BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream, OSError)
_CHUNK = 65_536


@dataclass(frozen=True)
class Passed:
    """Bytes that went through."""

    at: float
    """On the monotonic clock."""
    direction: Direction
    data: bytes


@dataclass(eq=False)
class _Link:
    """One connection through the proxy."""

    client: SocketStream
    server: SocketStream
    left: dict[Direction, int] = field(default_factory=dict[Direction, int])
    """Bytes that may still pass before the link is cut."""
    is_half_open: bool = False


class TcpProxy:
    """Passes bytes on to one server, and does not when told so."""

    def __init__(self, host: str, port: int, *, is_recording: bool = False) -> None:
        self._target = (host, port)
        self._is_recording = is_recording
        self.passed: list[Passed] = []
        """What went through, where it is recorded."""
        self.port = 0
        self._stack = ExitStack()
        self._links: set[_Link] = set()
        self._latency = 0.0
        self._slice = _CHUNK

    @classmethod
    def before(cls, url: str, *, is_recording: bool = False) -> TcpProxy:
        """Return a proxy in front of the server of an address."""
        parts = urlsplit(url)
        assert parts.hostname is not None
        return cls(parts.hostname, parts.port or 0, is_recording=is_recording)

    def __enter__(self) -> Self:
        self._portal: BlockingPortal = self._stack.enter_context(start_blocking_portal("asyncio"))
        self._future, _ = self._portal.start_task(self._run)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._portal.call(self._ending.set)
        self._future.result()
        self._stack.close()

    def url(self, url: str) -> str:
        """Return an address with this proxy in place of the server."""
        parts = urlsplit(url)
        user = parts.netloc.rpartition("@")[0]
        return parts._replace(
            netloc=f"{user}@127.0.0.1:{self.port}" if user else f"127.0.0.1:{self.port}"
        ).geturl()

    def pass_on(self) -> None:
        """Let everything through at once; what a black hole held is delivered, as after a
        partition.
        """

        def heal() -> None:
            self._latency, self._slice = 0.0, _CHUNK
            for gate in self._gates.values():
                gate.set()
            self._accepting.set()

        self._portal.call(heal)
        # A refused port is open again when this returns.
        self._portal.call(self._listens.wait)

    def black_hole(self, *directions: Direction) -> None:
        """Let nothing through, without a word, in one direction or in both; connections are still
        taken.
        """

        def swallow() -> None:
            for direction in directions or DIRECTIONS:
                self._gates[direction] = anyio.Event()

        self._portal.call(swallow)

    def slow_down(self, seconds: float, *, slice_size: int = _CHUNK) -> None:
        """Keep every piece for a while, and cut what passes into pieces."""
        self._latency, self._slice = seconds, slice_size

    def refuse(self) -> None:
        """Take no new connection: whoever tries is refused."""

        def stop() -> None:
            self._accepting, self._listens = anyio.Event(), anyio.Event()
            self._listening.cancel()

        self._portal.call(stop)
        # Until the port is really closed: the next line of a test may try to connect.
        self._portal.call(self._refusing.wait)

    def reset(self) -> None:
        """Break every connection there is, as a router does that forgot them."""
        self._portal.call(self._reset_all)

    def cut_after(self, size: int, direction: Direction = "out") -> None:
        """Break each connection there is as soon as so many more bytes have passed."""

        def arm() -> None:
            for link in self._links:
                link.left[direction] = size

        self._portal.call(arm)

    def half_open(self) -> None:
        """End the server's side of every connection; the client is not told."""

        async def end() -> None:
            for link in list(self._links):
                link.is_half_open = True
                await _break(link.server)

        self._portal.call(end)

    async def _run(self, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        self._ending = anyio.Event()
        self._accepting = anyio.Event()
        self._accepting.set()
        self._refusing = anyio.Event()
        self._listens = anyio.Event()
        self._listens.set()
        self._gates: dict[Direction, anyio.Event] = {
            direction: anyio.Event() for direction in DIRECTIONS
        }
        for gate in self._gates.values():
            gate.set()
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._listen, tasks)
            task_status.started()
            await self._ending.wait()
            await self._reset_all()
            tasks.cancel_scope.cancel()

    async def _listen(self, tasks: TaskGroup, *, task_status: anyio.abc.TaskStatus[None]) -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        self.port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - of a socket
        task_status.started()
        while True:
            self._refusing = anyio.Event()
            async with listener:
                with anyio.CancelScope() as self._listening:
                    await listener.serve(self._join, tasks)
            self._refusing.set()
            await self._accepting.wait()
            listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=self.port)
            self._listens.set()

    async def _join(self, client: SocketStream) -> None:
        try:
            server = await anyio.connect_tcp(*self._target)
        except OSError:
            await _break(client)
            return
        link = _Link(client, server)
        self._links.add(link)
        try:
            async with client, server, anyio.create_task_group() as pumps:
                pumps.start_soon(self._pump, link, "out", pumps)
                pumps.start_soon(self._pump, link, "back", pumps)
        finally:
            self._links.discard(link)

    async def _pump(self, link: _Link, direction: Direction, pumps: TaskGroup) -> None:
        source, sink = (
            (link.client, link.server) if direction == "out" else (link.server, link.client)
        )
        try:
            while True:
                data = await source.receive(self._slice)
                await self._gates[direction].wait()
                if self._latency:
                    await anyio.sleep(self._latency)
                if not await self._send(link, direction, sink, data):
                    break  # as soon as its last byte is through, the link is cut
        except _BROKEN:
            if link.is_half_open:
                await self._swallow(link, direction)
        # The end of a connection is lost in a black hole like everything else.
        await self._gates[direction].wait()
        await _break(link.client)
        await _break(link.server)
        pumps.cancel_scope.cancel()

    async def _swallow(self, link: _Link, direction: Direction) -> None:
        """Keep the client of a server that is gone in the belief that it is there."""
        if direction == "back":
            await anyio.sleep_forever()
        with suppress(*_BROKEN):
            while True:
                await link.client.receive(_CHUNK)

    async def _send(
        self, link: _Link, direction: Direction, sink: SocketStream, data: bytes
    ) -> bool:
        """Send what may pass, and tell whether more may."""
        left = link.left.get(direction)
        if left is not None:
            data = data[:left]
            link.left[direction] = left - len(data)
        if self._is_recording:
            # Before it is sent: whoever has received it finds it here.
            self.passed.append(Passed(time.monotonic(), direction, data))
        await sink.send(data)
        return link.left.get(direction) != 0

    async def _reset_all(self) -> None:
        for link in list(self._links):
            await _break(link.client)
            await _break(link.server)


async def _break(stream: SocketStream) -> None:
    """End a connection with a reset instead of a farewell."""
    with suppress(*_BROKEN):
        raw = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - of a socket
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    await anyio.aclose_forcefully(stream)
