"""Infer the types of a plan's expressions, and compare them with what parameters accept.

Types are JSON Schemas. They come from the tools' output schemas and from the inputs: a `for_each`
step gives a list of its tool's outputs, and `item` is an element of its list. Each expression is
typed once, when first asked for.

One type *fits* another always, perhaps or never. *Never* is an error: no value fits both, as with a
list for a number, a missing field, disjoint choices. *Perhaps* is a warning where a member of a
union, null, or an object without an optional field does not fit; what depends on the value (a
pattern, a length) is validated at the call, and told by a strict check. So a plan that may run well
is never refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property, reduce
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

from wavewright.planner.cel.errors import ExpressionError, join_names
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.hashing import canonical_json
from wavewright.planner.language.plan import SUB_PLAN, Plan, Step
from wavewright.planner.language.signatures import ToolSignatures
from wavewright.planner.plans.expressions import TypedEnvironment
from wavewright.planner.plans.graph import PlanGraph, last_steps
from wavewright.planner.plans.previous_run import declared_results, reads_previous
from wavewright.planner.plans.step_types import call_output_schema
from wavewright.planner.plans.uses import (
    CALL_ROLES,
    ExpressionRole,
    ExpressionUse,
    embedded_uses,
    holds_expression,
)
from wavewright.planner.schemas.inference import PartTypes
from wavewright.planner.schemas.operator_types import kind_with_article
from wavewright.planner.schemas.validation import (
    InvalidSchemaError,
    infer_schema,
    schema_definitions,
    validator_of,
)
from wavewright.planner.schemas.views import (
    CEL_TYPE,
    NOTES,
    OPEN,
    SchemaView,
    ScopedSchema,
    allowed_values,
    element_schema,
    field_schema,
    field_schemas,
    object_schema,
    required_fields,
    scoped_schema,
    self_contained_schema,
    subschema,
    tuple_schema,
    union_schema,
    view_of,
    view_schema,
)
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId, as_object

Level: TypeAlias = Literal["always", "value", "member", "never"]
"""How a type fits another: every value does; whether one does is known by its value, at the call; a
member of a union, null or an object without an optional field does not; no value does.
"""
_LEVELS: Final[tuple[Level, ...]] = get_args(Level)


Misfit: TypeAlias = Literal["null", "absent", "kind", ""]
"""What keeps a value from fitting: it is null, it lacks a field, or it is of another kind."""
Where: TypeAlias = Literal["itself", "elements", "inside", "value", "item"]
"""Of which part that holds: the value itself, each element of it, something deeper in it, or a value
that is known before the run, by the inputs alone or for an item.
"""


class Fit(NamedTuple):
    """How values of one schema fit another, with the reason where not all do."""

    level: Level
    reason: str = ""
    misfit: Misfit = ""
    where: Where = "itself"

    def inside(self, part: str, where: Where = "inside") -> Fit:
        """Return how a whole fits of which a part fits so."""
        outer = where if self.where == "itself" else "inside"
        return self._replace(reason=f"{part}, {self.reason}", where=outer)

    def at_worst(self, level: Level) -> Fit:
        """Return the fit of a part that cannot keep its whole from fitting more than so."""
        is_worse = _LEVELS.index(self.level) > _LEVELS.index(level)
        return self._replace(level=level) if is_worse else self


_ALWAYS: Final = Fit("always")


def fit_of(source: JsonSchema, target: JsonSchema) -> Fit:
    """Return how the values of `source` fit `target`; see docs/explanation/values.md."""
    if source is target or _is_same_schema(source, target):
        return _ALWAYS
    return _Comparison().fit(view_of(source), view_of(target))


def incompatibility(source: JsonSchema, target: JsonSchema) -> str | None:
    """Return why no value of `source` can be given where `target` is wanted, or None where one
    can.
    """
    fit = fit_of(source, target)
    return fit.reason if fit.level == "never" else None


def _is_same_schema(left: JsonSchema, right: JsonSchema) -> bool:
    # To Python, `true` and 1 are equal.
    return left == right and canonical_json(left) == canonical_json(right)


def _as_exact(fit: Fit, target: SchemaView) -> Fit:
    """Return how values fit a schema of which they fit the view so."""
    # Of what the view leaves out, as a `not` or a second schema of `allOf`, only a call decides.
    is_decided = target.is_exact or fit.level != "always"
    return fit if is_decided else Fit("value", "whether the value fits shows at the call")


def _worst(fits: Iterable[Fit]) -> Fit:
    return max(fits, key=lambda fit: _LEVELS.index(fit.level), default=_ALWAYS)


def _best(fits: Iterable[Fit]) -> Fit:
    return min(fits, key=lambda fit: _LEVELS.index(fit.level))


_MAX_COMPARISONS: Final = 2_000
_MAX_DEPTH: Final = 16


class _Comparison:
    """One comparison of two schemas, which may refer to themselves: no pair of parts is compared
    twice.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], Fit] = {}
        self._compared: list[tuple[JsonSchema, JsonSchema]] = []
        """Schemas, whose identities tell them only while they live."""

    def fit(self, source: SchemaView, target: SchemaView, depth: int = 0) -> Fit:
        """Return how the values of one schema fit another."""
        return _as_exact(self._fit(source, target, depth), target)

    def _fit(self, source: SchemaView, target: SchemaView, depth: int) -> Fit:
        if target.kind == "open":
            return _ALWAYS
        target_kind = kind_with_article(target)
        if source.kind == "open" or depth > _MAX_DEPTH:
            # Nothing is known of the value before the call.
            return Fit("value", f"any value may be given where {target_kind} is wanted")
        if source.kind == "null":
            reason = f"null is given where {target_kind} is wanted"
            return _ALWAYS if target.nullable else Fit("never", reason)
        branches = [branch for branch in source.alternatives if branch.kind != "null"]
        fits = [self._best_fit(branch, target, depth) for branch in branches]
        is_none_left = all(fit.level == "never" for fit in fits)
        if is_none_left and not (source.nullable and target.nullable):
            return Fit("never", _reason(source, target, fits[0].reason))
        # Some member fits, so the plan may run well: one that does not is told and refuses nothing.
        for place, branch in enumerate(branches):
            if fits[place].level == "never":
                reason = _reason_of_branch(branch, target, fits[place].reason)
                fits[place] = Fit("member", reason, "kind")
        if source.nullable and not target.nullable:
            fits.insert(
                0, Fit("member", f"null may be given where {target_kind} is wanted", "null")
            )
        return _worst(fits)

    def _best_fit(self, branch: SchemaView, target: SchemaView, depth: int) -> Fit:
        # Of several that do not fit, the one is told that is meant by its constants.
        others = sorted(target.alternatives, key=lambda other: _is_told_apart(branch, other))
        fits = (_as_exact(self._branch_fit(branch, other, depth), other) for other in others)
        return _best(fits)

    def _branch_fit(self, source: SchemaView, target: SchemaView, depth: int) -> Fit:
        if not _is_of_kind(source, target.kind):
            source_kind, target_kind = kind_with_article(source), kind_with_article(target)
            return Fit("never", f"{source_kind} is given where {target_kind} is wanted")
        if source.kind not in ("array", "object"):
            reason = _choice_incompatibility(source, target)
            return _limits_fit(source, target) if reason is None else Fit("never", reason)
        pair = (id(source.schema), id(target.schema))
        if pair not in self._known:
            if len(self._known) > _MAX_COMPARISONS:
                return Fit("value", "whether the value fits shows at the call")
            self._compared.append((source.schema, target.schema))
            # A part that holds itself fits where the rest of it does.
            self._known[pair] = _ALWAYS
            parts = self._list_fits if source.kind == "array" else self._object_fits
            self._known[pair] = _worst([_limits_fit(source, target), *parts(source, target, depth)])
        return self._known[pair]

    def _part_fit(self, source: ScopedSchema, target: ScopedSchema, depth: int) -> Fit:
        if source.root == target.root and _is_same_schema(source.schema, target.schema):
            return _ALWAYS
        return self.fit(view_schema(source), view_schema(target), depth + 1)

    def _list_fits(self, source: SchemaView, target: SchemaView, depth: int) -> Iterator[Fit]:
        if source.schema.get("maxItems") == 0:
            least = target.schema.get("minItems", 0)
            if isinstance(least, int) and least > 0:
                yield Fit("never", "an empty list is given where elements are wanted")
            return
        reason = _empty_range(source, target)
        if reason is not None:
            yield Fit("never", reason)
        least, most = _least_length(source, target), _most_length(source)
        own = _own_places(source, target)
        for place in range(min(own, most)):
            source_element = element_schema(source, place)
            target_element = element_schema(target, place)
            if source_element is not None and target_element is not None:
                fit = self._part_fit(source_element, target_element, depth)
                if place >= least:
                    # A list that does not go so far fits.
                    fit = fit.at_worst("value")
                yield fit.inside(f"in element {place}")
            elif source_element is not None:
                yield Fit("value", f"an element {place} may be given, and none is wanted")
        if own < most:
            source_element = element_schema(source, own)
            target_element = element_schema(target, own)
            if target_element is None:
                yield Fit("value", f"more elements may be given than the {own} that are wanted")
            elif source_element is not None:
                fit = self._part_fit(source_element, target_element, depth)
                if own > 0:
                    fit = fit.at_worst("value")
                yield fit.inside("in each element", "elements")

    def _object_fits(self, source: SchemaView, target: SchemaView, depth: int) -> Iterator[Fit]:
        fields, certain = field_schemas(source), required_fields(source)
        needed = required_fields(target)
        target_fields = field_schemas(target)
        for name in needed:
            if field_schema(source, name) is None:
                has = join_names(fields) or "no fields"
                reason = f"the field '{name}' is wanted, and there is none (there is: {has})"
                yield Fit("never", reason)
            elif name not in certain:
                level: Level = "member" if name in fields else "value"
                yield Fit(level, f"the field {name!r} may be absent, and it is wanted", "absent")
        is_closed = target.schema.get("additionalProperties") is False
        for name, schema in fields.items():
            target_field = field_schema(target, name)
            if target_field is None and is_closed and name in certain:
                only = join_names(target_fields)
                yield Fit("never", f"a field '{name}' is given, and only these are wanted: {only}")
            elif target_field is None:
                yield Fit("value", f"a field {name!r} may be given, which is not wanted")
            else:
                fit = self._part_fit(subschema(schema, source.root), target_field, depth)
                if name not in certain and name not in needed:
                    # A field that may be absent keeps no object from fitting.
                    fit = fit.at_worst("value")
                yield fit.inside(f"in the field '{name}'")
        others = source.schema.get("additionalProperties")
        target_others = target.schema.get("additionalProperties")
        if isinstance(target_others, dict) and others is not False:
            other_field = subschema(others, source.root) if isinstance(others, dict) else OPEN
            fit = self._part_fit(other_field, subschema(target_others, target.root), depth)
            yield fit.at_worst("member").inside("in each value")
        if others is not False and (is_closed or target_fields.keys() - fields.keys()):
            yield Fit("value", "fields may be given that are not known here")


