"""The expression language of plans: CEL over JSON values.

A `TypedEnvironment` infers the JSON Schema of an expression's result before a run; `evaluate` and
`compile_expression` compute its value during it. An expression that the check accepts raises no
type error at run time, as long as the values fit their schemas.

A *reference* is an expression between `${` and its closing brace in a string of the plan. `render`
replaces references by their values, `map_references` by other references. A rendered value
is never searched for `${`, so `${…}` in data stays text.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from wavewright.planner.cel.embedded import (
    EmbeddedExpression,
    bare_expression,
    field_name,
    join_references,
    split_references,
)
from wavewright.planner.cel.errors import MAX_TEXT_LENGTH, ExpressionError
from wavewright.planner.cel.evaluator import compile_expression, exceeds_length
from wavewright.planner.cel.parser import parse_expression
from wavewright.planner.cel.paths import Variables, kind_name, plain_path
from wavewright.planner.cel.plain_paths import plain_read
from wavewright.planner.cel.reads import step_mentions
from wavewright.planner.language.json_values import map_texts
from wavewright.planner.language.plan import Cap, DocumentModel, Gate, Plan, PlanStop, Step
from wavewright.planner.schemas.inference import PartTypes, TypeInference
from wavewright.planner.schemas.views import self_contained_schema, without_cel_types
from wavewright.planner.types import Json, JsonSchema


class TypedEnvironment:
    """What expressions may refer to, as JSON Schemas.

    `inputs` is the schema of the plan's inputs, `steps` the schema of each step's output (of the
    whole list for a step with `for_each`), `extra` those of further roots: `item`, `index`,
    `output`, `goal`.
    """

    def __init__(
        self,
        *,
        inputs: JsonSchema,
        steps: Mapping[str, JsonSchema],
        extra: Mapping[str, JsonSchema] | None = None,
    ) -> None:
        self._steps = steps
        self._roots: dict[str, JsonSchema] = {"inputs": inputs, **(extra or {})}
        self._inference = TypeInference(self._roots, steps)
        self._fields: dict[tuple[int, str], tuple[JsonSchema, JsonSchema]] = {}
        """By the identity of an output's schema, and a path in it: that schema, which so stays, and
        what is there.
        """

    def with_extra(self, extra: Mapping[str, JsonSchema]) -> TypedEnvironment:
        """Return an environment that has further roots, or other schemas for those of the same
        name.
        """
        roots = {**self._roots, **extra}
        return TypedEnvironment(inputs=roots.pop("inputs"), steps=self._steps, extra=roots)

    def result_schema(self, expression: str) -> JsonSchema:
        """Return a JSON Schema of the expression's result; `{}` where anything may come out.

        Raises:
            ExpressionError: it is no expression, names what does not exist, or joins what does not
                fit.
        """
        read = plain_read(expression)
        if (
            read is None
            or read.name is None
            or read.root != "steps"
            or read.name not in self._steps
        ):
            return self._infer(expression)
        # Steps of one tool have one schema, in which a path is followed once.
        output = self._steps[read.name]
        key = (id(output), expression[read.offset + len(read.name) :])
        if key not in self._fields:
            self._fields[key] = (output, self._infer(expression))
        return self._fields[key][1]

    def part_types(self, expression: str) -> PartTypes:
        """Return what is known of the parts of an expression; nothing where it cannot be parsed."""
        types = PartTypes(self._roots, self._steps)
        try:
            tree = parse_expression(expression)
        except ExpressionError:
            return types
        types.learn(tree, expression)
        return types

    def _infer(self, expression: str) -> JsonSchema:
        tree = parse_expression(expression)
        place = self._inference.infer(tree, expression)
        if plain_path(tree, {}) is not None:
            return self_contained_schema(place)
        return without_cel_types(self_contained_schema(place))


def evaluate(expression: str, variables: Variables, now: dt.datetime) -> Json:
    """Return the value of an expression for variables by root, such as `{"steps": {…}, "inputs":
    {…}}`.

    Raises:
        ExpressionError: it is no expression, or has no value for these variables.

    >>> import datetime as dt
    >>> from wavewright.planner import evaluate
    >>> noon = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
    >>> evaluate("inputs.words.filter(w, w.size() > 3)", {"inputs": {"words": ["ash", "birch"]}}, noon)
    ['birch']
    """
    return compile_expression(expression)(variables, now)


def render(value: Json, evaluate: Callable[[str], Json]) -> Json:
    """Return a value with its references replaced by what `evaluate` gives for them.

    A string that is exactly one reference keeps the type of what it refers to; any other becomes
    text.

    Raises:
        ExpressionError: a reference is not closed, cannot be evaluated, or puts null into text.

    >>> from wavewright.planner import render
    >>> render({"days": "${inputs.days}", "note": "last ${inputs.days} days"}, lambda expression: 7)
    {'days': 7, 'note': 'last 7 days'}
    """

    def render_text(text: str) -> Json:
        parts = split_references(text) if "${" in text else (text,)
        if len(parts) == 1 and isinstance(parts[0], EmbeddedExpression):
            return evaluate(parts[0].expression)
        return _join_rendered(
            part if isinstance(part, str) else (part, evaluate(part.expression)) for part in parts
        )

    return map_texts(value, render_text)


Renderer: TypeAlias = Callable[[Variables, dt.datetime], Json]
"""Gives a value with its references replaced, for variables by root and the run's instant."""


