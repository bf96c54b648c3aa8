"""The conversation with a model about one plan: request, answers, and faults to repair.

It is bounded by the rungs' tries; a refusal, a question, `cannot_plan` or a missing answer ends it
before. A model that refuses, or talks to the end, is followed by the next fallback model. The last
answer may still contain suggested calls.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from wavewright.planner.diagnostics.diagnostic import error_diagnostics
from wavewright.planner.planning.candidates import (
    Candidate,
    PlanValidator,
    error_summary,
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
from wavewright.planner.planning.prompt import (
    PlannerPrompt,
    emit_schema,
    planner_prompt,
    repair_reply,
)
from wavewright.planner.planning.records import PlanningAttempt, PlanningRequest, UserQuestion
from wavewright.planner.ports.asking import Asking, RefusedAnswer
from wavewright.planner.ports.fallback_ladder import FallbackFailure, Rung, rung_timeout
from wavewright.planner.ports.model_port import (
    ModelAnswer,
    ModelCall,
    ModelClient,
    ModelError,
    Turn,
    ask_with_smaller_prompt,
)

_EMPTY_ANSWER = "(the answer was empty)"


@dataclass(frozen=True, slots=True)
class _FailedAttempt:
    """An answer that gave no plan."""

    answer: ModelAnswer
    attempt: PlanningAttempt


class PlanningConversation:
    """Asks one model for one plan; its methods are the rungs that need it."""

    def __init__(
        self,
        validator: PlanValidator,
        request: PlanningRequest,
        asking: Asking,
        models: ModelClient,
    ) -> None:
        self.question: UserQuestion | None = None
        """The question that the user must answer before there can be a plan."""
        self.cannot_plan: str | None = None
        """Why the model says that there is no plan."""
        self._validator = validator
        self._request = request
        self._asking = asking
        self._models = models
        self._prompt = self._build_prompt()
        self._failed_attempts: list[_FailedAttempt] = []
        self._turns: list[Turn] = []
        self._end_reason: str | None = None
        """Why no further question is asked."""
        self._has_declined = False
        """Whether the model gave no answer, refused, asked a person, or said that there is no plan:
        it is not asked in another way.
        """
        self._has_asked_which = False
        """Whether a plan beside `cannot_plan` was asked about."""
        self._may_retry = False
        self._repaired_by_reading: Candidate | None = None
        """A valid plan whose values depend on how its text was read."""
        self._has_refused = False
        """Whether the last answer declined, so that another model may be asked."""
        self._has_only_talked = False
        """Whether the last answer was prose, with no plan in it."""
        self._preference = validator.goal.model_preference
        self._fallbacks_asked = 0

    # --- rungs
    # ------------------------------------------------------------------------------------------------

    async def ask_for_plan(self, rung: Rung) -> Candidate | FallbackFailure:
        """Ask for a plan; after a transient error again, as often as the rung says."""
        outcome = await self._ask_one_model(rung)
        while self._has_refused and self._ask_next_model():
            outcome = await self._ask_one_model(rung)
        return outcome

    async def _ask_one_model(self, rung: Rung) -> Candidate | FallbackFailure:
        outcome: Candidate | FallbackFailure = FallbackFailure("nothing was asked")
        before = len(self._failed_attempts)
        for _ in range(rung.tries):
            self._end_reason, self._has_declined, self._has_refused = None, False, False
            outcome = await self._ask(rung)
            has_answered = len(self._failed_attempts) > before
            is_read = isinstance(outcome, Candidate) or self._repaired_by_reading is not None
            if is_read or has_answered or not self._may_retry:
                break
        return outcome

    def _ask_next_model(self) -> bool:
        """Turn to the next fallback model with the first question; return whether there is one."""
        choice = self._models.choose(self._validator.goal.model_preference, "planner")
        left = choice.fallbacks[self._fallbacks_asked :]
        if not left:
            return False
        self._preference, self._turns = left[0], []
        self._fallbacks_asked += 1
        return True

    async def repair(self, rung: Rung) -> Candidate | FallbackFailure:
        """Send the faults to the model, and return the first valid answer within the tries of the
        rung.
        """
        if self._repaired_by_reading is not None:
            return self._repaired_by_reading
        if self._is_over():
            return FallbackFailure(f"nothing was asked again: {self._end_reason}")
        if not self._failed_attempts:
            return FallbackFailure("there is no answer to repair")
        outcome = await self._repair_with_one_model(rung)
        # Who only talks, however often it is told, is followed like one that refuses.
        while (
            isinstance(outcome, FallbackFailure)
            and self._has_only_talked
            and not self._is_over()
            and self._ask_next_model()
        ):
            outcome = await self._ask(rung)
        return outcome

    async def _repair_with_one_model(self, rung: Rung) -> Candidate | FallbackFailure:
        for round_ in range(1, rung.tries + 1):
            self._add_repair_reply()
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
        if self._has_declined:
            return FallbackFailure(f"nothing was asked step by step: {self._end_reason}")
        goal, tools = self._validator.goal, self._validator.tools
        try:
            plan = await plan_by_choices(
                goal,
                tools,
                self._asking.prompts,
                await self._call(rung),
                # What is said is a choice and no plan: readers of plans get the steps instead.
                lambda call: self._models.ask(call, on_use=self._asking.on_use),
                tries=rung.tries,
                on_text=self._asking.on_text,
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
        for exchange in reversed(self._failed_attempts):
            answer = exchange.answer
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
        self._may_retry = False
        try:
            answer = await ask_with_smaller_prompt(
                lambda call: self._models.ask(
                    call, on_use=self._asking.on_use, on_text=self._asking.on_text
                ),
                await self._call(rung),
                lambda: self._smaller_call(rung),
            )
        except ModelError as error:
            self._has_declined = True
            self._may_retry = error.is_transient
            self._has_refused = error.kind in ("refused", "bad_answer")
            self._end_reason = (
                "the model refused" if error.kind == "refused" else "there was no answer"
            )
            return FallbackFailure(f"{error.kind}: {error}")
        return self._validate(answer, rung)

    async def _call(self, rung: Rung) -> ModelCall:
        goal, prompt = self._validator.goal, self._prompt
        answer = emit_schema(
            prompt.tools,
            sub_plans=[*goal.sub_plans],
            dispatched=prompt.dispatched,
            may_ask=self._request.may_ask_again,
        )
        return ModelCall(
            role="planner",
            name="planner",
            instructions=prompt.instructions,
            prompt=prompt.request,
            turns=tuple(self._turns),
            schema=answer,
            goal_schema=goal_plan_schema(answer, goal, self._validator.tools, prompt.tools),
            schema_name="plan",
            preference=self._preference,
            thinking=goal.thinking_level,
            timeout=await self._timeout(rung),
            rung=rung.name,
            run=self._request.run,
            job=goal.job,
            streams_raw=True,
        )

    async def _smaller_call(self, rung: Rung) -> ModelCall:
        """Return the question with a brief request and only the latest turn; later questions begin
        in the same way.
        """
        self._prompt = self._build_prompt(is_brief=True)
        self._turns = self._turns[-1:]
        return await self._call(rung)

    def _build_prompt(self, *, is_brief: bool = False) -> PlannerPrompt:
        return planner_prompt(
            self._validator.goal,
            self._validator.tools,
            self._asking.prompts,
            answers=self._request.answers,
            may_ask=self._request.may_ask_again,
            kept_plan=self._request.kept_plan,
            is_brief=is_brief,
            today=self._request.today,
        )

    async def _timeout(self, rung: Rung) -> float | None:
        """Return the seconds of one question.

        Raises:
            ModelError: the goal's preference names no model.
        """
        if rung.clock is None:
            return None
        chars = self._prompt.chars + sum(len(turn.answer) + len(turn.reply) for turn in self._turns)
        if self._asking.history is None:
            return rung_timeout(rung.clock, chars, ())
        model = self._models.choose(self._validator.goal.model_preference, "planner").model
        return rung_timeout(
            rung.clock, chars, await self._asking.history.past_seconds(model, "planner")
        )

    def _validate(self, answer: ModelAnswer, rung: Rung) -> Candidate | FallbackFailure:
        outcome = self._validator.read_answer(answer, rung.name)
        if isinstance(outcome, Candidate):
            return self._on_its_rung(outcome, rung)
        all_words = self._has_only_talked = not answer.calls and is_prose(answer.text)
        self._failed_attempts.append(_FailedAttempt(answer, outcome))
        self._report_refused(answer, outcome)
        if not answer.is_truncated:
            said = self._non_plan_outcome(outcome)
            if said is not None:
                self._has_declined = True
                return said
            if all_words and is_refusal_prose(answer.text):
                self._has_declined = self._has_refused = True
                self._end_reason = "the model refused"
                return FallbackFailure("refused: the model declined in words")
        return FallbackFailure(error_summary(outcome.diagnostics))

    def _report_refused(self, answer: ModelAnswer, attempt: PlanningAttempt) -> None:
        if self._asking.on_refused is None:
            return
        calls = [{"name": call.name, "arguments": call.arguments} for call in answer.calls]
        text = answer.text.strip() or (json.dumps(calls) if calls else "")
        faults = tuple(
            f"{found.code}: {found.message}" for found in error_diagnostics(attempt.diagnostics)
        )
        self._asking.on_refused(
            RefusedAnswer("planner", attempt.rung, answer.use.model, text, faults)
        )

    def _on_its_rung(self, candidate: Candidate, rung: Rung) -> Candidate | FallbackFailure:
        """Return a valid plan, or leave it to the rung `repaired` where reading decided what its
        values say.
        """
        repairs = self._validator.attempts[-1].repairs
        decisive = [repair.message for repair in repairs if repair.decides_content]
        assert self._asking.ladder is not None
        has_lower_rung = any(lower.name == "repaired" for lower in self._asking.ladder.rungs)
        if not decisive or rung.name != "llm" or not has_lower_rung:
            return candidate
        self._repaired_by_reading = candidate
        return FallbackFailure(f"the plan is valid as it was read: {'; '.join(decisive)}")

    def _non_plan_outcome(self, attempt: PlanningAttempt) -> FallbackFailure | None:
        """Return the result of an answer that is not meant as a plan."""
        if not any(diagnostic.kind == "planner_error" for diagnostic in attempt.diagnostics):
            return None
        match read_refusal(attempt.source):
            case CannotPlan(has_steps=True) if not self._has_asked_which:
                # Both cannot be meant: it is asked which, and the second answer counts as it is.
                self._has_asked_which = True
                return None
            case CannotPlan(reason):
                self.cannot_plan = reason
                self._end_reason = "the model says that there is no plan"
                return FallbackFailure(f"cannot_plan: {reason}")
            case UserQuestion() as question if self._request.may_ask_again:
                self.question = question
                self._end_reason = "the user is asked"
                return FallbackFailure(f"asks the user: {question.question}", ends_ladder=True)
            case UserQuestion() as question:
                self._end_reason = "the model asked a question that nobody can answer here"
                return FallbackFailure(
                    f"asked a question that nobody can answer here: {question.question}"
                )
            case None:
                return None

    def _add_repair_reply(self) -> None:
        """Add the latest answer to the conversation, with all its faults."""
        last = self._failed_attempts[-1]
        calls = [{"name": call.name, "arguments": call.arguments} for call in last.answer.calls]
        words = last.answer.text.strip() or (json.dumps(calls) if calls else _EMPTY_ANSWER)
        attempt = last.attempt
        reply = repair_reply(
            self._asking.prompts,
            attempt.diagnostics,
            attempt.source,
            is_truncated=last.answer.is_truncated,
        )
        self._turns.append(Turn(words, reply))
