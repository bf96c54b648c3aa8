"""Decide whether a value may be given where another is wanted.

A *misfit* is a conflict that no value could mend: a list where a number is wanted, a missing field, choices that do
not meet. What a value may or may not do (a pattern, a length, a null) is left to the validation at run time, so a
sound plan is never refused.
"""

from __future__ import annotations

from wavewright.planner.cel_describe import kind_with_article
from wavewright.planner.cel_faults import join_names
from wavewright.planner.cel_schemas import (
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
from wavewright.planner.types import Json, JsonSchema

_MAX_COMPARISONS = 2_000


def incompatibility(source: JsonSchema, target: JsonSchema) -> str | None:
    """Return why a value of `source` cannot be given where `target` is wanted, or None where it can."""
    if source is target:
        return None
    return _SchemaComparison().incompatibility(
        view_schema(scoped_schema(source)), view_schema(scoped_schema(target))
    )


class _SchemaComparison:
    """One comparison of two schemas, which may refer to themselves: no pair of parts is compared twice."""

    def __init__(self) -> None:
        self._compared: list[tuple[JsonSchema, JsonSchema]] = []
        self._seen: set[tuple[int, int]] = set()

    def incompatibility(self, source: SchemaView, target: SchemaView) -> str | None:
        """Return why one type does not fit the other."""
        if source.kind == "open" or target.kind == "open":
            return None
        if source.kind == "null":
            return None if target.nullable else f"null is given where {kind_with_article(target)} is wanted"
        reasons: list[str] = []
        for given in source.branches or (source,):
            for wanted in target.branches or (target,):
                reason = self._branch_incompatibility(given, wanted)
                if reason is None:
                    return None
                reasons.append(reason)
        kinds = {one.kind for side in (source, target) for one in side.branches or (side,)}
        if len(reasons) == 1 or len(kinds) == 1:
            # Of several objects, or several lists, it says nothing that one is given where the other is wanted.
            return reasons[0]
        return f"{kind_with_article(source)} is given where {kind_with_article(target)} is wanted"

    def _branch_incompatibility(self, source: SchemaView, target: SchemaView) -> str | None:
        if source.kind != target.kind and (source.kind, target.kind) != ("integer", "number"):
            return f"{kind_with_article(source)} is given where {kind_with_article(target)} is wanted"
        if source.kind not in ("array", "object"):
            return _choice_incompatibility(source, target)
        pair = (id(source.schema), id(target.schema))
        if pair in self._seen or len(self._seen) > _MAX_COMPARISONS:
            return None
        self._seen.add(pair)
        # Identities tell parts only while the parts live.
        self._compared.append((source.schema, target.schema))
        compare = self._list_incompatibility if source.kind == "array" else self._object_incompatibility
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
                if target.schema.get("additionalProperties") is False and name in required_fields(source):
                    only = join_names(field_schemas(target))
                    return f"a field '{name}' is given, and only these are wanted: {only}"
                continue
            reason = self.incompatibility(view_schema(subschema(schema, source.root)), view_schema(wanted))
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
