"""Answers of a planner that are no plan, and are not meant to be one.

A planner may say that it cannot plan, and it may ask the user; a model may also *refuse* in words. None of these is
a fault to be repaired: asking again for what was refused costs money and gives the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wavewright.config.documents import DocumentError, Source
from wavewright.config.nodes import plain_value
from wavewright.planner.answers import parse_answer
from wavewright.planner.json_in_text import find_json
from wavewright.planner.plan_nodes import refusal_field, unwrap
from wavewright.planner.planned import UserQuestion
from wavewright.planner.reader import MODEL_LIMITS
from wavewright.planner.types import Json

__all__ = ["CannotPlan", "is_prose", "is_refusal_prose", "read_refusal"]

_MAX_REASON_LENGTH = 2000
_MAX_OPTIONS = 20
_MAX_OPTION_LENGTH = 200
_REFUSAL_PATTERN = re.compile(
    r"\b(?:I|we)(?: am|'m| are|'re)? (?:sorry|afraid)\b"
    r"|\bI (?:really |simply )?(?:can(?:no|')?t|can not|won't|will not|am unable|am not able)\b"
    r"|\bI'm (?:unable|not able|not going to)\b|\bunable to (?:help|assist|comply)\b"
    r"|\bas an? (?:AI|language model)\b|\bagainst (?:my|our) (?:policy|policies|guidelines)\b",
    re.IGNORECASE,
)
_MAX_PROSE_LENGTH = 20_000


@dataclass(frozen=True, slots=True)
class CannotPlan:
    """The planner says that the goal cannot be reached, and why."""

    reason: str


def read_refusal(source: Source) -> CannotPlan | UserQuestion | None:
    """Return what a planner says instead of a plan, where the tolerant reader found that it does (`E121`).

    A question without words is none: nothing is returned, and the planner is asked again.
    """
    try:
        answer = parse_answer(source, MODEL_LIMITS.max_depth)
        found = [unwrap(find.node, source, MODEL_LIMITS.max_depth) for find in answer.matches]
    except DocumentError:
        return None
    for unwrapped in found:
        key = None if unwrapped is None else refusal_field(unwrapped.node)
        if unwrapped is None or key is None:
            continue
        said = plain_value(unwrapped.node.members[key].node)
        return _question(said) if key == "ask" else CannotPlan(_as_text(said) or "it gave no reason")
    return None


def is_prose(text: str) -> bool:
    """Whether an answer is not empty and has nothing of JSON in it; a very long one is not looked at."""
    return len(text) <= _MAX_PROSE_LENGTH and find_json(text).is_prose


def is_refusal_prose(text: str) -> bool:
    """Whether the words of an answer decline; whether it is all words is for the caller to know."""
    return _REFUSAL_PATTERN.search(text.replace("\u2019", "'")) is not None


def _question(said: Json) -> UserQuestion | None:
    if not isinstance(said, dict):
        words = _as_text(said)
        return UserQuestion(words) if words else None
    words = _as_text(said.get("question"))
    options = said.get("options")
    listed = options if isinstance(options, list) else []
    shown = [_as_text(option)[:_MAX_OPTION_LENGTH] for option in listed[:_MAX_OPTIONS]]
    return UserQuestion(words, tuple(dict.fromkeys(filter(None, shown)))) if words else None


def _as_text(said: Json) -> str:
    if isinstance(said, bool) or not isinstance(said, str | int | float):
        return ""
    return str(said).strip()[:_MAX_REASON_LENGTH]
