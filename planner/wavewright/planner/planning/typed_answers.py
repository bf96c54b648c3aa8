"""Read a typed answer of a model: the one JSON value that it is, and how it fits what was asked for.

An answer is *whole* if it is one JSON value with nothing but a code fence and the model's reasoning
around it. A value that is truncated or ambiguous is never taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from wavewright.config.sources import ReadLimits
from wavewright.planner.planning.goal_schema import without_absent_members
from wavewright.planner.planning.non_plan_answers import is_refusal_prose
from wavewright.planner.ports.model_port import ModelAnswer
from wavewright.planner.reading.json_extraction import (
    THOUGHT_FIELDS,
    FoundJson,
    FoundValue,
    find_json,
    wrapped_values,
)
from wavewright.planner.reading.thinking import THINKING_BEGINS, THINKING_ENDS, end_of_thinking
from wavewright.planner.schemas.validation import validator_of
from wavewright.planner.types import Json, JsonSchema, properties_of

READ_LIMITS = ReadLimits(max_bytes=4 * 2**20, max_depth=64)
_WRAPPING = re.compile(
    rf"{THINKING_BEGINS}.*?{THINKING_ENDS}|```[A-Za-z0-9_-]{{0,20}}|\s+", re.DOTALL | re.IGNORECASE
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
    named = properties_of(schema)
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


def _stands_alone(text: str, found: FoundValue) -> bool:
    return not _WRAPPING.sub(
        "", text[end_of_thinking(text) : found.span.start]
    ) and not _WRAPPING.sub("", text[found.span.end :])


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
