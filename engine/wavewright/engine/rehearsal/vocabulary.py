"""What a plan's own words give a search for outputs.

A condition such as `output.frequency != "daily"` turns on a text that no generator would hit by chance. The
*vocabulary* of a plan is every text and number that stands in its expressions, and every age that its gates allow.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass

from wavewright.planner.embedded import iterate_strings
from wavewright.planner.models import Plan

_TEXT = re.compile(r"\"([^\"\\]{0,60})\"|'([^'\\]{0,60})'")
_NUMBER = re.compile(r"(?<![\w.])\d{1,9}(?:\.\d{1,6})?(?![\w.])")
_AGES = (3600.0, 2 * 86400.0, 40 * 86400.0, 400 * 86400.0, -2 * 86400.0)
_MAX_LIST_SIZE = 400
"""Entries that a list is given because an expression names the number."""


@dataclass(frozen=True, slots=True)
class PlanVocabulary:
    """Texts, numbers and ages worth a try."""

    now: dt.datetime
    texts: tuple[str, ...] = ()
    numbers: tuple[int | float, ...] = ()
    sizes: tuple[int, ...] = (3,)
    """Of lists, beside the small ones."""
    ages: tuple[float, ...] = _AGES
    """In seconds before `now`; below zero, after it."""


def vocabulary_of(plan: Plan, now: dt.datetime) -> PlanVocabulary:
    """Return the vocabulary of a (bound) plan."""
    expressions = list(_expressions(plan))
    texts = [one or other for text in expressions for one, other in _TEXT.findall(text)]
    bare = [_TEXT.sub(" ", text) for text in expressions]
    numbers = [_number(found) for text in bare for found in _NUMBER.findall(text)]
    around = dict.fromkeys(near for number in numbers for near in (number, number + 1, number - 1))
    sizes = [number for number in around if isinstance(number, int) and 0 <= number <= _MAX_LIST_SIZE]
    allowed = [gate.fresh_within for gate in plan.gates if gate.fresh_within is not None]
    return PlanVocabulary(
        now=now,
        texts=tuple(dict.fromkeys(texts)),
        numbers=tuple(around),
        sizes=tuple(dict.fromkeys((3, *sizes))),
        ages=(*_AGES, *(seconds * share for seconds in allowed for share in (0.5, 2.0))),
    )


def _expressions(plan: Plan) -> Iterator[str]:
    for step in plan.steps:
        if step.when is not None:
            yield step.when
        for value in (step.for_each, step.params, plan.result):
            yield from (text for _, text in iterate_strings(value) if "${" in text)
    yield from (gate.check for gate in plan.gates if gate.check is not None)
    yield from (cap.when for cap in plan.caps)


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)
