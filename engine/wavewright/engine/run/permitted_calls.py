"""Calls that are compared with the permits of a run before they are made."""

from __future__ import annotations

from wavewright.planner.checks.permits import Permits, refused_value
from wavewright.planner.types import Json
from wavewright.tools.functions.dispatch import part_call
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import Tool, ToolCall


class CallAllowance:
    """What is left of the calls that a run may make."""

    def __init__(self, permits: Permits, made: int) -> None:
        self.permits = permits
        self.made = made

    def take(self, tool: Tool, call: ToolCall) -> None:
        """Count a call.

        Raises:
            ToolError: it is not permitted, or one too many.
        """
        if tool.parts:  # the permits are those of the tool that data has chosen
            call = part_call(call)
            tool = tool.parts[call.tool]
        reason = refused_value(self.permits, tool.signature, call.params)
        most = self.permits.calls
        if not reason and most is not None and self.made >= most:
            reason = f"the permits allow {most} calls, and as many were made"
        if reason:
            raise ToolError(f"not permitted: {reason}", hint="see the permits file of the plan")
        self.made += 1


class PermittedCall:
    """A tool's call, made only where it is permitted."""

    def __init__(self, tool: Tool, calls: CallAllowance) -> None:
        self._tool = tool
        self._calls = calls

    async def __call__(self, call: ToolCall) -> Json:
        """Return the output of the call."""
        self._calls.take(self._tool, call)
        return await self._tool.call(call)
