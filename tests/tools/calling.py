"""Calls of tools as the executor makes them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from functools import partial

import anyio

from wavewright.planner.types import Json, JsonObject, RunId, StepId, StepKey
from wavewright.tools.functions.tool import Tool, ToolCall
from wavewright.tools.mcp.lock import ServerListing
from wavewright.tools.mcp.sessions import McpSessions
from wavewright.tools.mcp.tools import McpServerSettings

MARCH_2010 = dt.datetime(2010, 3, 1, tzinfo=dt.UTC)


def request(
    params: JsonObject, *, now: dt.datetime = MARCH_2010, config: JsonObject | None = None
) -> ToolCall:
    return ToolCall(
        run=RunId("run"),
        step=StepId("step"),
        tool="tool",
        params=params,
        key=StepKey("key-1"),
        now=now,
        config=config,
    )


def call(
    tool: Tool,
    params: Mapping[str, Json] | None = None,
    *,
    now: dt.datetime = MARCH_2010,
    config: JsonObject | None = None,
    **more: Json,
) -> Json:
    """Return what a tool gives for these parameters."""
    return anyio.run(
        partial(tool.call, request({**(params or {}), **more}, now=now, config=config))
    )


def call_for_document(
    tool: Tool,
    params: Mapping[str, Json] | None = None,
    *,
    now: dt.datetime = MARCH_2010,
    config: JsonObject | None = None,
    **more: Json,
) -> JsonObject:
    """Return the object that a tool gives for these parameters."""
    output = call(tool, params, now=now, config=config, **more)
    assert isinstance(output, dict)
    return output


async def list_server_tools(server: McpServerSettings) -> ServerListing:
    """Start or reach a server, return what it lists, and leave it."""
    async with McpSessions([server]) as sessions:
        return await sessions.listing(server.name)
