"""The tools of a run: found in the project and in the packs, and routed to what makes their calls."""

from __future__ import annotations

from dataclasses import replace

from wavewright.engine.run.context import RunContext
from wavewright.engine.run.ports import Means
from wavewright.engine.run.project.tools import tools_of_goal, tools_with_redacted_outputs
from wavewright.executor.run.emissions import taken_emissions
from wavewright.tools.functions.registry import Registry


def gather_tools(context: RunContext, means: Means) -> RunContext:
    """Find the tools that the goal allows, in the project and in the packs.

    They are imported here; the checker reports those that do not exist.
    """
    services = means.services.for_goal(context.goal)
    tools = tools_of_goal(context.goal, means.settings, services)
    emissions = taken_emissions(context.state)
    # First the fleet or the runtime of the settings, then what stands for all tools of this run: a
    # recording answers also for what a fleet would call.
    for runtime in (services.runtime, means.runtime):
        if runtime is None:
            continue
        tools = Registry(runtime.routed(tool, context.goal) for tool in tools.values())
        if context.state.run is not None and emissions:
            runtime.resume(context.state.run, emissions)
    return replace(context, tools=tools_with_redacted_outputs(tools, means.settings))
