"""The expression language of plans: CEL over JSON values.

An *expression* is checked against JSON Schemas before a run (`TypedEnvironment`) and evaluated over values during
it (`evaluate`, or `compile_dynamic` where one is called often). What the check accepts does not end in a type fault
at run time, as long as the values are what their schemas promise.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from wavewright.planner.cel_faults import ExpressionFault, FaultKind
from wavewright.planner.cel_functions import FUNCTIONS
from wavewright.planner.cel_infer import Inference
from wavewright.planner.cel_paths import Variables, plain_path
from wavewright.planner.cel_schemas import exported, without_cel_types
from wavewright.planner.cel_tree import MAX_BYTES, MAX_DEPTH, read_tree
from wavewright.planner.cel_values import Evaluator, compile_dynamic
from wavewright.planner.types import Json, JsonSchema

__all__ = [
    "FUNCTIONS",
    "MAX_BYTES",
    "MAX_DEPTH",
    "Evaluator",
    "ExpressionFault",
    "FaultKind",
    "TypedEnvironment",
    "Variables",
    "compile_dynamic",
    "evaluate",
]


_SURELY_SHALLOW = 20


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
        self._inference = Inference(self._roots, steps)

    def with_extra(self, extra: Mapping[str, JsonSchema]) -> TypedEnvironment:
        """Return an environment that has further roots, or other schemas for those of the same name."""
        roots = {**self._roots, **extra}
        return TypedEnvironment(inputs=roots.pop("inputs"), steps=self._steps, extra=roots)

    def result_schema(self, expression: str) -> JsonSchema:
        """Return a JSON Schema of the expression's result; `{}` where anything may come out.

        Raises:
            ExpressionFault: it is no expression, names what does not exist, or joins what does not fit.
        """
        tree = read_tree(expression)
        place = self._inference.infer(tree, expression)
        if tree.depth > _SURELY_SHALLOW:
            # The library counts levels in its own way: what it would refuse at run time is refused here.
            compile_dynamic(expression)
        if plain_path(tree, {}) is not None:
            return exported(place)
        return without_cel_types(exported(place))


def evaluate(expression: str, variables: Variables, now: dt.datetime) -> Json:
    """Return the value of an expression for variables by root, such as `{"steps": {…}, "inputs": {…}}`.

    Raises:
        ExpressionFault: it is no expression, or has no value for these variables.
    """
    return compile_dynamic(expression)(variables, now)