def _is_of_kind(source: SchemaView, kind: str) -> bool:
    """Whether values may be of a kind; of numbers, those that are listed may be whole."""
    if (source.kind, kind) == ("number", "integer"):
        listed = allowed_values(source.schema) or []
        return any(isinstance(value, float) and value.is_integer() for value in listed)
    return source.kind == kind or (source.kind, kind) == ("integer", "number")


def _is_told_apart(source: SchemaView, target: SchemaView) -> bool:
    """Whether two objects have other constants in a field, such as `tool` of two calls."""
    fields = field_schemas(target) if source.kind == target.kind == "object" else {}
    for name, schema in field_schemas(source).items() if fields else ():
        ours = allowed_values(as_object(schema))
        theirs = allowed_values(as_object(fields.get(name)))
        if ours is not None and theirs is not None and not any(value in theirs for value in ours):
            return True
    return False


def _reason(source: SchemaView, target: SchemaView, of_first: str) -> str:
    """Return why no branch of a source fits any branch of a target."""
    sources, targets = source.alternatives, target.alternatives
    is_choice = len(sources) > 1 or len(targets) > 1
    is_of_one_kind = len({branch.kind for branch in (*sources, *targets)}) == 1
    if is_of_one_kind or not is_choice:
        # Of several objects, or several lists, it says nothing that one is given where the other
        # is wanted.
        return of_first
    return f"{kind_with_article(source)} is given where {kind_with_article(target)} is wanted"


