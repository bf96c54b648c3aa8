"""Calls that are compared with the permits of a run before they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wavewright.planner.checks.permits import Permits, refused_value
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.types import Json
from wavewright.tools.functions.dispatch import part_call
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import Tool, ToolCall


class CallAllowance:
    """What is left of the calls that a run may make."""

    def __init__(self, permits: Permits, calls_made: int) -> None:
        self.permits = permits
        self.made = calls_made

    def take(self, tool: Tool, call: ToolCall) -> None:
        """Count a call.

        Raises:
            ToolError: it is not permitted, or one too many.
        """
        if tool.parts:  # the permits are those of the tool that data has chosen
            call = part_call(call)
            tool = tool.parts[call.tool]
        self.require(tool.signature, call.params)
        most = self.permits.calls
        if most is not None and self.made >= most:
            raise _refusal(f"the permits allow {most} calls, and as many were made")
        self.made += 1

    def require(self, signature: ToolSignature, params: Mapping[str, Json]) -> None:
        """Return where a tool may be called with these values, by a step or within it.

        Raises:
            ToolError: it may not.
        """
        if reason := refused_value(self.permits, signature, params):
            raise _refusal(reason)


def _refusal(reason: str) -> ToolError:
    return ToolError(f"not permitted: {reason}", hint="see the permits file of the plan")


class PermittedCall:
    """A tool's call, made only where it is permitted."""

    def __init__(self, tool: Tool, calls: CallAllowance) -> None:
        self._tool = tool
        self._calls = calls

    async def __call__(self, call: ToolCall) -> Json:
        """Return the output of the call."""
        self._calls.take(self._tool, call)
        return await self._tool.call(replace(call, guard=self._calls.require))
