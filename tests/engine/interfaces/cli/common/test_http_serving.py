"""A page that a command serves: the streams of its viewers after the end of what it shows."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest
from sse_starlette import EventSourceResponse
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.routing import Route

from tests.engine.interfaces.view.served_page import ServedPage
from wavewright.engine.interfaces.cli.common.http_serving import listener_at
from wavewright.engine.interfaces.cli.common.page_serving import page_served

pytestmark = pytest.mark.anyio

SECONDS_OF_DRAWING = 1.5


@asynccontextmanager
async def open_slow_page() -> AsyncGenerator[Starlette]:
    """Yield an application whose stream takes a while to draw what it sends last."""

    async def stream(_request: Request) -> EventSourceResponse:
        async def events() -> AsyncGenerator[dict[str, str]]:
            yield {"event": "changed"}
            await anyio.sleep(SECONDS_OF_DRAWING)
            yield {"event": "ended"}

        return EventSourceResponse(events())

    yield Starlette(routes=[Route("/stream", stream)])


async def read_while_served(grace: int | None) -> list[str]:
    """Return the lines of events of a stream at whose first event the page's block is left."""
    lines: list[str] = []
    async with anyio.create_task_group() as group:
        begun = anyio.Event()

        async def read(address: str) -> None:
            page = ServedPage(address)
            async with httpx.AsyncClient(base_url=page.root, headers=page.bearer) as client:
                with contextlib.suppress(httpx.RemoteProtocolError):
                    async with client.stream("GET", "/stream") as answer:
                        async for line in answer.aiter_lines():
                            if line.startswith("event: "):
                                lines.append(line)
                                begun.set()

        with contextlib.closing(listener_at("127.0.0.1:0", "--view")) as listener:
            async with page_served(open_slow_page, listener, grace=grace) as address:
                group.start_soon(read, address)
                await begun.wait()
    return lines


async def test_streams_go_on_to_their_ends_within_the_grace() -> None:
    assert await read_while_served(grace=30) == ["event: changed", "event: ended"]


async def test_streams_are_cut_off_without_a_grace() -> None:
    assert await read_while_served(grace=None) == ["event: changed"]
