"""The planner: from a goal to a valid plan, or to the reason why there is none.

A model is asked for a plan. Its answer is read tolerantly and checked, and its faults go back to
the model a limited number of times. After that the *ladder* continues with a plan that the model
makes one legal step at a time, with tool calls that it suggested, the goal template's own plan and
a minimal plan. Every answer and rung is recorded, and no plan with an error is returned.
"""

from __future__ import annotations

from dataclasses import replace

from wavewright.planner.language.plan import Plan
from wavewright.planner.planning.candidates import Candidate, PlanValidator, minimal_plan
from wavewright.planner.planning.conversation import PlanningConversation
from wavewright.planner.planning.records import PlanningRequest, PlanningResult
from wavewright.planner.ports.asking import Asking
from wavewright.planner.ports.fallback_ladder import (
    FallbackFailure,
    FallbackStrategy,
    Rung,
    RungRecord,
    run_ladder,
)


async def make_plan(request: PlanningRequest, asking: Asking) -> PlanningResult:
    """Return a valid plan for a goal, a question for the user, or why there is no plan.

    Without models only the template's own plan is tried.

    Raises:
        PromptError: one of the planner's templates is faulty.
    """
    validator = PlanValidator(request.goal, request.tools, request.allowance)
    assert asking.ladder is not None
    ways: dict[str, FallbackStrategy[Candidate]] = {}
    if request.template_plan is not None:
        ways["template"] = _template_strategy(validator, request.template_plan)
    if asking.models is None:
        result = await run_ladder(asking.ladder, ways, on_rung=asking.on_rung)
        return _planning_result(result.value, result.rung, validator, result.records)
    talk = PlanningConversation(validator, request, asking)
    ways |= {
        "llm": talk.ask_for_plan,
        "repaired": talk.repair,
        "guided": talk.guide,
        "suggested": talk.use_suggestion,
        "minimal": _minimal_strategy(validator),
    }
    result = await run_ladder(asking.ladder, ways, on_rung=asking.on_rung)
    planned = _planning_result(result.value, result.rung, validator, result.records)
    return replace(planned, question=talk.question, cannot_plan=talk.cannot_plan)


def _template_strategy(validator: PlanValidator, plan: Plan) -> FallbackStrategy[Candidate]:
    async def climb(_: Rung) -> Candidate | FallbackFailure:
        return validator.validate(plan)

    return climb


def _minimal_strategy(validator: PlanValidator) -> FallbackStrategy[Candidate]:
    async def climb(_: Rung) -> Candidate | FallbackFailure:
        return validator.validate_built(minimal_plan(validator.goal, validator.tools), "<minimal>")

    return climb


def _planning_result(
    candidate: Candidate | None,
    rung: str | None,
    validator: PlanValidator,
    records: tuple[RungRecord, ...],
) -> PlanningResult:
    return PlanningResult(
        plan=candidate.plan if candidate is not None else None,
        rung=rung,
        diagnostics=candidate.diagnostics if candidate is not None else validator.last_diagnostics,
        attempts=tuple(validator.attempts),
        rungs=records,
        document=candidate.document if candidate is not None else None,
    )
