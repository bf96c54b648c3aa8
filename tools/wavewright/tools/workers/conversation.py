"""Ask a model one question, and repair its answer.

A *conversation* is bounded by its number of repair rounds and by its timeout. All answers are kept:
one that no round could repair may still contain the result.

An answer is *whole* if it is one JSON value with nothing but a code fence and the model's reasoning
around it. A value that is truncated or ambiguous is never taken.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from wavewright.config.sources import ReadLimits
from wavewright.planner.planning.non_plan_answers import is_refusal_prose
from wavewright.planner.ports.fallback_ladder import FallbackFailure
from wavewright.planner.ports.model_port import (
    ModelAnswer,
    ModelCall,
    ModelClient,
    ModelError,
    OnText,
    OnUse,
    Turn,
)
from wavewright.planner.reading.json_extraction import (
    FoundJson,
    FoundValue,
    find_json,
    wrapped_values,
)
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema
from wavewright.prompts import PromptError, Prompts
from wavewright.tools.workers.specs import AnswerRefused

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

Accept = Callable[[Json, bool], JsonObject]
"""(answer, whether it is the last one) → output; raises `AnswerRefused`."""


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
        # Values may still stand among the words of an answer; where words were asked for, none do.
        is_outage = call.schema is None
        for turn in range(self.max_answers):
            if not ending.seconds_left:
                return FallbackFailure(
                    f"no usable answer within {ending.seconds:.0f} s; {reason}".rstrip("; "),
                    is_outage=is_outage,
                )
            answer = await self._ask(call, turns, ending)
            if answer is None:
                return FallbackFailure(str(self.error), is_outage=True)
            outcome = self._accept_answer(answer, call.schema, is_last=turn == self.max_answers - 1)
            if not isinstance(outcome, _Rejection):
                return outcome
            reason = "; ".join(outcome.reasons[:3])
            if outcome.is_final:
                break
            try:
                reply = self.prompts.render(
                    "workers/repair",
                    faults=outcome.reasons[:MAX_FAULTS],
                    answers_in_json=call.schema is not None,
                )
            except PromptError as error:
                return FallbackFailure(str(error))
            turns.append(Turn(answer.text or "(nothing)", reply))
        return FallbackFailure(reason, is_outage=is_outage)

    async def _ask(
        self, call: ModelCall, turns: list[Turn], ending: Deadline
    ) -> ModelAnswer | None:
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
            fits = any(not fitting(value, schema).faults for value in reading.values)
            is_final = reading.is_refusal or (fits and not answer.is_truncated)
            return _Rejection((reading.fault,), is_final=is_final)
        (value,) = reading.values
        value, faults = fitting(value, schema)
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


@dataclass(frozen=True, slots=True)
class _Rejection:
    """Why an answer is not taken."""

    reasons: tuple[str, ...]
    is_final: bool = False
    """Whether asking again is of no use: it declines, or what was asked for stands among its words.
    """


class Fitting(NamedTuple):
    """A value of an answer, held against the schema that was asked for."""

    value: Json
    faults: tuple[str, ...]
    """What is wrong with it; nothing where it fits."""


def fitting(value: Json, schema: JsonSchema) -> Fitting:
    """Return a value, or what it wraps (`{"answer": …}`) where that fits and the value does not."""
    faults = misfit_texts(value, schema)
    for inner in wrapped_values(value) if faults else ():
        if not misfit_texts(inner, schema):
            return Fitting(inner, ())
    return Fitting(value, faults)


def misfit_texts(value: Json, schema: JsonSchema) -> tuple[str, ...]:
    """Return what is wrong with a value, a sentence a fault; nothing where it fits."""
    return tuple(
        f"at {misfit.pointer} it {misfit.message}" if misfit.pointer else f"it {misfit.message}"
        for misfit in validator_of(schema).violations(value)
    )
