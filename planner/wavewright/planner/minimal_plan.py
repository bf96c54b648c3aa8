"""The least plan that a goal's rules ask for, made without anybody's thought.

A *minimal plan* calls the tools that every plan of the goal calls, over its targets, and the analysis tool over what
they give. It is the last rung before there is none: it is sound or it is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wavewright.planner.binding import bind_plan
from wavewright.planner.checker import check
from wavewright.planner.diagnostics import Diagnostic
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.step_building import StepBuilder, data_tools

__all__ = ["NoMinimalPlan", "complete_plan", "minimal_plan", "required_tools"]

_REASONING = "the least that the goal's rules ask for"


@dataclass(frozen=True, slots=True)
class NoMinimalPlan:
    """There is no minimal plan, and why."""

    reason: str
    diagnostics: tuple[Diagnostic, ...] = ()
    """What is wrong with the last plan that was tried."""


def minimal_plan(goal: Goal, tools: Mapping[str, ToolSignature]) -> Plan | NoMinimalPlan:
    """Return the least sound plan for a goal, unbound, or why there is none.

    Data comes first: what the rules require, then one more data tool at a time until the rest can be built on it.
    """
    rules = goal.rules
    if not (rules.required_tools or rules.analysis_tools or rules.terminal or rules.data_tools):
        return NoMinimalPlan("the goal's rules name no tool that every plan calls")
    builder = StepBuilder(goal, tools)
    spare = [
        name
        for name in data_tools(goal, tools)
        if name not in rules.required_tools and tools[name].only_reads and not tools[name].needs_approval
    ]
    first = outcome = complete_plan(builder, goal, tools, _REASONING)
    while isinstance(outcome, NoMinimalPlan) and _add_data_step(builder, spare):
        outcome = complete_plan(builder, goal, tools, _REASONING)
    return outcome if isinstance(outcome, Plan) else first


def complete_plan(
    builder: StepBuilder, goal: Goal, tools: Mapping[str, ToolSignature], reasoning: str
) -> Plan | NoMinimalPlan:
    """Return the steps of a builder and those that the goal's rules ask for beside them, if that is a sound plan."""
    builder = builder.copy()
    for name in required_tools(goal, tools):
        if not builder.calls(name) and not builder.add(name, why="the goal requires it"):
            return NoMinimalPlan(f"nothing is known to call {name!r} with")
    plan = builder.plan(reasoning)
    found = tuple(one for one in check(bind_plan(plan, goal, tools), goal, tools) if one.severity == "error")
    if not found:
        return plan
    return NoMinimalPlan(f"it would be faulty: {found[0].message}", found)


def required_tools(goal: Goal, tools: Mapping[str, ToolSignature]) -> list[str]:
    """Return the tools that the rules ask for, in the order of work: data, the rest, analysis, what writes."""
    rules = goal.rules
    data = data_tools(goal, tools)
    analysis = [tool.name for tool in goal.tools if tool.name in rules.analysis_tools]
    ends = {rule.tool for rule in rules.terminal}
    wanted = rules.required_tools | ends
    if not wanted.intersection(analysis):
        wanted |= {*analysis[:1]}

    def turn(name: str) -> int:
        if name in data:
            return 0
        if name in ends:
            return 4
        if name in analysis:
            return 2
        return 3 if name in tools and tools[name].writes else 1

    return sorted((tool.name for tool in goal.tools if tool.name in wanted), key=turn)


def _add_data_step(builder: StepBuilder, spare: list[str]) -> bool:
    """Add the next data tool that can be called; return whether there was one."""
    while spare:
        if builder.add(spare.pop(0)):
            return True
    return False
