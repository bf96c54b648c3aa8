"""One question to a model and what follows: an answer that is accepted, or what is wrong with it and another try.

A *conversation* is bounded twice, by the number of its repair turns and by its clock. Everything that was said stays
on hand: what no turn could mend may still hold the answer among its words.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from wavewright.planner.ladder import Fallen
from wavewright.planner.model_port import ModelAnswer, ModelCall, ModelError, Models, OnText, OnUse, Turn
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.planner.validators import validator_of
from wavewright.prompts import PromptError, Prompts
from wavewright.tools.workers.answers import CUT_OFF, declines, read_answer
from wavewright.tools.workers.specs import AnswerRefused

MOST_FAULTS = 20
"""Faults that a model is told of at once."""

Accept = Callable[[Json, bool], JsonObject]
"""(answer, whether it is the last one) → output; raises `AnswerRefused`."""


@dataclass(frozen=True, slots=True)
class Ending:
    """When a conversation ends, whatever has been said by then."""

    seconds: float
    at: float
    """On the monotonic clock."""

    @classmethod
    def after(cls, seconds: float) -> Ending:
        """Return the end that comes after so many seconds."""
        return cls(seconds, time.monotonic() + seconds)

    @property
    def left(self) -> float:
        """Seconds until then; zero afterwards."""
        return max(0.0, self.at - time.monotonic())


@dataclass(slots=True)
class Conversation:
    """Asks a model until its answer is accepted."""

    models: Models
    prompts: Prompts
    accept: Accept
    answers: int
    """How many are asked for at most."""
    on_use: OnUse
    on_text: OnText | None = None
    said: list[ModelAnswer] = field(default_factory=list[ModelAnswer])
    """Every answer, oldest first."""
    error: ModelError | None = None
    """Why the model gave no answer, where it gave none."""

    async def hold(self, call: ModelCall, ending: Ending) -> JsonObject | Fallen:
        """Return what the first accepted answer gives, or why none was."""
        turns = list(call.turns)
        reason = ""
        for turn in range(self.answers):
            if not ending.left:
                return Fallen(f"no usable answer within {ending.seconds:.0f} s; {reason}".rstrip("; "))
            answer = await self._ask(call, turns, ending)
            if answer is None:
                return Fallen(str(self.error))
            outcome = self._taken(answer, call.schema, is_last=turn == self.answers - 1)
            if not isinstance(outcome, _Faults):
                return outcome
            reason = "; ".join(outcome.faults[:3])
            if outcome.is_final:
                break
            try:
                turns.append(Turn(answer.text or "(nothing)", self._reply(outcome, call.schema)))
            except PromptError as error:
                return Fallen(str(error))
        return Fallen(reason)

    async def _ask(self, call: ModelCall, turns: list[Turn], ending: Ending) -> ModelAnswer | None:
        asked = replace(call, turns=tuple(turns), timeout=ending.left)
        try:
            answer = await self.models.ask(asked, on_use=self.on_use, on_text=self.on_text)
        except ModelError as error:
            self.error = error
            return None
        self.said.append(answer)
        return answer

    def _taken(
        self, answer: ModelAnswer, schema: JsonSchema | None, *, is_last: bool
    ) -> JsonObject | _Faults:
        if schema is None:
            return self._taken_text(answer, is_last=is_last)
        reading = read_answer(answer)
        if not reading.is_whole:
            fits = any(not misfit_texts(value, schema) for value in reading.values)
            is_final = reading.is_refusal or (fits and not answer.is_truncated)
            return _Faults((reading.fault,), is_final=is_final)
        (value,) = reading.values
        faults = misfit_texts(value, schema)
        return _Faults(faults) if faults else self._accepted(value, is_last=is_last)

    def _taken_text(self, answer: ModelAnswer, *, is_last: bool) -> JsonObject | _Faults:
        text = answer.text.strip()
        if not text:
            return _Faults(("your answer is empty",))
        if answer.is_truncated:
            return _Faults((CUT_OFF,))
        if declines(text):
            return _Faults(("the model declined",), is_final=True)
        return self._accepted(text, is_last=is_last)

    def _accepted(self, value: Json, *, is_last: bool) -> JsonObject | _Faults:
        try:
            return self.accept(value, is_last)
        except AnswerRefused as refused:
            return _Faults(refused.faults)

    def _reply(self, faults: _Faults, schema: JsonSchema | None) -> str:
        return self.prompts.render(
            "workers/repair", faults=faults.faults[:MOST_FAULTS], answers_in_json=schema is not None
        )


@dataclass(frozen=True, slots=True)
class _Faults:
    """Why an answer is not taken."""

    faults: tuple[str, ...]
    is_final: bool = False
    """Whether asking again is of no use: it declines, or what was asked for stands among its words."""


def misfit_texts(value: Json, schema: JsonSchema) -> tuple[str, ...]:
    """Return what is wrong with a value, a sentence a fault; nothing where it fits."""
    return tuple(
        f"at {misfit.pointer} it {misfit.message}" if misfit.pointer else f"it {misfit.message}"
        for misfit in validator_of(schema).misfits(value)
    )
