"""Infer the types of a plan's expressions, and compare them with what parameters accept.

Types are JSON Schemas. They come from the tools' output schemas and from the inputs: a `for_each`
step gives a list of its tool's outputs, and `item` is an element of its list. Each expression is
typed once, when first asked for.

Two schemas are *incompatible* if no value fits both: a list for a number, a missing field, disjoint
choices. What depends on the value (a pattern, a length, a null) is validated at run time, so a
valid plan is never refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from wavewright.planner.cel.errors import ExpressionError, join_names
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.hashing import canonical_json
from wavewright.planner.language.plan import SUB_PLAN, Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.expressions import TypedEnvironment
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.uses import (
    CALL_ROLES,
    ExpressionRole,
    ExpressionUse,
    embedded_uses,
    holds_expression,
)
from wavewright.planner.schemas.operator_types import kind_with_article
from wavewright.planner.schemas.validation import infer_schema, schema_definitions
from wavewright.planner.schemas.views import (
    SchemaView,
    allowed_values,
    element_schema,
    field_schema,
    field_schemas,
    required_fields,
    scoped_schema,
    subschema,
    view_schema,
)
from wavewright.planner.types import Json, JsonObject, JsonSchema, StepId, as_object

if TYPE_CHECKING:
    from wavewright.planner.schemas.part_types import PartTypes

_MAX_COMPARISONS = 2_000


def incompatibility(source: JsonSchema, target: JsonSchema) -> str | None:
    """Return why a value of `source` cannot be given where `target` is wanted, or None where it
    can.
    """
    if source is target:
        return None
    return _SchemaComparison().incompatibility(
        view_schema(scoped_schema(source)), view_schema(scoped_schema(target))
    )


class _SchemaComparison:
    """One comparison of two schemas, which may refer to themselves: no pair of parts is compared
    twice.
    """

    def __init__(self) -> None:
        self._compared: list[tuple[JsonSchema, JsonSchema]] = []
        self._seen: set[tuple[int, int]] = set()

    def incompatibility(self, source: SchemaView, target: SchemaView) -> str | None:
        """Return why one type does not fit the other."""
        if source.kind == "open" or target.kind == "open":
            return None
        if source.kind == "null":
            return (
                None
                if target.nullable
                else f"null is given where {kind_with_article(target)} is wanted"
            )
        reasons: list[str] = []
        for given in source.branches or (source,):
            for wanted in target.branches or (target,):
                reason = self._branch_incompatibility(given, wanted)
                if reason is None:
                    return None
                reasons.append(reason)
        kinds = {one.kind for side in (source, target) for one in side.branches or (side,)}
        if len(reasons) == 1 or len(kinds) == 1:
            # Of several objects, or several lists, it says nothing that one is given where the
            # other is wanted.
            return reasons[0]
        return f"{kind_with_article(source)} is given where {kind_with_article(target)} is wanted"

    def _branch_incompatibility(self, source: SchemaView, target: SchemaView) -> str | None:
        if source.kind != target.kind and (source.kind, target.kind) != ("integer", "number"):
            return (
                f"{kind_with_article(source)} is given where {kind_with_article(target)} is wanted"
            )
        if source.kind not in ("array", "object"):
            return _choice_incompatibility(source, target)
        pair = (id(source.schema), id(target.schema))
        if pair in self._seen or len(self._seen) > _MAX_COMPARISONS:
            return None
        self._seen.add(pair)
        # Identities tell parts only while the parts live.
        self._compared.append((source.schema, target.schema))
        compare = (
            self._list_incompatibility if source.kind == "array" else self._object_incompatibility
        )
        return compare(source, target)

    def _list_incompatibility(self, source: SchemaView, target: SchemaView) -> str | None:
        if source.schema.get("maxItems") == 0:
            least = target.schema.get("minItems", 0)
            wanting = isinstance(least, int) and least > 0
            return "an empty list is given where elements are wanted" if wanting else None
        given, wanted = element_schema(source), element_schema(target)
        if given is None or wanted is None:
            return None
        reason = self.incompatibility(view_schema(given), view_schema(wanted))
        return f"in each element, {reason}" if reason is not None else None

    def _object_incompatibility(self, source: SchemaView, target: SchemaView) -> str | None:
        needed = required_fields(target)
        for name in needed:
            if field_schema(source, name) is None:
                has = join_names(field_schemas(source)) or "no fields"
                return f"the field '{name}' is wanted, and there is none (there is: {has})"
        for name, schema in field_schemas(source).items():
            if name not in required_fields(source) and name not in needed:
                continue
            wanted = field_schema(target, name)
            if wanted is None:
                if target.schema.get("additionalProperties") is False and name in required_fields(
                    source
                ):
                    only = join_names(field_schemas(target))
                    return f"a field '{name}' is given, and only these are wanted: {only}"
                continue
            reason = self.incompatibility(
                view_schema(subschema(schema, source.root)), view_schema(wanted)
            )
            if reason is not None:
                return f"in the field '{name}', {reason}"
        return None


def _choice_incompatibility(source: SchemaView, target: SchemaView) -> str | None:
    given, wanted = allowed_values(source), allowed_values(target)
    if wanted is None or given is None or any(choice in wanted for choice in given):
        return None
    return f"{_values_text(given)} is given where {_values_text(wanted)} is wanted"


def _values_text(values: list[Json]) -> str:
    written = join_names(repr(value) for value in values)
    return written if len(values) == 1 else f"one of {written}"


_INDEX_SCHEMA: JsonSchema = {"type": "integer"}

TypingResult = JsonSchema | ExpressionError


class PlanTypes:
    """The types of one plan."""

    def __init__(
        self,
        plan: Plan,
        goal: Goal | None,
        tools: Mapping[str, ToolSignature],
        untyped: Collection[StepId] = (),
    ) -> None:
        self._plan = plan
        self._goal = goal
        self._tools = tools
        self._untyped = untyped
        self._environments: dict[bytes, TypedEnvironment] = {}
        self._typed: dict[tuple[str, bytes], TypingResult] = {}
        self._compared: dict[tuple[int, int], tuple[JsonSchema, JsonSchema, str | None]] = {}
        # By identity: a plan under check may have two steps of one id.
        self._items: dict[int, JsonSchema | None] = {}

    @cached_property
    def inputs(self) -> JsonSchema:
        """What is known of the inputs: as declared where the goal declares them, else as they are."""
        declared = self._goal.inputs_schema if self._goal else {}
        properties = declared.get("properties")
        shown: JsonObject = {name: infer_schema(value) for name, value in self._plan.inputs.items()}
        known = (
            shown | {name: part for name, part in properties.items() if part}
            if isinstance(properties, dict)
            else shown
        )
        return {
            **schema_definitions(declared),
            "type": "object",
            "properties": known,
            "required": list(self._plan.inputs),
            "additionalProperties": False,
        }

    @cached_property
    def outputs(self) -> dict[str, JsonSchema]:
        """What each step gives."""
        found: dict[str, JsonSchema] = {}
        results: list[Step] = []
        for step in self._plan.steps:
            if step.tool == SUB_PLAN and step.id not in self._untyped:
                results.append(step)
            found.setdefault(step.id, self._output(step))
        # What such a step gives follows from its parameters, and so from other steps; those come
        # first in the graph.
        if results:
            order = {name: place for place, name in enumerate(PlanGraph.of(self._plan).order())}
            self._base = TypedEnvironment(inputs=self.inputs, steps=found, extra=self._names)
            for step in sorted(results, key=lambda step: order.get(step.id, -1)):
                found[step.id] = self._listed(step, self.value(step.params.get("result"), step))
        return found

    def call_output(self, step: Step) -> JsonSchema:
        """Return what one call of a step gives."""
        if step.tool == SUB_PLAN:
            output = self.outputs.get(step.id, {})
            items = output.get("items", {}) if step.for_each is not None else output
            return {**schema_definitions(output), **items} if isinstance(items, dict) else {}
        signature = self._tools.get(step.tool)
        return {} if signature is None else signature.output_schema

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
    ) -> PartTypes:
        """Return the types of an expression's parts, as far as they are known; see `typed`."""
        extra = self._further_roots(role, step, output)
        return self._base.with_extra(extra).part_types(expression)

    def _further_roots(
        self, role: ExpressionRole, step: Step | None, output: JsonSchema | None
    ) -> dict[str, JsonSchema]:
        """Return what an expression sees besides inputs and steps."""
        extra: dict[str, JsonSchema] = {} if output is None else {"output": output}
        if step is not None and step.for_each is not None and role in CALL_ROLES:
            extra |= {"item": self.item(step) or {}, "index": _INDEX_SCHEMA}
        return extra

    def incompatibility(self, given: JsonSchema, wanted: JsonSchema) -> str | None:
        """Return why a value of one schema cannot be given where the other is wanted; a pair is
        compared once.
        """
        key = (id(given), id(wanted))
        if key not in self._compared:
            # With the schemas, whose identities tell them only while they live.
            self._compared[key] = (given, wanted, incompatibility(given, wanted))
        return self._compared[key][2]

    def item(self, step: Step) -> JsonSchema | None:
        """Return what `item` is in a step with `for_each`; nothing where its list is faulty."""
        if id(step) not in self._items:
            self._items[id(step)] = self._item(step)
        return self._items[id(step)]

    def _output(self, step: Step) -> JsonSchema:
        signature = self._tools.get(step.tool)
        if step.id in self._untyped or signature is None or step.tool == SUB_PLAN:
            return (
                {}
                if step.for_each is None or step.id in self._untyped
                else {"type": "array", "items": {}}
            )
        return self._listed(step, signature.output_schema)

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
            return (
                (self.result(uses[0], step) or {})
                if uses and uses[0].is_whole
                else {"type": "string"}
            )
        if isinstance(value, dict):
            members: JsonObject = {name: self.value(one, step) for name, one in value.items()}
            if not any(
                schema_definitions(one) for one in members.values() if isinstance(one, dict)
            ):
                shape: JsonSchema = {
                    "type": "object",
                    "properties": members,
                    "required": list(members),
                }
                return {**shape, "additionalProperties": False}
            return {"type": "object"}
        return {"type": "array"}

    def _item(self, step: Step) -> JsonSchema | None:
        if isinstance(step.for_each, list):
            if holds_expression(step.for_each):
                return {}
            items = infer_schema(step.for_each).get("items")
            return as_object(items)
        try:
            uses = embedded_uses(step.for_each or "", "", "for_each")
        except ExpressionError:
            return None
        if len(uses) != 1 or not uses[0].is_whole:
            return None
        listed = self.result(uses[0], step)
        if listed is None:
            return None
        items = listed.get("items")
        return {**schema_definitions(listed), **items} if isinstance(items, dict) else {}

    def _compile(self, expression: str, scope: bytes, extra: dict[str, JsonSchema]) -> TypingResult:
        try:
            return self._environment(scope, extra).result_schema(expression)
        except ExpressionError as found:
            return found

    def _environment(self, scope: bytes, extra: dict[str, JsonSchema]) -> TypedEnvironment:
        environment = self._environments.get(scope)
        if environment is None:
            base = self._base
            environment = self._environments[scope] = base.with_extra(extra) if extra else base
        return environment

    @cached_property
    def _base(self) -> TypedEnvironment:
        return TypedEnvironment(inputs=self.inputs, steps=self.outputs, extra=self._names)

    @property
    def _names(self) -> dict[str, JsonSchema]:
        """The names of `let`, which stand in no expression any more, for hints on misspelt ones."""
        return {name: {} for name in self._plan.let}
