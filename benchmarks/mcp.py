"""What a call of an MCP server's tool costs beside the bare library, how servers start at once, and
checks of plans.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters

from benchmarks.measure import best_of_calls, show_table
from wavewright.planner.types import JsonObject, RunId, StepId, StepKey
from wavewright.tools.functions.tool import ToolCall
from wavewright.tools.mcp.lock import LOCK_NAME, ListedTool, ServerListing, ToolsLock, lock_server
from wavewright.tools.mcp.sessions import McpSessions
from wavewright.tools.mcp.tools import McpServerSettings

CALLS = 200
TURNS = 7
SERVERS = 5
TOOLS = 200
ARGUMENTS = ("-m", "mcp_server_time", "--local-timezone=UTC")
TOOL = "get_current_time"
PARAMS = {"timezone": "UTC"}


def measure_mcp() -> None:
    """Print the cost of calls one after the other and at once, of starts at once, and of a check."""
    asyncio.run(_measure_calls())
    asyncio.run(_measure_starts())
    _measure_check()


async def _measure_calls() -> None:
    bare_server = StdioServerParameters(command=sys.executable, args=[*ARGUMENTS])
    async with (
        Client(bare_server) as client,
        McpSessions([_server("time", limit=CALLS)]) as sessions,
    ):

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
            rows.append(
                [name, min(bare), min(ours), min(ours) / min(bare), statistics.median(ours)]
            )
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
    show_table(
        "Start of MCP servers at once, to the first answer of each", ["servers", "seconds"], rows
    )


def _measure_check() -> None:
    rows: list[list[object]] = []
    with tempfile.TemporaryDirectory(prefix="wavewright-bench-") as folder:
        root = Path(folder)
        locked = lock_server(ServerListing("server", "1", tuple(map(_listed_tool, range(TOOLS)))))
        (root / LOCK_NAME).write_text(ToolsLock(servers={"server": locked}).text)
        (root / "wavewright.yaml").write_text("mcp: {servers: {server: {command: none}}}")
        for count in (1, TOOLS):
            plan = {"steps": [_step(number) for number in range(count)]}
            (root / "plan.json").write_text(json.dumps(plan))
            rows.append([count, best_of_calls(TURNS, partial(_check_plan, root))])
    show_table(
        f"`wavewright check` with {TOOLS} locked tools, from start to end",
        ["steps", "seconds"],
        rows,
    )


def _check_plan(root: Path) -> None:
    limits = (f"--max-steps={TOOLS}", f"--max-waves={TOOLS}")
    program = [sys.executable, "-m", "wavewright.engine.main", "check", "plan.json", *limits]
    subprocess.run(program, cwd=root, check=True, capture_output=True)  # noqa: S603 - our own command


def _listed_tool(number: int) -> ListedTool:
    city: JsonObject = {"type": "string", "minLength": 1, "description": "A city."}
    output: JsonObject = {"type": "object", "properties": {"city": city}, "required": ["city"]}
    given: JsonObject = {"type": "object", "properties": {"city": city}, "required": ["city"]}
    return ListedTool(f"tool_{number}", f"Tool {number}.", given, output, {"readOnlyHint": True})


def _step(number: int) -> JsonObject:
    city = f"${{steps.s{number - 1}.city}}" if number % 10 else "Rome"
    return {"id": f"s{number}", "tool": f"server.tool_{number}", "params": {"city": city}}


def _server(name: str, limit: int = 8) -> McpServerSettings:
    return McpServerSettings(name, command=sys.executable, args=ARGUMENTS, limit=limit)


def _request() -> ToolCall:
    now = dt.datetime.now(dt.UTC)
    return ToolCall(RunId("run"), StepId("step"), TOOL, {**PARAMS}, StepKey("key"), now)
