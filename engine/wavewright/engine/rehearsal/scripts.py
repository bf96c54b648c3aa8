"""What the stubs of one scenario answer.

A *stub* stands in a tool's place, with its signature and none of its code: it answers what the *script* says for the
step that calls. A step that a recovery calls again gets an answer of its own, so that what was red can turn green.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.tools.calls import Tool, ToolCall, ToolError, ToolFunction

StubOutputs: TypeAlias = tuple[Json, ...]
"""Of one step: call after call of a `for_each` step takes the next, from the first again after the last."""

_CALLED_AGAIN = re.compile(r"(?P<first>.+)_\d+")
FAILURE_MESSAGE = "made to fail in a rehearsal"


@dataclass(frozen=True, slots=True)
class Scenario:
    """Answers by step."""

    outputs: Mapping[StepId, StubOutputs]
    recovery_outputs: Mapping[StepId, StubOutputs]
    """For a step that is called again under another name."""
    by_tool: Mapping[str, StubOutputs]
    """For steps that the plan does not have yet."""
    failing: frozenset[StepId] = frozenset()
    """Steps each of whose calls fails."""
    inputs: JsonObject | None = None
    """In place of the job's."""

    def with_outputs(self, step: StepId, outputs: StubOutputs) -> Scenario:
        """Return the script with other answers for a step."""
        return replace(self, outputs={**self.outputs, step: outputs})

    def answer(self, call: ToolCall) -> Json:
        """Return what a call is answered.

        Raises:
            ToolError: the script says that it fails.
        """
        if call.step in self.failing:
            raise ToolError(FAILURE_MESSAGE)
        outputs = self.outputs.get(call.step) or self._again(call)
        return outputs[(call.index or 0) % len(outputs)]

    def _again(self, call: ToolCall) -> StubOutputs:
        found = _CALLED_AGAIN.fullmatch(call.step)
        first = StepId(found["first"]) if found else call.step
        return self.recovery_outputs.get(first) or self.by_tool[call.tool]


def stub_tools(script: Scenario) -> Callable[[Mapping[str, Tool]], Mapping[str, Tool]]:
    """Return what puts a stub in the place of every tool."""

    def through(tools: Mapping[str, Tool]) -> Mapping[str, Tool]:
        return {name: Tool(tool.signature, _stub(script)) for name, tool in tools.items()}

    return through


def _stub(script: Scenario) -> ToolFunction:
    async def call(request: ToolCall) -> Json:
        return script.answer(request)

    return call
