"""The planner: from a goal to a valid plan, or to the reason why there is none.

A model is asked for a plan. Its answer is read tolerantly and checked, and its faults go back to
the model a limited number of times. After that the *ladder* continues with a plan that the model
makes one legal step at a time, with tool calls that it suggested, the goal template's own plan and
a minimal plan. Every answer and rung is recorded, and no plan with an error is returned.
"""

from __future__ import annotations

from dataclasses import replace

from wavewright.planner.diagnostics.diagnostic import error_diagnostics
from wavewright.planner.planning.candidates import (
    Candidate,
    PlanValidator,
    error_summary,
    minimal_plan,
    plan_from_calls,
)
from wavewright.planner.planning.goal_schema import goal_plan_schema
from wavewright.planner.planning.guided import plan_by_choices
from wavewright.planner.planning.non_plan_answers import (
    CannotPlan,
    is_prose,
    is_refusal_prose,
    read_refusal,
    read_suggested_calls,
)
from wavewright.planner.planning.prompt import emit_schema, planner_prompt, repair_reply
from wavewright.planner.planning.records import (
    PlanningAttempt,
    PlanningRequest,
    PlanningResult,
    UserQuestion,
)
from wavewright.planner.ports.asking import AnswerRefused, Asking, Sequel
from wavewright.planner.ports.conversation import Conversation, FittingAnswer, rung_seconds
from wavewright.planner.ports.fallback_ladder import (
    FallbackFailure,
    FallbackResult,
    FallbackStrategy,
    Rung,
    run_ladder,
)
from wavewright.planner.ports.model_port import ModelAnswer, ModelCall, ModelError


async def make_plan(request: PlanningRequest, asking: Asking) -> PlanningResult:
    """Return a valid plan for a goal, a question for the user, or why there is no plan.

    Without models only the template's own plan is tried.

    Raises:
        PromptError: one of the planner's templates is faulty.
    """
    assert asking.ladder is not None
    answers = tuple(answered.answer for answered in request.answers)
    goal = request.goal.model_copy(update={"answers": answers})
    tools, template_plan = request.tools, request.template_plan
    validator = PlanValidator(goal, tools, request.allowance)
    ways: dict[str, FallbackStrategy[Candidate]] = {}
    if template_plan is not None:

        async def use_template(_: Rung) -> Candidate | FallbackFailure:
            return validator.validate(template_plan)

        ways["template"] = use_template
    if asking.models is None:
        result = await run_ladder(asking.ladder, ways, on_rung=asking.on_rung)
        return _planning_result(result, validator)

    async def use_minimal(_: Rung) -> Candidate | FallbackFailure:
        return validator.validate_built(minimal_plan(goal, tools), "<minimal>")

    talk = _PlanningConversation(validator, request, asking)
    ways |= {
        "llm": talk.ask_for_plan,
        "repaired": talk.repair,
        "guided": talk.guide,
        "suggested": talk.use_suggestion,
        "minimal": use_minimal,
    }
    result = await run_ladder(asking.ladder, ways, on_rung=asking.on_rung)
    planned = _planning_result(result, validator)
    return replace(planned, question=talk.question, cannot_plan=talk.cannot_plan)


def _planning_result(result: FallbackResult[Candidate], validator: PlanValidator) -> PlanningResult:
    candidate = result.value
    return PlanningResult(
        plan=candidate.plan if candidate is not None else None,
        rung=result.rung,
        diagnostics=candidate.diagnostics if candidate is not None else validator.last_diagnostics,
        attempts=tuple(validator.attempts),
        rungs=result.records,
        document=candidate.document if candidate is not None else None,
    )


class _NoPlan(AnswerRefused):
    """An answer gives no valid plan."""

    def __init__(
        self,
        attempt: PlanningAttempt,
        failure: FallbackFailure | None = None,
        *,
        then: Sequel = "repair",
        end_reason: str | None = None,
    ) -> None:
        errors = error_diagnostics(attempt.diagnostics)
        super().__init__([f"{error.code}: {error.message}" for error in errors], then=then)
        self.attempt = attempt
        self.failure = failure or FallbackFailure(error_summary(attempt.diagnostics))
        """What the rung fails with."""
        self.end_reason = end_reason
        """Why nothing more is asked of this model, where that is so."""


