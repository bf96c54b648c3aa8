"""The permits that a plan needs in a project, with the models and the variables of its settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from wavewright.engine.run.context import RunContext
from wavewright.planner.checks.permits import (
    Permits,
    PermitSources,
    excess,
    extended_permits,
    infer_permits,
)
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import AGENT, ToolSignature
from wavewright.planner.ports.model_port import ModelError

if TYPE_CHECKING:
    from wavewright.config.settings import Settings


def needed_permits(
    plan: Plan, goal: Goal | None, tools: Mapping[str, ToolSignature], settings: Settings
) -> Permits:
    """Return the least that a bound plan needs in a project."""
    return infer_permits(plan, goal, tools, _sources(plan, goal, tools, settings))


def excess_of_run(
    context: RunContext, permits: Permits, plan: Plan, settings: Settings
) -> list[str]:
    """Return what a plan of a run needs beyond these permits, an entry each.

    Each call of the run is compared as well, with its values: what is not known before needs only
    some entry of its kind.
    """
    needed = needed_permits(plan, context.goal, context.signatures, settings)
    return [str(entry) for entry in excess(needed, permits, calls_are_held=True)]


def permits_covering(
    context: RunContext, permits: Permits, plan: Plan, settings: Settings
) -> Permits:
    """Return permits with what a plan of the run needs more."""
    needed = needed_permits(plan, context.goal, context.signatures, settings)
    return extended_permits(permits, needed)


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
        return "*"
