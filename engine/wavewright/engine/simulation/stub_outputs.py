"""Outputs that the author gives, in place of generated ones.

A *fixture* file maps a step or a tool to an output or to a list of outputs. A list is several outputs, unless the
tool's schema takes it as one. Every output is held against the schema, and a fault names its place in the file.

Where the answers of stubs come from: fixtures where the author gives some, else generated.

An answer has the shape that the step's tool promises; that of the step which makes the result fits the goal's output
schema as well, where there is a value of both shapes.
"""

from __future__ import annotations

import datetime as dt
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from wavewright.config import exit_codes
from wavewright.config.documents import Document, DocumentError, DocumentFault
from wavewright.config.errors import WavewrightError
from wavewright.config.installation import install_hint
from wavewright.engine.jobs.resolving import read_file
from wavewright.engine.simulation.plan_analysis import vocabulary_of
from wavewright.engine.simulation.presumed_schemas import (
    ReadShape,
    declares_reads,
    presumed_schema,
    shapes_read,
)
from wavewright.engine.simulation.scenario_runs import SimulatedPlan, StubOutputs
from wavewright.engine.simulation.schema_values import PatternNeedsExtra, formatted_text, intersect_schemas
from wavewright.engine.simulation.value_generator import GenerationMode, NoValueFound, ValueGenerator
from wavewright.planner.diagnostics.diagnostic import child_pointer
from wavewright.planner.diagnostics.suggestions import suggest_name
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.uses import value_reads
from wavewright.planner.schemas.validation import infer_schema, validator_of
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId


def read_fixtures(
    file: Path, plan: Plan, tools: Mapping[str, ToolSignature]
) -> tuple[dict[StepId, StubOutputs], dict[str, StubOutputs]]:
    """Return the outputs that a file gives, by step and by tool; a step's own go before its tool's.

    Raises:
        DocumentError: the file cannot be read, names what the plan does not have, or an output does not fit.
    """
    document = read_file(file)
    if not isinstance(document.value, dict):
        fault = DocumentFault(
            "bad_value",
            "a fixture file maps steps or tools to outputs",
            document.nearest_span(""),
            hint="write, for example, 'step_id: {field: value}'",
        )
        raise DocumentError(document.source, (fault,))
    tool_of = {step.id: step.tool for step in plan.steps}
    named = dict.fromkeys(tool_of.values())
    faults: list[DocumentFault] = []
    by_step: dict[StepId, StubOutputs] = {}
    by_tool: dict[str, StubOutputs] = {}
    for name, given in document.value.items():
        tool = tool_of.get(StepId(name), name)
        if tool not in named:
            hint = suggest_name(name, [*tool_of, *named], what="steps and tools of the plan")
            faults.append(
                _fault(document, child_pointer("", name), f"there is no step and no tool {name!r}", hint)
            )
            continue
        pointer = child_pointer("", name)
        outputs = _outputs(given, tools[tool], pointer)
        faults += _schema_faults(document, tools[tool], outputs)
        found = tuple(output for _, output in outputs)
        if not found:
            faults.append(_fault(document, pointer, f"{name!r} is given no output", "give one at least"))
        elif name in tool_of:
            by_step[StepId(name)] = found
        else:
            by_tool[name] = found
    if faults:
        raise DocumentError(document.source, tuple(faults))
    return by_step, by_tool


def _outputs(given: Json, tool: ToolSignature, pointer: str) -> list[tuple[str, Json]]:
    """Return what is given as outputs, each with its place."""
    schema = tool.output_schema
    if not isinstance(given, list) or (schema and validator_of(schema).accepts(given)):
        return [(pointer, given)]
    if schema.get("type") == "array" and not any(isinstance(entry, list) for entry in given):
        return [(pointer, given)]
    return [(child_pointer(pointer, number), entry) for number, entry in enumerate(given)]


def _schema_faults(
    document: Document, tool: ToolSignature, outputs: list[tuple[str, Json]]
) -> Iterator[DocumentFault]:
    if not tool.output_schema:
        return
    validator = validator_of(tool.output_schema)
    for pointer, output in outputs:
        for misfit in validator.violations(output, pointer):
            message = f"this output of {tool.name!r} {misfit.message}"
            hint = misfit.hint or f"give what {tool.name!r} returns: `wavewright tools` shows its result"
            yield _fault(document, misfit.pointer, message, hint)


