"""JSON in what a model said: the whole answer, or values among its words.

An answer is *whole* where it is one JSON value, with nothing but a code fence and the model's reasoning around it. A
value that breaks off, or that readers would not agree on, is never taken: what is left of it could mean another thing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wavewright.config.documents import ReadLimits
from wavewright.planner.json_in_text import FoundJson, FoundValue, find_json
from wavewright.planner.model_port import ModelAnswer
from wavewright.planner.refusals import is_refusal_prose
from wavewright.planner.types import Json

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
    """Return the JSON of an answer, of its words and of the arguments of tools that it called instead."""
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
    sound = [value for value in found.values if value.is_certain and not value.is_inside_broken]
    values = tuple(value.value for value in sound)
    if found.unreadable or len(sound) != len(found.values):
        return ParsedAnswer(values, fault=_reading_fault(found))
    if len(sound) == 1 and _stands_alone(text, sound[0]):
        return ParsedAnswer(values, is_whole=True)
    if values:
        return ParsedAnswer(values, fault=_PROSE_FAULT if len(values) == 1 else _SEVERAL_VALUES_FAULT)
    return ParsedAnswer(fault="your answer holds no JSON", is_refusal=is_refusal_prose(text))


def is_short_refusal(text: str) -> bool:
    """Whether an answer that should be a text is a short refusal instead."""
    return len(text) <= _MAX_REFUSAL_CHARS and is_refusal_prose(text)


def _stands_alone(text: str, found: FoundValue) -> bool:
    return not _WRAPPING.sub("", text[: found.span.start]) and not _WRAPPING.sub("", text[found.span.end :])


def _reading_fault(found: FoundJson) -> str:
    if not found.unreadable:
        return "the JSON of your answer is not closed, or has a key twice"
    fault = found.unreadable[0]
    line = (
        "" if fault.span is None else f" (line {found.source.position(fault.span.start)[0]} of your answer)"
    )
    return f"{fault.message}{line}"


TRUNCATED_FAULT = "your answer was cut off at its greatest length: answer again, shorter"
_PROSE_FAULT = "there are words around the JSON: answer with the JSON and nothing else"
_SEVERAL_VALUES_FAULT = "your answer holds several JSON values: answer with one, and nothing else"
