"""A plan for the goal: made or taken from the job, checked, and accepted as the one that the run
follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import anyio

from wavewright.config.sources import Source
from wavewright.engine.run.jobs.documents import no_plan_error
from wavewright.engine.run.jobs.goal_in_words import KEPT_PLAN_TOPIC, KeptPlan, find_kept_plan
from wavewright.engine.run.jobs.plan_drafts import PlanDraft, PlanOrigin
from wavewright.engine.run.phases.early_steps import EarlySteps
from wavewright.engine.run.pipeline.context import (
    CandidatePlan,
    PlannedContext,
    Ports,
    RunContext,
    extended,
)
from wavewright.engine.run.pipeline.phase import PhaseResult, branch, proceed
from wavewright.engine.run.pipeline.pipeline import PipelineError
from wavewright.engine.run.pipeline.services import (
    ModelEventRecorder,
    ModelPhaseResult,
    diagnostics_json,
    draft_note,
    halt_failed,
    halt_stopped,
    halt_waiting,
    record,
    record_end,
    record_note,
    record_refusal,
    remaining_allowance,
    run_model_phase,
)
from wavewright.engine.run.project.tools import find_obstacles, signatures_to_check
from wavewright.executor.events.state import SUCCESSES, RunState, fold
from wavewright.executor.events.types import PlanAccepted
from wavewright.planner.checks.checker import check
from wavewright.planner.checks.feasibility import check_readiness
from wavewright.planner.diagnostics.diagnostic import Diagnostic, PlanError, error_diagnostics
from wavewright.planner.language.hashing import plan_hash
from wavewright.planner.language.plan import Plan
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.records import (
    AnsweredQuestion,
    PlanningRequest,
    PlanningResult,
    UserQuestion,
)
from wavewright.planner.plans.binding import bind_plan
from wavewright.planner.ports.budgets import Allowance
from wavewright.planner.ports.model_port import OnText
from wavewright.planner.types import JsonObject, StepId

_WORTH_STREAMING = 0.5
"""Expected seconds of a reading tool from which it is worth starting early."""


@dataclass(frozen=True, slots=True)
class MakePlan:
    """Take the job's plan, or else have the planner make one down its ladder, and bind it to the
    goal.
    """

    ports: Ports
    name: str = "make_plan"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Bind the plan: inputs, the goal's gates and caps, what terminal steps are given."""
        kept = self._find_kept_plan(context)
        if kept is not None and kept.is_exact:
            context = await record_note(self.ports, context, KEPT_PLAN_TOPIC, kept.note(None))
            noted = draft_note(kept.draft, self.ports.clock().timestamp())
            context = replace(await record(self.ports, context, noted), draft=kept.draft)
        elif self._asks_planner(context):
            planned = await self._plan(context, kept)
            if isinstance(planned, PhaseResult):
                return planned
            context = planned
        if context.draft is None:
            error = no_plan_error(context.goal, Source(str(context.request.job_file), ""))
            await record_end(self.ports, context, "failed", "there is no plan")
            raise error
        candidate = bind_plan(context.draft.plan, context.goal, context.signatures)
        return proceed(replace(context, candidate=CandidatePlan(candidate)))

    def _find_kept_plan(self, context: RunContext) -> KeptPlan | None:
        """Return a kept plan for the goal, unless a plan is given or tools are replaced, as in a
        replay.
        """
        if self.ports.runtime is not None or not (
            context.draft is None or self._asks_planner(context)
        ):
            return None
        return find_kept_plan(context.goal, self.ports.settings, context.signatures)

    def _asks_planner(self, context: RunContext) -> bool:
        """Whether there is a model, and no plan that it may not replace: given, saved, or planned
        before a resume.
        """
        draft = context.draft
        may_replace = draft is None or (draft.rung == "template" and not draft.is_saved)
        return self.ports.services.models is not None and may_replace

    async def _plan(
        self, context: RunContext, kept: KeptPlan | None
    ) -> RunContext | PhaseResult[RunContext]:
        """Return the context with the planner's draft, or the result of a run that ends without
        one.
        """
        template = context.draft
        if (pending := _pending_question(context.state)) is not None:
            answered = await self._ask_question(context, pending)
            if isinstance(answered, PhaseResult):
                return answered
            context = answered
        while True:
            asked = await self._ask_planner(context, kept)
            context, planned = asked.context, asked.value
            if asked.was_stopped:
                return await halt_stopped(self.ports, context)
            if planned is None:
                return await halt_failed(
                    self.ports, context, "the run's time limit was reached while planning"
                )
            if planned.question is None:
                if kept is not None:
                    body = kept.note(planned)
                    context = await record_note(self.ports, context, KEPT_PLAN_TOPIC, body)
                return await self._with_draft(context, planned, template)
            answered = await self._ask_question(context, planned.question)
            if isinstance(answered, PhaseResult):
                return answered
            context = answered

    async def _ask_planner(
        self, context: RunContext, kept: KeptPlan | None
    ) -> ModelPhaseResult[RunContext, PlanningResult]:
        services, goal = self.ports.services, context.goal
        template_plan = context.draft.plan if context.draft is not None else None
        allowance = await remaining_allowance(
            services, self.ports.settings, goal, run=context.run, plan=template_plan
        )

        early: EarlySteps | None = None

        async def plan(recorder: ModelEventRecorder, on_text: OnText | None) -> PlanningResult:
            # Here: a run whose plan is given loads no planner.
            from wavewright.planner.planning.planner import make_plan

            return await make_plan(
                PlanningRequest(
                    goal,
                    context.signatures,
                    template_plan=template_plan,
                    kept_plan=None if kept is None else kept.plan,
                    run=context.run,
                    answers=_given_answers(context.state),
                    allowance=allowance,
                ),
                services.asking(
                    "planner",
                    on_use=recorder.record_use,
                    on_text=on_text,
                    on_rung=recorder.record_rung,
                ),
            )

        async def work(recorder: ModelEventRecorder) -> PlanningResult:
            nonlocal early
            if not self._may_start_early(context):
                return await plan(recorder, None)
            async with anyio.create_task_group() as group:
                early = EarlySteps(self.ports, context, group, allowance)
                planned = await plan(recorder, early.receive)
                await early.finish(planned.plan)
                return planned
            raise AssertionError("a task group hands every exception on")

        asked = await run_model_phase(self.ports, context, work)
        if early is None or asked.value is None:
            return asked
        return replace(
            asked, context=replace(asked.context, state=fold(early.events, asked.context.state))
        )

    def _may_start_early(self, context: RunContext) -> bool:
        """Whether steps may start while the plan arrives; in a replay the recorded answers come
        whole.
        """
        stream = self.ports.settings.planner.stream
        if stream == "off" or self.ports.runtime is not None:
            return False
        reading = [tool for tool in context.signatures.values() if tool.effects <= {"read"}]
        return any(stream == "on" or tool.expected_seconds >= _WORTH_STREAMING for tool in reading)

    async def _with_draft(
        self, context: RunContext, planned: PlanningResult, template: PlanDraft | None
    ) -> RunContext | PhaseResult[RunContext]:
        if planned.plan is None:
            return await self._without_plan(context, planned)
        rung = planned.rung or "llm"
        if rung == "template" and template is not None:
            return replace(context, draft=template)
        draft = PlanDraft(
            planned.plan, PlanOrigin.with_plan_value(planned.plan, planned.document), rung
        )
        # Journaled first, so a resumed run does not pay for planning twice.
        noted = draft_note(draft, self.ports.clock().timestamp())
        return replace(await record(self.ports, context, noted), draft=draft)

    async def _without_plan(
        self, context: RunContext, planned: PlanningResult
    ) -> PhaseResult[RunContext]:
        context = await record_refusal(self.ports, context, "plan_refused", planned.diagnostics)
        if planned.cannot_plan is not None:
            return await halt_failed(
                self.ports, context, f"the planner cannot plan this: {planned.cannot_plan}"
            )
        if planned.attempts:
            await record_end(
                self.ports, context, "failed", "no rung of the planner's ladder gave a valid plan"
            )
            # The faults of the model's last answer: plans made by code have no text that faults
            # could refer to.
            raise PlanError(planned.attempts[-1].diagnostics, planned.attempts[-1].source)
        if not planned.rungs:
            rungs = ", ".join(rung.name for rung in self.ports.services.ladder("planner").rungs)
            reason = f"there is no plan: no rung of `ladders.planner` ({rungs}) can make one for this job; add 'llm'"
            return await halt_failed(self.ports, context, reason)
        reasons = "; ".join(f"{taken.rung}: {taken.reason}" for taken in planned.rungs)
        return await halt_failed(self.ports, context, f"there is no plan ({reasons})")

    async def _ask_question(
        self, context: RunContext, question: UserQuestion
    ) -> RunContext | PhaseResult[RunContext]:
        body: JsonObject = {"question": question.question, "options": [*question.options]}
        if _pending_question(context.state) is None:
            # Journaled before it is asked, so a run stopped at its question does not pay for it
            # twice.
            context = await record_note(self.ports, context, "question", body)
        answer: str | None = None
        if self.ports.asker is not None:
            with self.ports.cancellation.scope():
                answer = await self.ports.asker.ask(question)
        if answer is None:
            reason = f"the planner asks: {question.question}"
            return await halt_waiting(self.ports, context, reason)
        return await record_note(self.ports, context, "answer", {**body, "answer": answer})


