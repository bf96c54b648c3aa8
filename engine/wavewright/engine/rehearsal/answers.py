"""Where the answers of stubs come from: fixtures where the author gives some, else generated.

An answer has the shape that the step's tool promises; that of the step which makes the result fits the goal's output
schema as well, where there is a value of both shapes.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wavewright.engine.rehearsal.generating import CannotMake, Generator, Manner
from wavewright.engine.rehearsal.patterns import NeedsExtra
from wavewright.engine.rehearsal.performing import Stage
from wavewright.engine.rehearsal.schema_parts import both
from wavewright.engine.rehearsal.scripts import Outputs
from wavewright.engine.rehearsal.vocabulary import vocabulary_of
from wavewright.planner.graph import PlanGraph
from wavewright.planner.inferred import schema_of
from wavewright.planner.models import Step
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId
from wavewright.planner.uses import value_reads
from wavewright.planner.validators import validator_of

_CALLS = 3
"""Different answers that a `for_each` step is given at first."""


class NoAnswer(Exception):
    """No output could be generated for a tool."""

    def __init__(self, tool: str, pattern: str | None) -> None:
        super().__init__(f"no output could be made for tool {tool!r}")
        self.tool = tool
        self.pattern = pattern
        """Of a text that only Hypothesis could make, which is not installed."""


@dataclass(frozen=True, slots=True)
class Fixtures:
    """Outputs that the author gave."""

    by_step: Mapping[StepId, Outputs] = field(default_factory=dict[StepId, Outputs])
    by_tool: Mapping[str, Outputs] = field(default_factory=dict[str, Outputs])

    def of(self, step: Step) -> Outputs | None:
        """Return what was given for a step, or for its tool."""
        return self.by_step.get(step.id) or self.by_tool.get(step.tool)


class Answers:
    """Answers for the steps of one plan."""

    def __init__(self, stage: Stage, seed: int, fixtures: Fixtures) -> None:
        self._stage = stage
        self._fixtures = fixtures
        self._random = random.Random(f"answers {seed}")  # noqa: S311 - repeatable, not secret
        self._generator = Generator(f"outputs {seed}", vocabulary_of(stage.plan, stage.now))
        self._result_step = _result_step(stage)

    def is_given(self, step: Step) -> bool:
        """Whether the author gave the step's outputs."""
        return self._fixtures.of(step) is not None

    def plausible(self, step: Step, *, size: int = 2) -> Outputs:
        """Return answers that look like a good day's; lists are of that size where they may be."""
        given = self._fixtures.of(step)
        if given is not None:
            return given
        calls = _CALLS if step.for_each is not None else 1
        return tuple(self._made(step, "full", size) for _ in range(calls))

    def bare(self, step: Step) -> Outputs:
        """Return an answer that has only what it must."""
        given = self._fixtures.of(step)
        return (min(given, key=_weight),) if given is not None else (self._made(step, "sparse", 0),)

    def other(self, step: Step, outputs: Outputs, focus: frozenset[str]) -> Outputs:
        """Return answers that differ from these, most often in what the focus names."""
        given = self._fixtures.of(step)
        if given is not None:
            start = self._random.randrange(len(given))
            return (*given[start:], *given[:start])
        if self._random.random() < 0.3:
            return (self._made(step, "mixed", 2), *outputs[1:])
        place = self._random.randrange(len(outputs))
        varied = self._varied(step, outputs[place], focus)
        return (*outputs[:place], varied, *outputs[place + 1 :])

    def other_inputs(self, inputs: JsonObject, focus: frozenset[str]) -> JsonObject:
        """Return inputs that differ from these and fit what the goal says of them."""
        schema = self._stage.goal.inputs_schema or schema_of(inputs)
        try:
            varied = self._generator.vary(inputs, schema, focus=focus)
        except (CannotMake, NeedsExtra):
            return inputs
        return varied if isinstance(varied, dict) else inputs

    def allows(self, inputs: JsonObject) -> bool:
        """Whether the goal takes the inputs."""
        schema = self._stage.goal.inputs_schema
        return not schema or validator_of(schema).accepts(inputs)

    def chance(self) -> float:
        """Return a number from 0 to 1."""
        return self._random.random()

    def pick(self, steps: Sequence[Step]) -> Step:
        """Return one of some steps."""
        return self._random.choice(steps)

    def _made(self, step: Step, manner: Manner, size: int) -> Json:
        signature = self._stage.tools[step.tool].signature
        time_field = signature.freshness_field
        try:
            if step.id == self._result_step and (wanted := self._stage.goal.output_schema):
                try:
                    made = self._generator.make(
                        both(signature.output_schema, wanted), manner, time_field=time_field, size=size
                    )
                    if _fits(made, signature.output_schema):
                        return made
                except CannotMake:
                    pass
            return self._generator.make(signature.output_schema, manner, time_field=time_field, size=size)
        except CannotMake as error:
            raise NoAnswer(step.tool, None) from error
        except NeedsExtra as error:
            raise NoAnswer(step.tool, str(error)) from error

    def _varied(self, step: Step, output: Json, focus: frozenset[str]) -> Json:
        signature = self._stage.tools[step.tool].signature
        try:
            return self._generator.vary(
                output, signature.output_schema, time_field=signature.freshness_field, focus=focus
            )
        except (CannotMake, NeedsExtra):
            return output


def _result_step(stage: Stage) -> StepId | None:
    """Return the one step that the result is made of, where it is one that runs once."""
    plan = stage.plan
    names = tuple(value_reads(plan.result)) if plan.result is not None else PlanGraph.of(plan).terminal
    if len(names) != 1 or not (plan.result is None or isinstance(plan.result, str)):
        return None
    return names[0] if plan.step(names[0]).for_each is None else None


def _fits(value: Json, schema: JsonSchema) -> bool:
    return validator_of(schema).accepts(value)


def _weight(value: Json) -> int:
    return len(json.dumps(value))
