"""The outputs that stubs may give: fixtures where the author gives some, else generated.

A *fixture* file maps a step or a tool to an output or to a list of outputs. A list is several
outputs, unless the tool's schema takes it as one. Every output is validated, and a fault names its
place in the file.

An output fits the schema of the step's tool, or the type that the step writes out for the answer of
a model; that of the step which makes the result fits the goal's output schema as well, where there
is a value of both.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from wavewright.config import (
    Document,
    DocumentError,
    DocumentFault,
    WavewrightError,
    exit_codes,
    install_hint,
    read_document_file,
)
from wavewright.config.sources import pointer_token
from wavewright.engine.rehearsal.simulation.plan_reads import (
    ReadShape,
    presumed_inputs,
    presumed_schema,
    shapes_read,
    vocabulary_of,
)
from wavewright.engine.rehearsal.simulation.scenarios import SimulatedPlan, StubOutputs
from wavewright.engine.rehearsal.simulation.values import (
    GenerationMode,
    NoValueFound,
    PatternNeedsExtra,
    ValueGenerator,
)
from wavewright.planner import (
    Json,
    JsonObject,
    JsonSchema,
    PlanGraph,
    Step,
    StepId,
    ToolSignature,
    suggest_name,
    validator_of,
)
from wavewright.planner.checks.types import PlanTypes
from wavewright.planner.language.plan import dispatched_tools, step_tools
from wavewright.planner.plans.uses import value_reads
from wavewright.planner.schemas.views import both_schemas, scoped_schema, self_contained_schema


def read_fixtures(file: Path, simulated: SimulatedPlan) -> dict[StepId, StubOutputs]:
    """Return the outputs that a file gives, by step; a step's own go before its tool's.

    Raises:
        DocumentError: the file cannot be read, names what the plan does not have, or an output does
            not fit.
    """
    document = read_document_file(file)
    if not isinstance(document.value, dict):
        hint = "write, for example, 'step_id: {field: value}'"
        fault = _fault(document, "", "a fixture file maps steps or tools to outputs", hint)
        raise DocumentError(document.source, (fault,))
    tool_of: dict[str, str] = {step.id: step.tool for step in simulated.plan.steps}
    called = [tool for step in simulated.plan.steps for tool in (step.tool, *step_tools(step))]
    signatures = simulated.signatures
    for tool in simulated.tools.values():
        signatures |= {name: part.signature for name, part in tool.parts.items()}
    faults: list[DocumentFault] = []
    stubs: dict[str, StubOutputs] = {}
    for name, written in document.value.items():
        pointer = pointer_token(name)
        if name not in tool_of and name not in called:
            similar = suggest_name(name, [*tool_of, *called], what="steps and tools of the plan")
            faults.append(
                _fault(document, pointer, f"there is no step and no tool {name!r}", similar)
            )
            continue
        signature = signatures[tool_of.get(name, name)]
        outputs = _outputs(written, signature, pointer)
        if not outputs:
            faults.append(
                _fault(document, pointer, f"{name!r} is given no output", "give one at least")
            )
        faults += _schema_faults(document, signature, outputs)
        stubs[name] = tuple(outputs.values())
    if faults:
        raise DocumentError(document.source, tuple(faults))
    by_step = {step.id: _fixture_of(step, stubs) for step in simulated.plan.steps}
    return {step: outputs for step, outputs in by_step.items() if outputs}


def _fixture_of(step: Step, found: Mapping[str, StubOutputs]) -> StubOutputs:
    """Return the outputs that a file gives for a step: its own, or those of the tools that it
    calls.
    """
    own = found.get(step.id) or found.get(step.tool)
    if own:
        return own
    return tuple(
        {"tool": tool, "output": output}
        for tool in dispatched_tools(step.tool)
        for output in found.get(tool, ())
    )


def _outputs(written: Json, tool: ToolSignature, pointer: str) -> dict[str, Json]:
    """Return what is given as outputs, by place."""
    schema = tool.output_schema
    if not isinstance(written, list) or (schema and validator_of(schema).accepts(written)):
        return {pointer: written}
    if schema.get("type") == "array" and not any(isinstance(entry, list) for entry in written):
        return {pointer: written}
    return {pointer + pointer_token(number): entry for number, entry in enumerate(written)}


def _schema_faults(
    document: Document, tool: ToolSignature, outputs: dict[str, Json]
) -> Iterator[DocumentFault]:
    for pointer, output in outputs.items():
        for violation in validator_of(tool.output_schema).violations(output, pointer):
            message = f"this output of {tool.name!r} {violation.message}"
            hint = (
                violation.hint
                or f"give what {tool.name!r} returns: `wavewright tools` shows its result"
            )
            yield _fault(document, violation.pointer, message, hint)


def _fault(document: Document, pointer: str, message: str, hint: str | None) -> DocumentFault:
    return DocumentFault("bad_value", message, document.nearest_span(pointer), pointer, hint)


_OUTPUTS_PER_FAN_OUT = 3
"""Different outputs of a `for_each` step at first."""


class NoStubOutput(WavewrightError):
    """No output could be generated for a tool; `pattern` is one whose texts only Hypothesis makes."""

    exit_code = exit_codes.MISUSE

    def __init__(self, tool: str, pattern: str | None) -> None:
        hint = f"give its outputs with --fixtures FILE, where FILE says '{tool}: …'"
        reason = "nothing that was tried fits its output schema"
        if pattern is not None:
            hint = f"install the extra: {install_hint('testing')}; or {hint}"
            reason = (
                f"only Hypothesis makes a text for the pattern {pattern!r}, and it is not installed"
            )
        super().__init__(f"no output could be made for tool {tool!r}: {reason}", hint)


class StubOutputSource:
    """Makes outputs of the steps of one plan."""

    def __init__(
        self, simulated: SimulatedPlan, seed: int, fixtures: Mapping[StepId, StubOutputs]
    ) -> None:
        self.fixtures = fixtures
        self.shapes, of_inputs = shapes_read(simulated.plan)
        """By step whose output is read."""
        self._inputs_schema, self.open_inputs = presumed_inputs(simulated.plan.inputs, of_inputs)
        """The inputs of which nothing says what they may be."""
        if simulated.goal.inputs_schema:
            self._inputs_schema, self.open_inputs = simulated.goal.inputs_schema, frozenset[str]()
        self.undeclared: set[StepId] = set()
        """Steps of whose outputs the plan reads what neither the tool's schema nor a fixture says.
        """
        self._simulated = simulated
        self._vocabulary = vocabulary_of(simulated.plan, simulated.now)
        self._generator = ValueGenerator(f"values {seed}", self._vocabulary)
        self._result_steps = _result_steps(simulated)
        self._types = PlanTypes(simulated.plan, simulated.goal, simulated.signatures)
        self._schemas: dict[StepId, JsonSchema] = {}
        for step in simulated.plan.steps:
            shape = self.shapes.get(step.id, ReadShape())
            schema, is_declared = presumed_schema(self._types.call_output(step), step, shape)
            self._schemas[step.id] = schema
            if step.id in self.shapes and not is_declared and step.id not in fixtures:
                self.undeclared.add(step.id)

    def plausible(self, step: Step) -> StubOutputs:
        """Return outputs with all that may be there."""
        calls = 1 if step.for_each is None else _OUTPUTS_PER_FAN_OUT
        fixture = self.fixtures.get(step.id)
        return fixture or tuple(self._generated(step, "full") for _ in range(calls))

    def of_tool(self, signature: ToolSignature) -> StubOutputs:
        """Return an output of a tool that no step calls by its name, with all that may be there."""
        schema, time_field = signature.output_schema, signature.freshness_field
        try:
            return (self._generator.make(schema, "full", time_field=time_field),)
        except NoValueFound as error:
            raise NoStubOutput(signature.name, None) from error
        except PatternNeedsExtra as error:
            raise NoStubOutput(signature.name, str(error)) from error

    def minimal(self, step: Step) -> StubOutputs:
        """Return an output that has only what it must."""
        fixture = self.fixtures.get(step.id)
        return (
            min(fixture, key=lambda output: len(json.dumps(output)))
            if fixture
            else self._generated(step, "sparse"),
        )

    def variants(
        self, step: Step, outputs: StubOutputs, focus: frozenset[str]
    ) -> Iterator[StubOutputs]:
        """Yield outputs that differ from these in one place of those that the focus names."""
        if fixture := self.fixtures.get(step.id):
            yield from ((output,) for output in fixture)
            return
        schema, time_field = self._schemas[step.id], self._time_field(step)
        try:
            varied = self._generator.variants(
                outputs[0], schema, time_field=time_field, focus=focus
            )
        except PatternNeedsExtra as error:
            raise NoStubOutput(step.tool, str(error)) from error
        for output in varied:
            yield (output,)
            if len(outputs) > 1:
                # Of a fan-out one call may differ from the rest.
                yield (output, *outputs[1:])

    def time_names(self, step: Step) -> frozenset[str]:
        """Return the names on the way to the time that the step's tool says its output is of."""
        path = self._time_field(step)
        return frozenset(() if path is None else path.split("."))

    def input_variants(self, inputs: JsonObject, focus: frozenset[str]) -> Iterator[JsonObject]:
        """Yield inputs that differ from these in one place and fit what the goal says of them."""
        try:
            varied = self._generator.variants(inputs, self._inputs_schema, focus=focus)
        except PatternNeedsExtra:
            # The job's own inputs are enough to simulate its plan.
            return
        yield from (changed for changed in varied if isinstance(changed, dict))

    def _time_field(self, step: Step) -> str | None:
        return self._simulated.tools[step.tool].signature.freshness_field

    def _generated(self, step: Step, mode: GenerationMode) -> Json:
        schema = self._schemas.get(step.id, self._types.call_output(step))
        promised = self._simulated.goal.output_schema if step.id in self._result_steps else None
        candidates = [schema]
        if promised is not None:
            both = both_schemas(scoped_schema(schema), scoped_schema(promised))
            candidates.insert(0, self_contained_schema(both))
        for candidate in candidates:
            try:
                output = self._generator.make(candidate, mode, time_field=self._time_field(step))
            except NoValueFound:
                continue
            except PatternNeedsExtra as error:
                raise NoStubOutput(step.tool, str(error)) from error
            if validator_of(schema).accepts(output):
                return output
        raise NoStubOutput(step.tool, None)


def _result_steps(simulated: SimulatedPlan) -> frozenset[StepId]:
    """Return the steps whose outputs the goal's output schema is about; see `result_faults`."""
    plan = simulated.plan
    terminal = PlanGraph.of(plan).terminal
    checked = {rule.tool for rule in simulated.goal.rules.terminal}
    ends = [name for name in terminal if plan.step(name).tool in checked]
    if not ends and isinstance(plan.result, str):
        return value_reads(plan.result)
    return frozenset(ends or (terminal if plan.result is None else ()))