def compile_render(value: Json) -> Renderer:
    """Return a renderer of a value, prepared for being called often.

    It gives what `render` gives; parts without a reference are returned as they are and not copied.

    Raises:
        ExpressionError: a reference is not closed, or holds no expression.
    """
    return _compile_value(value) or _constant_renderer(value)


def _constant_renderer(value: Json) -> Renderer:
    return lambda _variables, _now: value


def _compile_value(value: Json) -> Renderer | None:
    """Return a renderer, or None where there is nothing to render."""
    if isinstance(value, str):
        return _compile_text(value) if "${" in value else None
    if isinstance(value, dict):
        return _compile_object(value)
    if isinstance(value, list):
        return _compile_list(value)
    return None


def _compile_object(value: dict[str, Json]) -> Renderer | None:
    compiled = [(key, _compile_value(item)) for key, item in value.items()]
    renderers = [(key, renderer) for key, renderer in compiled if renderer is not None]
    if not renderers:
        return None

    def render_object(variables: Variables, now: dt.datetime) -> Json:
        rendered = dict(value)
        for key, renderer in renderers:
            rendered[key] = renderer(variables, now)
        return rendered

    return render_object


def _compile_list(value: list[Json]) -> Renderer | None:
    compiled = [(place, _compile_value(item)) for place, item in enumerate(value)]
    renderers = [(place, renderer) for place, renderer in compiled if renderer is not None]
    if not renderers:
        return None

    def render_list(variables: Variables, now: dt.datetime) -> Json:
        rendered = list(value)
        for place, renderer in renderers:
            rendered[place] = renderer(variables, now)
        return rendered

    return render_list


def _compile_text(value: str) -> Renderer:
    parts = split_references(value)
    if len(parts) == 1 and isinstance(parts[0], EmbeddedExpression):
        return compile_expression(parts[0].expression)
    if not any(isinstance(part, EmbeddedExpression) for part in parts):
        return _constant_renderer("".join(part for part in parts if isinstance(part, str)))
    compiled = [
        part if isinstance(part, str) else (part, compile_expression(part.expression))
        for part in parts
    ]

    def render_text(variables: Variables, now: dt.datetime) -> Json:
        return _join_rendered(
            part if isinstance(part, str) else (part[0], part[1](variables, now))
            for part in compiled
        )

    return render_text


def _join_rendered(parts: Iterable[str | tuple[EmbeddedExpression, Json]]) -> str:
    """Return text and the values of its references as one text."""
    texts: list[str] = []
    left = MAX_TEXT_LENGTH
    for part in parts:
        if isinstance(part, str):
            text = part
        else:
            reference, value = part
            if exceeds_length(value, left):
                raise _text_too_long_error(reference)
            text = _value_as_text(reference.expression, value, reference)
        texts.append(text)
        left -= len(text)
    if left < 0:
        raise _text_too_long_error(None)
    return "".join(texts)


def _text_too_long_error(reference: EmbeddedExpression | None) -> ExpressionError:
    return ExpressionError(
        "expression_too_large",
        f"the text becomes longer than {MAX_TEXT_LENGTH:,} characters",
        None if reference is None else reference.offset,
        "give the value to the tool as it is: a string that is one reference alone",
    )


