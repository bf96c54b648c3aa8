"""The types of an expression's parts, for whoever shows or completes it.

What is known stays known where the expression is faulty: inference goes up the tree, so the parts
before the fault have their types.
"""

from __future__ import annotations

from collections.abc import Mapping

from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.cel.nodes import ExpressionNode, Identifier
from wavewright.planner.schemas.inference import LocalVariable, TypeInference
from wavewright.planner.schemas.views import ScopedSchema, self_contained_schema
from wavewright.planner.types import JsonSchema


class PartTypes(TypeInference):
    """Infers one expression and keeps what it learns on the way."""

    def __init__(self, roots: Mapping[str, JsonSchema], steps: Mapping[str, JsonSchema]) -> None:
        super().__init__(roots, steps)
        self.roots = roots
        self.steps = steps
        self._types: dict[tuple[int, int], ScopedSchema] = {}
        self._locals: dict[int, Mapping[str, LocalVariable]] = {}

    def learn(self, tree: ExpressionNode, text: str) -> None:
        """Infer an expression, as far as it is sound."""
        try:
            self.infer(tree, text)
        except ExpressionError:
            return

    def type_of(self, start: int, end: int) -> JsonSchema | None:
        """Return the type of the part that stands there, if it is known."""
        known = self._types.get((start, end))
        return None if known is None else self_contained_schema(known)

    def names_at(self, start: int) -> dict[str, JsonSchema]:
        """Return what a name that begins there may be, with its type: roots, and names of macros."""
        own = self._locals.get(start, {})
        found = {name: self_contained_schema(local.place) for name, local in own.items()}
        return {**self.roots, **found}

    def _infer(self, node: ExpressionNode, scope: Mapping[str, LocalVariable]) -> ScopedSchema:
        if isinstance(node, Identifier):
            self._locals[node.start] = scope
        place = super()._infer(node, scope)
        self._types[node.start, node.end] = place
        return place
