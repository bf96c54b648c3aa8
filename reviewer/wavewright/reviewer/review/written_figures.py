"""Figures and words of a result that a model's plan hands through a step: an option of a tool or the
words to a worker, which come back in its answer and stand in no data.

The checker lets a plan set options and write prompts. Only the run shows that a figure of the
result, or a whole text of it, is one of them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import Final

from wavewright.planner import Json, JsonSchema, Step, StepId, as_list
from wavewright.planner.cel.embedded import iterate_strings
from wavewright.planner.plans.figures import figures_in, is_telling, numbers_in
from wavewright.planner.plans.provenance import PlanProvenance
from wavewright.planner.plans.step_types import answer_types
from wavewright.planner.types import properties_of
from wavewright.reviewer.review.results import ReviewedRun

_MIN_WORDS: Final = 3
_WORDS: Final = re.compile(r"\w+")


class WrittenParts:
    """What a value of the result has of the words and figures that a model wrote into steps.

    It is made once for a review and asked about each field: the data of a run may be large.
    """

    def __init__(
        self, run: ReviewedRun, provenance: PlanProvenance, authored: Collection[StepId]
    ) -> None:
        """Look at the steps `authored`, which a model has written."""
        self._run = run
        self._provenance = provenance
        self._steps = [step for step in run.plan.steps if step.id in authored]
        self._asking = [step for step in self._steps if provenance.asks_model(step)]

    def figures(self, value: Json) -> frozenset[str]:
        """Return the figures of a value that stand in the parameters of the steps, and in nothing
        that was fetched or asked for, with the texts that they have dictated.
        """
        return frozenset({*self._repeated_figures(value), *self._dictated_words(value)})

    def told_answers(self, value: Json) -> frozenset[str]:
        """Return the answers in a value that a model was told rather than asked for: a number that
        its words name and no data holds, or the only one of several choices that they name.

        A small number may be there by chance, so it is shown and caps the field, and nothing more.
        """
        texts = {_plain(text) for _, text in iterate_strings(value)}
        figures_by_step: dict[StepId, set[float]] = {}
        answers = set[str]()
        for step in self._asking:
            words = _words_of(step)
            figures_by_step[step.id] = {*numbers_in(value)} & _told_in(words)
            for choices in self._choices_of(step):
                named = [choice for choice in choices if re.search(rf"\b{choice}\b", _plain(words))]
                if len(choices) > 1 and len(named) == 1 and named[0] in texts:
                    answers.add(f"{named[0]!r}, alone in the words of {step.id}")
        unknown = self._without_evidence(set[float]().union(*figures_by_step.values()))
        for step_id, figures in figures_by_step.items():
            answers |= {f"{figure:g} in the words of {step_id}" for figure in figures & unknown}
        return frozenset(answers)

    def told_steps(self, steps: Collection[StepId]) -> frozenset[str]:
        """Return which of some steps a model has answered with nothing but figures that its words name
        and no data holds: what is made of these was told as well.
        """
        told = self._told_figures.keys() & steps
        return frozenset(f"{self._told_figures[step]} in the words of {step}" for step in told)

    @cached_property
    def _told_figures(self) -> dict[StepId, str]:
        told: dict[StepId, str] = {}
        for step in self._asking:
            answered = {*numbers_in(self._run.state.outputs().get(step.id))} - {0.0}
            if answered and answered <= self._without_evidence(_told_in(_words_of(step))):
                told[step.id] = ", ".join(f"{figure:g}" for figure in sorted(answered))
        return told

    def option_words(self, value: Json) -> frozenset[str]:
        """Return the words in a value that a model gave to a computing step as an option."""
        said = f" {_plain(self._run.goal.text)} "
        texts = [f" {_plain(text)} " for _, text in iterate_strings(value)]
        words = set[str]()
        for step in self._steps:
            if not self._provenance.computes(step):
                continue
            for _, text in iterate_strings(dict(step.params), ""):
                if "${" in text or not _plain(text):
                    continue
                word = f" {_plain(text)} "
                if word not in said and any(word in other for other in texts):
                    words.add(text)
        return frozenset(words)

    def _repeated_figures(self, value: Json) -> Iterator[str]:
        """Yield the figures of a value that stand in the parameters of steps, and in no evidence."""
        candidates = {figure for figure in figures_in(value) if is_telling(figure)}
        if not candidates:
            return
        others = set[float]()
        for step in self._steps:
            if not self._provenance.only_fetches(step):
                written = {*numbers_in(dict(step.params))} | _told_in(_words_of(step))
                others |= candidates & written
                continue
            for sentence in _sentences(step.params):
                if sentence in str(value):
                    yield from (f"{figure:g}" for figure in candidates & {*figures_in(sentence)})
        yield from (f"{figure:g}" for figure in self._without_evidence(others))

    def _dictated_words(self, value: Json) -> Iterator[str]:
        """Yield the texts of several words that a plan has put into a model's mouth: a part of the
        words that the model was asked with, no choice among several, and in no evidence.
        """
        answers = {_plain(text) for _, text in iterate_strings(value, "")}
        said = {text for text in answers if text.count(" ") >= _MIN_WORDS - 1}
        if not said or not self._asking:
            return
        prompts: list[str] = []
        for step in self._asking:
            prompts += [_plain(text) for _, text in iterate_strings(dict(step.params), "")]
        dictated = {text for text in said if any(text in prompt for prompt in prompts)}
        if not dictated:
            return
        for step in self._asking:
            for _, schema in answer_types(step, self._run.tools):
                # Between several choices the model has decided.
                dictated.difference_update(*_choices(schema))
        for text in dictated:
            if not any(text in known for known in self._evidence_texts):
                yield text

    def _choices_of(self, step: Step) -> Iterator[list[str]]:
        """Yield the choices among which a model answers in a step."""
        schemas = [schema for _, schema in answer_types(step, self._run.tools)]
        tool = self._run.tools.get(step.tool)
        if tool is not None:
            schemas.append(tool.output_schema)
        for schema in schemas:
            yield from _choices(schema)

    def _without_evidence(self, figures: set[float]) -> set[float]:
        """Return those of the figures that stand in no data, and in nothing that the job gives."""
        return figures - self._evidence_figures if figures else figures

    @cached_property
    def _evidence(self) -> list[Json]:
        """What the job gives, and the outputs of the steps that fetch data and write nothing."""
        run = self._run
        fetched = [
            run.state.steps[step.id].output
            for step in run.plan.steps
            if self._provenance.only_fetches(step) and step.id in run.state.steps
        ]
        return [*run.goal.said, *fetched]

    @cached_property
    def _evidence_figures(self) -> set[float]:
        return {figure for known in self._evidence for figure in figures_in(known)}

    @cached_property
    def _evidence_texts(self) -> list[str]:
        return [_plain(text) for known in self._evidence for _, text in iterate_strings(known, "")]


def _words_of(step: Step) -> str:
    """Return all that a step's parameters say."""
    return " ".join(text for _, text in iterate_strings(dict(step.params)))


