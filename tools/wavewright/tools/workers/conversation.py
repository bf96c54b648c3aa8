"""One question to a model and what follows: an answer that is accepted, or what is wrong with it and another try.

A *conversation* is bounded twice, by the number of its repair turns and by its clock. Everything that was said stays
on hand: what no turn could mend may still hold the answer among its words.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from wavewright.planner.ladder import FallbackFailure
from wavewright.planner.model_port import ModelAnswer, ModelCall, ModelClient, ModelError, OnText, OnUse, Turn
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.planner.validators import validator_of
from wavewright.prompts import PromptError, Prompts
from wavewright.tools.workers.answers import TRUNCATED_FAULT, is_short_refusal, read_answer
from wavewright.tools.workers.specs import AnswerRefused

MAX_FAULTS = 20
"""Faults that a model is told of at once."""

Accept = Callable[[Json, bool], JsonObject]
"""(answer, whether it is the last one) → output; raises `AnswerRefused`."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a conversation ends, whatever has been said by then."""

    seconds: float
    at: float
    """On the monotonic clock."""

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the end that comes after so many seconds."""
        return cls(seconds, time.monotonic() + seconds)

    @property
    def seconds_left(self) -> float:
        """Seconds until then; zero afterwards."""
        return max(0.0, self.at - time.monotonic())


@dataclass(slots=True)
class WorkerConversation:
    """Asks a model until its answer is accepted."""

    models: ModelClient
    prompts: Prompts
    accept: Accept
    max_answers: int
    """How many are asked for at most."""
    on_use: OnUse
    on_text: OnText | None = None
    model_answers: list[ModelAnswer] = field(default_factory=list[ModelAnswer])
    """Every answer, oldest first."""
    error: ModelError | None = None
    """Why the model gave no answer, where it gave none."""

    async def run(self, call: ModelCall, ending: Deadline) -> JsonObject | FallbackFailure:
        """Return what the first accepted answer gives, or why none was."""
        turns = list(call.turns)
        reason = ""
        for turn in range(self.max_answers):
            if not ending.seconds_left:
                return FallbackFailure(
                    f"no usable answer within {ending.seconds:.0f} s; {reason}".rstrip("; ")
                )
            answer = await self._ask(call, turns, ending)
            if answer is None:
                return FallbackFailure(str(self.error))
            outcome = self._accept_answer(answer, call.schema, is_last=turn == self.max_answers - 1)
            if not isinstance(outcome, _Rejection):
                return outcome
            reason = "; ".join(outcome.reasons[:3])
            if outcome.is_final:
                break
            try:
                turns.append(Turn(answer.text or "(nothing)", self._reply(outcome, call.schema)))
            except PromptError as error:
                return FallbackFailure(str(error))
        return FallbackFailure(reason)

    async def _ask(self, call: ModelCall, turns: list[Turn], ending: Deadline) -> ModelAnswer | None:
        asked = replace(call, turns=tuple(turns), timeout=ending.seconds_left)
        try:
            answer = await self.models.ask(asked, on_use=self.on_use, on_text=self.on_text)
        except ModelError as error:
            self.error = error
            return None
        self.model_answers.append(answer)
        return answer

    def _accept_answer(
        self, answer: ModelAnswer, schema: JsonSchema | None, *, is_last: bool
    ) -> JsonObject | _Rejection:
        if schema is None:
            return self._accept_text(answer, is_last=is_last)
        reading = read_answer(answer)
        if not reading.is_whole:
            fits = any(not misfit_texts(value, schema) for value in reading.values)
            is_final = reading.is_refusal or (fits and not answer.is_truncated)
            return _Rejection((reading.fault,), is_final=is_final)
        (value,) = reading.values
        faults = misfit_texts(value, schema)
        return _Rejection(faults) if faults else self._accept_value(value, is_last=is_last)

    def _accept_text(self, answer: ModelAnswer, *, is_last: bool) -> JsonObject | _Rejection:
        text = answer.text.strip()
        if not text:
            return _Rejection(("your answer is empty",))
        if answer.is_truncated:
            return _Rejection((TRUNCATED_FAULT,))
        if is_short_refusal(text):
            return _Rejection(("the model declined",), is_final=True)
        return self._accept_value(text, is_last=is_last)

    def _accept_value(self, value: Json, *, is_last: bool) -> JsonObject | _Rejection:
        try:
            return self.accept(value, is_last)
        except AnswerRefused as refused:
            return _Rejection(refused.faults)

    def _reply(self, faults: _Rejection, schema: JsonSchema | None) -> str:
        return self.prompts.render(
            "workers/repair", faults=faults.reasons[:MAX_FAULTS], answers_in_json=schema is not None
        )


@dataclass(frozen=True, slots=True)
class _Rejection:
    """Why an answer is not taken."""

    reasons: tuple[str, ...]
    is_final: bool = False
    """Whether asking again is of no use: it declines, or what was asked for stands among its words."""


def misfit_texts(value: Json, schema: JsonSchema) -> tuple[str, ...]:
    """Return what is wrong with a value, a sentence a fault; nothing where it fits."""
    return tuple(
        f"at {misfit.pointer} it {misfit.message}" if misfit.pointer else f"it {misfit.message}"
        for misfit in validator_of(schema).violations(value)
    )
