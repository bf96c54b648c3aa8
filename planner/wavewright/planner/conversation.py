"""The conversation with a model about one plan: the request, its answers, and what was wrong with them.

A conversation is bounded: a refusal, a question, a `cannot_plan` or a lack of any answer ends it, and so does the
second answer in a row that holds nothing but words. What it said last may still suggest calls.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from wavewright.planner.candidates import Bench, Candidate, fault_summary
from wavewright.planner.emit_schema import emit_schema
from wavewright.planner.json_calls import read_suggested_calls
from wavewright.planner.ladder import Fallen, Rung, deadline
from wavewright.planner.model_port import ModelAnswer, ModelCall, ModelError, Models, OnUse, Turn
from wavewright.planner.planned import Answered, Attempt, UserQuestion
from wavewright.planner.planner_prompt import PlannerPrompt, planner_prompt, repair_reply
from wavewright.planner.refusals import CannotPlan, is_all_words, read_refusal, refuses_in_words
from wavewright.planner.smaller_questions import ask_with_less
from wavewright.planner.spending import CallHistory
from wavewright.planner.suggested_calls import plan_of_calls
from wavewright.planner.types import RunId
from wavewright.prompts.loading import Prompts

__all__ = ["Conversation"]

_NO_WORDS = "(the answer was empty)"


@dataclass(frozen=True, slots=True)
class _Exchange:
    """An answer that gave no plan."""

    answer: ModelAnswer
    attempt: Attempt
    is_all_words: bool


class Conversation:
    """Asks one model for one plan; its methods are the rungs that need it."""

    def __init__(
        self,
        bench: Bench,
        models: Models,
        prompts: Prompts,
        *,
        run: RunId | None = None,
        answers: Sequence[Answered] = (),
        may_ask: bool = True,
        history: CallHistory | None = None,
        on_use: OnUse | None = None,
    ) -> None:
        self.question: UserQuestion | None = None
        """What the user has to answer before there can be a plan."""
        self.cannot_plan: str | None = None
        """Why the model says that there is no plan."""
        self._bench = bench
        self._models = models
        self._prompts = prompts
        self._run = run
        self._answers = answers
        self._may_ask = may_ask
        self._history = history
        self._on_use = on_use
        self._prompt = self._written()
        self._exchanges: list[_Exchange] = []
        self._turns: list[Turn] = []
        self._over: str | None = None
        """Why nothing is asked any more."""
        self._may_try_again = False

    # --- rungs ------------------------------------------------------------------------------------------------

    async def ask_first(self, rung: Rung) -> Candidate | Fallen:
        """Ask for a plan; again where there was no answer that may come later, as the rung says."""
        outcome: Candidate | Fallen = Fallen("nothing was asked")
        for _ in range(rung.tries):
            self._over = None
            outcome = await self._ask(rung)
            if isinstance(outcome, Candidate) or self._exchanges or not self._may_try_again:
                break
        return outcome

    async def repair(self, rung: Rung) -> Candidate | Fallen:
        """Tell the model what was wrong, and take the first answer that is sound; so many rounds at most."""
        if self._is_over():
            return Fallen(f"nothing was asked again: {self._over}")
        if not self._exchanges:
            return Fallen("there is no answer to repair")
        for round_ in range(1, rung.tries + 1):
            self._reply()
            outcome = await self._ask(rung)
            if isinstance(outcome, Candidate):
                return outcome
            if self._is_over() or round_ == rung.tries:
                return Fallen(f"repair round {round_}: {outcome.reason}", outcome.ends_ladder)
        return Fallen("no round of repair is left")

    async def take_suggested(self, _: Rung) -> Candidate | Fallen:
        """Make a plan of the calls that the latest answer with any suggests; none of them is made here."""
        bench = self._bench
        for exchange in reversed(self._exchanges):
            answer = exchange.answer
            if answer.is_truncated:
                return Fallen("the last answer was cut off: what it suggests may not be all")
            calls = read_suggested_calls(answer.text, answer.calls)
            if calls:
                return bench.weigh_made(plan_of_calls(calls, bench.goal, bench.tools), "<suggested>")
        return Fallen("no answer suggests calls of tools")

    def _is_over(self) -> bool:
        return self._over is not None

    # --- one question -----------------------------------------------------------------------------------------

    async def _ask(self, rung: Rung) -> Candidate | Fallen:
        self._may_try_again = False
        try:
            answer = await ask_with_less(
                lambda call: self._models.ask(call, on_use=self._on_use),
                await self._call(rung),
                lambda: self._smaller_call(rung),
            )
        except ModelError as error:
            self._may_try_again = error.is_transient
            self._over = "the model refused" if error.kind == "refused" else "there was no answer"
            return Fallen(f"{error.kind}: {error}")
        return self._weigh(answer, rung)

    async def _call(self, rung: Rung) -> ModelCall:
        goal, prompt = self._bench.goal, self._prompt
        return ModelCall(
            role="planner",
            name="planner",
            instructions=prompt.instructions,
            prompt=prompt.request,
            turns=tuple(self._turns),
            schema=emit_schema(prompt.tools, may_ask=self._may_ask),
            schema_name="plan",
            preference=goal.model_preference,
            thinking=goal.thinking_level,
            timeout=await self._timeout(rung),
            rung=rung.name,
            run=self._run,
            job=goal.job,
        )

    async def _smaller_call(self, rung: Rung) -> ModelCall:
        """Return the question with a brief request and the latest turn alone; so does every later one begin."""
        self._prompt = self._written(is_brief=True)
        self._turns = self._turns[-1:]
        return await self._call(rung)

    def _written(self, *, is_brief: bool = False) -> PlannerPrompt:
        return planner_prompt(
            self._bench.goal,
            self._bench.tools,
            self._prompts,
            answers=self._answers,
            may_ask=self._may_ask,
            is_brief=is_brief,
        )

    async def _timeout(self, rung: Rung) -> float | None:
        """Return the seconds of one question.

        Raises:
            ModelError: the goal's preference names no model.
        """
        if rung.clock is None:
            return None
        chars = self._prompt.chars + sum(len(turn.answer) + len(turn.reply) for turn in self._turns)
        if self._history is None:
            return deadline(rung.clock, chars, ())
        model = self._models.choose(self._bench.goal.model_preference, "planner").model
        return deadline(rung.clock, chars, await self._history.past_seconds(model, "planner"))

    def _weigh(self, answer: ModelAnswer, rung: Rung) -> Candidate | Fallen:
        outcome = self._bench.read(answer, rung.name)
        if isinstance(outcome, Candidate):
            return outcome
        all_words = not answer.calls and is_all_words(answer.text)
        was_all_words = bool(self._exchanges) and self._exchanges[-1].is_all_words
        self._exchanges.append(_Exchange(answer, outcome, all_words))
        if not answer.is_truncated:
            said = self._said_instead(outcome)
            if said is not None:
                return said
            if all_words and refuses_in_words(answer.text):
                self._over = "the model refused"
                return Fallen("refused: the model declined in words")
            if all_words and was_all_words:
                self._over = "the model answered twice in words alone"
        return Fallen(fault_summary(outcome.diagnostics))

    def _said_instead(self, attempt: Attempt) -> Fallen | None:
        """Return what follows from an answer that is meant to be no plan."""
        if not any(found.kind == "planner_error" for found in attempt.diagnostics):
            return None
        match read_refusal(attempt.source):
            case CannotPlan(reason):
                self.cannot_plan = reason
                self._over = "the model says that there is no plan"
                return Fallen(f"cannot_plan: {reason}")
            case UserQuestion() as question if self._may_ask:
                self.question = question
                self._over = "the user is asked"
                return Fallen(f"asks the user: {question.question}", ends_ladder=True)
            case UserQuestion() as question:
                self._over = "the model asks, and nobody is there to answer"
                return Fallen(f"asks, and nobody is there to answer: {question.question}")
            case None:
                return None

    def _reply(self) -> None:
        """Add the latest answer to the conversation, with everything that is wrong with it."""
        last = self._exchanges[-1]
        calls = [{"name": call.name, "arguments": call.arguments} for call in last.answer.calls]
        words = last.answer.text.strip() or (json.dumps(calls) if calls else _NO_WORDS)
        attempt = last.attempt
        reply = repair_reply(
            self._prompts, attempt.diagnostics, attempt.source, is_truncated=last.answer.is_truncated
        )
        self._turns.append(Turn(words, reply))
