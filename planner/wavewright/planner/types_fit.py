"""Decide whether a value may be given where another is wanted.

A *misfit* is a conflict that no value could mend: a list where a number is wanted, a missing field, choices that do
not meet. What a value may or may not do (a pattern, a length, a null) is left to the validation at run time, so a
sound plan is never refused.
"""

from __future__ import annotations

from wavewright.planner.cel_describe import with_article
from wavewright.planner.cel_faults import listed
from wavewright.planner.cel_schemas import (
    View,
    below,
    choices,
    element,
    field,
    fields,
    located,
    required,
    view,
)
from wavewright.planner.types import Json, JsonSchema

_COMPARISONS = 2_000


def misfit(source: JsonSchema, target: JsonSchema) -> str | None:
    """Return why a value of `source` cannot be given where `target` is wanted, or None where it can."""
    if source is target:
        return None
    return _Comparison().misfit(view(located(source)), view(located(target)))


class _Comparison:
    """One comparison of two schemas, which may refer to themselves: no pair of parts is compared twice."""

    def __init__(self) -> None:
        self._compared: list[tuple[JsonSchema, JsonSchema]] = []
        self._seen: set[tuple[int, int]] = set()

    def misfit(self, source: View, target: View) -> str | None:
        """Return why one type does not fit the other."""
        if source.kind == "open" or target.kind == "open":
            return None
        if source.kind == "null":
            return None if target.nullable else f"null is given where {with_article(target)} is wanted"
        reasons: list[str] = []
        for given in source.branches or (source,):
            for wanted in target.branches or (target,):
                reason = self._branch_misfit(given, wanted)
                if reason is None:
                    return None
                reasons.append(reason)
        kinds = {one.kind for side in (source, target) for one in side.branches or (side,)}
        if len(reasons) == 1 or len(kinds) == 1:
            # Of several objects, or several lists, it says nothing that one is given where the other is wanted.
            return reasons[0]
        return f"{with_article(source)} is given where {with_article(target)} is wanted"

    def _branch_misfit(self, source: View, target: View) -> str | None:
        if source.kind != target.kind and (source.kind, target.kind) != ("integer", "number"):
            return f"{with_article(source)} is given where {with_article(target)} is wanted"
        if source.kind not in ("array", "object"):
            return _choice_misfit(source, target)
        pair = (id(source.schema), id(target.schema))
        if pair in self._seen or len(self._seen) > _COMPARISONS:
            return None
        self._seen.add(pair)
        # Identities tell parts only while the parts live.
        self._compared.append((source.schema, target.schema))
        compare = self._list_misfit if source.kind == "array" else self._object_misfit
        return compare(source, target)

    def _list_misfit(self, source: View, target: View) -> str | None:
        if source.schema.get("maxItems") == 0:
            least = target.schema.get("minItems", 0)
            wanting = isinstance(least, int) and least > 0
            return "an empty list is given where elements are wanted" if wanting else None
        given, wanted = element(source), element(target)
        if given is None or wanted is None:
            return None
        reason = self.misfit(view(given), view(wanted))
        return f"in each element, {reason}" if reason is not None else None

    def _object_misfit(self, source: View, target: View) -> str | None:
        needed = required(target)
        for name in needed:
            if field(source, name) is None:
                has = listed(fields(source)) or "no fields"
                return f"the field '{name}' is wanted, and there is none (there is: {has})"
        for name, schema in fields(source).items():
            if name not in required(source) and name not in needed:
                continue
            wanted = field(target, name)
            if wanted is None:
                if target.schema.get("additionalProperties") is False and name in required(source):
                    only = listed(fields(target))
                    return f"a field '{name}' is given, and only these are wanted: {only}"
                continue
            reason = self.misfit(view(below(schema, source.root)), view(wanted))
            if reason is not None:
                return f"in the field '{name}', {reason}"
        return None


def _choice_misfit(source: View, target: View) -> str | None:
    given, wanted = choices(source), choices(target)
    if wanted is None or given is None or any(choice in wanted for choice in given):
        return None
    return f"{_choices(given)} is given where {_choices(wanted)} is wanted"


def _choices(values: list[Json]) -> str:
    written = listed(repr(value) for value in values)
    return written if len(values) == 1 else f"one of {written}"
