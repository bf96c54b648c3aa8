"""The network with faults does to connections what it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import anyio
import anyio.from_thread
import pytest
from anyio.abc import SocketStream

from tests.support.tcp_proxy import TcpProxy

pytestmark = pytest.mark.anyio


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that sends back what it gets."""
    with anyio.from_thread.start_blocking_portal("asyncio") as portal:
        listener = portal.call(lambda: anyio.create_tcp_listener(local_host="127.0.0.1"))
        future = portal.start_task_soon(listener.serve, answer)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - of a socket
        future.cancel()
        portal.call(listener.aclose)


async def answer(stream: SocketStream) -> None:
    with suppress(anyio.BrokenResourceError):
        async with stream:
            async for data in stream:
                await stream.send(data)


@pytest.fixture
def proxy(echo: int) -> Iterator[TcpProxy]:
    with TcpProxy("127.0.0.1", echo, is_recording=True) as started:
        yield started


async def ask(stream: SocketStream, data: bytes) -> bytes:
    await stream.send(data)
    got = b""
    with anyio.fail_after(10):
        while len(got) < len(data):
            got += await stream.receive()
    return got


async def test_bytes_pass_both_ways_and_are_recorded(proxy: TcpProxy) -> None:
    async with await anyio.connect_tcp("127.0.0.1", proxy.port) as stream:
        assert await ask(stream, b"there and back") == b"there and back"

    assert {(passed.direction, passed.data) for passed in proxy.passed} == {
        ("out", b"there and back"),
        ("back", b"there and back"),
    }


async def test_a_black_hole_lets_nothing_through_and_delivers_it_when_it_heals(
    proxy: TcpProxy,
) -> None:
    async with await anyio.connect_tcp("127.0.0.1", proxy.port) as stream:
        assert await ask(stream, b"1") == b"1"
        proxy.black_hole()
        await stream.send(b"2")
        with anyio.move_on_after(0.2) as silence:
            await stream.receive()
        proxy.pass_on()

        assert silence.cancelled_caught
        assert await stream.receive() == b"2"


async def test_a_reset_breaks_connections_and_new_ones_pass(proxy: TcpProxy) -> None:
    async with await anyio.connect_tcp("127.0.0.1", proxy.port) as stream:
        assert await ask(stream, b"1") == b"1"
        proxy.reset()
        with pytest.raises(anyio.BrokenResourceError):
            await stream.receive()

    async with await anyio.connect_tcp("127.0.0.1", proxy.port) as stream:
        assert await ask(stream, b"2") == b"2"


async def test_who_is_refused_may_come_again_when_it_heals(proxy: TcpProxy) -> None:
    proxy.refuse()
    with pytest.raises(OSError, match="connect"):
        await anyio.connect_tcp("127.0.0.1", proxy.port)
    proxy.pass_on()

    async with await anyio.connect_tcp("127.0.0.1", proxy.port) as stream:
        assert await ask(stream, b"again") == b"again"


async def test_a_connection_is_cut_after_so_many_bytes(proxy: TcpProxy) -> None:
    async with await anyio.connect_tcp("127.0.0.1", proxy.port) as stream:
        assert await ask(stream, b"1") == b"1"
        proxy.cut_after(3)
        with pytest.raises(anyio.BrokenResourceError):
            await ask(stream, b"abcdef")

    assert b"".join(passed.data for passed in proxy.passed if passed.direction == "out") == b"1abc"


async def test_the_client_of_a_half_open_connection_hears_nothing(proxy: TcpProxy) -> None:
    async with await anyio.connect_tcp("127.0.0.1", proxy.port) as stream:
        assert await ask(stream, b"1") == b"1"
        proxy.half_open()
        with anyio.move_on_after(0.2) as silence:
            await ask(stream, b"2")

        assert silence.cancelled_caught


async def test_bytes_that_are_slowed_down_arrive_whole(proxy: TcpProxy) -> None:
    proxy.slow_down(0.001, slice_size=7)
    async with await anyio.connect_tcp("127.0.0.1", proxy.port) as stream:
        assert await ask(stream, bytes(range(256))) == bytes(range(256))

    assert max(len(passed.data) for passed in proxy.passed) <= 7
