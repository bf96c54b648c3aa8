"""E601, E604 and W809: where untrusted text goes in one plan, and what it decides there.

*Untrusted text* comes from tools with untrusted output, from fields of an output that a tool names
(`untrusted`), and from inputs that hold it. It is followed through expressions, `for_each`,
conditions and the outputs of the steps between, as what it decides of each value (`influence`).

Every text parameter of a tool that writes or sends is a *sink*, unless the tool says that it takes
such text (`accepts_untrusted`, `allowed_hosts`) or a person approves the values. The rule and its
limits are in `docs/explanation/trust.md`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final, Literal, NamedTuple

from wavewright.planner.cel.embedded import (
    EmbeddedExpression,
    bare_expression,
    split_references,
)
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.checks.context import CheckContext
from wavewright.planner.checks.influence import (
    NOTHING,
    TRUSTED,
    Influence,
    Level,
    Value,
    capacity,
    choice,
    list_of,
    object_of,
    stronger,
    text,
    together,
)
from wavewright.planner.checks.influenced_expressions import (
    RootReader,
    influenced_value,
    text_of_parts,
)
from wavewright.planner.diagnostics.diagnostic import Addition, Diagnostic, make_diagnostic
from wavewright.planner.language.plan import SUB_PLAN, Step, dispatched_tools
from wavewright.planner.language.signatures import (
    AGENT,
    ASK_PERSON,
    INSTRUCTIONS,
    RUN_INPUTS,
    ToolSignature,
    asks_approval,
)
from wavewright.planner.plans.previous_run import declared_results, reads_previous
from wavewright.planner.schemas.views import (
    ScopedSchema,
    element_schema,
    field_schema,
    field_schemas,
    scoped_schema,
    view_schema,
)
from wavewright.planner.types import Json, StepId

ADDRESS_FORMATS: Final = frozenset(
    {"uri", "uri-reference", "iri", "iri-reference", "hostname", "idn-hostname"}
)
PATH_FORMATS: Final = frozenset({"path", "file-path", "directory-path"})
ADDRESS_NAMES: Final = frozenset(
    {"url", "urls", "uri", "href", "link", "host", "hosts", "hostname", "domain", "endpoint"}
    | {"server"}
)
_READ_NAMES: Final = frozenset(
    {"path", "paths", "file", "files", "filename", "filepath", "folder", "directory", "dir"}
    | {"repo", "repository", "command", "cmd", "shell", "script", "argv", "sql", "code"}
)
"""Words in the names of parameters by which a tool that only reads is told what to read or to run,
where it says nothing of them (`destination`). For tools that write or send no name counts.
"""
_MAX_DEPTH: Final = 4
_WORDS: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_APPROVAL = Addition("needs_approval", value=True)


class Reading(NamedTuple):
    """A place where a step reads what untrusted text decides."""

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


_PREVIOUS_RESULT: Final = "previous.result"
WHOLE_RESULT: Final = ""
"""In place of the name of a field, where a result has no fields that are known by name."""
_ROUNDS_OF_CHOICES: Final = 3
"""Runs, each reading the one before, after which choices that still add up are text."""


def followed(subject: CheckContext, *, sources: Collection[StepId] | None = None) -> FlowIntoSink:
    """Return where untrusted text goes in a plan, also by way of its earlier runs.

    A field of `previous.result` is as trustworthy as this field of the plan's own result: from
    nothing on, what untrusted text decides of the result is what it decides of the next run's
    `previous.result`, until nothing is added.
    """
    flow = FlowIntoSink(subject, sources=sources)
    if not reads_previous(subject.plan):
        return flow
    held: dict[str, Influence] = {}
    rounds = 0
    while (result := flow.influence_on_result()) != held:
        rounds += 1
        held = result
        if rounds > _ROUNDS_OF_CHOICES:
            held = {name: text(influence.origin) for name, influence in result.items()}
        flow = FlowIntoSink(subject, sources=sources, previous=held)
    return flow


class FlowIntoSink:
    """What untrusted text decides in one plan."""

    def __init__(
        self,
        subject: CheckContext,
        *,
        sources: Collection[StepId] | None = None,
        inputs: Collection[str] | None = None,
        previous: Mapping[str, Influence] | None = None,
    ) -> None:
        """Follow the outputs of `sources` and the values of `inputs`; all that is untrusted where
        they are absent.

        Args:
            subject: The plan.
            sources: Steps of untrusted output.
            inputs: Names of untrusted inputs.
            previous: What untrusted text decides of each field of `previous.result`, of the whole
                under `WHOLE_RESULT`.
        """
        self._subject = subject
        self._sources = _sources(subject) if sources is None else frozenset(sources)
        self._inputs = untrusted_inputs(subject) if inputs is None else frozenset(inputs)
        self._outputs: dict[StepId, Value] = {}
        self._before: dict[str, str | None] = {}
        """Steps and inputs that hold it, each with what it was read from; nothing for a source."""
        self._data_writers: dict[str, list[StepId]] = {}
        """Steps that write it under a name of run data."""
        self._before |= dict.fromkeys(f"inputs.{name}" for name in self._inputs)
        self._previous = previous or {}
        if self._previous:
            self._before[_PREVIOUS_RESULT] = None

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """Each condition, list and parameter that it decides, in the order of the graph."""
        found: list[Reading] = []
        for step_id in self._subject.graph.order():
            step = self._subject.steps[step_id]
            signature = self._subject.signature(step)
            if signature is not None:
                found += self._visit(step, signature)
            elif step_id in self._sources:
                self._before[step_id] = None
                self._outputs[step_id] = Value(text(step_id))
        return tuple(found)

    @cached_property
    def by_step(self) -> dict[StepId, list[Reading]]:
        """The readings of each step."""
        found: dict[StepId, list[Reading]] = {}
        for reading in self.readings:
            found.setdefault(reading.step.id, []).append(reading)
        return found

    @property
    def holders(self) -> Collection[str]:
        """Steps and inputs of which it decides the value."""
        _ = self.readings
        return self._before.keys()

    def way(self, origin: str) -> list[str]:
        """Return the steps from the source to what holds it."""
        way = [origin]
        while (before := self._before.get(way[0])) is not None and before not in way:
            way.insert(0, before)
        return way

    def influence_on(self, expression: str) -> Influence:
        """Return what it decides of a text beside the steps."""
        _ = self.readings
        return self._text_value(expression, None, TRUSTED).total()

    def influence_on_result(self) -> dict[str, Influence]:
        """Return what it decides of each field of the plan's result, and of the whole under
        `WHOLE_RESULT`; what is not decided by it is left out.

        More than a choice is text: what a journal keeps is read again as it is written.
        """
        _ = self.readings
        found: dict[str, Influence] = {}
        for name, value in self._results():
            influence = self._value(value, None, TRUSTED).total()
            if influence.level > Level.CHOICE:
                influence = text(influence.origin)
            if influence:
                found[name] = stronger(
                    influence._replace(origin=_PREVIOUS_RESULT), found.get(name, NOTHING)
                )
        return found

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
        listed = self._value(step.for_each, step, TRUSTED) if step.for_each is not None else TRUSTED
        item = listed.key()
        count = listed.count() if step.for_each is not None else NOTHING
        if count:
            yield self._reading(step, signature, "for_each", f"{pointer}/for_each", count)
        condition = NOTHING
        if step.when is not None:
            condition = self._condition(step, item)
            if condition:
                yield self._reading(step, signature, "when", f"{pointer}/when", condition)
        parameters = list[Influence]()
        for name, value in step.params.items():
            place = field_schema(view_schema(scoped_schema(signature.input_schema)), name)
            leaves = self._leaves(
                value, f"{pointer}/params/{name}", [name], place or scoped_schema({}), step, item
            )
            for where, names, influence, leaf in leaves:
                # A person who reads untrusted text answers in words of their own.
                if (step.tool, name) != (ASK_PERSON, "question"):
                    parameters.append(influence)
                yield Reading(step, signature, "params", where, names, influence, leaf)
        output = self._output(step, signature, parameters, item)
        self._outputs[step.id] = self._kept(step, output, listed, count, condition)

    def _reading(
        self,
        step: Step,
        signature: ToolSignature,
        role: Literal["when", "for_each"],
        pointer: str,
        influence: Influence,
    ) -> Reading:
        return Reading(step, signature, role, pointer, (), influence, scoped_schema({}))

    def _leaves(
        self,
        value: Json,
        pointer: str,
        names: list[str],
        place: ScopedSchema,
        step: Step,
        item: Value,
    ) -> Iterator[tuple[str, list[str], Influence, ScopedSchema]]:
        """Yield the texts in a parameter that untrusted text decides of."""
        if isinstance(value, str):
            influence = self._text_value(value, step, item).within(place).total()
            if influence:
                yield pointer, names, influence, place
            return
        parts: list[tuple[str, Json]] = []
        if isinstance(value, dict):
            parts = [*value.items()]
        elif isinstance(value, list):
            parts = [(str(number), part) for number, part in enumerate(value)]
        view = view_schema(place)
        for name, part in parts:
            if isinstance(value, list):
                inner = element_schema(view, int(name)) if view.kind == "array" else None
            else:
                inner = field_schema(view, name)
            where = f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}"
            yield from self._leaves(
                part, where, [*names, name], inner or scoped_schema({}), step, item
            )

    def _output(
        self, step: Step, signature: ToolSignature, parameters: Sequence[Influence], item: Value
    ) -> Value:
        """Return what is known of what one call of a step gives."""
        place = scoped_schema(self._subject.types.call_output(step))
        if step.id in self._sources:
            self._before[step.id] = None
            return Value(text(step.id), place, signature.untrusted or None)
        if step.tool == SUB_PLAN:
            result = self._value(step.params.get("result"), step, item)
            whole = result.total()
            self._hold(step.id, whole)
            return _from(result, step.id)
        written = self._data_origin(step.id, signature)
        read = stronger(*parameters, NOTHING if written is None else text(written))
        self._hold(step.id, read)
        if read.level > Level.CHOICE:
            # A tool can make a text of a number or a date.
            return Value(text(step.id), place)
        return Value(read._replace(origin=step.id) if read else NOTHING, place)

    def _kept(
        self, step: Step, output: Value, listed: Value, count: Influence, condition: Influence
    ) -> Value:
        """Return what is known of what a step gives, with all its calls."""
        if step.for_each is not None:
            asks = choice(condition.origin) if condition else NOTHING
            output = Value(elements=output, shape=stronger(count, asks), size=listed.most())
            self._hold(step.id, output.shape)
        elif condition:
            output = output.raised(choice(condition.origin))
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

    def _condition(self, step: Step, item: Value) -> Influence:
        try:
            tree = parse_expression(bare_expression(step.when or "").expression)
        except ExpressionError:
            return NOTHING
        return influenced_value(tree, self._reader(step, item)).total()

    def _value(self, value: Json, step: Step | None, item: Value) -> Value:
        if isinstance(value, str):
            return self._text_value(value, step, item)
        if isinstance(value, list):
            return list_of([self._value(part, step, item) for part in value])
        if isinstance(value, dict):
            return object_of({name: self._value(part, step, item) for name, part in value.items()})
        return TRUSTED

    def _text_value(self, value: str, step: Step | None, item: Value) -> Value:
        """Return what is known of a text with its references replaced."""
        if "${" not in value:
            return Value(is_text=True)
        read = self._reader(step, item)
        parts: list[Value | str] = []
        try:
            for part in split_references(value):
                if isinstance(part, EmbeddedExpression):
                    parts.append(influenced_value(parse_expression(part.expression), read))
                else:
                    parts.append(part)
        except ExpressionError:
            return TRUSTED  # it is reported as what it is
        only = parts[0]
        if len(parts) == 1 and isinstance(only, Value):
            return only
        return Value(text_of_parts(parts), is_text=True)

    def _reader(self, step: Step | None, item: Value) -> RootReader:
        each = item if step is not None and step.for_each is not None else TRUSTED
        return lambda name, field: self._root(name, field, each)

    def _root(self, name: str, field: str | None, item: Value) -> Value:
        """Return what is known of a root of expressions, or of a field of it."""
        match name, field:
            case "item", None:
                return item
            case "item", str():
                return item.field(field)
            case "steps", str():
                later = self._subject.superseded_by.get(StepId(field))
                found = self._outputs.get(StepId(field), TRUSTED)
                instead = TRUSTED if later is None else self._outputs.get(later, TRUSTED)
                return found if not instead.total() else instead
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
        known = field_schema(view_schema(scoped_schema(self._subject.types.previous)), "result")
        whole = self._previous.get(WHOLE_RESULT, NOTHING)
        fields = {name: known for name in self._previous if name != WHOLE_RESULT}
        if known is None or whole.level is Level.TEXT or not fields:
            is_text = known is not None and view_schema(known).kind == "string"
            return Value(whole, known if whole else None, is_text=is_text)
        view = view_schema(known)
        parts = {
            name: self._previous_field(name, field_schema(view, name))
            for name in {**field_schemas(view), **fields}
        }
        return replace(object_of(parts), floor=whole)

    def _previous_field(self, name: str, known: ScopedSchema | None) -> Value:
        is_text = known is not None and view_schema(known).kind == "string"
        influence = self._previous.get(name, NOTHING)
        return Value(influence, known if influence else None, is_text=is_text)

    def _input(self, name: str) -> Value:
        known = field_schema(view_schema(scoped_schema(self._subject.types.inputs)), name)
        is_text = known is not None and view_schema(known).kind == "string"
        if name not in self._inputs:
            return Value(place=known, is_text=is_text)
        return Value(text(f"inputs.{name}"), known, is_text=is_text)


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


def _sources(subject: CheckContext) -> frozenset[StepId]:
    return frozenset(
        step_id
        for step_id, step in subject.steps.items()
        if (signature := subject.signature(step)) is not None and signature.brings_untrusted
    )


def untrusted_inputs(subject: CheckContext) -> frozenset[str]:
    """Return the inputs that hold untrusted text."""
    return frozenset() if subject.goal is None else subject.goal.untrusted_inputs


def brings_untrusted_text(subject: CheckContext) -> bool:
    """Whether anything in a plan brings untrusted text in."""
    return bool(untrusted_inputs(subject)) or bool(_sources(subject))


# -- E601


def untrusted_parameters(subject: CheckContext, flow: FlowIntoSink) -> Iterator[Diagnostic]:
    """Yield the parameters in which untrusted text could do harm."""
    for number, step in enumerate(subject.plan.steps):
        signature = subject.signature(step)
        if (
            signature is None
            or asks_approval(step, signature)
            or step is not subject.steps[step.id]
        ):
            continue
        readings = [
            reading for reading in flow.by_step.get(step.id, ()) if reading.role == "params"
        ]
        yield from _refused(subject, flow, step, signature, readings)
        yield from _too_much(flow, f"/steps/{number}", step, signature, readings)


def _refused(
    subject: CheckContext,
    flow: FlowIntoSink,
    step: Step,
    signature: ToolSignature,
    readings: Sequence[Reading],
) -> Iterator[Diagnostic]:
    reported = set[str]()
    for reading in readings:
        name = reading.names[0]
        least = Level.DATE if name in signature.destination else Level.TEXT
        if name in reported or reading.influence.level < least or not is_sink(signature, name):
            continue
        reported.add(name)
        way = flow.way(reading.origin)
        source = subject.steps.get(StepId(way[0]))
        # The name of a found target is an input; how it is found stands beside the plan.
        origin = "targets.expand" if source is None else source.tool
        if way[0] == _PREVIOUS_RESULT:
            origin = "an earlier run"
        shown = " → ".join(map(repr, [origin, *way]))
        yield make_diagnostic(
            "E601",
            reading.pointer,
            f"untrusted text reaches {_what(signature, name)} of {step.tool!r}: {shown} → {name!r} of {step.id!r}",
            f"have a person approve the values (`needs_approval: true` on step {step.id!r}), or "
            f"{_declaring(signature, name)}",
            mend=_APPROVAL,
        )


def _too_much(
    flow: FlowIntoSink,
    pointer: str,
    step: Step,
    signature: ToolSignature,
    readings: Sequence[Reading],
) -> Iterator[Diagnostic]:
    """Yield the call whose numbers and dates, taken together, could spell a text."""
    small = [
        reading
        for reading in readings
        if reading.influence.level < Level.TEXT and is_sink(signature, reading.names[0])
    ]
    whole = together(reading.influence for reading in small)
    if whole.level is Level.TEXT:
        names = list(dict.fromkeys(repr(reading.names[0]) for reading in small))
        way = " → ".join(map(repr, flow.way(whole.origin)))
        yield make_diagnostic(
            "E601",
            f"{pointer}/params",
            f"untrusted text reaches {step.tool!r} as several numbers, which can spell anything: {way} → "
            f"{' and '.join(names)} of {step.id!r}",
            f"have a person approve the values (`needs_approval: true` on step {step.id!r}), or pass one number",
            mend=_APPROVAL,
        )


def is_sink(signature: ToolSignature, name: str) -> bool:
    """Whether untrusted text may not reach a parameter of a tool without an approval.

    A parameter of which nothing is known, of a tool that only asks another system, is what the tool
    is asked about, such as the `context` of an agent.
    """
    if name in signature.accepts_untrusted or name in signature.allowed_hosts:
        return False
    if name in signature.destination:
        return True
    if signature.only_asks_model and not dispatched_tools(signature.name):
        # It reads all but its instructions as data.
        return INSTRUCTIONS.get(signature.name) == name
    place = field_schema(view_schema(scoped_schema(signature.input_schema)), name)
    if signature.effects and not signature.only_reads:
        return True
    if place is None or mentions(name, place, _READ_NAMES, PATH_FORMATS):
        return True
    return "egress" in signature.effects and view_schema(place).kind != "open"


def free_addresses(signature: ToolSignature) -> Iterator[str]:
    """Yield the parameters of a tool by which a call chooses any address."""
    for name, place in text_parameters(signature).items():
        is_bounded = name in signature.allowed_hosts or name in signature.accepts_untrusted
        chooses = name in signature.destination or mentions(
            name, place, ADDRESS_NAMES, ADDRESS_FORMATS
        )
        if chooses and not is_bounded:
            yield name


def mentions(
    name: str, place: ScopedSchema, words: Collection[str], formats: Collection[str], depth: int = 0
) -> bool:
    """Whether the name of a parameter, or of a text in it, has one of some words, or its schema one
    of some formats.
    """
    if not {word.lower() for word in _WORDS.findall(name)}.isdisjoint(words):
        return True
    view = view_schema(place)
    for branch in view.branches or (view,):
        if branch.schema.get("format") in formats:
            return True
        parts = {
            inner: field_schema(branch, inner)
            for inner in (field_schemas(branch) if branch.kind == "object" else ())
        }
        if branch.kind == "array":
            parts["-"] = element_schema(branch)
        for inner, part in parts.items():
            if part is None or depth > _MAX_DEPTH or capacity(part).level is not Level.TEXT:
                continue
            if mentions(inner, part, words, formats, depth + 1):
                return True
    return False


def _what(signature: ToolSignature, name: str) -> str:
    if INSTRUCTIONS.get(signature.name) == name:
        return f"the instructions {name!r}"
    if name in signature.destination:
        return f"the destination {name!r}"
    if signature.writes:
        return f"{name!r}, which is written,"
    return f"{name!r}, which is sent," if "egress" in signature.effects else repr(name)


def _declaring(signature: ToolSignature, name: str) -> str:
    """Return what can be declared, so that a parameter takes untrusted text."""
    if dispatched_tools(signature.name):
        return "leave tools that write or send out of its `tools`"
    if signature.name in INSTRUCTIONS:
        data = "context" if signature.name == AGENT else "of"
        return f"pass it as `{data}`, which the model reads as data"
    return (
        f"declare that {signature.name!r} takes it as data (`accepts_untrusted: [{name}]`) or, for an address, "
        f"which hosts it may reach (`allowed_hosts: {{{name}: [example.org]}}`)"
    )


# -- W809 and E604


def untrusted_decisions(subject: CheckContext, flow: FlowIntoSink) -> Iterator[Diagnostic]:
    """Yield the steps that write or send, and of which untrusted text decides something: whether
    and how often they are called, which of several values they get, or a number.
    """
    is_error = subject.goal is not None and subject.goal.untrusted_writes == "approve"
    for step in subject.steps.values():
        signature = subject.signature(step)
        if signature is None or signature.only_reads or asks_approval(step, signature):
            continue
        deciding = [reading for reading in flow.by_step.get(step.id, ()) if _decides(reading)]
        if not deciding:
            continue
        first = deciding[0]
        source = flow.way(first.origin)[0]
        shown = f"the output of step {source!r}" if source in subject.steps else f"`{source}`"
        yield make_diagnostic(
            "E604" if is_error else "W809",
            first.pointer,
            f"untrusted text, {shown}, decides {_decided(deciding)}",
            "decide on an input, or have a person approve the step: `needs_approval: true`",
            mend=_APPROVAL,
        )


def _decides(reading: Reading) -> bool:
    if reading.role != "params":
        return True
    return reading.influence.level < Level.TEXT and is_sink(reading.signature, reading.names[0])


def _decided(readings: Sequence[Reading]) -> str:
    """Return in words what is decided of a step."""
    step = readings[0].step
    when = [role for role in ("when", "for_each") if any(read.role == role for read in readings)]
    called = _listed([{"when": "whether", "for_each": "how often"}[role] for role in when])
    names = _listed(list(dict.fromkeys(repr(read.names[0]) for read in readings if read.names)))
    if not called:
        return f"{names} of {step.tool!r}, which step {step.id!r} calls"
    return f"{called} step {step.id!r} calls {step.tool!r}" + (f", and {names}" if names else "")


def _listed(what: Sequence[str]) -> str:
    return "".join(what) if len(what) < 2 else f"{', '.join(what[:-1])} and {what[-1]}"


def text_parameters(signature: ToolSignature) -> Mapping[str, ScopedSchema]:
    """Return the parameters of a tool that can hold text, with their schemas."""
    view = view_schema(scoped_schema(signature.input_schema))
    properties = view.schema.get("properties")
    names = properties if isinstance(properties, dict) else {}
    places = {name: field_schema(view, name) for name in names}
    return {
        name: place
        for name, place in places.items()
        if place is not None and capacity(place).level is Level.TEXT
    }
