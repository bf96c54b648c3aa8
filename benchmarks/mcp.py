"""What a call of an MCP server's tool costs beside the bare library, and how servers start at once."""

from __future__ import annotations

import asyncio
import datetime as dt
import statistics
import sys
import time
from collections.abc import Callable, Coroutine

import anyio
from mcp import Client, StdioServerParameters

from benchmarks.measure import show_table
from wavewright.planner.types import RunId, StepId, StepKey
from wavewright.tools.functions.tool import ToolCall
from wavewright.tools.mcp.sessions import McpSessions
from wavewright.tools.mcp.settings import McpServerSettings

CALLS = 200
TURNS = 7
SERVERS = 5
ARGUMENTS = ("-m", "mcp_server_time", "--local-timezone=UTC")
TOOL = "get_current_time"
PARAMS = {"timezone": "UTC"}


def measure_mcp() -> None:
    """Print the cost of calls one after the other and at once, and of starts at once."""
    asyncio.run(_measure_calls())
    asyncio.run(_measure_starts())


async def _measure_calls() -> None:
    bare_server = StdioServerParameters(command=sys.executable, args=[*ARGUMENTS])
    async with Client(bare_server) as client, McpSessions([_server("time", limit=CALLS)]) as sessions:

        async def call_bare() -> None:
            await client.call_tool(TOOL, {**PARAMS})

        async def call() -> None:
            await sessions.call("time", TOOL, _request())

        await call_bare()
        await call()
        rows: list[list[object]] = []
        for name, run in (("one after the other", _in_turn), ("200 at once", _at_once)):
            bare, ours = list[float](), list[float]()
            for _ in range(TURNS):
                bare.append(await run(call_bare))
                ours.append(await run(call))
            rows.append([name, min(bare), min(ours), min(ours) / min(bare), statistics.median(ours)])
    show_table(
        "Calls of an MCP server over stdio, ms a call",
        ["200 calls", "bare library, best", "sessions, best", "ratio", "sessions, median"],
        rows,
    )


async def _in_turn(call: Callable[[], Coroutine[object, object, None]]) -> float:
    started = time.perf_counter()
    for _ in range(CALLS):
        await call()
    return (time.perf_counter() - started) / CALLS * 1000


async def _at_once(call: Callable[[], Coroutine[object, object, None]]) -> float:
    started = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(CALLS):
            group.start_soon(call)
    return (time.perf_counter() - started) / CALLS * 1000


async def _measure_starts() -> None:
    rows: list[list[object]] = []
    for count in (1, SERVERS):
        names = [f"time{number}" for number in range(count)]
        async with McpSessions([_server(name) for name in names]) as sessions:
            started = time.perf_counter()
            async with anyio.create_task_group() as group:
                for name in names:
                    group.start_soon(sessions.call, name, TOOL, _request())
            rows.append([count, time.perf_counter() - started])
    show_table("Start of MCP servers at once, to the first answer of each", ["servers", "seconds"], rows)


def _server(name: str, limit: int = 8) -> McpServerSettings:
    return McpServerSettings(name, command=sys.executable, args=ARGUMENTS, limit=limit)


def _request() -> ToolCall:
    now = dt.datetime.now(dt.UTC)
    return ToolCall(RunId("run"), StepId("step"), TOOL, {**PARAMS}, StepKey("key"), now)
