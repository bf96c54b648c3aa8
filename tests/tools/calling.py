"""Calls of tools as the executor makes them."""

from __future__ import annotations

import datetime as dt
from functools import partial
from typing import cast

import anyio

from wavewright.planner.types import Json, JsonObject, RunId, StepId, StepKey
from wavewright.tools.calls import Tool, ToolCall

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
    tool: Tool, *, now: dt.datetime = MARCH_2010, config: JsonObject | None = None, **params: Json
) -> Json:
    """Return what a tool gives for these parameters."""
    return anyio.run(partial(tool.call, request(params, now=now, config=config)))


def call_for_document(
    tool: Tool, *, now: dt.datetime = MARCH_2010, config: JsonObject | None = None, **params: Json
) -> JsonObject:
    """Return the object that a tool gives for these parameters."""
    output = call(tool, now=now, config=config, **params)
    assert isinstance(output, dict)
    return cast("JsonObject", output)
