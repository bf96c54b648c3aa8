"""A plan made of the tool calls that a model suggested instead of one.

Models that are asked for a plan sometimes call the tools, or write the calls down. None of these calls is made; in
their order they become the steps of a plan, completed by what the goal's rules ask for, and held against the checker
like any other plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wavewright.planner.goals import Goal
from wavewright.planner.json_calls import SuggestedCall, read_suggested_calls
from wavewright.planner.minimal_plan import NoMinimalPlan, complete_plan, required_tools
from wavewright.planner.models import Plan
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.step_building import StepBuilder

__all__ = ["SuggestedCall", "plan_from_calls", "read_suggested_calls"]


def plan_from_calls(
    calls: Sequence[SuggestedCall], goal: Goal, tools: Mapping[str, ToolSignature]
) -> Plan | NoMinimalPlan:
    """Return the sound plan that suggested calls come to, unbound, or why they come to none.

    Calls beyond the goal's limit of steps are left out, and the plan's reasoning says so; there stays room for the
    tools that the goal's rules ask for.
    """
    if not calls:
        return NoMinimalPlan("the answer suggests no calls of tools")
    unknown = next((call.name for call in calls if call.name not in goal.tool_names), None)
    if unknown is not None:
        return NoMinimalPlan(f"it suggests a call of {unknown!r}, which this goal does not have")
    named = {call.name for call in calls}
    room = goal.limits.max_steps - sum(name not in named for name in required_tools(goal, tools))
    taken = calls[: max(room, 0)]
    builder = StepBuilder(goal, tools)
    for call in taken:
        if not builder.add(call.name, call.arguments, wanted_id=call.id or call.name):
            return NoMinimalPlan(f"the suggested call of {call.name!r} lacks arguments")
    more = (
        f" (of {len(calls)}; the limit is {goal.limits.max_steps} steps)" if len(calls) > len(taken) else ""
    )
    reasoning = f"made of {len(taken)} suggested call(s) of tools{more}"
    return complete_plan(builder, goal, tools, reasoning)
