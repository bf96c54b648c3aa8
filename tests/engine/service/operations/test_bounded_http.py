"""What one client may take of an HTTP server."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from wavewright.engine.service.operations.bounded_http import (
    MAX_CONNECTIONS,
    BoundedRequests,
    bounded_protocol,
)

pytestmark = pytest.mark.anyio

SECONDS = 0.3
MAX_BODY = 1000


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """The loop of the commands, and that of the daemon, whose transports are of other classes."""
    return "asyncio", {"use_uvloop": request.param}


async def measure(request: Request) -> PlainTextResponse:
    """Answer with the length of a body."""
    return PlainTextResponse(str(len(await request.body())))


@asynccontextmanager
async def served(*, is_proxy: bool = False, seconds: float = SECONDS) -> AsyncGenerator[int]:
    """Serve at a port."""
    app = Starlette(routes=[Route("/", measure, methods=["POST"])])
    bounded = BoundedRequests(app, MAX_BODY, seconds)
    protocol = bounded_protocol(lambda _: is_proxy, seconds)
    config = uvicorn.Config(bounded, http=protocol, log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with anyio.create_task_group() as group:
            group.start_soon(server.serve, [listener])
            yield listener.getsockname()[1]
            server.should_exit = True


async def said(port: int, text: str) -> bytes:
    """Say something that is no whole request, and return what comes until the server closes."""
    answer = b""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(text.encode())
        with anyio.fail_after(20):
            async for part in stream:
                answer += part
    return answer


@pytest.mark.parametrize(
    "text",
    ["", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow", "POST / HTTP/1.1\r\nHost: x\r\n"],
)
async def test_a_head_that_does_not_end_closes_the_connection(text: str) -> None:
    async with served() as port:
        assert await said(port, text) == b""


async def test_a_body_that_does_not_end_is_answered_with_408() -> None:
    async with served() as port:
        head = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n"
        assert (await said(port, f"{head}abc")).startswith(b"HTTP/1.1 408")


async def test_a_body_that_is_too_long_is_answered_with_413() -> None:
    async def chunks() -> AsyncGenerator[bytes]:
        for _ in range(3):
            yield b"x" * 500

    async with served() as port, httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        declared = await client.post("/", content=b"x" * (MAX_BODY + 1))
        chunked = await client.post("/", content=chunks())
        whole = await client.post("/", content=b"x" * MAX_BODY)

    assert [declared.status_code, chunked.status_code] == [413, 413]
    assert whole.text == str(MAX_BODY)


@pytest.mark.parametrize(
    ("is_proxy", "text", "status"),
    [
        pytest.param(False, "", 503, id="a client"),
        pytest.param(
            True, "POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200, id="the proxy"
        ),
    ],
)
async def test_one_client_opens_a_bounded_number_of_connections(
    text: str, status: int, *, is_proxy: bool
) -> None:
    # None of them is closed for its silence, however long it takes to open all.
    async with served(is_proxy=is_proxy, seconds=60) as port:
        streams = [await anyio.connect_tcp("127.0.0.1", port) for _ in range(MAX_CONNECTIONS)]
        answer = await said(port, text)
        for stream in streams:
            await stream.aclose()

    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
