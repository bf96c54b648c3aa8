"""The approval of a patch, the execution of the plan, and what a retry repeats of it.

A person approves a patch here; steps are approved when they are ready (`decisions/approvals.py`).

A retry repeats the step that the user names, the steps that depend on it, and reads whose code has
changed.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from wavewright.config.redaction import known_secrets_redactor
from wavewright.config.settings import Settings
from wavewright.engine.run.decisions.approvals import (
    APPROVAL_USED,
    APPROVAL_WANTED,
    APPROVE,
    CallDescriptions,
    StepQuestions,
    approval_binding,
    has_expired,
    matches_binding,
    pending_approval,
    recorded_answer,
    take_answer,
    with_nonce,
)
from wavewright.engine.run.pipeline.context import (
    ApprovalRequest,
    CandidatePlan,
    PlannedContext,
    Ports,
    RunContext,
)
from wavewright.engine.run.pipeline.phase import PhaseResult, branch, proceed
from wavewright.engine.run.pipeline.services import (
    halt_stopped,
    halt_waiting,
    open_recorder,
    record_note,
)
from wavewright.executor.events.state import RunState, fold
from wavewright.executor.events.types import Event, Noted
from wavewright.executor.run.execution import Execution, execute
from wavewright.executor.run.ports import DrainSignal
from wavewright.executor.run.rules import ReuseSource
from wavewright.planner.diagnostics.rendering import printable
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import asks_approval
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.types import JsonObject, StepId
from wavewright.reviewer.gates.verifier import make_verifier
from wavewright.reviewer.recovery.recipes import is_feedback
from wavewright.reviewer.review.results import run_instant

if TYPE_CHECKING:
    from wavewright.reviewer.gates.judge import GateJudge


@dataclass(frozen=True, slots=True)
class Approve:
    """Ask a person where a patch brings a new side effect, or a step that needs approval."""

    ports: Ports
    name: str = "approve"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Proceed if no approval is needed or it is given; the answer is journaled."""
        if (candidate := context.candidate) is None or candidate.patch is None:
            return proceed(context)
        asked = _steps_needing_approval(context, candidate)
        needs = _approval_reasons(context, candidate, asked)
        if not needs:
            return proceed(context)
        text = _approval_text(context, candidate.plan, tuple(asked), self.ports.settings)
        binding = approval_binding(context.run, candidate.plan, tuple(asked))
        request = ApprovalRequest("patch", text, needs, binding)
        approved = self._recorded_answer(context, request)
        if approved is None:
            with self.ports.cancellation.scope() as scope:
                approved = await self.ports.approver.approve(request)
            if scope.cancelled_caught:
                return await halt_stopped(self.ports, context)
        body: JsonObject = {"subject": request.subject, "needs": [*needs]}
        if approved is None:
            steps = len(candidate.plan.steps)
            return await self._wait_for_approval(
                context, {**body, "text": text, "steps": steps}, request
            )
        body["approved"] = approved
        context = await record_note(self.ports, context, APPROVAL_USED, body)
        if approved:
            return proceed(context)
        context = replace(context, candidate=None)
        return branch(context, "build_package", "the recovery patch was not approved")

    def _recorded_answer(self, context: RunContext, request: ApprovalRequest) -> bool | None:
        """Return the journaled answer to exactly this request."""
        wanted = self._pending_answer(context, request)
        answer = None if wanted is None else recorded_answer(context.state, wanted)
        return None if answer is None else answer == APPROVE

    def _pending_answer(self, context: RunContext, request: ApprovalRequest) -> Noted | None:
        """Return the journaled request for exactly this approval, unless it has expired."""
        wanted = pending_approval(context.state)
        if wanted is None or has_expired(wanted, self.ports.clock().timestamp()):
            return None
        return wanted if matches_binding(wanted.body.get("binding"), request.binding) else None

    async def _wait_for_approval(
        self, context: RunContext, body: JsonObject, request: ApprovalRequest
    ) -> PhaseResult[RunContext]:
        """Interrupt the run; the request is in the journal and can be answered later."""
        if self._pending_answer(context, request) is None:
            body = {**body, "binding": with_nonce(request.binding)}
            context = await record_note(self.ports, context, APPROVAL_WANTED, body)
        reason = "a person must agree: " + "; ".join(request.needs)
        return await halt_waiting(self.ports, context, reason)


def _steps_needing_approval(context: RunContext, candidate: CandidatePlan) -> dict[StepId, str]:
    """Return the steps that need approval, each with the reason."""
    known = {step.id for step in context.plan.steps} if context.plan else set[str]()
    asked = {
        step.id: f"step {step.id!r} calls {step.tool!r}, which needs approval"
        for step in candidate.plan.steps
        if step.id not in known
        and step.tool in context.tools
        and asks_approval(step, context.tools[step.tool].signature)
    }
    for step_id in candidate.side_effects:
        step = candidate.plan.step(step_id)
        signature = context.tools[step.tool].signature
        effects = ", ".join(sorted(signature.effects - {"read"}))
        if step_id not in asked and effects and not _is_repeated_read(step, context):
            asked[step_id] = (
                f"the patch brings step {step_id!r}, which calls {signature.name!r} ({effects})"
            )
    return asked


def _approval_reasons(
    context: RunContext, candidate: CandidatePlan, asked: Mapping[StepId, str]
) -> tuple[str, ...]:
    if candidate.patch is not None and not context.goal.auto_approve and not asked:
        return ("the goal lets no patch apply without a person's word",)
    return tuple(asked.values())


