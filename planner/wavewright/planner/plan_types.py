"""What the expressions of a plan give, as JSON Schemas.

Types come from the tools' output schemas and from the inputs; a `for_each` step gives a list of its tool's outputs,
and `item` is an element of the list that it runs over. An expression is typed once, when somebody asks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from wavewright.planner.cel_faults import ExpressionError
from wavewright.planner.cel_types import TypedEnvironment
from wavewright.planner.goals import Goal
from wavewright.planner.hashing import canonical_json
from wavewright.planner.inferred import infer_schema, schema_definitions
from wavewright.planner.models import Plan, Step
from wavewright.planner.reads import reads
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import JsonObject, JsonSchema, StepId
from wavewright.planner.uses import CALL_ROLES, ExpressionUse, embedded_uses, holds_expression

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
        for step in self._plan.steps:
            found.setdefault(step.id, self._output(step))
        return found

    def call_output(self, step: Step) -> JsonSchema:
        """Return what one call of a step gives."""
        signature = self._tools.get(step.tool)
        return {} if signature is None else signature.output_schema

    def result(
        self, use: ExpressionUse, step: Step | None, *, output: JsonSchema | None = None
    ) -> JsonSchema | None:
        """Return what an expression gives, or nothing where it is faulty."""
        if not self._names_exist(use.expression):
            return None
        typed = self.typed(use, step, output=output)
        return None if isinstance(typed, ExpressionError) else typed

    def typed(
        self, use: ExpressionUse, step: Step | None, *, output: JsonSchema | None = None
    ) -> TypingResult:
        """Return what an expression gives, or what is wrong with it.

        Args:
            use: The expression and where it stands.
            step: The step it belongs to (for a gate, the step it is on), which decides on `item` and `index`.
            output: What `output` stands for, in a gate.
        """
        extra: dict[str, JsonSchema] = {} if output is None else {"output": output}
        if step is not None and step.for_each is not None and use.role in CALL_ROLES:
            extra |= {"item": self.item(step) or {}, "index": _INDEX_SCHEMA}
        scope = canonical_json(dict(extra)) if extra else b""
        key = (use.expression, scope)
        typed = self._typed.get(key)
        if typed is None:
            typed = self._typed[key] = self._compile(use.expression, scope, extra)
        return typed

    def item(self, step: Step) -> JsonSchema | None:
        """Return what `item` is in a step with `for_each`; nothing where its list is faulty."""
        if id(step) not in self._items:
            self._items[id(step)] = self._item(step)
        return self._items[id(step)]

    def _names_exist(self, expression: str) -> bool:
        """Return whether there are the steps and inputs that an expression reads; this costs less than typing it."""
        try:
            found = reads(expression)
        except ExpressionError:
            return False
        inputs = self.inputs["properties"]
        known: dict[str, Collection[str]] = {"steps": self.outputs}
        known["inputs"] = inputs if isinstance(inputs, dict) else ()
        return all(read.name is None or read.name in known.get(read.root, (read.name,)) for read in found)

    def _output(self, step: Step) -> JsonSchema:
        if step.id in self._untyped:
            return {}
        output = self.call_output(step)
        if step.for_each is None:
            return output
        return {**schema_definitions(output), "type": "array", "items": output}

    def _item(self, step: Step) -> JsonSchema | None:
        if isinstance(step.for_each, list):
            if holds_expression(step.for_each):
                return {}
            items = infer_schema(step.for_each).get("items")
            return items if isinstance(items, dict) else {}
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
        return TypedEnvironment(inputs=self.inputs, steps=self.outputs)
