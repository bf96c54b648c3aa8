"""Ask a model for the output of a worker or an agent, until its answer can be used."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from wavewright.planner import Asking, FallbackFailure, Json, JsonObject, JsonSchema, ModelAnswer
from wavewright.planner.planning.non_plan_answers import is_refusal_prose
from wavewright.planner.planning.typed_answers import (
    TRUNCATED_FAULT,
    fitting,
    read_answer as read_answer,  # noqa: PLC0414 - for `suggest`
)
from wavewright.planner.ports.asking import AnswerRefused
from wavewright.planner.ports.conversation import Conversation, FittingAnswer
from wavewright.planner.ports.model_port import ModelCall, ModelError
from wavewright.prompts import PromptError

_MAX_REFUSAL_CHARS = 400
MAX_FAULTS = 20
"""Faults that one reply to a model lists."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """When a conversation ends, whatever has been said by then."""

    seconds: float
    """From `begun` to the end."""
    begun: float = field(default_factory=time.monotonic)
    """On the monotonic clock."""

    @property
    def seconds_left(self) -> float:
        """Seconds until then; zero afterwards."""
        return max(0.0, self.begun + self.seconds - time.monotonic())


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """What came of a question of a worker or an agent."""

    outcome: JsonObject | FallbackFailure
    answers: Sequence[ModelAnswer]
    """Every answer, oldest first: one that could not be used may still hold the result."""


async def ask_worker(
    asking: Asking,
    call: ModelCall,
    finish: Callable[[Json, int], JsonObject],
    *,
    ending: Deadline,
    tries: int,
) -> WorkerReply:
    """Ask for a value of the call's schema, or for words, until it can be finished.

    `finish` makes the output of a value, given how many tries are left; it raises `AnswerRefused`.
    """

    def read(answer: ModelAnswer, tries_left: int) -> JsonObject:
        return finish(usable_value(answer, call.schema), tries_left)

    def reply(_answer: ModelAnswer, refused: AnswerRefused) -> str:
        return asking.prompts.render(
            "workers/repair",
            faults=refused.faults[:MAX_FAULTS],
            answers_in_json=call.schema is not None,
        )

    conversation = Conversation(asking, replace(call, timeout=ending.seconds_left), read, reply)
    try:
        answer = await conversation.ask_all(tries)
    except ModelError as error:
        return _without_answer(error, conversation.answers)
    except PromptError as error:
        return WorkerReply(FallbackFailure(str(error)), conversation.answers)
    if isinstance(answer, FittingAnswer):
        return WorkerReply(answer.value, conversation.answers)
    if isinstance(answer.cause, ModelError):
        return _without_answer(answer.cause, conversation.answers)
    if isinstance(answer.cause, _Declined):
        # In words it is what a provider's filter is: no answer.
        return _without_answer(ModelError("refused", str(answer.cause)), conversation.answers)
    reason = "; ".join(answer.faults[:3])
    if answer.cause is None:
        reason = f"no usable answer within {ending.seconds:.0f} s; {reason}"
    # Values may still stand among the words of an answer; where words were asked for, none do.
    failure = FallbackFailure(reason, is_outage=call.schema is None)
    return WorkerReply(failure, conversation.answers)


class _Declined(AnswerRefused):
    """The model declines in words; asked again, it would decline again."""

    def __init__(self) -> None:
        super().__init__(["the model declined"], then="next_model")


def _without_answer(error: ModelError, answers: Sequence[ModelAnswer]) -> WorkerReply:
    return WorkerReply(FallbackFailure(str(error), is_outage=True, error=error), answers)


def usable_value(answer: ModelAnswer, schema: JsonSchema | None) -> Json:
    """Return the value of an answer that fits a schema, or its words where there is none.

    Raises:
        AnswerRefused: it holds none, or not alone.
    """
    if schema is None:
        return _usable_text(answer)
    reading = read_answer(answer)
    if reading.is_whole:
        value, faults = fitting(reading.values[0], schema)
        if faults:
            raise AnswerRefused(faults)
        return value
    if reading.is_refusal:
        raise _Declined
    fits = any(not fitting(value, schema).faults for value in reading.values)
    # What was asked for stands among its words: the next rung takes it, and nobody is asked again.
    raise AnswerRefused(
        [reading.fault], then="end" if fits and not answer.is_truncated else "repair"
    )


def _usable_text(answer: ModelAnswer) -> str:
    text = answer.text.strip()
    if not text:
        raise AnswerRefused(["your answer is empty"])
    if answer.is_truncated:
        raise AnswerRefused([TRUNCATED_FAULT])
    if is_short_refusal(text):
        raise _Declined
    return text


def is_short_refusal(text: str) -> bool:
    """Whether an answer that should be a text is a short refusal instead."""
    return len(text) <= _MAX_REFUSAL_CHARS and is_refusal_prose(text)