def _is_repeated_read(step: Step, context: RunContext) -> bool:
    """Whether a step repeats a read of the plan, as a recipe of the goal or a validator says.

    Each parameter is the old one, comes from the recipe, or is the feedback on a package.
    """
    plan = context.plan
    if plan is None or step.supersedes is None or context.tools[step.tool].signature.writes:
        return False
    old = plan.step(step.supersedes)
    allowed = [old.params, *(recipe.set_params for recipe in context.goal.recipes)]
    return (step.tool, step.for_each) == (old.tool, old.for_each) and all(
        any(name in given and given[name] == value for given in allowed) or is_feedback(name, value)
        for name, value in step.params.items()
    )


def _approval_text(
    context: RunContext, plan: Plan, asked: Collection[StepId], settings: Settings
) -> str:
    """Return the steps or changes as text, with the parameters of the steps that need approval, or
    of all new ones.
    """
    if context.plan is not None:
        from wavewright.planner.plans.diff import diff_plans

        lines = str(diff_plans(context.plan, plan, context.signatures)).split("\n")
    else:
        lines = [f"{step.id}: {step.tool}" for step in plan.steps]
    redactor = known_secrets_redactor(settings)
    calls = CallDescriptions(plan, context.state, run_instant(context.state), redactor)
    known = {step.id for step in context.plan.steps} if context.plan else set[StepId]()
    for step_id in asked or [step.id for step in plan.steps if step.id not in known]:
        lines += ["", *calls.lines(plan.step(step_id))]
    return "\n".join(printable(line) for line in lines)


def steps_to_repeat(donor: RunState, start: StepId | None) -> tuple[StepId, ...]:
    """Return a step of the run's plan and all that depend on it, in the plan's order; empty if
    `start` is None.
    """
    if start is None or donor.plan is None:
        return ()
    plan = Plan.model_validate(donor.plan)
    graph = PlanGraph.of(plan)
    found = {start, *graph.descendants(start)} if start in graph.steps else set[StepId]()
    return tuple(step.id for step in plan.steps if step.id in found)


@dataclass(frozen=True, slots=True)
class ExecutePlan:
    """Run the steps in parallel and evaluate their gates; what is journaled is not called again."""

    ports: Ports
    name: str = "execute_plan"

    async def run(self, context: PlannedContext) -> PhaseResult[PlannedContext]:
        """Execute the rest of the plan; a cancelled run can be resumed."""
        with self.ports.cancellation.scope():
            context = await take_answer(self.ports, context)
        begun = time.monotonic()
        redactor = known_secrets_redactor(self.ports.settings)
        questions = StepQuestions(self.ports, context.state, redactor)
        drain_signal = DrainSignal()
        goal, plan, now = context.goal, context.plan, run_instant(context.state)
        with self.ports.cancellation.scope(drain_signal) as scope:
            # The executor does not record the cost of judges: a gate is no tool.
            async with self._open_judge(context) as (judge, uses):
                state = await execute(
                    Execution(
                        plan,
                        context.tools,
                        run=context.run,
                        now=now,
                        journal=self.ports.journal,
                        ask=questions.ask,
                        verify=make_verifier(plan, context.signatures, goal, now, judge=judge),
                        schedule=goal.schedule,
                        limits=goal.limits.model_copy(update={"run_timeout": context.time_left}),
                        goal_tools=goal.tools,
                        prior=context.state,
                        donor=_donor(context),
                        on_event=self.ports.on_event,
                        drain_signal=drain_signal,
                        announces=self.ports.announces_calls,
                        redactor=redactor,
                    )
                )
            if self.ports.services.runtime is not None:
                await self.ports.services.runtime.forget(context.run)
            executed = context.executed_seconds + time.monotonic() - begun
            before = context.state
            context = replace(context, state=fold(uses, state), executed_seconds=executed)
        if scope.cancelled_caught or self.ports.cancellation.is_cancelled:
            context = replace(context, state=fold(await self.ports.journal.load(context.run)))
            return await halt_stopped(self.ports, context)
        waiting = [
            step
            for step in questions.waiting
            if context.state.steps.get(step) is before.steps.get(step)
        ]
        if waiting:
            reason = f"a person must answer: {', '.join(f'step {step!r} waits' for step in sorted(waiting))}"
            return await halt_waiting(self.ports, context, reason)
        return proceed(context)

    @asynccontextmanager
    async def _open_judge(
        self, context: PlannedContext
    ) -> AsyncGenerator[tuple[GateJudge | None, Sequence[Event]]]:
        """Yield the judge of gates, None if no gate needs one, and the events of its calls,
        complete after the exit.
        """
        models = self.ports.services.models
        if models is None or all(gate.judge is None for gate in context.plan.gates):
            yield None, ()
            return
        from wavewright.reviewer.gates.judge import Calibration, ModelJudge, read_calibration

        file = self.ports.settings.calibration
        async with open_recorder(self.ports, context.run) as recorder:
            judge = ModelJudge(
                models,
                self.ports.services.prompts,
                Calibration() if file is None else read_calibration(file),
                run=context.run,
                job=context.goal.job,
                on_use=recorder.record_use,
            )
            yield judge, recorder.journaled


def _donor(context: PlannedContext) -> ReuseSource | None:
    """Return the results that a retry reuses; reads whose code has changed are not reused.

    A step that writes has taken effect: it is repeated only if it is named.
    """
    if context.donor is None or context.retry is None:
        return None
    state, retry = context.donor, context.retry
    known = state.started.tool_code if state.started is not None else {}
    changed = {
        name
        for name, tool in context.tools.items()
        if name in known and known[name] != tool.code and not tool.signature.writes
    }
    anew = {step.id for step in context.plan.steps if step.tool in changed}
    return ReuseSource(state, retry.origin, frozenset({*retry.anew, *anew}))
