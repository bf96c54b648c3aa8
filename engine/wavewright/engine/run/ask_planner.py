"""A plan asked of the planner, with the answers of people to its questions.

A run whose plan is given loads none of this.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace

import anyio

from wavewright.engine.run.context import RunContext
from wavewright.engine.run.decisions.approvals import (
    ANSWER,
    QUESTION,
    answers_to_planner,
    open_question,
)
from wavewright.engine.run.early_steps import EarlySteps
from wavewright.engine.run.endings import RunHalted, record_end, run_failed, run_waits
from wavewright.engine.run.jobs.goal_in_words import KeptPlan
from wavewright.engine.run.jobs.plan_drafts import PlanDraft, PlanOrigin
from wavewright.engine.run.model_phases import ModelEventRecorder, run_model_phase
from wavewright.engine.run.ports import Attempt, Means, People, ask_asker
from wavewright.engine.run.recording import (
    KEPT_PLAN_TOPIC,
    draft_note,
    record,
    record_note,
    record_refusal,
)
from wavewright.engine.run.services import remaining_allowance
from wavewright.executor import Noted, RunState
from wavewright.planner import JsonObject, PlanError, UserQuestion, as_list
from wavewright.planner.planning.planner import make_plan as plan_goal
from wavewright.planner.planning.records import AnsweredQuestion, PlanningRequest, PlanningResult
from wavewright.planner.ports.model_port import OnText
from wavewright.reviewer.review.results import run_instant

_WORTH_STREAMING = 0.5
"""Expected seconds of a reading tool from which it is worth starting early."""


@dataclass(frozen=True, slots=True)
class Planning:
    """Has the planner make a plan, with the answers of people to its questions."""

    attempt: Attempt
    means: Means
    people: People

    async def plan(self, context: RunContext, kept: KeptPlan | None) -> RunContext:
        """Return the context with the planner's draft."""
        template = context.draft
        # A run that was stopped at the planner's question asks a person again, not the planner.
        open_note = open_question(context.state)
        question = None if open_note is None else _user_question(open_note)
        while True:
            if question is not None:
                context = await self._ask_person(context, question)
            context, planned = await self._ask_planner(context, kept)
            if planned is None:
                raise await run_failed(
                    self.attempt, context, "the run's time limit was reached while planning"
                )
            question = planned.question
            if question is None:
                break
        if kept is not None:
            body = kept.note(planned)
            context = await record_note(self.attempt, context, KEPT_PLAN_TOPIC, body)
        return await self._with_draft(context, planned, template)

    async def _ask_planner(
        self, context: RunContext, kept: KeptPlan | None
    ) -> tuple[RunContext, PlanningResult | None]:
        services, settings, goal = self.means.services, self.means.settings, context.goal
        template_plan = None if context.draft is None else context.draft.plan
        allowance = await remaining_allowance(
            services, settings, goal, run=context.run, plan=template_plan
        )

        async def plan(recorder: ModelEventRecorder, on_text: OnText | None) -> PlanningResult:
            request = PlanningRequest(
                goal,
                context.signatures,
                template_plan=template_plan,
                kept_plan=None if kept is None else kept.plan,
                run=context.run,
                answers=_given_answers(context.state),
                today=_day(context.state),
                allowance=allowance,
            )
            asking = recorder.listen(services.asking("planner"))
            return await plan_goal(request, replace(asking, on_text=on_text))

        async def work(recorder: ModelEventRecorder) -> PlanningResult:
            if not self._may_start_early(context):
                return await plan(recorder, None)
            async with anyio.create_task_group() as group:
                events = recorder.journaled
                early = EarlySteps(self.attempt, settings, context, group, allowance, events)
                planned = await plan(recorder, early.receive)
                await early.finish(planned.plan)
                return planned
            raise AssertionError("a task group hands every exception on")

        return await run_model_phase(self.attempt, context, work)

    def _may_start_early(self, context: RunContext) -> bool:
        """Whether steps may start while the plan arrives; in a replay the recorded answers come
        whole.
        """
        stream = self.means.settings.planner.stream
        if stream == "off" or self.means.runtime is not None:
            return False
        for tool in context.signatures.values():
            is_slow = tool.expected_seconds >= _WORTH_STREAMING
            # Only what reads may start: the plan is not checked as a whole yet.
            if tool.effects <= {"read"} and (stream == "on" or is_slow):
                return True
        return False

    async def _with_draft(
        self, context: RunContext, planned: PlanningResult, template: PlanDraft | None
    ) -> RunContext:
        if planned.plan is None:
            raise await self._without_plan(context, planned)
        rung = planned.rung or "llm"
        if rung == "template" and template is not None:
            return replace(context, draft=template)
        origin = PlanOrigin.with_plan_value(planned.plan, planned.document)
        draft = PlanDraft(planned.plan, origin, rung)
        # Journaled first, so a resumed run does not pay for planning twice.
        context = await record(self.attempt, context, draft_note(draft, self.attempt.now()))
        return replace(context, draft=draft)

    async def _without_plan(self, context: RunContext, planned: PlanningResult) -> RunHalted:
        """Journal why there is no plan, and return the way out.

        Raises:
            PlanError: the plans of a model had faults.
        """
        attempt = self.attempt
        context = await record_refusal(attempt, context, "plan_refused", planned.diagnostics)
        if planned.cannot_plan is not None:
            reason = f"the planner cannot plan this: {planned.cannot_plan}"
            return await run_failed(attempt, context, reason)
        if planned.attempts:
            reason = "no rung of the planner's ladder gave a valid plan"
            await record_end(attempt, context, "failed", reason)
            # The faults of the model's last answer: plans made by code have no text that faults
            # could refer to.
            raise PlanError(planned.attempts[-1].diagnostics, planned.attempts[-1].source)
        if not planned.rungs:
            rungs = ", ".join(rung.name for rung in self.means.services.ladder("planner").rungs)
            reason = f"there is no plan: no rung of `ladders.planner` ({rungs}) can make one for this job; add 'llm'"
            return await run_failed(attempt, context, reason)
        reasons = "; ".join(f"{rung.rung}: {rung.reason}" for rung in planned.rungs)
        return await run_failed(attempt, context, f"there is no plan ({reasons})")

    async def _ask_person(self, context: RunContext, question: UserQuestion) -> RunContext:
        """Return the context with the answer to the planner's question.

        Raises:
            RunHalted: nobody has answered yet.
        """
        body: JsonObject = {"question": question.question, "options": [*question.options]}
        if open_question(context.state) is None:
            # Journaled before it is asked, so a run stopped at its question does not pay for it
            # twice.
            context = await record_note(self.attempt, context, QUESTION, body)
        answer: str | None = None
        with self.attempt.cancellation.scope():
            answer = await ask_asker(self.people.asker, question)
        if answer is None:
            reason = f"the planner asks: {question.question}"
            raise await run_waits(self.attempt, context, reason)
        context = await record_note(self.attempt, context, ANSWER, {**body, "answer": answer})
        goal = context.goal
        return replace(context, goal=goal.model_copy(update={"answers": (*goal.answers, answer)}))


def _user_question(asked: Noted) -> UserQuestion:
    options = tuple(map(str, as_list(asked.body.get("options"))))
    return UserQuestion(str(asked.body["question"]), options)


def _day(state: RunState) -> dt.date | None:
    """Return the day that the run takes for now."""
    return None if state.started is None else run_instant(state).date()


def _given_answers(state: RunState) -> Sequence[AnsweredQuestion]:
    """Return the planner's former questions with their answers, including those before a resume."""
    return [
        AnsweredQuestion(str(body["question"]), str(body["answer"]))
        for body in answers_to_planner(state)
    ]
