"""Inputs that replace those of a job or are added to them.

The caller of a command gives a file of them, and single values. In a job with several targets the
engine sets the target, its wave, and what came of earlier ones.

A single value is addressed by a path of names with dots (`sales.year`, `codes.0`) and typed by the
goal's input schema: text is taken as written, anything else is read as JSON. Where the schema is
silent, the type of the value in its place counts; where there is none, whatever is no JSON is text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from wavewright.config.errors import did_you_mean
from wavewright.config.sources import DocumentError, DocumentFault, Source, Span
from wavewright.planner.language.goals import GoalTemplate, Job, JobTarget, JobTargets, Targets
from wavewright.planner.language.plan import Plan
from wavewright.planner.types import Json, JsonObject

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
    """Inputs by name, from a file."""
    assignments: tuple[str, ...] = ()
    """Values as `path=value`, in their order; they override `from_file`."""

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
        named = () if plan is None else plan.inputs
        return job.model_copy(
            update={"inputs": self.applied(job.inputs, template.inputs_schema, named)}
        )

    def applied_to_plan(self, plan: Plan) -> Plan:
        """Return a plan with these inputs, for one that is checked by itself.

        Raises:
            DocumentError: there is no place for a value.
        """
        return plan.model_copy(update={"inputs": self.applied(plan.inputs, {})}) if self else plan

    def applied(
        self, inputs: JsonObject, schema: JsonObject, named: Iterable[str] = ()
    ) -> JsonObject:
        """Return inputs with these on top, typed by a JSON Schema of the inputs; what is given is
        not changed.

        A new name that is similar to that of an input is refused as a misspelling; `from_file` may
        add any name.

        Args:
            inputs: The inputs to override.
            schema: JSON Schema of the inputs.
            named: Names of further inputs.

        Raises:
            DocumentError: as in `applied_to_job`.
        """
        found: JsonObject = {**inputs, **self.from_file}
        properties = schema.get("properties")
        known = {*found, *named, *(properties if isinstance(properties, dict) else ())}
        for text in self.assignments:
            path, _, value = text.partition("=")
            names = path.split(".")
            if "=" not in text or not all(names):
                raise _input_fault(
                    text, 0, f"{text!r} sets no input", "write --set NAME=VALUE, or NAME.NAME=VALUE"
                )
            if names[0] not in known and (near := did_you_mean(names[0], known)):
                raise _input_fault(
                    text,
                    0,
                    f"no input is called {names[0]!r}",
                    f"{near} --inputs FILE adds new ones",
                )
            changed = _with_value(found, names, _TypedValue(text, value), schema)
            assert isinstance(changed, dict)
            found = changed
        return found


@dataclass(frozen=True, slots=True)
class _TypedValue:
    """A value as it was typed."""

    whole: str
    text: str

    def typed(self, schema: Json, old: Json) -> Json:
        """Return the value as its schema, or else the value in its place, has it."""
        wanted = _types_in(schema) or _types_like(old)
        if wanted == ["string"]:
            return self.text
        try:
            found: Json = json.loads(self.text)
        except ValueError:
            found = self.text
        if wanted and not any(_has_type(found, name) for name in wanted):
            if "string" in wanted:
                return self.text
            hint = f"write it as in JSON, as {_EXAMPLES[wanted[0]]}"
            raise self.error(f"{self.text!r} is not of type {' or '.join(wanted)}", hint)
        return found

    def error(self, message: str, hint: str) -> DocumentError:
        """Return the error of this value, to be raised."""
        return _input_fault(self.whole, len(self.whole) - len(self.text), message, hint)


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
        return [
            _with_value(item, rest, new, _schema_below(schema, "items"))
            if at == int(name)
            else item
            for at, item in enumerate(value)
        ]
    if value is not None and not isinstance(value, dict):
        raise new.error(
            f"{name!r} lies in {json.dumps(value)}, which is no object", "shorten the path"
        )
    held = value or {}
    return {
        **held,
        name: _with_value(
            held.get(name), rest, new, _schema_below(_schema_below(schema, "properties"), name)
        ),
    }


def _schema_below(schema: Json, name: str) -> Json:
    return schema.get(name) if isinstance(schema, dict) else None


def _types_in(schema: Json) -> list[str]:
    given = _schema_below(schema, "type")
    names = given if isinstance(given, list) else [given]
    return [name for name in names if isinstance(name, str) and name in _TYPES]


def _types_like(value: Json) -> list[str]:
    """Return the types that may replace a value without a schema: those of its own kind."""
    if isinstance(value, bool):
        return ["boolean"]
    return (
        ["string"]
        if isinstance(value, str)
        else ["number"]
        if isinstance(value, int | float)
        else []
    )


def _has_type(value: Json, name: str) -> bool:
    # Without the validator: the schema was not checked yet, and a text may hold a lone surrogate.
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name]) or (
        name == "integer" and isinstance(value, float) and value.is_integer()
    )


def _input_fault(text: str, start: int, message: str, hint: str) -> DocumentError:
    found = DocumentFault("bad_value", message, Span(start, max(len(text), start + 1)), hint=hint)
    return DocumentError(Source("--set", text), (found,))


TARGET = "target"
"""Name of the input that holds the target of a run, where a job has several."""


def first_target(targets: JobTargets) -> JobTarget:
    """Return the target that is written first."""
    first = targets.first[0]
    return JobTarget(name=first) if isinstance(first, str) else first


def inputs_of_target(
    given: JsonObject,
    names: Targets,
    target: str,
    *,
    wave: int,
    is_last_wave: bool,
    visited: Sequence[str] = (),
    failed: Sequence[str] = (),
) -> JsonObject:
    """Return the inputs of one target's run: those that are given, and what the goal template asks
    the engine for.

    Names that the job gives as visited or failed stay, and a job that says that there is no further
    wave is right.
    """
    filled: JsonObject = {TARGET: target}
    if names.wave is not None:
        filled[names.wave] = wave
    if names.is_last_wave is not None:
        filled[names.is_last_wave] = is_last_wave or given.get(names.is_last_wave) is True
    for name, ended in ((names.visited, visited), (names.failed, failed)):
        if name is not None:
            before = given.get(name, [])
            # What is no list is refused by the schema of the inputs.
            filled[name] = _united(before, ended) if isinstance(before, list) else before
    return {**given, **filled}


def _united(before: list[Json], ended: Sequence[str]) -> list[Json]:
    return [*before, *(name for name in ended if name not in before)]
