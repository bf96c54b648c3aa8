"""Sub-plans that a planner may call: those that the goal allows, by their names."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from wavewright.config.sources import DocumentError, DocumentFault, Source
from wavewright.planner.checks.types import PlanTypes
from wavewright.planner.diagnostics.diagnostic import list_names, suggest_name
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import SUB_PLAN, Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.tool_descriptions import MAX_TYPE_TEXT_LENGTH, fields_text, type_text
from wavewright.planner.plans.expanded_plan import ExpandedPlan, SubPlan
from wavewright.planner.plans.sub_plans import expand_plan
from wavewright.planner.reading.reader import PlanText, read_plan
from wavewright.planner.types import StepId
from wavewright.prompts.templates import one_line

_RESULT = StepId("result")
_BRIEF_TYPE_LENGTH = 200
_MAX_GOAL_LENGTH = 500


def with_allowed_sub_plans(plan: Plan, goal: Goal) -> ExpandedPlan:
    """Return a planner's plan with the sub-plans put in that its goal allows; calls of others are faults."""
    if not goal.sub_plans:
        return ExpandedPlan(plan)

    def read(name: str, folder: Path) -> SubPlan:
        allowed = goal.sub_plans.get(name)
        if allowed is None:
            hint = suggest_name(name, goal.sub_plans, what="sub-plans")
            fault = DocumentFault(
                "unreadable_file",
                "this goal does not allow it",
                hint=hint or list_names(goal.sub_plans, what="sub-plans"),
            )
            raise DocumentError(Source(name, ""), (fault,))
        text = plan_as_text(allowed, name)
        assert text.plan is not None, text.diagnostics
        assert text.document is not None
        return SubPlan(text.plan, text.document, "", folder)

    return expand_plan(plan, Path(), read)


def sub_plan_lines(goal: Goal, tools: Mapping[str, ToolSignature], *, is_brief: bool = False) -> list[str]:
    """Return the contract of each sub-plan that a goal allows, on one line: `name(inputs) -> type: its goal`."""
    most = _BRIEF_TYPE_LENGTH if is_brief else MAX_TYPE_TEXT_LENGTH
    lines: list[str] = []
    for name, plan in goal.sub_plans.items():
        asked = Step(id=_RESULT, tool=SUB_PLAN, params={"result": plan.result})
        types = PlanTypes(plan.model_copy(update={"steps": (*plan.steps, asked)}), None, tools)
        gives = "any" if plan.result is None else type_text(types.outputs[_RESULT], most)
        purpose = one_line(plan.goal or "", _MAX_GOAL_LENGTH)
        lines.append(f"{name}({fields_text(types.inputs, most=most)}) -> {gives}: {purpose}")
    return lines


def plan_as_text(plan: Plan, name: str) -> PlanText:
    """Return a plan made by code as a document with a name, so that diagnostics have positions."""
    value = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return read_plan(json.dumps(value, ensure_ascii=False, indent=2), name)