def _told_in(words: str) -> set[float]:
    """Return the figures in words; the ends of a scale are none, as between them a model decides."""
    return {*figures_in(_SCALE.sub(" ", words))}


_SCALE: Final = re.compile(
    r"""
    (?<![\w.]) (?P<least>\d+(?:\.\d+)?) (?:\s?[-–]\s?|\.\.|\sto\s) (?!(?P=least)\b) \d+(?:\.\d+)?\b
    | \bbetween\s \d+(?:\.\d+)? \sand\s \d+(?:\.\d+)?\b
    | (?<![\w.]) \d+ \s?(?:=|being\b|means\b)
    """,
    re.VERBOSE | re.IGNORECASE,
)
"""`from 1 to 5`, `1-5`, `between 1 and 5`, and what an end of it means: `5 being the best`."""


def _plain(text: str) -> str:
    """Return the words of a text, without marks and capitals."""
    return " ".join(_WORDS.findall(text.casefold()))


def _choices(schema: JsonSchema) -> Iterator[list[str]]:
    """Yield the words of each choice that an answer makes, anywhere in it."""
    choices = as_list(schema.get("enum"))
    if len(choices) > 1:
        yield [_plain(text) for text in choices if isinstance(text, str)]
    parts = [*properties_of(schema).values(), schema.get("items")]
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
