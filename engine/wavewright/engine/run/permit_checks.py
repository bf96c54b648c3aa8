"""Permits compared with what a plan needs in a project, and with each call before it is made.

Loaded only where there are permits.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from wavewright.planner import Goal, Json, Plan, ToolSignature, ToolSignatures, as_list, as_object
from wavewright.planner.checks.permits import (
    ANY,
    Permits,
    PermitSources,
    infer_permits,
    refused_value,
)
from wavewright.planner.language.plan import SUB_PLAN, dispatched_tools
from wavewright.planner.language.signatures import AGENT
from wavewright.planner.ports.model_port import ModelError
from wavewright.tools import Tool, ToolCall, ToolError
from wavewright.tools.functions.dispatch import part_call
from wavewright.tools.models.endpoints import choose_model

if TYPE_CHECKING:
    from wavewright.config import Settings
    from wavewright.executor import RunState


def needed_permits(
    plan: Plan, goal: Goal | None, tools: ToolSignatures, settings: Settings
) -> Permits:
    """Return the least that a bound plan needs in a project."""
    return infer_permits(plan, goal, tools, _sources(plan, goal, tools, settings))


def _sources(
    plan: Plan, goal: Goal | None, tools: ToolSignatures, settings: Settings
) -> PermitSources:
    asking = [name for name in _called_tools(plan, tools) if tools[name].expected_tokens > 0]
    preferred = "auto" if goal is None else goal.model_preference
    models = dict[str, tuple[str, ...]]()
    for name in asking:
        own = [
            preferred if preference == "auto" else preference
            for preference in tools[name].model_preferences
        ]
        models[name] = _models(own, "agent" if name == AGENT else "worker", settings)
    if any(gate.judge is not None for gate in plan.gates):
        models["judge"] = _models([preferred], "judge", settings)
    secrets = {
        name: section.secret_variables
        for name in tools
        for server, section in settings.mcp.servers.items()
        if name.startswith(f"{server}.")
    }
    return PermitSources(models, secrets)


def _called_tools(plan: Plan, tools: ToolSignatures) -> list[str]:
    """Return the tools that a plan's steps may call, by way of data or an agent as well."""
    called = {step.tool for step in plan.steps}
    called |= {part for step in plan.steps for part in dispatched_tools(step.tool)}
    if any(name == AGENT or tools[name].calls_agents for name in called & tools.keys()):
        return sorted(tools)
    return sorted(called & tools.keys())


def _models(
    preferences: Sequence[str], role: Literal["agent", "judge", "worker"], settings: Settings
) -> tuple[str, ...]:
    """Return the models that may be asked: the chosen ones and those that stand in for them; `*`
    where none can be chosen now.
    """
    try:
        choices = [
            choose_model(settings, preference, role, os.environ) for preference in preferences
        ]
    except ModelError:
        # Which model a run will ask is not known before one is configured: any is permitted.
        return (ANY,)
    return tuple(model for choice in choices for model in (choice.model, *choice.fallbacks))


def calls_made(state: RunState) -> int:
    """Return how many calls a run has made that count: those of steps that have ended, and of the
    items of those that have not.
    """
    accepted = state.plans[-1].plan if state.plans else {}
    steps = map(as_object, as_list(accepted.get("steps")))
    uncounted = {str(step.get("id")) for step in steps if step.get("tool") == SUB_PLAN}
    ended = (step.attempts for name, step in state.steps.items() if name not in uncounted)
    under_way = (
        item.attempts
        for name, items in state.items.items()
        if name not in uncounted and name not in state.steps
        for item in items.values()
    )
    return sum(ended) + sum(under_way)


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
