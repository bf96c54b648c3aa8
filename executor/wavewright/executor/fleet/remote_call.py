"""A call that is made elsewhere, as the process of its run sees it: for runtimes that are not the fleet."""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass

from wavewright.executor.fleet.call_messages import (
    UNCLEAR_ON_WORKER,
    CallAnswer,
    CallRequest,
    emission_of,
    is_answer,
    output_of,
)
from wavewright.executor.run.failures import AttemptFailure, ReportedFailure
from wavewright.planner.language.goals import Goal
from wavewright.planner.types import Json
from wavewright.tools.functions.tool import Tool, ToolCall


@dataclass(frozen=True, slots=True)
class RemoteCall:
    """A call of a runtime: sent as `to_bytes` to the `ToolHost` of a worker, whose messages come back."""

    tool: Tool
    goal: Goal
    call: ToolCall

    def to_bytes(self) -> bytes:
        """Return what a worker needs to make the call, as JSON in one line."""
        return CallRequest.of(self.tool, self.call, self.goal).to_bytes()

    async def output(self, messages: AsyncIterable[bytes]) -> Json:
        """Return the output of the call; what it emitted and printed becomes the run's.

        Args:
            messages: Those of `ToolHost.messages`, in their order; where the answer is missing, the worker has died.

        Raises:
            ReportedFailure: as the worker describes it, or since it died.
        """
        async for message in messages:
            if is_answer(message):
                return output_of(CallAnswer.from_bytes(message), self.call)
            self.call.emit(emission_of(message))
        raise self.lost()

    def lost(self) -> ReportedFailure:
        """Return the failure of a call whose worker died: it is made again only where that does no harm."""
        if self.tool.signature.writes and not self.tool.signature.idempotent:
            return ReportedFailure(UNCLEAR_ON_WORKER)
        return ReportedFailure(AttemptFailure("transient", "the worker that made the call died"))
