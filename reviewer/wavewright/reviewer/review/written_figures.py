"""Figures and words of a result that a model's plan hands through a step: an option of a tool or the
words to a worker, which come back in its answer and stand in no data.

The checker lets a plan set options and write prompts. Only the run shows that a figure of the
result, or a whole text of it, is one of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.language.plan import Step
from wavewright.planner.plans.figures import figures_in, is_telling, numbers_in
from wavewright.planner.plans.provenance import PlanProvenance
from wavewright.planner.plans.step_types import answer_types
from wavewright.planner.types import Json, JsonSchema, StepId, as_list, as_object
from wavewright.reviewer.review.results import ReviewedRun

_MIN_WORDS: Final = 3
_WORDS: Final = re.compile(r"\w+")


def written_figures(
    run: ReviewedRun, provenance: PlanProvenance, value: Json, authored: Collection[StepId]
) -> frozenset[str]:
    """Return the figures of a value that stand in the parameters of the steps that a model has
    written, and in nothing that was fetched or asked for, with the texts that it has dictated.

    Args:
        run: The run.
        provenance: Where the values of its plan come from.
        value: A field of its result.
        authored: The steps that a model has written.
    """
    steps = [step for step in run.plan.steps if step.id in authored]
    fetched = [
        run.state.steps[step.id].output
        for step in run.plan.steps
        if provenance.only_fetches(step) and step.id in run.state.steps
    ]
    evidence: list[Json] = [run.goal.text, dict(run.goal.inputs), *fetched]
    figures = _repeated_figures(value, steps, provenance, evidence)
    return frozenset({*figures, *_dictated_words(value, steps, run, provenance, evidence)})


def told_answers(
    run: ReviewedRun, provenance: PlanProvenance, value: Json, authored: Collection[StepId]
) -> frozenset[str]:
    """Return the answers in a value that a model was told rather than asked for: a number that its
    words name and no data holds, or the only one of several choices that they name.

    A small number may be there by chance, so it is shown and caps the field, and nothing more.
    """
    steps = [step for step in run.plan.steps if step.id in authored and provenance.asks_model(step)]
    if not steps:
        return frozenset()
    known: list[Json] = [run.goal.text, dict(run.goal.inputs)]
    known += [
        run.state.steps[step.id].output
        for step in run.plan.steps
        if provenance.only_fetches(step) and step.id in run.state.steps
    ]
    answers = {*numbers_in(value)} - {figure for each in known for figure in figures_in(each)}
    texts = {_plain(text) for _, text in iterate_strings(value)}
    found = set[str]()
    for step in steps:
        words = " ".join(text for _, text in iterate_strings(dict(step.params)))
        found |= {
            f"{figure:g} in the words of {step.id}" for figure in answers & {*figures_in(words)}
        }
        for choices in _enums(step, run):
            named = [choice for choice in choices if re.search(rf"\b{choice}\b", _plain(words))]
            if len(named) == 1 and named[0] in texts:
                found.add(f"{named[0]!r}, alone in the words of {step.id}")
    return frozenset(found)


def option_words(
    run: ReviewedRun, provenance: PlanProvenance, value: Json, authored: Collection[StepId]
) -> frozenset[str]:
    """Return the words in a value that a model gave to a computing step as an option."""
    said = f" {_plain(run.goal.text)} "
    texts = [f" {_plain(text)} " for _, text in iterate_strings(value)]
    options = {
        text
        for step in run.plan.steps
        if step.id in authored and provenance.computes(step)
        for text in step.params.values()
        if isinstance(text, str) and "${" not in text and _plain(text)
    }
    return frozenset(
        text
        for text in options
        if f" {_plain(text)} " not in said and any(f" {_plain(text)} " in each for each in texts)
    )


def _enums(step: Step, run: ReviewedRun) -> Iterator[list[str]]:
    """Yield the choices among which a model answers in a step."""
    tool = run.tools.get(step.tool)
    schemas = [schema for _, schema in answer_types(step, run.tools)]
    for schema in (*schemas, *([] if tool is None else [tool.output_schema])):
        for part in (schema, *as_object(schema.get("properties")).values()):
            choices = [
                _plain(text)
                for text in as_list(as_object(part).get("enum"))
                if isinstance(text, str)
            ]
            if len(choices) > 1:
                yield choices


def _repeated_figures(
    value: Json, steps: Sequence[Step], provenance: PlanProvenance, evidence: Sequence[Json]
) -> Iterator[str]:
    """Yield the figures of a value that stand in the parameters of steps, and in no evidence."""
    candidates = {figure for figure in figures_in(value) if is_telling(figure)}
    for step in steps if candidates else ():
        for sentence in _sentences(step.params) if provenance.only_fetches(step) else ():
            if sentence in str(value):
                yield from (f"{figure:g}" for figure in candidates & {*figures_in(sentence)})
    others = [step for step in steps if not provenance.only_fetches(step)]
    candidates &= {figure for step in others for figure in figures_in(step.params)}
    for known in evidence if candidates else ():
        candidates -= {*figures_in(known)}
    yield from (f"{figure:g}" for figure in candidates)


def _dictated_words(
    value: Json,
    steps: Sequence[Step],
    run: ReviewedRun,
    provenance: PlanProvenance,
    evidence: Sequence[Json],
) -> Iterator[str]:
    """Yield the texts of several words that a plan has put into a model's mouth: a part of the words
    that the model was asked with, no choice among several, and in no evidence.
    """
    answers = {_plain(text) for _, text in iterate_strings(value, "")}
    said = {text for text in answers if text.count(" ") >= _MIN_WORDS - 1}
    asked = [step for step in steps if provenance.asks_model(step)] if said else []
    words = [
        _plain(text) for step in asked for text in step.params.values() if isinstance(text, str)
    ]
    dictated = {text for text in said if any(text in prompt for prompt in words)}
    for step in asked if dictated else ():
        for _, schema in answer_types(step, run.tools):
            dictated -= {_plain(choice) for choice in _choices(schema)}
    for known in evidence if dictated else ():
        shown = [_plain(text) for _, text in iterate_strings(known, "")]
        dictated = {text for text in dictated if not any(text in other for other in shown)}
    yield from dictated


def _plain(text: str) -> str:
    """Return the words of a text, without marks and capitals."""
    return " ".join(_WORDS.findall(text.casefold()))


def _choices(schema: JsonSchema) -> Iterator[str]:
    """Yield the texts among which an answer is chosen."""
    choices = as_list(schema.get("enum"))
    if len(choices) > 1:
        yield from (choice for choice in choices if isinstance(choice, str))
    parts = [*as_object(schema.get("properties")).values(), schema.get("items")]
    for part in (*parts, *as_list(schema.get("anyOf")), *as_list(schema.get("oneOf"))):
        if isinstance(part, dict):
            yield from _choices(part)


def _sentences(params: Mapping[str, Json]) -> Iterator[str]:
    """Yield the texts of several words that a plan gives a tool that fetches data. Such a tool may
    repeat a code or a day that it was asked for, but no sentence is data of it.
    """
    for _, text in iterate_strings(dict(params), ""):
        if "${" not in text and len(text.split()) >= _MIN_WORDS:
            yield text