def _reason_of_branch(branch: SchemaView, target: SchemaView, of_it: str) -> str:
    """Return why one branch of a source fits no branch of a target."""
    kind = kind_with_article(branch)
    if kind in map(kind_with_article, target.alternatives):
        return f"{kind} may be given that does not fit: {of_it}"
    return f"{kind} may be given where {kind_with_article(target)} is wanted"


def _own_places(source: SchemaView, target: SchemaView) -> int:
    """Return how many places of a list have a type of their own in one of two types."""
    prefixes = (side.schema.get("prefixItems") for side in (source, target))
    return max((len(prefix) for prefix in prefixes if isinstance(prefix, list)), default=0)


def _least_length(source: SchemaView, target: SchemaView) -> int:
    """Return how many elements a list has at least that is of both types."""
    least = (side.schema.get("minItems") for side in (source, target))
    return max((count for count in least if isinstance(count, int)), default=0)


def _most_length(source: SchemaView) -> int:
    """Return how many elements a list has at most that is of the source's type."""
    most, prefix = source.schema.get("maxItems"), source.schema.get("prefixItems")
    limits = [most] if isinstance(most, int) else []
    if isinstance(prefix, list) and source.schema.get("items") is False:
        limits.append(len(prefix))
    return min(limits, default=sys.maxsize)


