"""The port behind which the calls of a run are made.

It lies below retries, deadlines, budgets and the journal, and above the functions. A fleet of workers, stubs of a test,
the recording of a replay and classes of users are *runtimes*; without one, the process of the run makes the
calls.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from wavewright.planner.language.plan import SUB_PLAN
from wavewright.planner.language.signatures import AGENT
from wavewright.planner.types import Json, RunId
from wavewright.tools.functions.tool import Tool, ToolCall

if TYPE_CHECKING:
    from wavewright.planner.language.goals import Goal


class Runtime(ABC):
    """Makes calls of tools; `call` is all that one needs."""

    __slots__ = ()

    @abstractmethod
    async def call(self, tool: Tool, goal: Goal, call: ToolCall) -> Json:
        """Return the output of a call; `await tool.call(call)` makes it in the process of the run.

        The time limit of the step, or the end of the run, cancels this: whatever it began is to be cancelled then.

        Args:
            tool: The tool as the process of the run has it.
            goal: What the run is for; a tool made elsewhere is made with what it says.
            call: The parameters and their context; `emit` takes what is to be known before the end.

        Raises:
            ToolError: the call failed; `transient` says whether another attempt may succeed.
            Exception: likewise, as if the tool itself had raised it.
        """

    def routed(self, tool: Tool, goal: Goal) -> Tool:
        """Return a tool whose calls this makes; the same tool where its calls stay where they are."""
        return replace(tool, call=partial(self.call, tool, goal)) if can_be_called_elsewhere(tool) else tool

    def resume(self, run: RunId, taken: Mapping[str, int]) -> None:
        """Take over which emissions a run has journaled that goes on: the last `no` of `EmissionsTaken`, by call."""
        del run, taken

    async def forget(self, run: RunId) -> None:
        """Remove what is kept of a run's calls: everything that followed from them is journaled."""
        del run


OpenRuntime: TypeAlias = Callable[[Any], AbstractAsyncContextManager[Runtime]]
"""Opens a runtime with the `Settings` of a project; what `module:name` in the settings names."""


def can_be_called_elsewhere(tool: Tool) -> bool:
    """Return whether another process can make calls of a tool.

    One that asks a person or runs agents needs the process of the run; the result of a sub-plan is there already.
    """
    signature = tool.signature
    return not (tool.asks_person or signature.calls_agents or signature.name in {AGENT, SUB_PLAN})
