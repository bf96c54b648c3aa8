"""Inputs that replace those of a job or are added to them.

The caller of a command gives a file of them, and single values. In a job with several targets the
engine sets the target, its wave, and what came of earlier ones.

A single value is addressed by a path of names with dots (`sales.year`, `codes.0`) and typed by the
goal's input schema: text is taken as written, anything else is read as JSON. Where the schema is
silent, the type of the value in its place counts; where there is none, whatever is no JSON is text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from wavewright.config import DocumentError, DocumentFault, Source, Span, did_you_mean
from wavewright.planner import ExpressionError, GoalTemplate, Job, Json, JsonObject, Plan, as_object
from wavewright.planner.cel.embedded import (
    EmbeddedExpression,
    bare_expression,
    iterate_strings,
    reads,
    split_references,
)
from wavewright.planner.language.goals import JobTarget, JobTargets, Targets
from wavewright.planner.types import properties_of

_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "null": type(None),
}
_EXAMPLES = {
    "integer": "3",
    "number": "2.5",
    "boolean": "true",
    "array": '["a", "b"]',
    "object": '{"a": 1}',
    "null": "null",
}


@dataclass(frozen=True, slots=True)
class InputOverrides:
    """Inputs that replace those of a job, or are added to them."""

    from_file: JsonObject = field(default_factory=dict[str, Json])
    """Inputs by name, from a file or a program."""
    assignments: tuple[str, ...] = ()
    """Values as `path=value`, in their order; they override `from_file`."""
    may_add: bool = False
    """Whether `from_file` may have names that nothing reads, as a file for several jobs has."""

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self.from_file or self.assignments)

    @property
    def names(self) -> list[str]:
        """Names of the inputs that are set, of those of a path the first."""
        paths = (text.partition("=")[0] for text in self.assignments if "=" in text)
        return [*self.from_file, *(path.partition(".")[0] for path in paths)]

    def applied_to_job(self, job: Job, template: GoalTemplate, plan: Plan | None) -> Job:
        """Return a job with these inputs.

        Args:
            job: The job as it is written.
            template: Its goal template, whose schema types the values.
            plan: Its plan, whose inputs may be set, too.

        Raises:
            DocumentError: a value does not fit the template's schema, or there is no such place for
                it.
        """
        if not self:
            return job
        known = known_inputs(job.inputs, template.inputs_schema, plan, template)
        of_plan = {} if plan is None else plan.inputs
        changed = self.applied(job.inputs, template.inputs_schema, known, of_plan=of_plan)
        return job.model_copy(update={"inputs": changed})

    def applied_to_plan(self, plan: Plan) -> Plan:
        """Return a plan with these inputs, for one that is checked by itself.

        Raises:
            DocumentError: there is no place for a value.
        """
        if not self:
            return plan
        changed = self.applied(plan.inputs, {}, known_inputs(plan.inputs, {}, plan))
        return plan.model_copy(update={"inputs": changed})

    def applied(
        self,
        inputs: JsonObject,
        schema: JsonObject,
        known: frozenset[str] | None = None,
        *,
        of_plan: Mapping[str, Json] = MappingProxyType({}),
    ) -> JsonObject:
        """Return inputs with these on top, typed by a JSON Schema of the inputs; what is given is
        not changed.

        Args:
            inputs: The inputs to override.
            schema: JSON Schema of the inputs.
            known: Names of inputs that may be set. Without them, any name may be that is not
                similar to that of an input, as a misspelling is.
            of_plan: Those of the plan, whose place the inputs take: a path that begins with the
                name of one leads into its value.

        Raises:
            DocumentError: as in `applied_to_job`.
        """
        if known is not None and not self.may_add:
            for name in self.from_file:
                if name not in known:
                    raise _unknown_input(name, Source("the inputs", name), known)
        merged: JsonObject = {**inputs, **self.from_file}
        names_there = {*merged, *of_plan, *properties_of(schema), *(known or ())}
        for text in self.assignments:
            path, _, value = text.partition("=")
            names = path.split(".")
            if "=" not in text or not all(names):
                raise _input_fault(
                    text, 0, f"{text!r} sets no input", "write --set NAME=VALUE, or NAME.NAME=VALUE"
                )
            near = did_you_mean(names[0], names_there)
            if names[0] not in names_there and (near is not None or known is not None):
                raise _unknown_input(
                    names[0], Source("--set", text), names_there, "--inputs FILE adds new ones"
                )
            if names[0] in of_plan:
                merged.setdefault(names[0], of_plan[names[0]])
            changed = _with_value(merged, names, _TypedValue(text, value), schema)
            assert isinstance(changed, dict)
            merged = changed
        return merged


def known_inputs(
    inputs: JsonObject, schema: JsonObject, plan: Plan | None, template: GoalTemplate | None = None
) -> frozenset[str] | None:
    """Return the names of inputs that a job gives, declares or reads.

    None where any name may be one: the schema of the goal template says so, an expression reads the
    inputs as a whole, or neither a schema nor a plan is there, as where a model plans a goal in
    words.

    Args:
        inputs: Those of the job.
        schema: JSON Schema of the inputs.
        plan: The plan, where there is one.
        template: The goal template, whose texts may read inputs.
    """
    declared = properties_of(schema)
    is_open = schema.get("additionalProperties", False) is not False
    # Without a plan nothing says what a goal in words needs, and a planner reads what is there.
    if is_open or "patternProperties" in schema or (plan is None and not declared):
        return None
    names = {*inputs, *declared}
    for part in (plan, template):
        body = None if part is None else part.model_dump(mode="json", by_alias=True)
        names |= as_object(as_object(body).get("inputs")).keys()
        for pointer, text in iterate_strings(body):
            if "${" not in text and pointer.rpartition("/")[2] not in _CONDITIONS:
                continue
            for read in _reads_of_inputs(text):
                if read is None:
                    return None
                names.add(read)
    return frozenset(names)


def _reads_of_inputs(text: str) -> Iterator[str | None]:
    """Yield the inputs that a text or a condition reads; None where it reads them as a whole."""
    try:
        parts = split_references(text) if "${" in text else (bare_expression(text),)
        for part in parts:
            if isinstance(part, EmbeddedExpression):
                yield from (read.name for read in reads(part.expression) if read.root == "inputs")
    except ExpressionError:
        # What is no expression is told by the check, and reads nothing.
        return


_CONDITIONS = frozenset({"when", "until", "check"})
"""Fields that hold an expression without `${…}`."""


@dataclass(frozen=True, slots=True)
class _TypedValue:
    """A value as it was typed."""

    whole: str
    text: str

    def typed(self, schema: Json, old: Json) -> Json:
        """Return the value as its schema, or else the value in its place, has it."""
        types = _types_in(schema) or _types_like(old)
        if types == ["string"]:
            return self.text
        try:
            value = self._as_json()
        except ValueError:
            value = self.text
        if types and not any(_has_type(value, name) for name in types):
            if "string" in types:
                return self.text
            hint = f"write it as in JSON, as {_EXAMPLES[types[0]]}"
            name = self.whole.removesuffix(self.text).removesuffix("=")
            expected = " or ".join(types)
            raise self.error(f"the input {name!r}: {self.text!r} is not of type {expected}", hint)
        return value

    def _as_json(self) -> Json:
        """Return the value of a text that is JSON.

        Raises:
            ValueError: it is none; NaN and infinities are no JSON.
            DocumentError: a part of it would be lost.
        """

        def finite(text: str) -> float:
            if math.isinf(number := float(text)):
                raise self.error(f"the number {text!r} is too large", "give it as a text")
            return number

        def distinct(pairs: list[tuple[str, Json]]) -> JsonObject:
            members = dict(pairs)
            if len(members) < len(pairs):
                raise self.error("a key stands twice in one object", "give each key once")
            return members

        def refuse(text: str) -> float:
            raise ValueError(text)

        value: Json = json.loads(
            self.text, parse_float=finite, parse_constant=refuse, object_pairs_hook=distinct
        )
        if any(_HALF_CHARACTER.search(text) for text in _all_texts(value)):
            raise self.error("a text holds half a character", "write the whole character")
        return value

    def error(self, message: str, hint: str) -> DocumentError:
        """Return the error of this value, to be raised."""
        return _input_fault(self.whole, len(self.whole) - len(self.text), message, hint)


_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


def _all_texts(value: Json) -> Iterator[str]:
    """Yield the texts in a value, and the names of its members."""
    if isinstance(value, dict):
        yield from value
        value = [*value.values()]
    if isinstance(value, list):
        for item in value:
            yield from _all_texts(item)
    elif isinstance(value, str):
        yield value


def _with_value(value: Json, names: list[str], new: _TypedValue, schema: Json) -> Json:
    """Return a value with another at the path of the names; missing objects on the path are
    created.
    """
    if not names:
        return new.typed(schema, value)
    name, rest = names[0], names[1:]
    if isinstance(value, list):
        if not name.isdecimal() or int(name) >= len(value):
            message = f"there is no item {name!r} in a list of {len(value)}"
            raise new.error(message, "items are counted from 0; --inputs FILE sets a whole list")
        items = [*value]
        items[int(name)] = _with_value(items[int(name)], rest, new, _schema_below(schema, "items"))
        return items
    if value is not None and not isinstance(value, dict):
        raise new.error(
            f"{name!r} lies in {json.dumps(value)}, which is no object", "shorten the path"
        )
    members = value or {}
    below = _schema_below(_schema_below(schema, "properties"), name)
    return {**members, name: _with_value(members.get(name), rest, new, below)}


def _schema_below(schema: Json, name: str) -> Json:
    return schema.get(name) if isinstance(schema, dict) else None


def _types_in(schema: Json) -> list[str]:
    types = _schema_below(schema, "type")
    names = types if isinstance(types, list) else [types]
    return [name for name in names if isinstance(name, str) and name in _TYPES]


def _types_like(value: Json) -> list[str]:
    """Return the types that may replace a value without a schema: those of its own kind."""
    if isinstance(value, bool):
        return ["boolean"]
    if isinstance(value, str):
        return ["string"]
    return ["number"] if isinstance(value, int | float) else []


def _has_type(value: Json, name: str) -> bool:
    # Without the validator: the schema was not checked yet, and a text may hold a lone surrogate.
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[name])


def _unknown_input(
    name: str, source: Source, known: Iterable[str], also: str = ""
) -> DocumentError:
    listed = ", ".join(sorted(known))
    hint = did_you_mean(name, known) or (f"its inputs: {listed};" if listed else "it has none;")
    hint = f"{hint} {also}" if also else hint.removesuffix(";")
    message = f"no input is called {name!r}"
    fault = DocumentFault("bad_value", message, Span(0, max(len(source.text), 1)), hint=hint)
    return DocumentError(source, (fault,))


def _input_fault(text: str, start: int, message: str, hint: str) -> DocumentError:
    fault = DocumentFault("bad_value", message, Span(start, max(len(text), start + 1)), hint=hint)
    return DocumentError(Source("--set", text), (fault,))


TARGET = "target"
"""Name of the input that holds the target of a run, where a job has several."""


def first_target(targets: JobTargets) -> JobTarget:
    """Return the target that is written first."""
    first = targets.first[0]
    return JobTarget(name=first) if isinstance(first, str) else first


def inputs_of_target(
    inputs: JsonObject,
    names: Targets,
    target: str,
    *,
    wave: int,
    is_last_wave: bool,
    visited: Sequence[str] = (),
    failed: Sequence[str] = (),
) -> JsonObject:
    """Return the inputs of one target's run: those of the job, and what the goal template asks
    the engine for.

    Names that the job gives as visited or failed stay, and a job that says that there is no further
    wave is right.
    """
    filled: JsonObject = {TARGET: target}
    if names.wave is not None:
        filled[names.wave] = wave
    if names.is_last_wave is not None:
        filled[names.is_last_wave] = is_last_wave or inputs.get(names.is_last_wave) is True
    for name, ended in ((names.visited, visited), (names.failed, failed)):
        if name is not None:
            before = inputs.get(name, [])
            # What is no list is refused by the schema of the inputs.
            filled[name] = _united(before, ended) if isinstance(before, list) else before
    return {**inputs, **filled}


def _united(before: list[Json], ended: Sequence[str]) -> list[Json]:
    return [*before, *(name for name in ended if name not in before)]