_PARTS: Final = (
    frozenset(
        {"type", "properties", "required", "additionalProperties", "items", "prefixItems", CEL_TYPE}
    )
    | NOTES
)
"""Keywords that are compared part by part."""


def _limits_fit(source: SchemaView, target: SchemaView) -> Fit:
    """Return whether the limits of a target (its choices, pattern, range) hold for all values."""
    limits = {key: value for key, value in target.schema.items() if key not in _PARTS}
    if (source.kind, target.kind) == ("number", "integer"):
        limits["type"] = "integer"
    if not limits:
        return _ALWAYS
    choices = allowed_values(source.schema)
    if choices is not None:
        accepts = _accepting(target)
        if accepts is not None and all(map(accepts, choices)):
            return _ALWAYS
    elif all(_is_implied(key, value, source.schema) for key, value in limits.items()):
        return _ALWAYS
    shown = ", ".join(sorted(limits))
    return Fit("value", f"whether the value fits ({shown}) shows at the call")


def _is_implied(keyword: str, limit: Json, source: JsonSchema) -> bool:
    source_limit = source.get(keyword)
    if source_limit == limit:
        return True
    if not isinstance(source_limit, int | float) or not isinstance(limit, int | float):
        return False
    if keyword in ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"):
        return source_limit >= limit
    if keyword in ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"):
        return source_limit <= limit
    return False


def _accepting(target: SchemaView) -> Callable[[Json], bool] | None:
    """Return what tells whether a target accepts a value; nothing where its schema is none."""
    try:
        return validator_of(self_contained_schema(target.scoped)).accepts
    except InvalidSchemaError:
        return None


def _choice_incompatibility(source: SchemaView, target: SchemaView) -> str | None:
    choices, target_choices = allowed_values(source.schema), allowed_values(target.schema)
    if choices is None:
        return _empty_range(source, target)
    if target_choices is not None:
        if any(_is_same_choice(choice, known) for choice in choices for known in target_choices):
            return None
        return f"{_values_text(choices)} is given where {_values_text(target_choices)} is wanted"
    accepts = _accepting(target)
    if accepts is None or not choices or any(map(accepts, choices)):
        return None
    limits = ", ".join(sorted(target.schema.keys() - _PARTS))
    return f"{_values_text(choices)} is given, which does not fit ({limits})"