def _pending_question(state: RunState) -> UserQuestion | None:
    """Return the question that the run waits with, unless it was answered since."""
    last = next(
        (noted for noted in reversed(state.notes) if noted.topic in {"question", "answer"}), None
    )
    if last is None or last.topic == "answer":
        return None
    options = last.body.get("options")
    return UserQuestion(
        str(last.body["question"]), tuple(map(str, options)) if isinstance(options, list) else ()
    )


def _given_answers(state: RunState) -> Sequence[AnsweredQuestion]:
    """Return the planner's former questions with their answers, including those before a resume."""
    return [
        AnsweredQuestion(str(noted.body["question"]), str(noted.body["answer"]))
        for noted in state.notes
        if noted.topic == "answer"
    ]


@dataclass(frozen=True, slots=True)
class CheckPlan:
    """Check the plan, and stop with every fault that it has."""

    ports: Ports
    name: str = "check_plan"

    async def run(self, context: RunContext) -> PhaseResult[RunContext]:
        """Report the faults of an author's plan at their places; drop a faulty patch and build the
        package.
        """
        if context.candidate is None:
            return proceed(context)
        plan = context.candidate.plan
        if context.draft is not None:
            return await self._check_draft(context, plan, context.draft)
        found = await _check_resumed(self.ports, context, plan)
        if not error_diagnostics(found):
            return proceed(replace(context, diagnostics=tuple(found)))
        context = await record_refusal(self.ports, context, "patch_refused", found)
        context = replace(context, candidate=None)
        return branch(
            context,
            "build_package",
            f"the recovery patch makes {len(error_diagnostics(found))} faults",
        )

    async def _check_draft(
        self, context: RunContext, candidate: Plan, draft: PlanDraft
    ) -> PhaseResult[RunContext]:
        tools = context.signatures
        if not all(step.tool in tools for step in draft.plan.steps):
            # The plan names tools that are not allowed; the diagnostics say whether they exist.
            tools = signatures_to_check(draft.plan, context.goal, self.ports.settings)
        allowance = await _plan_allowance(self.ports, context, candidate)
        found = draft.origin.place(
            [
                *check(
                    candidate,
                    context.goal,
                    tools,
                    allowance=allowance,
                    can_ask=self.ports.can_ask,
                    can_answer=self.ports.can_answer,
                ),
                *self._readiness_errors(candidate, tools),
            ]
        )
        if error_diagnostics(found):
            context = await record_refusal(self.ports, context, "plan_refused", found)
            await record_end(self.ports, context, "failed", "the plan is not valid")
            raise PlanError(found, draft.origin.document.source)
        return proceed(replace(context, diagnostics=tuple(found)))

    def _readiness_errors(
        self, plan: Plan, tools: Mapping[str, ToolSignature]
    ) -> Iterable[Diagnostic]:
        """Return diagnostics of steps that cannot work here; replaced tools need nothing."""
        if self.ports.runtime is not None:
            return ()
        return check_readiness(plan, find_obstacles(plan, tools, self.ports.settings), is_run=True)


