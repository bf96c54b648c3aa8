"""Where data goes in one plan, and what it decides there.

What is followed comes from the outputs of some steps, of some tools in a few fields alone, and from
some inputs: untrusted text, a secret, private data. The steps are visited in the order of the graph,
and of each value that a step gets it is computed what the followed data decides of it
(`influence`): through expressions, `for_each`, conditions, run data, and the outputs of the steps
between.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Final, Literal, NamedTuple, TypeAlias

from wavewright.planner.cel.embedded import EmbeddedExpression, bare_expression, split_references
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.nodes import ExpressionNode
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.influence import (
    NOTHING,
    TRUSTED,
    Influence,
    Level,
    Value,
    choice,
    compounded,
    is_text,
    list_of,
    object_of,
    selection,
    stronger,
    text,
    together,
)
from wavewright.planner.checks.influenced_expressions import (
    RootReader,
    influenced_value,
    text_of_parts,
)
from wavewright.planner.language.plan import SUB_PLAN, Step
from wavewright.planner.language.signatures import ASK_PERSON, RUN_INPUTS, ToolSignature
from wavewright.planner.plans.previous_run import declared_results, reads_previous
from wavewright.planner.schemas.views import (
    OPEN,
    ScopedSchema,
    element_schema,
    field_schema,
    field_schemas,
    scoped_schema,
    view_of,
    view_schema,
)
from wavewright.planner.types import Json, StepId

Sources: TypeAlias = Mapping[StepId, Collection[str]]
"""Steps whose outputs are followed, each with the fields that alone hold what is followed; with none
where all of the output does.
"""


class Reading(NamedTuple):
    """A place where a step reads what the followed data decides."""

    step: Step
    signature: ToolSignature
    role: Literal["when", "for_each", "params"]
    pointer: str
    names: Sequence[str]
    """Of a parameter: its name, and the keys that lead to the part which reads it."""
    influence: Influence
    place: ScopedSchema
    """Of a parameter: the schema of that part."""

    @property
    def origin(self) -> str:
        """The step whose output it reads, or the input (`inputs.NAME`)."""
        return self.influence.origin

    @property
    def reads_text(self) -> bool:
        """Whether text of it is in a parameter."""
        return self.role == "params" and self.influence.level is Level.TEXT


class _Leaf(NamedTuple):
    """A text in a parameter that reads it: the fields of a `Reading`."""

    pointer: str
    names: Sequence[str]
    influence: Influence
    place: ScopedSchema


class _ExpressionSite(NamedTuple):
    """Where an expression stands."""

    read: RootReader
    """What is known of the roots there: `item` is another value for each step."""
    holds: ExpressionNode | None
    """The condition that holds there."""


PREVIOUS_RESULT: Final = "previous.result"
WHOLE_RESULT: Final = ""
"""In place of the name of a field, where a result has no fields that are known by name."""
_ROUNDS_OF_CHOICES: Final = 3
"""Runs, each reading the one before, after which choices that still add up are text."""


def flow_of(
    subject: CheckContext,
    sources: Sources,
    inputs: Collection[str] = frozenset(),
    *,
    equals_count: bool = False,
) -> DataFlow:
    """Return where data goes in a plan, also by way of its earlier runs.

    A field of `previous.result` holds what this field of the plan's own result holds: from nothing
    on, what the data decides of the result is what it decides of the next run's `previous.result`,
    until nothing is added.
    """
    flow = DataFlow(subject, sources, inputs, equals_count=equals_count)
    if not reads_previous(subject.plan):
        return flow
    held: dict[str, Influence] = {}
    rounds = 0
    while (result := flow.influence_on_result()) != held:
        rounds += 1
        held = result
        if rounds > _ROUNDS_OF_CHOICES:
            held = {name: text(influence.origin) for name, influence in result.items()}
        flow = DataFlow(subject, sources, inputs, previous=held, equals_count=equals_count)
    return flow


class DataFlow:
    """What some data decides in one plan."""

    def __init__(
        self,
        subject: CheckContext,
        sources: Sources,
        inputs: Collection[str] = frozenset(),
        *,
        previous: Mapping[str, Influence] | None = None,
        among: Collection[StepId] | None = None,
        equals_count: bool = False,
    ) -> None:
        """Follow the outputs of `sources` and the values of `inputs`.

        Args:
            subject: The plan.
            sources: Steps, and which of their fields.
            inputs: Names of inputs.
            previous: What the data decides of each field of `previous.result`, of the whole under
                `WHOLE_RESULT`.
            among: The steps that are visited; all where absent.
            equals_count: Whether what a condition has found equal to a value that is not followed is
                as good as that value. It is where all that is untrusted is followed; a secret stays
                one whatever it equals.
        """
        self._subject = subject
        self._equals_count = equals_count
        self._sources = sources
        self._inputs = frozenset(inputs)
        order = subject.graph.order()
        self._order = order if among is None else [step for step in order if step in among]
        self._outputs: dict[StepId, Value] = {}
        self._before: dict[str, str | None] = {}
        """Steps and inputs that hold it, each with what it was read from; nothing for a source."""
        self._data_writers: dict[str, list[StepId]] = {}
        """Steps that write it under a name of run data."""
        self._before |= dict.fromkeys(f"inputs.{name}" for name in self._inputs)
        self._previous = previous or {}
        if self._previous:
            self._before[PREVIOUS_RESULT] = None

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """Each condition, list and parameter that it decides, in the order of the graph."""
        readings: list[Reading] = []
        for step_id in self._order:
            step = self._subject.steps[step_id]
            signature = self._subject.signature(step)
            if signature is not None:
                readings += self._visit(step, signature)
            elif step_id in self._sources:
                self._before[step_id] = None
                self._outputs[step_id] = Value(text(step_id))
        return tuple(readings)

    @cached_property
    def by_step(self) -> dict[StepId, list[Reading]]:
        """The readings of each step."""
        readings: dict[StepId, list[Reading]] = {}
        for reading in self.readings:
            readings.setdefault(reading.step.id, []).append(reading)
        return readings

    def gives_text(self, step: StepId) -> bool:
        """Whether text of it is in the output of a step."""
        _ = self.readings
        return self._outputs.get(step, TRUSTED).total().level is Level.TEXT

    def way(self, origin: str) -> list[str]:
        """Return the steps from the source to what holds it."""
        way = [origin]
        while (before := self._before.get(way[0])) is not None and before not in way:
            way.insert(0, before)
        return way

    def influence_on(self, expression: str) -> Influence:
        """Return what it decides of a text beside the steps."""
        _ = self.readings
        return self._text_value(expression, self._site()).total()

    def influence_on_result(self) -> dict[str, Influence]:
        """Return what it decides of each field of the plan's result, and of the whole under
        `WHOLE_RESULT`; what is not decided by it is left out.

        More than a choice is text: what a journal keeps is read again as it is written.
        """
        _ = self.readings
        influences: dict[str, Influence] = {}
        for name, value in self._results():
            influence = self._value(value, self._site()).total()
            if influence.level > Level.RANGE:
                influence = text(influence.origin)
            if influence:
                of_before = influence.apart()._replace(origin=PREVIOUS_RESULT)
                influences[name] = stronger(of_before, influences.get(name, NOTHING))
        return influences

    def _results(self) -> Iterator[tuple[str, Json]]:
        plan = self._subject.plan
        for declared in declared_results(plan):
            if isinstance(declared, dict) and plan.result is not None:
                yield from declared.items()
            else:
                yield WHOLE_RESULT, declared
        if plan.result is None:
            for step in self._subject.graph.terminal:
                yield WHOLE_RESULT, f"${{steps.`{step}`}}"
        if plan.stop is not None:
            # Which of the two results it is, is decided by the condition.
            yield WHOLE_RESULT, f"${{({bare_expression(plan.stop.when).expression}) ? 1 : 0}}"

    # -- steps

    def _visit(self, step: Step, signature: ToolSignature) -> Iterator[Reading]:
        number = self._subject.numbers[step.id]
        pointer = f"/steps/{number}"
        listed = self._value(step.for_each, self._site())
        count = listed.count()
        if count:
            where = f"{pointer}/for_each"
            yield Reading(step, signature, "for_each", where, (), count, OPEN)
        site = self._site(self._item(step, listed))
        condition, holds = NOTHING, None if step.when is None else _condition_tree(step.when)
        if holds is not None:
            condition = self._evaluated(holds, site).total()
            # An item is of the list as it is where the step is called. The condition may compare that
            # list with the item itself, which is no better than the list.
            narrowed = self._value(step.for_each, site._replace(holds=holds))
            site = self._site(self._item(step, narrowed), holds)
        if condition:
            yield Reading(step, signature, "when", f"{pointer}/when", (), condition, OPEN)
        parameters = list[Influence]()
        for name, value in step.params.items():
            place = field_schema(view_of(signature.input_schema), name) or OPEN
            for leaf in self._leaves(value, f"{pointer}/params/{name}", [name], place, site):
                # A person who reads untrusted text answers in words of their own.
                if (step.tool, name) != (ASK_PERSON, "question"):
                    parameters.append(leaf.influence)
                yield Reading(step, signature, "params", *leaf)
        output = self._output(step, signature, parameters, site)
        self._outputs[step.id] = self._kept(step, output, listed, count, condition)

    @staticmethod
    def _item(step: Step, listed: Value) -> Value:
        """Return what is known of the item of one call of a step."""
        return listed.key().coming_from(f"item of {step.id}")

    def _leaves(
        self,
        value: Json,
        pointer: str,
        names: list[str],
        place: ScopedSchema,
        site: _ExpressionSite,
    ) -> Iterator[_Leaf]:
        """Yield the texts in a parameter that untrusted text decides of."""
        if isinstance(value, str):
            influence = self._text_value(value, site).within(place).total()
            if influence:
                yield _Leaf(pointer, names, influence, place)
            return
        view = view_schema(place)
        parts: list[tuple[str, Json, ScopedSchema | None]] = []
        if isinstance(value, dict):
            parts = [(name, part, field_schema(view, name)) for name, part in value.items()]
        elif isinstance(value, list):
            parts = [
                (str(at), part, element_schema(view, at) if view.kind == "array" else None)
                for at, part in enumerate(value)
            ]
        for name, part, inner in parts:
            where = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            yield from self._leaves(part, where, [*names, name], inner or OPEN, site)

    def _output(
        self,
        step: Step,
        signature: ToolSignature,
        parameters: Sequence[Influence],
        site: _ExpressionSite,
    ) -> Value:
        """Return what is known of what one call of a step gives."""
        place = scoped_schema(self._subject.types.call_output(step))
        if step.id in self._sources:
            self._before[step.id] = None
            return Value(text(step.id), place, frozenset(self._sources[step.id]) or None)
        if step.tool == SUB_PLAN:
            result = self._value(step.params.get("result"), site._replace(holds=None))
            whole = result.total()
            self._hold(step.id, whole)
            return _from(result, step.id)
        written = self._data_origin(step.id, signature)
        read = together([*parameters, NOTHING if written is None else text(written)])
        self._hold(step.id, read)
        if read.level > Level.RANGE:
            # A tool can make a text of a number or a date.
            return Value(text(step.id), place)
        # All of the output follows from what it was asked with.
        return Value(read.coming_from(step.id)._replace(origin=step.id) if read else NOTHING, place)

    def _kept(
        self, step: Step, output: Value, listed: Value, count: Influence, condition: Influence
    ) -> Value:
        """Return what is known of what a step gives, with all its calls."""
        if step.for_each is not None:
            size = listed.most()
            called = selection(condition, size)
            output = Value(elements=output, shape=compounded(count, called), size=size)
            self._hold(step.id, output.shape)
        elif condition:
            is_there = choice(condition.origin, 2).coming_from(f"whether {step.id}")
            output = output.raised(is_there)
            self._hold(step.id, condition)
        if step.id in self._before:
            signature = self._subject.signature(step)
            for name in () if signature is None else signature.writes_data:
                self._data_writers.setdefault(name, []).append(step.id)
        return _from(output, step.id) if step.id in self._before else output

    def _hold(self, holder: str, influence: Influence) -> None:
        if influence and influence.origin != holder:
            self._before.setdefault(holder, influence.origin)

    def _data_origin(self, step_id: StepId, signature: ToolSignature) -> str | None:
        """Return an input, or a step before this one, that holds it as run data which this one
        reads.
        """
        if RUN_INPUTS in signature.reads_data and self._inputs:
            return f"inputs.{min(self._inputs)}"
        writers = [
            step for name in signature.reads_data for step in self._data_writers.get(name, ())
        ]
        seen = self._subject.graph.ancestors(step_id) if writers else ()
        return next((step for step in sorted(writers) if step in seen), None)

    # -- values

    def _value(self, value: Json, site: _ExpressionSite) -> Value:
        """Return what is known of a value with its references replaced."""
        if isinstance(value, str):
            return self._text_value(value, site)
        if isinstance(value, list):
            return list_of([self._value(part, site) for part in value])
        if isinstance(value, dict):
            return object_of({name: self._value(part, site) for name, part in value.items()})
        return TRUSTED

    def _text_value(self, value: str, site: _ExpressionSite) -> Value:
        """Return what is known of a text with its references replaced."""
        if "${" not in value:
            return Value(is_text=True)
        parts: list[Value | str] = []
        try:
            for part in split_references(value):
                if isinstance(part, EmbeddedExpression):
                    parts.append(self._evaluated(parse_expression(part.expression), site))
                else:
                    parts.append(part)
        except ExpressionError:
            return TRUSTED  # it is reported as what it is
        only = parts[0]
        if len(parts) == 1 and isinstance(only, Value):
            return only
        return Value(text_of_parts(parts), is_text=True)

    def _evaluated(self, tree: ExpressionNode, site: _ExpressionSite) -> Value:
        return influenced_value(tree, site.read, site.holds, equals_count=self._equals_count)

    def _site(self, item: Value = TRUSTED, holds: ExpressionNode | None = None) -> _ExpressionSite:
        return _ExpressionSite(partial(self._root, item=item), holds)

    def _root(self, name: str, field: str | None, item: Value) -> Value:
        """Return what is known of a root of expressions, or of a field of it."""
        match name, field:
            case "item", None:
                return item
            case "item", str():
                return item.field(field)
            case "steps", str():
                later = self._subject.superseded_by.get(StepId(field))
                influence = self._outputs.get(StepId(field), TRUSTED)
                instead = TRUSTED if later is None else self._outputs.get(later, TRUSTED)
                return influence if not instead.total() else instead
            case "inputs", str():
                return self._input(field)
            case "previous", "result":
                return self._previous_result()
            case "previous", None:
                return object_of(
                    {"result": self._previous_result(), "started": Value(is_text=True)}
                )
            case "inputs", None:
                return object_of({input_: self._input(input_) for input_ in self._inputs})
            case _:
                return TRUSTED

    def _previous_result(self) -> Value:
        known = field_schema(view_of(self._subject.types.previous), "result")
        whole = self._previous.get(WHOLE_RESULT, NOTHING)
        fields = {name: known for name in self._previous if name != WHOLE_RESULT}
        if known is None or whole.level is Level.TEXT or not fields:
            return self._previous_field(WHOLE_RESULT, known)
        view = view_schema(known)
        parts = {
            name: self._previous_field(name, field_schema(view, name))
            for name in {**field_schemas(view), **fields}
        }
        return replace(object_of(parts), floor=whole)

    def _previous_field(self, name: str, known: ScopedSchema | None) -> Value:
        influence = self._previous.get(name, NOTHING)
        return Value(influence, known if influence else None, is_text=is_text(known))

    def _input(self, name: str) -> Value:
        known = field_schema(view_of(self._subject.types.inputs), name)
        influence = text(f"inputs.{name}") if name in self._inputs else NOTHING
        return Value(influence, known, is_text=is_text(known))


def _condition_tree(when: str) -> ExpressionNode | None:
    try:
        return parse_expression(bare_expression(when).expression)
    except ExpressionError:
        return None  # it is reported as what it is


def _from(value: Value, step: StepId) -> Value:
    """Return a value as the output of a step, which whoever reads it has it from."""

    def moved(influence: Influence) -> Influence:
        return influence._replace(origin=step) if influence else influence

    fields = value.fields
    return replace(
        value,
        influence=moved(value.influence),
        floor=moved(value.floor),
        shape=moved(value.shape),
        fields=None
        if fields is None
        else {name: _from(part, step) for name, part in fields.items()},
        items=None if value.items is None else tuple(_from(part, step) for part in value.items),
        elements=None if value.elements is None else _from(value.elements, step),
    )