def _is_same_choice(left: Json, right: Json) -> bool:
    """Whether two values are one in JSON, where `true` is no number."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


_RANGES: Final = (
    ("minimum", "maximum"),
    ("exclusiveMinimum", "maximum"),
    ("minimum", "exclusiveMaximum"),
    ("exclusiveMinimum", "exclusiveMaximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
)


def _empty_range(source: SchemaView, target: SchemaView) -> str | None:
    """Return why no value is in both ranges, or None where one may be."""
    for low, high in _RANGES:
        for lower, upper in ((source, target), (target, source)):
            least, most = lower.schema.get(low), upper.schema.get(high)
            if not isinstance(least, int | float) or not isinstance(most, int | float):
                continue
            is_open = "exclusive" in low or "exclusive" in high
            if least > most or (least == most and is_open):
                return f"no value is both {low} {least:g} and {high} {most:g}"
    return None


def _values_text(values: list[Json]) -> str:
    written = join_names(repr(value) for value in values)
    return written if len(values) == 1 else f"one of {written}"


def _any_of(types: list[JsonSchema]) -> JsonSchema:
    """Return the type of a value that is of one of these types."""
    return self_contained_schema(reduce(union_schema, map(scoped_schema, types)))


_INDEX_SCHEMA: JsonSchema = {"type": "integer"}

TypingResult = JsonSchema | ExpressionError


class PlanTypes:
    """The types of one plan."""

    def __init__(
        self,
        plan: Plan,
        goal: Goal | None,
        tools: ToolSignatures,
        untyped: Collection[StepId] = (),
        *,
        previous: JsonSchema | None = None,
        sub_plans: ToolSignatures | None = None,
    ) -> None:
        """Type a plan.

        Args:
            plan: Its sub-plans put in, or as its author wrote it.
            goal: What it is for.
            tools: What its steps may call.
            untyped: Steps of whose output nothing is known.
            previous: The result of the previous run, the plan's own where absent.
            sub_plans: The plans that steps call, by what these name, where they are not put in.
        """
        self._plan = plan
        self._previous = previous
        self._goal = goal
        self._tools = tools
        self._untyped = untyped
        self._sub_plans = sub_plans or {}
        self._environments: dict[bytes, TypedEnvironment] = {}
        self._typed: dict[tuple[str, bytes], TypingResult] = {}
        self._compared: dict[tuple[int, int], tuple[JsonSchema, JsonSchema, str | None]] = {}
        # By identity: a plan under check may have two steps of one id.
        self._items: dict[int, JsonSchema | None] = {}
        self._calls: dict[int, JsonSchema] = {}

    @cached_property
    def inputs(self) -> JsonSchema:
        """What is known of the inputs: as declared where the goal declares them, else as they are."""
        declared = self._goal.inputs_schema if self._goal else {}
        properties = declared.get("properties")
        fields: JsonObject = {
            name: infer_schema(value) for name, value in self._plan.inputs.items()
        }
        if isinstance(properties, dict):
            # A declaration without any limit says less than the value.
            fields |= {name: part for name, part in properties.items() if part}
        return {
            **schema_definitions(declared),
            "type": "object",
            "properties": fields,
            "required": list(self._plan.inputs),
            "additionalProperties": False,
        }

    @cached_property
    def previous(self) -> JsonSchema:
        """The last achieved run of the job, whose result is of the type of the plan's own."""
        result = self._previous
        if result is None:
            # Within its own type the result of the run before is of any type: types have an end.
            unrolled = PlanTypes(
                self._plan,
                self._goal,
                self._tools,
                self._untyped,
                previous={},
                sub_plans=self._sub_plans,
            )
            result = unrolled.own_result if reads_previous(self._plan) else {}
        return {
            **schema_definitions(result),
            "type": "object",
            "properties": {"result": result, "started": {"type": "string", "format": "date-time"}},
            "additionalProperties": False,
        }

    @property
    def own_result(self) -> JsonSchema:
        """What the plan gives as its result, at its end or by its `stop`."""
        results = [self.value(value) for value in declared_results(self._plan)]
        if self._plan.result is None:
            results.append(self._terminal_outputs())
        return _any_of(results)

    def _terminal_outputs(self) -> JsonSchema:
        outputs = {str(step): self.outputs.get(step, {}) for step in last_steps(self._plan)}
        if len(outputs) == 1:
            return next(iter(outputs.values()))
        places = {step: scoped_schema(output) for step, output in outputs.items()}
        return self_contained_schema(object_schema(places, []))

    @cached_property
    def outputs(self) -> dict[str, JsonSchema]:
        """What each step gives."""
        outputs: dict[str, JsonSchema] = {}
        sub_plan_results: list[Step] = []
        for step in self._plan.steps:
            if step.tool == SUB_PLAN and step.id not in self._untyped:
                sub_plan_results.append(step)
            outputs.setdefault(step.id, self._output(step))
        # What such a step gives follows from its parameters, and so from other steps; those come
        # first in the graph.
        if sub_plan_results:
            order = {name: place for place, name in enumerate(PlanGraph.of(self._plan).order())}
            self._base = TypedEnvironment(inputs=self.inputs, steps=outputs, extra=self._roots)
            for step in sorted(sub_plan_results, key=lambda step: order.get(step.id, -1)):
                outputs[step.id] = self._listed(step, self._sub_plan_result(step))
        return outputs

    def _sub_plan_result(self, step: Step) -> JsonSchema:
        """Return what one run of a sub-plan gives, which stands there or is called."""
        if step.plan is not None:
            called = self._sub_plans.get(step.plan)
            return {} if called is None else called.output_schema
        return self.value(step.params.get("result"), step)

    def call_output(self, step: Step) -> JsonSchema:
        """Return what one call of a step gives."""
        if step.tool == SUB_PLAN:
            output = self.outputs.get(step.id, {})
            items = output.get("items", {}) if step.for_each is not None else output
            return {**schema_definitions(output), **items} if isinstance(items, dict) else {}
        return self._call_output(step)

    def _call_output(self, step: Step) -> JsonSchema:
        """Return what one call of a step gives that is no sub-plan's; computed once, since schemas
        are compared by identity.
        """
        if id(step) not in self._calls:
            self._calls[id(step)] = call_output_schema(step, self._tools)
        return self._calls[id(step)]

    def result(
        self, use: ExpressionUse, step: Step | None, *, output: JsonSchema | None = None
    ) -> JsonSchema | None:
        """Return what an expression gives, or nothing where it is faulty."""
        typed = self.typed(use, step, output=output)
        return None if isinstance(typed, ExpressionError) else typed

    def typed(
        self, use: ExpressionUse, step: Step | None, *, output: JsonSchema | None = None
    ) -> TypingResult:
        """Return what an expression gives, or what is wrong with it.

        Args:
            use: The expression and where it stands.
            step: The step it belongs to (for a gate, the step it is on), which decides on `item`
                and `index`.
            output: What `output` stands for, in a gate.
        """
        extra = self._further_roots(use.role, step, output)
        scope = canonical_json(dict(extra)) if extra else b""
        key = (use.expression, scope)
        typed = self._typed.get(key)
        if typed is None:
            typed = self._typed[key] = self._compile(use.expression, scope, extra)
        return typed

    def part_types(
        self,
        expression: str,
        role: ExpressionRole,
        step: Step | None,
        *,
        output: JsonSchema | None = None,
        names: Mapping[str, JsonSchema] | None = None,
    ) -> PartTypes:
        """Return the types of an expression's parts, as far as they are known; see `typed`.

        `names` are those of the plan's `let`, in an expression that still reads them.
        """
        extra = {**(names or {}), **self._further_roots(role, step, output)}
        return self._base.with_extra(extra).part_types(expression)

    def _further_roots(
        self, role: ExpressionRole, step: Step | None, output: JsonSchema | None
    ) -> dict[str, JsonSchema]:
        """Return what an expression sees besides inputs and steps."""
        extra: dict[str, JsonSchema] = {} if output is None else {"output": output}
        if step is not None and step.for_each is not None and role in CALL_ROLES:
            extra |= {"item": self.item(step) or {}, "index": _INDEX_SCHEMA}
        return extra

    def incompatibility(self, source: JsonSchema, target: JsonSchema) -> str | None:
        """Return why no value of `source` can be given where `target` is wanted; a pair is compared
        once.
        """
        key = (id(source), id(target))
        if key not in self._compared:
            # With the schemas, whose identities tell them only while they live.
            self._compared[key] = (source, target, incompatibility(source, target))
        return self._compared[key][2]

    def item(self, step: Step) -> JsonSchema | None:
        """Return what `item` is in a step with `for_each`; nothing where its list is faulty."""
        if id(step) not in self._items:
            self._items[id(step)] = self._item(step)
        return self._items[id(step)]

    def _output(self, step: Step) -> JsonSchema:
        if step.id in self._untyped:
            return {}
        is_unknown = step.tool not in self._tools or step.tool == SUB_PLAN
        return self._listed(step, {} if is_unknown else self._call_output(step))

    def _listed(self, step: Step, output: JsonSchema) -> JsonSchema:
        """Return what a step gives of which each call gives this."""
        if step.for_each is None:
            return output
        return {**schema_definitions(output), "type": "array", "items": output}

    def value(self, value: Json, step: Step | None = None) -> JsonSchema:
        """Return what a value gives whose texts may hold `${…}`."""
        if not holds_expression(value):
            return infer_schema(value)
        if isinstance(value, str):
            try:
                uses = embedded_uses(value, "", "params")
            except ExpressionError:
                return {}
            if uses and uses[0].is_whole:
                return self.result(uses[0], step) or {}
            return {"type": "string"}
        if isinstance(value, list):
            entries = [scoped_schema(self.value(entry, step)) for entry in value]
            return self_contained_schema(tuple_schema(entries))
        members = as_object(value)
        places = {name: scoped_schema(self.value(part, step)) for name, part in members.items()}
        return self_contained_schema(object_schema(places, [*members], closed=True))

    def _entry(self, values: list[Json], step: Step | None = None) -> JsonSchema:
        """Return what an entry is of a list that is written out, of which some hold `${…}`."""
        literals = [value for value in values if not holds_expression(value)]
        types = [self.value(value, step) for value in values if holds_expression(value)]
        if literals:
            types.append(as_object(infer_schema(literals).get("items")))
        return _any_of(types)

    def _item(self, step: Step) -> JsonSchema | None:
        if isinstance(step.for_each, list):
            return self._entry(step.for_each) if step.for_each else {}
        try:
            uses = embedded_uses(step.for_each or "", "", "for_each")
        except ExpressionError:
            return None
        if len(uses) != 1 or not uses[0].is_whole:
            return None
        listed = self.result(uses[0], step)
        if listed is None:
            return None
        return self_contained_schema(element_schema(view_of(listed)) or OPEN)

    def _compile(self, expression: str, scope: bytes, extra: dict[str, JsonSchema]) -> TypingResult:
        try:
            return self._environment(scope, extra).result_schema(expression)
        except ExpressionError as error:
            return error

    def _environment(self, scope: bytes, extra: dict[str, JsonSchema]) -> TypedEnvironment:
        environment = self._environments.get(scope)
        if environment is None:
            base = self._base
            environment = self._environments[scope] = base.with_extra(extra) if extra else base
        return environment

    @cached_property
    def _base(self) -> TypedEnvironment:
        return TypedEnvironment(inputs=self.inputs, steps=self.outputs, extra=self._roots)

    @property
    def _roots(self) -> dict[str, JsonSchema]:
        """The previous run, and for hints on misspelt ones the names of `let`, which stand in no
        expression any more.
        """
        names: dict[str, JsonSchema] = {name: {} for name in self._plan.let}
        return {**names, "previous": self.previous}
