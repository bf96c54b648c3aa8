"""The subject of one check: the plan, what it may use, and what was derived from them once.

A *subject* answers the questions that several families of checks ask, so that each is computed once
and all families agree.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import Final, TypeVar, cast

from wavewright.planner.cel.embedded import bare_expression
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.checks.types import PlanTypes
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.plan import SUB_PLAN, Gate, Limits, Plan, Step, dispatched_tools
from wavewright.planner.language.signatures import SUB_PLAN_SIGNATURE, ToolSignature, ToolSignatures
from wavewright.planner.plans.binding import mandatory_gates, terminal_params
from wavewright.planner.plans.dispatch import with_dispatched
from wavewright.planner.plans.graph import PlanGraph, StepIds, superseded_by
from wavewright.planner.plans.step_types import step_signature
from wavewright.planner.plans.uses import ExpressionText, step_texts, texts_read
from wavewright.planner.types import Json, JsonObject, StepId, as_object

Derived = TypeVar("Derived")
_ITEM_PATH: Final = re.compile(r"\$\{\s*item((?:\.[A-Za-z_][A-Za-z0-9_]*)*)\s*\}")


@dataclass(frozen=True)
class CheckContext:
    """A bound plan, its goal, and the tools that are installed."""

    plan: Plan
    goal: Goal | None
    tools: ToolSignatures
    limits: Limits
    untyped: frozenset[StepId] = frozenset()
    """Steps of whose output nothing is known, whatever their tool says."""
    sub_plans: ToolSignatures = field(default_factory=dict[str, ToolSignature])
    """The plans that steps call, by what these name, where they are not put in."""

    def __post_init__(self) -> None:
        """Know the tools that stand for sub-plans and for several tools, which no goal allows."""
        tools = with_dispatched((step.tool for step in self.plan.steps), self.tools)
        if any(step.tool == SUB_PLAN for step in self.plan.steps):
            tools = {**tools, SUB_PLAN: SUB_PLAN_SIGNATURE}
        object.__setattr__(self, "tools", tools)

    @cached_property
    def steps(self) -> Mapping[StepId, Step]:
        """Steps by id; of two with one id the first."""
        return self.graph.steps

    @cached_property
    def graph(self) -> PlanGraph:
        """The plan's graph."""
        reads: dict[StepId, StepIds] = {}
        for step, texts in zip(self.plan.steps, self.texts, strict=True):
            if step.id not in reads:
                reads[step.id] = texts_read(texts)
        return PlanGraph.of(self.plan, reads=reads)

    @cached_property
    def numbers(self) -> Mapping[StepId, int]:
        """Position of each step in the plan, from 0; of two with one id that of the first."""
        return {step.id: number for number, step in reversed([*enumerate(self.plan.steps)])}

    @cached_property
    def texts(self) -> tuple[tuple[ExpressionText, ...], ...]:
        """Texts that may hold expressions, for each step in the plan's order."""
        return tuple(step_texts(step, number) for number, step in enumerate(self.plan.steps))

    @cached_property
    def allowed_tools(self) -> frozenset[str]:
        """Names of the tools that the plan may use."""
        if self.goal is None:
            return frozenset(self.tools)
        known = self.goal.tool_names
        chosen = known - self.held_tools
        unions = {name for name in self.tools if chosen.issuperset(dispatched_tools(name) or [""])}
        kept = {name for name in known if self.held_tools.isdisjoint(dispatched_tools(name))}
        return frozenset(kept | unions | (self.tools.keys() & {SUB_PLAN}))

    @cached_property
    def held_tools(self) -> frozenset[str]:
        """Tools of which the goal says more than that they may be called: with a gate on each call,
        or parameters that it sets. Data chooses none of them.
        """
        if self.goal is None:
            return frozenset()
        gated = {gate.on_tool for gate in self.goal.gates if gate.on_tool is not None}
        return frozenset(gated | self.engine_params.keys())

    @cached_property
    def engine_params(self) -> Mapping[str, JsonObject]:
        """Arguments that only the engine sets, by tool, with their values."""
        if self.goal is None:
            return {}
        return terminal_params(self.goal)

    @cached_property
    def mandatory_gates(self) -> tuple[Gate, ...]:
        """The goal's gates as they have to stand in the plan."""
        if self.goal is None:
            return ()
        return mandatory_gates(self.plan, self.goal)

    @cached_property
    def types(self) -> PlanTypes:
        """What the plan's expressions give."""
        return PlanTypes(self.plan, self.goal, self.tools, self.untyped, sub_plans=self.sub_plans)

    @cached_property
    def unorderable_steps(self) -> frozenset[StepId]:
        """Steps that wait for something that is not there, or for each other: reported, so not
        judged further.
        """
        unknown = (
            step_id
            for step_id, step in self.steps.items()
            if not self.steps.keys() >= {*self.graph.reads[step_id], *step.depends_on}
        )
        return frozenset(unknown) | (frozenset(self.steps) - frozenset(self.graph.order()))

    @cached_property
    def superseded_by(self) -> Mapping[StepId, StepId]:
        """Steps that another one supersedes, with that one."""
        return superseded_by(self.plan)

    @cached_property
    def likely_meant_tools(self) -> frozenset[str]:
        """Tools that misspelt names come near to: that they are not called is no second fault."""
        unknown = {step.tool for step in self.plan.steps} - self.tools.keys()
        return frozenset(
            near for name in unknown for near in get_close_matches(name, self.allowed_tools, n=1)
        )

    def derive(self, make: Callable[[CheckContext], Derived]) -> Derived:
        """Return what a family of checks makes of the plan, which is made once."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return cast("Derived", self._derived[make])

    def as_signature(self, name: str) -> ToolSignature:
        """Return the plan as steps of others call it: with its inputs, each of which has a value."""
        inputs = self.types.inputs
        fields: JsonObject = {
            name: {**as_object(schema), "default": self.plan.inputs[name]}
            for name, schema in as_object(inputs["properties"]).items()
            if name in self.plan.inputs
        }
        update = {
            "name": name,
            "description": self.plan.goal or "",
            "input_schema": {**inputs, "properties": fields, "required": []},
            "output_schema": self.types.own_result,
        }
        return SUB_PLAN_SIGNATURE.model_copy(update=update)

    @cached_property
    def _derived(self) -> dict[object, object]:
        return {}

    def signature(self, step: Step) -> ToolSignature | None:
        """Return the signature of a step's tool, or of the plan that it calls, where there is one."""
        if step.plan is not None and step.plan in self.sub_plans:
            return self.sub_plans[step.plan]
        return step_signature(step, self.tools)


def path_in_item(value: Json) -> re.Match[str] | None:
    """Return the path of a value that is `${item}`, or a path in it, as its group 1; None where it
    is anything else.
    """
    return _ITEM_PATH.fullmatch(value) if isinstance(value, str) else None


def value_of_item(value: Json, item: Json) -> list[Json]:
    """Return what `${item}`, or a path in it, gives for an item; nothing for any other value, and
    where the item has no such field. Of an item that is itself a `${…}` it is one, too.
    """
    path = path_in_item(value)
    if path is None:
        return []
    if path[1] and isinstance(item, str) and item.startswith("${"):
        try:
            return [f"${{({bare_expression(item).expression}){path[1]}}}"]
        except ExpressionError:
            return []  # it is not closed, which is told where it stands
    part = item
    for name in path[1].split(".")[1:]:
        if not isinstance(part, dict) or name not in part:
            return []
        part = part[name]
    return [part]
