"""Permits compared with what a plan needs in a project, and with each call before it is made.

Loaded only where there are permits.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from wavewright.planner.checks.permits import (
    Permits,
    PermitSources,
    infer_permits,
    refused_value,
)
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import AGENT, ToolSignature
from wavewright.planner.ports.model_port import ModelError
from wavewright.planner.types import Json
from wavewright.tools.functions.dispatch import part_call
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import Tool, ToolCall

if TYPE_CHECKING:
    from wavewright.config.settings import Settings


def needed_permits(
    plan: Plan, goal: Goal | None, tools: Mapping[str, ToolSignature], settings: Settings
) -> Permits:
    """Return the least that a bound plan needs in a project."""
    return infer_permits(plan, goal, tools, _sources(plan, goal, tools, settings))


def _sources(
    plan: Plan, goal: Goal | None, tools: Mapping[str, ToolSignature], settings: Settings
) -> PermitSources:
    asking = sorted(
        name for name, tool in tools.items() if tool.expected_tokens > 0 and _is_used(name, plan)
    )
    models = {name: _model(name, goal, settings) for name in asking}
    if any(gate.judge is not None for gate in plan.gates):
        models["judge"] = _model("judge", goal, settings)
    secrets = {
        name: section.secret_variables
        for name in tools
        for server, section in settings.mcp.servers.items()
        if name.startswith(f"{server}.")
    }
    return PermitSources(models, secrets)


def _is_used(name: str, plan: Plan) -> bool:
    return any(step.tool == name for step in plan.steps)


def _model(name: str, goal: Goal | None, settings: Settings) -> str:
    """Return the model that a tool asks, or judges of gates; `*` where none can be chosen now."""
    from wavewright.tools.models.endpoints import choose_model
    from wavewright.tools.workers.specs import load_workers

    preference = "auto" if goal is None else goal.model_preference
    for worker in load_workers(settings.workers):
        if worker.spec.name == name and worker.spec.model_preference != "auto":
            preference = worker.spec.model_preference
    role: Literal["judge", "agent", "worker"] = "agent" if name == AGENT else "worker"
    if name == "judge":
        role = "judge"
    try:
        return choose_model(settings, preference, role, os.environ).model
    except ModelError:
        # Which model a run will ask is not known before one is configured: any is permitted.
        return "*"


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