class _PlanningConversation:
    """Asks models for one plan; its methods are the rungs that need one.

    It is bounded by the rungs' tries; a refusal, a question, `cannot_plan` or a missing answer ends
    it before. A model that refuses, or talks to the end, is followed by the next fallback model.
    The loop of those who ask goes on from rung to rung, a question at a time: every round of repair
    has the whole clock of its rung.
    """

    def __init__(self, validator: PlanValidator, request: PlanningRequest, asking: Asking) -> None:
        self.question: UserQuestion | None = None
        """The question that the user must answer before there can be a plan."""
        self.cannot_plan: str | None = None
        """Why the model says that there is no plan."""
        self._validator = validator
        self._request = request
        self._asking = asking
        self._talk = Conversation(
            asking,
            self._planner_call(),
            self._read,
            self._reply,
            lambda: self._planner_call(is_brief=True),
        )
        self._end_reason: str | None = None
        """Why nothing more is asked of this model, in whatever way: it gave no answer, refused,
        asked a person, or said that there is no plan.
        """
        self._has_refused = False
        """Whether the last answer declined, so that another model may be asked."""
        self._may_retry = False
        """Whether the same question may be answered later."""
        self._has_asked_which = False
        """Whether a plan beside `cannot_plan` was asked about."""
        self._repaired_by_reading: Candidate | None = None
        """A valid plan whose values depend on how its text was read."""

    # --- rungs
    # ------------------------------------------------------------------------------------------------

    async def ask_for_plan(self, rung: Rung) -> Candidate | FallbackFailure:
        """Ask for a plan; after a transient error again, as often as the rung says."""
        while True:
            outcome: Candidate | FallbackFailure = FallbackFailure("nothing was asked")
            for _ in range(rung.tries):
                outcome = await self._ask(rung)
                if not self._may_retry:
                    break
            if not (self._has_refused and self._talk.turn_to_next_model()):
                return outcome

    async def repair(self, rung: Rung) -> Candidate | FallbackFailure:
        """Send the faults to the model, and return the first valid answer within the tries of the
        rung.
        """
        if self._repaired_by_reading is not None:
            return self._repaired_by_reading
        if self._is_over():
            return FallbackFailure(f"nothing was asked again: {self._end_reason}")
        if not self._talk.answers:
            return FallbackFailure("there is no answer to repair")
        outcome = await self._repair_with_one_model(rung)
        # Who only talks, however often it is told, is followed like one that refuses.
        while (
            isinstance(outcome, FallbackFailure)
            and not self._is_over()
            and _only_talks(self._talk.answers[-1])
            and self._talk.turn_to_next_model()
        ):
            outcome = await self._ask(rung)
        return outcome

    async def _repair_with_one_model(self, rung: Rung) -> Candidate | FallbackFailure:
        for round_ in range(1, rung.tries + 1):
            outcome = await self._ask(rung)
            if isinstance(outcome, Candidate):
                return outcome
            if self._is_over() or round_ == rung.tries:
                return FallbackFailure(
                    f"repair round {round_}: {outcome.reason}", outcome.ends_ladder
                )
        return FallbackFailure("no round of repair is left")

    async def guide(self, rung: Rung) -> Candidate | FallbackFailure:
        """Let the model make the plan one step at a time, from what is legal next."""
        if self._is_over():
            return FallbackFailure(f"nothing was asked step by step: {self._end_reason}")
        try:
            plan = await plan_by_choices(
                self._validator.goal,
                self._validator.tools,
                self._asking,
                await self._timed_call(rung),
                tries=rung.tries,
            )
        except ModelError as error:
            return FallbackFailure(f"{error.kind}: {error}")
        if isinstance(plan, FallbackFailure):
            return plan
        return self._validator.validate_built(plan, "<guided>")

    async def use_suggestion(self, _: Rung) -> Candidate | FallbackFailure:
        """Make a plan of suggested calls, or else take the kept plan that the model was shown."""
        suggested = self._plan_of_suggested_calls()
        if isinstance(suggested, Candidate) or self._request.kept_plan is None:
            return suggested
        return self._validator.validate(self._request.kept_plan)

    def _plan_of_suggested_calls(self) -> Candidate | FallbackFailure:
        """Make a plan of the calls that the latest answer with suggested calls has; none of them is
        executed here.
        """
        validator = self._validator
        for answer in reversed(self._talk.answers):
            if answer.is_truncated:
                return FallbackFailure(
                    "the last answer was cut off: what it suggests may not be all"
                )
            calls = read_suggested_calls(answer.text, answer.calls)
            if calls:
                return validator.validate_built(
                    plan_from_calls(calls, validator.goal, validator.tools), "<suggested>"
                )
        return FallbackFailure("no answer suggests calls of tools")

    def _is_over(self) -> bool:
        return self._end_reason is not None

    # --- one question
    # -----------------------------------------------------------------------------------------

    async def _ask(self, rung: Rung) -> Candidate | FallbackFailure:
        self._end_reason, self._has_refused, self._may_retry = None, False, False
        try:
            self._talk.call = await self._timed_call(rung)
            answer = await self._talk.ask()
        except ModelError as error:
            return self._without_answer(error)
        if isinstance(answer, FittingAnswer):
            return self._on_its_rung(answer.value, rung)
        if isinstance(answer.cause, ModelError):
            return self._without_answer(answer.cause)
        assert isinstance(answer.cause, _NoPlan)
        self._end_reason = answer.cause.end_reason
        self._has_refused = answer.cause.then == "next_model"
        return answer.cause.failure

    def _without_answer(self, error: ModelError) -> FallbackFailure:
        self._may_retry = error.is_transient
        self._has_refused = error.kind in ("refused", "bad_answer")
        self._end_reason = "the model refused" if error.kind == "refused" else "there was no answer"
        return FallbackFailure(f"{error.kind}: {error}")

    async def _timed_call(self, rung: Rung) -> ModelCall:
        """Return the next question with the whole clock of its rung.

        Raises:
            ModelError: the goal's preference names no model.
        """
        seconds = await rung_seconds(self._asking, rung, self._talk.next_call())
        return replace(self._talk.call, rung=rung.name, timeout=seconds)

    def _planner_call(self, *, is_brief: bool = False) -> ModelCall:
        goal, tools, request = self._validator.goal, self._validator.tools, self._request
        prompt = planner_prompt(
            goal,
            tools,
            self._asking.prompts,
            answers=request.answers,
            may_ask=request.may_ask_again,
            kept_plan=request.kept_plan,
            is_brief=is_brief,
            today=request.today,
        )
        schema = emit_schema(
            prompt.tools,
            sub_plans=[*goal.sub_plans],
            dispatched=prompt.dispatched,
            may_ask=request.may_ask_again,
        )
        return ModelCall(
            role="planner",
            name="planner",
            instructions=prompt.instructions,
            prompt=prompt.request,
            schema=schema,
            goal_schema=goal_plan_schema(schema, goal, tools, prompt.tools),
            schema_name="plan",
            preference=goal.model_preference,
            thinking=goal.thinking_level,
            run=request.run,
            job=goal.job,
            streams_raw=True,
        )

    def _read(self, answer: ModelAnswer, _tries_left: int) -> Candidate:
        """Return the valid plan of an answer.

        Raises:
            _NoPlan: it holds none.
        """
        outcome = self._validator.read_answer(answer, self._talk.call.rung)
        if isinstance(outcome, Candidate):
            return outcome
        # What was cut off may not mean what its beginning says.
        if not answer.is_truncated:
            self._check_is_meant_as_plan(outcome)
            if _only_talks(answer) and is_refusal_prose(answer.text):
                raise _NoPlan(
                    outcome,
                    FallbackFailure("refused: the model declined in words"),
                    then="next_model",
                    end_reason="the model refused",
                )
        raise _NoPlan(outcome)

    def _check_is_meant_as_plan(self, attempt: PlanningAttempt) -> None:
        """Take what an answer says in place of a plan.

        Raises:
            _NoPlan: it says something that ends the conversation.
        """
        if not any(diagnostic.kind == "planner_error" for diagnostic in attempt.diagnostics):
            return
        match read_refusal(attempt.source):
            case CannotPlan(has_steps=True) if not self._has_asked_which:
                # Both cannot be meant: it is asked which, and the second answer counts as it is.
                self._has_asked_which = True
                return
            case CannotPlan(reason):
                self.cannot_plan = reason
                raise _NoPlan(
                    attempt,
                    FallbackFailure(f"cannot_plan: {reason}"),
                    then="end",
                    end_reason="the model says that there is no plan",
                )
            case UserQuestion() as question if self._request.may_ask_again:
                self.question = question
                raise _NoPlan(
                    attempt,
                    FallbackFailure(f"asks the user: {question.question}", ends_ladder=True),
                    then="end",
                    end_reason="the user is asked",
                )
            case UserQuestion(asked):
                raise _NoPlan(
                    attempt,
                    FallbackFailure(f"asked a question that nobody can answer here: {asked}"),
                    then="end",
                    end_reason="the model asked a question that nobody can answer here",
                )
            case None:
                return

    def _reply(self, answer: ModelAnswer, refused: AnswerRefused) -> str:
        """Return what an answer is replied to: all its faults."""
        assert isinstance(refused, _NoPlan)
        return repair_reply(
            self._asking.prompts,
            refused.attempt.diagnostics,
            refused.attempt.source,
            is_truncated=answer.is_truncated,
        )

    def _on_its_rung(self, candidate: Candidate, rung: Rung) -> Candidate | FallbackFailure:
        """Return a valid plan, or leave it to the rung `repaired` where reading decided what its
        values say.
        """
        repairs = self._validator.attempts[-1].repairs
        decisive = [repair.message for repair in repairs if repair.decides_content]
        ladder = self._asking.ladder
        has_lower_rung = ladder is not None and ladder.rung("repaired") is not None
        if not decisive or rung.name != "llm" or not has_lower_rung:
            return candidate
        self._repaired_by_reading = candidate
        return FallbackFailure(f"the plan is valid as it was read: {'; '.join(decisive)}")


def _only_talks(answer: ModelAnswer) -> bool:
    """Whether an answer is prose, with no plan and no call in it."""
    return not answer.calls and is_prose(answer.text)
