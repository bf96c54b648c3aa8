"""Planning without running: what `wavewright plan` does."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from wavewright.config import Settings
from wavewright.engine.rehearsal.dry_run.outlook import read_remaining_allowance
from wavewright.engine.run.context import RunRequest
from wavewright.engine.run.jobs.goal_in_words import find_kept_plan
from wavewright.engine.run.jobs.resolving import ResolvedJob
from wavewright.engine.run.ports import Asker, ignore_event
from wavewright.engine.run.project.tools import signatures_to_check, tools_of_goal
from wavewright.engine.run.read_job import requested_job
from wavewright.engine.run.services import open_services, remaining_allowance
from wavewright.executor import new_run_id
from wavewright.planner import Goal, Plan, ToolSignature, check
from wavewright.planner.checks.checker import refuse_faulty_goal
from wavewright.planner.planning.planner import make_plan
from wavewright.planner.planning.records import AnsweredQuestion, PlanningRequest, PlanningResult
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.plans.estimates import estimate_plan_tokens
from wavewright.planner.ports.fallback_ladder import RungRecord
from wavewright.planner.ports.model_port import ModelUse
from wavewright.tools import Services


@dataclass(frozen=True, slots=True)
class PlanReport:
    """What planning came to."""

    goal: Goal
    planned: PlanningResult
    bound: Plan | None
    """The plan bound to its goal, as a run would follow it."""
    uses: tuple[ModelUse, ...] = ()
    """What each model call cost."""
    estimate_tokens: int = 0
    """Model tokens that the plan's steps are expected to take."""


async def make_plan_for_request(
    request: RunRequest,
    *,
    settings: Settings,
    asker: Asker | None = None,
    on_use: Callable[[ModelUse], None] = ignore_event,
    on_rung: Callable[[RungRecord], None] = ignore_event,
) -> PlanReport:
    """Return the plan that a run of the job would follow, and how it came about; nothing of it is
    run.

    A plan that the job brings itself, or that was saved, is checked and returned as it is, on its
    rung.

    Raises:
        DocumentError, PlanError: the job or its template is faulty.
        ModelConfigError: the configured model cannot be asked at all.
    """
    order = requested_job(request, settings)
    if order.draft is not None and not order.draft.is_fallback:
        return _user_supplied_plan_report(order, settings)
    uses: list[ModelUse] = []

    def keep_use(use: ModelUse) -> None:
        uses.append(use)
        on_use(use)

    async with open_services(settings) as services:
        tools = tools_of_goal(order.goal, settings, services).signatures
        planned = await _planned(order, tools, settings, services, asker, keep_use, on_rung)
    bound = bind_plan(planned.plan, order.goal) if planned.plan is not None else None
    return PlanReport(order.goal, planned, bound, tuple(uses), _estimate_tokens(bound, tools))


def _user_supplied_plan_report(order: ResolvedJob, settings: Settings) -> PlanReport:
    draft = order.draft
    assert draft is not None
    tools = signatures_to_check(draft.plan, order.goal, settings)
    bound = bind_plan(draft.plan, order.goal)
    allowance = read_remaining_allowance(draft.plan, order.goal, settings, job=order.goal.job)
    diagnostics = draft.origin.place(check(bound, order.goal, tools, allowance=allowance))
    planned = PlanningResult(
        draft.plan, draft.rung, diagnostics, (), (), document=draft.origin.document
    )
    return PlanReport(order.goal, planned, bound, (), _estimate_tokens(bound, tools))


async def _planned(
    order: ResolvedJob,
    tools: dict[str, ToolSignature],
    settings: Settings,
    services: Services,
    asker: Asker | None,
    on_use: Callable[[ModelUse], None],
    on_rung: Callable[[RungRecord], None],
) -> PlanningResult:
    """Plan, and put the planner's questions to a person or the process that can answer them."""
    template_plan = order.draft.plan if order.draft is not None else None
    kept = find_kept_plan(order.goal, settings, tools)
    if (
        kept is not None
        and kept.is_exact
        and (template_plan is None or services.models is not None)
    ):
        diagnostics = tuple(check(bind_plan(kept.plan, order.goal), order.goal, tools))
        return PlanningResult(
            kept.plan, kept.draft.rung, diagnostics, (), (), kept_template=kept.name
        )
    if services.models is not None:
        refuse_faulty_goal(order.goal, tools)
    # Planning is held to the budgets of a run, and its plan to what such a run would have left.
    run = new_run_id(time.time())
    if services.budget_store is not None:
        services.budget_store.limit_run(run, order.goal.limits.budget)
    allowance = await remaining_allowance(
        services, settings, order.goal, run=run, plan=template_plan
    )
    now = order.goal.as_of or dt.datetime.now(dt.UTC)
    answers: list[AnsweredQuestion] = []
    while True:
        planned = await make_plan(
            PlanningRequest(
                order.goal,
                tools,
                template_plan=template_plan,
                kept_plan=None if kept is None else kept.plan,
                run=run,
                answers=answers,
                today=now.astimezone(dt.UTC).date(),
                allowance=allowance,
            ),
            replace(services.asking("planner"), on_use=on_use, on_rung=on_rung),
        )
        question = planned.question
        if question is None or asker is None:
            return planned
        answer = await asker.ask(question)
        if answer is None:
            return planned
        answers.append(AnsweredQuestion(question.question, answer))


def _estimate_tokens(bound: Plan | None, tools: dict[str, ToolSignature]) -> int:
    return 0 if bound is None else estimate_plan_tokens(bound, tools).tokens