def _value_as_text(expression: str, value: Json, reference: EmbeddedExpression) -> str:
    match value:
        case str():
            return value
        case None:
            raise ExpressionError(
                "evaluation_failed",
                f"'{expression.strip()}' is {kind_name(value)} and cannot be put into text",
                reference.offset,
                f'give another value for that case: {expression.strip()} != null ? … : "none"',
            )
        case float() if value.is_integer() and abs(value) < 1e15:
            # As CEL's own string(): JSON does not tell 3.0 from 3.
            return str(int(value))
        case _:
            return json.dumps(value, ensure_ascii=False)


def map_references(
    value: Json,
    change: Callable[[str], str],
    stand_in: Callable[[str], Sequence[Json]] = lambda _: (),
) -> Json:
    """Return a value whose references hold other expressions; a text with one that is not closed
    stays as it is.

    Args:
        value: Its strings inside expressions, comments, names and literal text stay.
        change: Gives the expression in the place of another one.
        stand_in: Gives what takes the place of a text that is one reference alone; nothing where
            that is an expression as well.
    """

    def change_text(text: str) -> Json:
        try:
            parts = split_references(text) if "${" in text else ()
        except ExpressionError:
            return text
        if len(parts) == 1 and isinstance(parts[0], EmbeddedExpression):
            for other in stand_in(parts[0].expression):
                return other
        changed = tuple(
            part if isinstance(part, str) else part._replace(expression=change(part.expression))
            for part in parts
        )
        return text if changed == parts else join_references(changed)

    return map_texts(value, change_text)


def map_condition(condition: str, change: Callable[[str], str]) -> str:
    """Return a condition of which the expression is another one, with what stands around it; one
    that is not closed stays as it is.
    """
    try:
        bare = bare_expression(condition)
    except ExpressionError:
        return condition
    end = bare.offset + len(bare.expression)
    return condition[: bare.offset] + change(bare.expression) + condition[end:]


class ExpressionMap(NamedTuple):
    """A change of expressions, made in all parts of a plan that hold some."""

    change: Callable[[str], str]
    """Gives the expression in the place of another one."""
    stand_in: Callable[[str], Sequence[Json]] = lambda _: ()
    """Gives what takes the place of a text that is one reference alone; see `map_references`."""

    def value(self, value: Json) -> Json:
        """Return a value whose texts may hold `${…}`."""
        return map_references(value, self.change, self.stand_in)

    def condition(self, condition: str) -> str:
        """Return a condition, bare or as one `${…}`."""
        return map_condition(condition, self.change)

    def plan(self, plan: Plan) -> Plan:
        """Return a plan; its names of `let` stay."""
        update = {
            "steps": tuple(map(self.step, plan.steps)),
            "gates": tuple(map(self.gate, plan.gates)),
            "caps": tuple(map(self.cap, plan.caps)),
            "result": self.value(plan.result),
            "stop": self.stop(plan.stop),
        }
        return plan.model_copy(update=update)

    def step(self, step: Step) -> Step:
        """Return a step; it is the same one where no expression of it changes."""
        repeat = step.repeat
        if repeat is not None:
            until, params = self.condition(repeat.until), self.value(repeat.params)
            repeat = _changed(repeat, until=until, params=params)
        return _changed(
            step,
            params=self.value(step.params),
            for_each=self.value(step.for_each),
            when=None if step.when is None else self.condition(step.when),
            repeat=repeat,
        )

    def gate(self, gate: Gate) -> Gate:
        """Return a gate."""
        return gate if gate.check is None else _changed(gate, check=self.condition(gate.check))

    def cap(self, cap: Cap) -> Cap:
        """Return a cap."""
        return _changed(cap, when=self.condition(cap.when))

    def stop(self, stop: PlanStop | None) -> PlanStop | None:
        """Return what ends a plan early, where there is something."""
        if stop is None:
            return None
        return PlanStop(when=self.condition(stop.when), result=self.value(stop.result))


_Part = TypeVar("_Part", bound=DocumentModel)


def _changed(part: _Part, **fields: object) -> _Part:
    """Return a part of a plan with other fields; the part itself where none differs."""
    update = {name: value for name, value in fields.items() if getattr(part, name) != value}
    return part.model_copy(update=update) if update else part


def rename_in_expression(expression: str, old: str, new: str) -> str:
    """Return a bare expression that reads step `new` wherever it read step `old`.

    Raises:
        ExpressionError: it is no expression.
    """
    renamed = expression
    for mention in reversed(step_mentions(expression, old)):
        name = f'"{new}"' if mention.quoted else field_name(new)
        renamed = renamed[: mention.start] + name + renamed[mention.end :]
    return renamed
