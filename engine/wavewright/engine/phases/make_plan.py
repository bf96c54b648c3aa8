"""A plan for the goal."""

from __future__ import annotations

from dataclasses import dataclass, replace

from wavewright.config.documents import Source
from wavewright.engine.context import Ports, RunContext
from wavewright.engine.pipeline import StepResult, go_on
from wavewright.planner.binding import bind_plan
from wavewright.planner.diagnostics import Diagnostic, PlanError


@dataclass(frozen=True, slots=True)
class MakePlan:
    """Take the job's plan, or else the goal template's own, and bind it to the goal."""

    ports: Ports
    name: str = "make_plan"

    async def run(self, context: RunContext) -> StepResult[RunContext]:
        """Bind the plan: inputs, the goal's gates and caps, what terminal steps are given."""
        assert context.goal is not None
        if context.draft is None:
            raise PlanError(
                (
                    Diagnostic(
                        code="E114",
                        message=f"there is no plan for goal {context.goal.name!r}: the job gives none, its goal "
                        "template carries none, and no planner model is configured",
                        hint="add 'plan: FILE' to the job, or 'plan:' to the goal template",
                    ),
                ),
                Source(context.goal.job, ""),
            )
        candidate = bind_plan(context.draft.plan, context.goal, context.signatures)
        return go_on(replace(context, candidate=candidate))
