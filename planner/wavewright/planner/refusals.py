"""Answers of a planner that are no plan, and are not meant to be one.

A planner may say that it cannot plan, and it may ask the user; a model may also *refuse* in words. None of these is
a fault to be repaired: asking again for what was refused costs money and gives the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wavewright.config.documents import DocumentError, Source
from wavewright.config.nodes import plain
from wavewright.planner.answers import take_apart
from wavewright.planner.json_in_text import json_in_text
from wavewright.planner.plan_nodes import refusal_of, unwrap
from wavewright.planner.planned import UserQuestion
from wavewright.planner.reader import MODEL_LIMITS
from wavewright.planner.types import Json

__all__ = ["CannotPlan", "is_all_words", "read_refusal", "refuses_in_words"]

_LONGEST = 2000
_MOST_OPTIONS = 20
_LONGEST_OPTION = 200
_REFUSING = re.compile(
    r"\b(?:I|we)(?: am|'m| are|'re)? (?:sorry|afraid)\b"
    r"|\bI (?:really |simply )?(?:can(?:no|')?t|can not|won't|will not|am unable|am not able)\b"
    r"|\bI'm (?:unable|not able|not going to)\b|\bunable to (?:help|assist|comply)\b"
    r"|\bas an? (?:AI|language model)\b|\bagainst (?:my|our) (?:policy|policies|guidelines)\b",
    re.IGNORECASE,
)
_LONGEST_TALK = 20_000


@dataclass(frozen=True, slots=True)
class CannotPlan:
    """The planner says that the goal cannot be reached, and why."""

    reason: str


def read_refusal(source: Source) -> CannotPlan | UserQuestion | None:
    """Return what a planner says instead of a plan, where the tolerant reader found that it does (`E121`).

    A question without words is none: nothing is returned, and the planner is asked again.
    """
    try:
        answer = take_apart(source, MODEL_LIMITS.max_depth)
        found = [unwrap(find.node, source, MODEL_LIMITS.max_depth) for find in answer.finds]
    except DocumentError:
        return None
    for unwrapped in found:
        key = None if unwrapped is None else refusal_of(unwrapped.node)
        if unwrapped is None or key is None:
            continue
        said = plain(unwrapped.node.members[key].node)
        return _question(said) if key == "ask" else CannotPlan(_words(said) or "it gave no reason")
    return None


def is_all_words(text: str) -> bool:
    """Whether an answer is not empty and has nothing of JSON in it; a very long one is not looked at."""
    return len(text) <= _LONGEST_TALK and json_in_text(text).is_all_words


def refuses_in_words(text: str) -> bool:
    """Whether the words of an answer decline; whether it is all words is for the caller to know."""
    return _REFUSING.search(text.replace("\u2019", "'")) is not None


def _question(said: Json) -> UserQuestion | None:
    if not isinstance(said, dict):
        words = _words(said)
        return UserQuestion(words) if words else None
    words = _words(said.get("question"))
    options = said.get("options")
    listed = options if isinstance(options, list) else []
    shown = [_words(option)[:_LONGEST_OPTION] for option in listed[:_MOST_OPTIONS]]
    return UserQuestion(words, tuple(dict.fromkeys(filter(None, shown)))) if words else None


def _words(said: Json) -> str:
    if isinstance(said, bool) or not isinstance(said, str | int | float):
        return ""
    return str(said).strip()[:_LONGEST]
