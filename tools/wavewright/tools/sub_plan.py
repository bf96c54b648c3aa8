"""The tool `sub_plan`: a step whose output is the result of the sub-plan whose steps ran before it."""

from __future__ import annotations

from wavewright.planner.language.signatures import SUB_PLAN_SIGNATURE
from wavewright.planner.types import Json
from wavewright.tools.functions.tool import Tool, ToolCall


async def _result(call: ToolCall) -> Json:
    return call.params["result"]


def sub_plan_tool() -> Tool:
    """Return the tool `sub_plan`."""
    return Tool(SUB_PLAN_SIGNATURE, _result)