def _fault(document: Document, pointer: str, message: str, hint: str | None) -> DocumentFault:
    return DocumentFault("bad_value", message, document.nearest_span(pointer), pointer, hint)


_OUTPUTS_PER_STEP = 3
"""Different answers that a `for_each` step is given at first."""


class NoStubOutput(WavewrightError):
    """No output could be generated for a tool; `pattern` is one whose texts only Hypothesis makes."""

    exit_code = exit_codes.MISUSE

    def __init__(self, tool: str, pattern: str | None) -> None:
        hint = f"give its outputs with --fixtures FILE, where FILE says '{tool}: …'"
        reason = "nothing that was tried fits its output schema"
        if pattern is not None:
            hint = f"install the extra: {install_hint('testing')}; or {hint}"
            reason = f"only Hypothesis makes a text for the pattern {pattern!r}, and it is not installed"
        super().__init__(f"no output could be made for tool {tool!r}: {reason}", hint)


@dataclass(frozen=True, slots=True)
class GivenOutputs:
    """Outputs that the author gave."""

    by_step: Mapping[StepId, StubOutputs] = field(default_factory=dict[StepId, StubOutputs])
    by_tool: Mapping[str, StubOutputs] = field(default_factory=dict[str, StubOutputs])

    def of(self, step: Step) -> StubOutputs | None:
        """Return what was given for a step, or for its tool."""
        return self.by_step.get(step.id) or self.by_tool.get(step.tool)


