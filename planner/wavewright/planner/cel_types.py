"""What expressions give, as JSON Schemas.

A *typed environment* knows what an expression may refer to; it reads and types expressions and evaluates none.
"""

from __future__ import annotations

from collections.abc import Mapping

from wavewright.planner.cel_infer import TypeInference
from wavewright.planner.cel_paths import plain_path
from wavewright.planner.cel_schemas import self_contained_schema, without_cel_types
from wavewright.planner.cel_tree import parse_expression
from wavewright.planner.types import JsonSchema


class TypedEnvironment:
    """What expressions may refer to, as JSON Schemas.

    `inputs` is the schema of the plan's inputs, `steps` the schema of each step's output (of the whole list for a
    step with `for_each`), `extra` those of further roots: `item`, `index`, `output`, `goal`.
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

    def with_extra(self, extra: Mapping[str, JsonSchema]) -> TypedEnvironment:
        """Return an environment that has further roots, or other schemas for those of the same name."""
        roots = {**self._roots, **extra}
        return TypedEnvironment(inputs=roots.pop("inputs"), steps=self._steps, extra=roots)

    def result_schema(self, expression: str) -> JsonSchema:
        """Return a JSON Schema of the expression's result; `{}` where anything may come out.

        Raises:
            ExpressionFault: it is no expression, names what does not exist, or joins what does not fit.
        """
        tree = parse_expression(expression)
        place = self._inference.infer(tree, expression)
        if plain_path(tree, {}) is not None:
            return self_contained_schema(place)
        return without_cel_types(self_contained_schema(place))