@dataclass(frozen=True, slots=True)
class RecheckPlan:
    """Check that the plan of a resumed run is still valid with the tools as they are now."""

    ports: Ports
    name: str = "recheck_plan"

    async def run(self, context: PlannedContext) -> PhaseResult[PlannedContext]:
        """Stop before any call if a change of a tool has made the plan invalid."""
        found = await _check_resumed(self.ports, context, context.plan)
        if error_diagnostics(found):
            raise PlanError(tuple(found), Source(f"the plan of run {context.run}", ""))
        return proceed(context)


async def _check_resumed(ports: Ports, context: RunContext, plan: Plan) -> list[Diagnostic]:
    """Check a plan whose steps have partly been executed."""
    return check(
        plan,
        context.goal,
        context.signatures,
        allowance=await _plan_allowance(ports, context, plan),
        finished=context.state.finished_steps(),
        items_done=_items_done(context.state),
    )


async def _plan_allowance(ports: Ports, context: RunContext, plan: Plan) -> Allowance | None:
    return await remaining_allowance(
        ports.services, ports.settings, context.goal, run=context.run, plan=plan
    )


def _items_done(state: RunState) -> dict[StepId, int]:
    """Return the number of items with an output, by step; a resumed run does not pay for them
    again.
    """
    return {
        step: sum(1 for item in items.values() if item.status in SUCCESSES)
        for step, items in state.items.items()
    }


@dataclass(frozen=True, slots=True)
class AcceptPlan:
    """Journal the plan, its hash and the rung that made it; the run follows it from here on."""

    ports: Ports
    name: str = "accept_plan"

    async def run(self, context: RunContext) -> PhaseResult[PlannedContext]:
        """Make the candidate the run's plan; a resumed run without one keeps its plan."""
        if isinstance(context, PlannedContext) and context.candidate is None:
            return proceed(context)
        if context.candidate is None:
            raise PipelineError(
                "there is no plan to accept: 'make_plan' comes before 'accept_plan'"
            )
        plan, patch = context.candidate.plan, context.candidate.patch
        first = context.draft.rung if context.draft is not None else "given"
        accepted = PlanAccepted(
            at=self.ports.clock().timestamp(),
            plan=plan.model_dump(mode="json", by_alias=True, exclude_unset=True),
            plan_hash=plan_hash(plan),
            rung="patch" if patch is not None else first,
            round=context.state.round + (1 if patch is not None else 0),
            warnings=tuple(diagnostics_json(context.diagnostics)),
            patch=patch.model_dump(mode="json") if patch is not None else None,
        )
        context = await record(self.ports, context, accepted)
        return proceed(extended(PlannedContext, context, plan=plan, candidate=None, draft=None))
