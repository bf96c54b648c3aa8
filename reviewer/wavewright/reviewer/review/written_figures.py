"""Figures of a result that a model's plan hands through a step: an option of a tool or the words to a
worker, which come back in its answer and stand in no data.

The checker lets a plan set options and write prompts. Only the run shows that a figure of the
result is one of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.plans.provenance import PlanProvenance
from wavewright.planner.types import Json, StepId
from wavewright.reviewer.review.results import ReviewedRun

_FIGURE: Final = re.compile(r"(?<![\w.])-?\d[\d,]*(?:\.\d+)?(?![\w])")
_MIN_DIGITS: Final = 3
"""Significant digits of a figure that is taken for the same one elsewhere."""
_MIN_WORDS: Final = 3
_YEARS: Final = range(1900, 2101)


def written_figures(
    run: ReviewedRun, provenance: PlanProvenance, value: Json, authored: Collection[StepId]
) -> frozenset[str]:
    """Return the figures of a value that stand in the parameters of the steps that a model has
    written, and in nothing that was fetched or asked for.

    Args:
        run: The run.
        provenance: Where the values of its plan come from.
        value: A field of its result.
        authored: The steps that a model has written.
    """
    candidates = {figure for figure in _figures(value) if _is_telling(figure)}
    if not candidates:
        return frozenset()
    steps = [step for step in run.plan.steps if step.id in authored]
    others = [step for step in steps if not provenance.only_fetches(step)]
    written = {figure for step in others for figure in _figures(step.params)}
    repeated = {
        f"{figure:g}"
        for step in steps
        if provenance.only_fetches(step)
        for sentence in _sentences(step.params)
        if sentence in str(value)
        for figure in candidates.intersection(_figures(sentence))
    }
    candidates &= written
    if not candidates:
        return frozenset(repeated)
    asked: list[Json] = [run.goal.text, dict(run.goal.inputs)]
    fetched = (
        run.state.steps[step.id].output
        for step in run.plan.steps
        if provenance.only_fetches(step) and step.id in run.state.steps
    )
    for evidence in (*asked, *fetched):
        candidates -= set(_figures(evidence))
    return frozenset({f"{figure:g}" for figure in candidates} | repeated)


def _sentences(params: Mapping[str, Json]) -> Iterator[str]:
    """Yield the texts of several words that a plan gives a tool that fetches data. Such a tool may
    repeat a code or a day that it was asked for, but no sentence is data of it.
    """
    for _, text in iterate_strings(dict(params), ""):
        if "${" not in text and len(text.split()) >= _MIN_WORDS:
            yield text


def _figures(value: Json) -> Iterator[float]:
    """Yield the numbers in a value and in its texts; a year in a text is none."""
    match value:
        case bool() | None:
            return
        case int() | float():
            yield float(value)
        case str():
            for written in _FIGURE.findall(value):
                figure = float(written.replace(",", ""))
                if figure not in _YEARS:
                    yield figure
        case list():
            for entry in value:
                yield from _figures(entry)
        case dict():
            for entry in value.values():
                yield from _figures(entry)


def _is_telling(figure: float) -> bool:
    """Whether a figure is hardly there by chance, as 1234.5 is and 100 or 30 are not."""
    digits = f"{abs(figure):.12g}".replace(".", "").strip("0")
    return len(digits) >= _MIN_DIGITS
