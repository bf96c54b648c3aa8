"""Ask a model for the output of a worker or an agent, and read its answer.

An answer is *whole* if it is one JSON value with nothing but a code fence and the model's reasoning
around it. A value that is truncated or ambiguous is never taken.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from wavewright.config.sources import ReadLimits
from wavewright.planner.planning.goal_schema import without_absent_members
from wavewright.planner.planning.non_plan_answers import is_refusal_prose
from wavewright.planner.ports.asking import AnswerRefused, Asking
from wavewright.planner.ports.conversation import Conversation, FittingAnswer
from wavewright.planner.ports.fallback_ladder import FallbackFailure
from wavewright.planner.ports.model_port import ModelAnswer, ModelCall, ModelError
from wavewright.planner.reading.json_extraction import (
    THOUGHT_FIELDS,
    FoundJson,
    FoundValue,
    find_json,
    wrapped_values,
)
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema, as_object
from wavewright.prompts import PromptError

READ_LIMITS = ReadLimits(max_bytes=4 * 2**20, max_depth=64)
_MAX_REFUSAL_CHARS = 400
_WRAPPING = re.compile(
    r"<think\b[^<>]{0,80}>.*?</think\s{0,80}>|```[A-Za-z0-9_-]{0,20}|\s+", re.DOTALL | re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """What was found in an answer."""

    values: tuple[Json, ...] = ()
    """Every value that could be read for certain, in the order of the text."""
    is_whole: bool = False
    """Whether the one value is the whole answer."""
    fault: str = ""
    """What is wrong with the answer, for the model; empty where it is whole."""
    is_refusal: bool = False
    """Whether it declines in words: then asking again gives the same."""


def read_answer(answer: ModelAnswer) -> ParsedAnswer:
    """Return the JSON of an answer, of its words and of the arguments of tools that it called
    instead.

    >>> from wavewright.planner.ports.model_port import ModelAnswer, ModelUse
    >>> from wavewright.tools import read_answer
    >>> use = ModelUse("worker", "severity", "a:model", "ok", input_tokens=10, output_tokens=4)
    >>> read_answer(ModelAnswer('{"severity": "high"}', use)).values
    ({'severity': 'high'},)
    """
    reading = read_text(answer.text)
    if answer.is_truncated:
        return ParsedAnswer(reading.values, fault=TRUNCATED_FAULT)
    if reading.values or not answer.calls:
        return reading
    found = [value for call in answer.calls for value in read_text(call.arguments).values]
    return ParsedAnswer(tuple(found), fault="you called a tool: answer with JSON instead")


def read_text(text: str) -> ParsedAnswer:
    """Return the JSON of a text."""
    if not text.strip():
        return ParsedAnswer(fault="your answer is empty")
    found = find_json(text, "your answer", limits=READ_LIMITS)
    certain = [value for value in found.values if value.is_certain and not value.is_inside_broken]
    values = tuple(value.value for value in certain)
    if found.unreadable or len(certain) != len(found.values):
        return ParsedAnswer(values, fault=_reading_fault(found))
    if len(certain) == 1 and _stands_alone(text, certain[0]):
        return ParsedAnswer(values, is_whole=True)
    if values:
        return ParsedAnswer(
            values, fault=_PROSE_FAULT if len(values) == 1 else _SEVERAL_VALUES_FAULT
        )
    return ParsedAnswer(fault="your answer holds no JSON", is_refusal=is_refusal_prose(text))


def is_short_refusal(text: str) -> bool:
    """Whether an answer that should be a text is a short refusal instead."""
    return len(text) <= _MAX_REFUSAL_CHARS and is_refusal_prose(text)


def _stands_alone(text: str, found: FoundValue) -> bool:
    return not _WRAPPING.sub("", text[: found.span.start]) and not _WRAPPING.sub(
        "", text[found.span.end :]
    )


def _reading_fault(found: FoundJson) -> str:
    if not found.unreadable:
        return "the JSON of your answer is not closed, or has a key twice"
    fault = found.unreadable[0]
    line = (
        ""
        if fault.span is None
        else f" (line {found.source.position(fault.span.start)[0]} of your answer)"
    )
    return f"{fault.message}{line}"


TRUNCATED_FAULT = "your answer was cut off at its greatest length: answer again, shorter"
_PROSE_FAULT = "there are words around the JSON: answer with the JSON and nothing else"
_SEVERAL_VALUES_FAULT = "your answer holds several JSON values: answer with one, and nothing else"


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


class Fitting(NamedTuple):
    """A value of an answer, held against the schema that was asked for."""

    value: Json
    faults: tuple[str, ...]
    """What is wrong with it; nothing where it fits."""


def fitting(value: Json, schema: JsonSchema) -> Fitting:
    """Return a value, or what it stands for where that fits and the value does not: the same
    without nulls for members that are absent, which a strict provider makes a model name, and
    without thoughts beside it, or what it wraps (`{"answer": …}`).
    """
    faults = misfit_texts(value, schema)
    if not faults:
        return Fitting(value, ())
    for meant in wrapped_values(value):
        present = without_absent_members(_without_thoughts(meant, schema), schema)
        if not misfit_texts(present, schema):
            return Fitting(present, ())
    return Fitting(value, faults)


def _without_thoughts(value: Json, schema: JsonSchema) -> Json:
    """Return an object without the fields for thoughts that its schema does not name."""
    named = as_object(schema.get("properties"))
    if not named or not isinstance(value, dict):
        return value
    thoughts = {name for name in value if name.lower() in THOUGHT_FIELDS} - named.keys()
    return {name: part for name, part in value.items() if name not in thoughts}


def misfit_texts(
    value: Json, schema: JsonSchema, *, checks_formats: bool = False
) -> tuple[str, ...]:
    """Return what is wrong with a value, a sentence a fault; nothing where it fits."""
    return tuple(
        f"at {misfit.pointer} it {misfit.message}" if misfit.pointer else f"it {misfit.message}"
        for misfit in validator_of(schema, checks_formats=checks_formats).violations(value)
    )
