"""The check of a plan before it is followed: the first one, a patched one, that of a resumed run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from wavewright.config import Source
from wavewright.engine.run.context import PlannedContext, RunContext
from wavewright.engine.run.endings import patch_dropped, record_end
from wavewright.engine.run.jobs.plan_drafts import PlanDraft
from wavewright.engine.run.permits import PermitsExceeded, require_permitted
from wavewright.engine.run.ports import Attempt, Means, People
from wavewright.engine.run.project.tools import (
    find_obstacles,
    removed_tool,
    signatures_to_check,
    with_tools_of,
)
from wavewright.engine.run.recording import record_refusal
from wavewright.engine.run.services import remaining_allowance
from wavewright.executor import RunState
from wavewright.executor.events.state import SUCCESSES
from wavewright.planner import (
    Diagnostic,
    Plan,
    PlanError,
    StepId,
    ToolSignatures,
    check,
    suggest_name,
)
from wavewright.planner.checks.feasibility import check_readiness
from wavewright.planner.diagnostics.diagnostic import counted, error_diagnostics, make_diagnostic
from wavewright.planner.language.signatures import ASK_PERSON, asks_approval
from wavewright.planner.ports.budgets import Allowance
from wavewright.tools import Tool, Tools


async def check_plan(
    context: RunContext, attempt: Attempt, means: Means, people: People
) -> RunContext:
    """Check the candidate, and stop with every fault that it has.

    Raises:
        PlanError: an author's plan has faults, each at its place.
        PatchDropped: a patch makes faults; the run is packaged as it is.
    """
    if context.candidate is None:
        return context
    plan = context.candidate.plan
    context = replace(context, tools=with_tools_of(plan, context.tools))
    if context.draft is not None:
        return await _check_draft(context, plan, context.draft, attempt, means, people)
    # A faulty patch costs what it was made for, and not the run: what there is is packaged.
    faults = await _check_begun(context, plan, means)
    errors = error_diagnostics(faults)
    if errors:
        context = await record_refusal(attempt, context, "patch_refused", faults)
        context = replace(context, candidate=None)
        raise patch_dropped(context, f"the recovery patch makes {counted(len(errors), 'fault')}")
    return replace(context, diagnostics=tuple(faults))


async def recheck_plan(context: PlannedContext, means: Means, people: People) -> PlannedContext:
    """Check that the plan of a resumed run is still valid with the tools as they are now.

    Raises:
        PlanError: a change of a tool has made the plan invalid, or an answer is given to a step that
            asks nobody; nothing was called.
    """
    tools = with_tools_of(context.plan, context.tools)
    context = replace(context, tools={**_removed_tools(context, tools), **tools})
    # A target that is refused would end the run of its whole job, which waits on instead.
    is_of_target = context.request.resolved_job is not None
    unasked = () if is_of_target else _answers_to_nobody(context.plan, people.answered)
    faults = [*await _check_begun(context, context.plan, means), *unasked]
    if error_diagnostics(faults):
        raise PlanError(tuple(faults), Source(f"the plan of run {context.run}", ""))
    return context


def _removed_tools(context: PlannedContext, tools: Tools) -> dict[str, Tool]:
    """Return what stands for tools that are installed no more and that no step has yet to call: a
    finished step is finished, whatever the code is now (docs/explanation/semantics.md).
    """
    finished = context.state.finished_steps()
    steps = context.plan.steps
    still_called = {step.tool for step in steps if step.id not in finished}
    names = {step.tool for step in steps} - still_called - tools.keys()
    return {name: removed_tool(name) for name in names}


async def _check_draft(
    context: RunContext,
    candidate: Plan,
    draft: PlanDraft,
    attempt: Attempt,
    means: Means,
    people: People,
) -> RunContext:
    tools: ToolSignatures = context.signatures
    if not all(step.tool in tools for step in draft.plan.steps):
        # The plan names tools that are not allowed; the diagnostics say whether they exist.
        tools = signatures_to_check(draft.plan, context.goal, means.settings)
    has_answers = _has_all_answers(context, candidate)
    faults = check(
        candidate,
        context.goal,
        tools,
        allowance=await _plan_allowance(context, candidate, means),
        can_ask=people.can_ask or has_answers,
        can_answer=people.can_answer or has_answers,
    )
    unready = _unready_steps(candidate, tools, means)
    unasked = _answers_to_nobody(candidate, people.answered)
    diagnostics = draft.origin.place([*faults, *unready, *unasked])
    if error_diagnostics(diagnostics):
        context = await record_refusal(attempt, context, "plan_refused", diagnostics)
        await record_end(attempt, context, "failed", "the plan is not valid")
        raise PlanError(diagnostics, draft.origin.document.source)
    try:
        require_permitted(context, candidate, means.settings)
    except PermitsExceeded as error:
        await record_end(attempt, context, "failed", str(error))
        raise
    return replace(context, diagnostics=tuple(diagnostics))


def _answers_to_nobody(plan: Plan, answered: Collection[str]) -> Iterator[Diagnostic]:
    """Yield the answers that no step would take: the step that was meant would take its default."""
    asking = [step.id for step in plan.steps if step.tool == ASK_PERSON]
    for name in answered:
        if name not in asking:
            message = f"an answer is given to {name!r}, and no step of that name asks a person"
            hint = suggest_name(name, asking, what="steps that ask") or "leave the answer out"
            yield make_diagnostic("E301", "/steps", message, hint)


def _has_all_answers(context: RunContext, plan: Plan) -> bool:
    """Whether a retry takes over every step that would ask a person, so that nobody is needed."""
    if context.request.retry is None or context.donor is None:
        return False
    # Imported here: most runs retry none.
    from wavewright.engine.run.retry import retry_outlook

    donors = [context.donor, *context.donors_before]
    steps = retry_outlook(
        context.request.retry, donors, context.tools, others=context.other_retries
    )
    taken_over = {step.step for step in steps if step.fate == "reused"}
    for step in plan.steps:
        asks = step.tool == ASK_PERSON
        if step.tool in context.tools:
            asks = asks or asks_approval(step, context.signatures[step.tool])
        if asks and step.id not in taken_over:
            return False
    return True


def _unready_steps(plan: Plan, tools: ToolSignatures, means: Means) -> Sequence[Diagnostic]:
    """Return diagnostics of steps that cannot work here; replaced tools need nothing."""
    if means.runtime is not None:
        return ()
    obstacles = find_obstacles(plan, tools, means.settings)
    return tuple(check_readiness(plan, obstacles, is_run=True))


async def _check_begun(context: RunContext, plan: Plan, means: Means) -> list[Diagnostic]:
    """Check a plan whose steps have partly been executed."""
    return check(
        plan,
        context.goal,
        context.signatures,
        allowance=await _plan_allowance(context, plan, means),
        finished=context.state.finished_steps(),
        items_done=_items_done(context.state),
    )


async def _plan_allowance(context: RunContext, plan: Plan, means: Means) -> Allowance | None:
    return await remaining_allowance(
        means.services, means.settings, context.goal, run=context.run, plan=plan
    )


def _items_done(state: RunState) -> dict[StepId, int]:
    """Return the number of items with an output, by step; a resumed run does not pay for them
    again.
    """
    done: dict[StepId, int] = {}
    for step, items in state.items.items():
        done[step] = sum(1 for item in items.values() if item.status in SUCCESSES)
    return done
