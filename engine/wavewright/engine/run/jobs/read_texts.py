"""What can be understood of a document that may have faults: its kind, its plan and the waves of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config import Document
from wavewright.config.documents import value_at
from wavewright.engine.run.jobs.documents import DocumentKind, kind_of, plan_or_valid_part
from wavewright.engine.run.jobs.plan_drafts import plan_with_sub_plans, signatures_of_sub_plans
from wavewright.planner import Json, Plan, PlanGraph, StepId, as_list, as_object
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.names import pointer_in_plan
from wavewright.planner.checks.partial_plans import PartialPlan
from wavewright.planner.language.plan import LIMITS_OF_OWN_PLANS
from wavewright.planner.plans.sub_plans import needs_expansion

if TYPE_CHECKING:
    from wavewright.config import Settings
    from wavewright.planner import Goal, ToolSignatures


@dataclass(frozen=True)
class ReadText:
    """A document that could be read, with as much of its plan as is one."""

    document: Document

    @cached_property
    def kind(self) -> DocumentKind:
        """What it is meant as."""
        return kind_of(self.document)

    @cached_property
    def base(self) -> str | None:
        """Where its plan stands; None where it has none of its own."""
        if self.kind == "plan":
            return ""
        fields = as_object(self.document.value)
        for name in ("plan", "fallback_plan"):
            if isinstance(fields.get(name), dict):
                return f"/{name}"
        # A template's gates are those of every plan that is made with it.
        return "" if self.kind == "goal" else None

    def in_plan(self, pointer: str) -> str | None:
        """Return a pointer of the document as one of its plan; None outside the plan."""
        return pointer_in_plan(pointer, self.base)

    @cached_property
    def plan(self) -> tuple[Plan, frozenset[StepId]] | None:
        """The plan, or its valid part, and the steps of whose outputs nothing is known."""
        if self.base is None:
            return None
        value = value_at(self.document.value, self.base)
        if self.kind == "goal" and not self.base:
            value = _plan_of_template(as_object(value))
        part = plan_or_valid_part(value, self.document.source)
        if isinstance(part, PartialPlan):
            return part.plan, part.untyped
        return None if part is None else (part, frozenset())

    def subject(
        self, settings: Settings, tools: ToolSignatures, goal: Goal | None
    ) -> CheckContext | None:
        """Return the plan with what it may use; None where there is no plan to be read."""
        if self.plan is None:
            return None
        plan, untyped = self.plan
        if goal is not None:
            plan = plan.model_copy(update={"inputs": {**plan.inputs, **goal.inputs}})
        folder = Path(self.document.source.name).parent
        called = signatures_of_sub_plans(plan, folder, settings, tools)
        return CheckContext(plan, goal, tools, LIMITS_OF_OWN_PLANS, untyped, called)

    def waves(self, subject: CheckContext, settings: Settings) -> Mapping[StepId, int]:
        """Return in which wave of a run each step begins, from 0: names of `let` and sub-plans are
        put in for that.
        """
        if not needs_expansion(subject.plan):
            return subject.graph.wave_of()
        whole = plan_with_sub_plans(subject.plan, self.document, settings).plan
        waves: dict[StepId, int] = {}
        for name, wave in PlanGraph.of(whole).wave_of().items():
            caller = next((step for step in _callers(name) if step in subject.steps), name)
            waves[caller] = min(wave, waves.get(caller, wave))
        return waves


def _callers(step: StepId) -> Iterator[StepId]:
    """Yield the steps that a step of a sub-plan may stand for, its own id first."""
    name = str(step)
    while name:
        yield StepId(name)
        name = name.rpartition(".")[0]


def _plan_of_template(fields: Mapping[str, Json]) -> Json:
    """Return a plan with the gates of a goal template, and a call of each tool that they look at."""
    gates = fields.get("gates", [])
    looked_at = [as_object(gate).get("on_tool") for gate in as_list(gates)]
    tools = sorted({tool for tool in looked_at if isinstance(tool, str)})
    steps: list[Json] = [{"id": f"step_{n}", "tool": tool} for n, tool in enumerate(tools)]
    return {"steps": steps, "gates": gates, "inputs": fields.get("inputs", {})}