class StubOutputSource:
    """Answers for the steps of one plan."""

    def __init__(self, stage: SimulatedPlan, seed: int, fixtures: GivenOutputs) -> None:
        self._stage = stage
        self._fixtures = fixtures
        self._random = random.Random(f"answers {seed}")  # noqa: S311 - repeatable, not secret
        self._vocabulary = vocabulary_of(stage.plan, stage.now)
        self._generator = ValueGenerator(f"outputs {seed}", self._vocabulary)
        self._result_steps = _result_steps(stage)
        self._shapes = shapes_read(stage.plan)
        self._schemas = {step.id: self._schema_of(step) for step in stage.plan.steps}

    def is_given(self, step: Step) -> bool:
        """Whether the author gave the step's outputs."""
        return self._fixtures.of(step) is not None

    def declares_reads(self, step: Step) -> bool:
        """Whether somebody says what is read of the step's output: its tool, or the author."""
        if self.is_given(step) or step.id not in self._shapes:
            return True
        return declares_reads(
            self._stage.tools[step.tool].signature.output_schema, step, self._shapes[step.id]
        )

    def fits(self, step: Step, output: Json) -> bool:
        """Whether a stub may give this for the step."""
        return validator_of(self._schemas[step.id]).accepts(output)

    def plausible(self, step: Step, *, size: int = 2) -> StubOutputs:
        """Return answers that look like a good day's; lists are of that size where they may be."""
        given = self._fixtures.of(step)
        if given is not None:
            return given
        calls = _OUTPUTS_PER_STEP if step.for_each is not None else 1
        return tuple(self._generated(step, "full", size) for _ in range(calls))

    def minimal(self, step: Step) -> StubOutputs:
        """Return an answer that has only what it must."""
        given = self._fixtures.of(step)
        return (min(given, key=_size_of),) if given is not None else (self._generated(step, "sparse", 0),)

    def varied(self, step: Step, outputs: StubOutputs, focus: frozenset[str]) -> StubOutputs:
        """Return answers that differ from these, most often in what the focus names."""
        given = self._fixtures.of(step)
        if given is not None:
            start = self._random.randrange(len(given))
            return (*given[start:], *given[:start])
        if self._random.random() < 0.3:
            return (self._generated(step, "mixed", 2), *outputs[1:])
        place = self._random.randrange(len(outputs))
        varied = self._varied(step, outputs[place], focus)
        return (*outputs[:place], varied, *outputs[place + 1 :])

    def with_every_age(self, step: Step, outputs: StubOutputs) -> Iterator[StubOutputs]:
        """Yield these answers as they are, but for the time in the tool's freshness field: fresh, stale, to come."""
        path = self._stage.tools[step.tool].signature.freshness_field
        if path is None or self.is_given(step):
            return
        for age in self._vocabulary.ages:
            then = self._vocabulary.now - dt.timedelta(seconds=age)
            dated = tuple(_with_time(output, path.split("."), then) for output in outputs)
            if dated != outputs and all(self.fits(step, output) for output in dated):
                yield dated

    def varied_inputs(self, inputs: JsonObject, focus: frozenset[str]) -> JsonObject:
        """Return inputs that differ from these and fit what the goal says of them."""
        schema = self._stage.goal.inputs_schema or infer_schema(inputs)
        try:
            varied = self._generator.vary(inputs, schema, focus=focus)
        except (NoValueFound, PatternNeedsExtra):
            return inputs
        return varied if isinstance(varied, dict) else inputs

    def takes_inputs(self, inputs: JsonObject) -> bool:
        """Whether the goal takes the inputs."""
        schema = self._stage.goal.inputs_schema
        return not schema or validator_of(schema).accepts(inputs)

    def random(self) -> float:
        """Return a number from 0 to 1."""
        return self._random.random()

    def pick(self, steps: Sequence[Step]) -> Step:
        """Return one of some steps."""
        return self._random.choice(steps)

    def _schema_of(self, step: Step) -> JsonSchema:
        promised = self._stage.tools[step.tool].signature.output_schema
        return presumed_schema(promised, step, self._shapes.get(step.id, ReadShape()))

    def _generated(self, step: Step, manner: GenerationMode, size: int) -> Json:
        signature = self._stage.tools[step.tool].signature
        time_field = signature.freshness_field
        schema = self._schemas.get(step.id, signature.output_schema)
        wanted = self._stage.goal.output_schema if step.id in self._result_steps else None
        try:
            if wanted is not None:
                made = self._result_output(schema, wanted, manner, time_field, size)
                if made is not None:
                    return made
            return self._generator.make(schema, manner, time_field=time_field, size=size)
        except NoValueFound as error:
            raise NoStubOutput(step.tool, None) from error
        except PatternNeedsExtra as error:
            raise NoStubOutput(step.tool, str(error)) from error

    def _result_output(
        self,
        schema: JsonSchema,
        wanted: JsonSchema,
        manner: GenerationMode,
        time_field: str | None,
        size: int,
    ) -> Json:
        """Return a value that fits the goal's schema too; null where there is none."""
        try:
            made = self._generator.make(
                intersect_schemas(schema, wanted), manner, time_field=time_field, size=size
            )
        except NoValueFound:
            return None
        return made if validator_of(schema).accepts(made) else None

    def _varied(self, step: Step, output: Json, focus: frozenset[str]) -> Json:
        signature = self._stage.tools[step.tool].signature
        try:
            return self._generator.vary(
                output, self._schemas[step.id], time_field=signature.freshness_field, focus=focus
            )
        except (NoValueFound, PatternNeedsExtra):
            return output


def _result_steps(stage: SimulatedPlan) -> frozenset[StepId]:
    """Return the steps whose outputs the goal's output schema is asked of; see `result_faults`."""
    plan = stage.plan
    terminal = PlanGraph.of(plan).terminal
    ruled = {rule.tool for rule in stage.goal.rules.terminal}
    asked = [name for name in terminal if plan.step(name).tool in ruled]
    if not asked and isinstance(plan.result, str):
        asked = [*value_reads(plan.result)]
    elif not asked and plan.result is None:
        asked = [*terminal]
    return frozenset(asked)


def _with_time(value: Json, path: Sequence[str], then: dt.datetime) -> Json:
    """Return a value with another time where the path leads, in the form of the one that stands there."""
    if isinstance(value, list):
        return [_with_time(entry, path, then) for entry in value]
    if path:
        if not isinstance(value, dict) or path[0] not in value:
            return value
        return {**value, path[0]: _with_time(value[path[0]], path[1:], then)}
    if not isinstance(value, str):
        return value
    return formatted_text("date" if len(value) == len("2026-01-01") else "date-time", then, 0)


def _size_of(value: Json) -> int:
    return len(json.dumps(value))
