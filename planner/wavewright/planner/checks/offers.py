"""What may be written at a point of an expression, and which of it fits there; and the names that may
stand in other fields of a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from wavewright.config.sources import pointer_keys
from wavewright.planner.cel.functions.catalogue import function_entries
from wavewright.planner.checks.partial_plans import is_stand_in
from wavewright.planner.checks.types import incompatibility
from wavewright.planner.diagnostics.diagnostic import type_name
from wavewright.planner.schemas.views import (
    field_schemas,
    subschema,
    view_of,
)
from wavewright.planner.types import as_object

if TYPE_CHECKING:
    from wavewright.planner.checks.context import CheckContext
    from wavewright.planner.checks.places import ExpressionPlace, NameAsked
    from wavewright.planner.types import JsonSchema, StepId

_OWNERS: Final[Mapping[str, frozenset[str]]] = {
    "list": frozenset({"array"}),
    "object": frozenset({"object"}),
    "s": frozenset({"string"}),
    "t": frozenset({"timestamp", "duration"}),
}
"""Kinds of what a method is asked of, by the word that the catalogue has for it."""


OfferKind: TypeAlias = Literal[
    "name", "field", "function", "method", "key", "value", "tool", "gate", "model", "module", "file"
]


@dataclass(frozen=True, slots=True)
class Offer:
    """One thing that may be written."""

    name: str
    kind: OfferKind
    detail: str = ""
    """The type of its value; how a function or a tool is called; else what it is."""
    meaning: str = ""
    rank: int = 0
    """Offers of a lower rank come first: values that fit before those that do not, and those before
    calls; keys that are required before others.
    """
    inserted: str | None = None
    """The text that is inserted, where it is not the name."""


def expression_offers(place: ExpressionPlace, asked: NameAsked) -> Iterator[Offer]:
    """Yield what may be written at a point of an expression.

    Args:
        place: The point.
        asked: The name that is being written there.
    """
    wanted = place.wanted
    if asked.is_step:
        outputs = place.subject.types.outputs
        for step_id in place.readable_steps():
            step = place.subject.steps[step_id]
            why = step.why or f"calls {step.tool}"
            yield _typed(step_id, "name", outputs.get(step_id, {}), wanted, why)
    elif asked.owner is not None:
        yield from fields_of(asked.owner, wanted)
        if not asked.is_key:
            yield from _methods(asked.owner)
    else:
        for name, schema in asked.names.items():
            if pointer_keys(place.pointer)[:2] == ["let", name]:
                continue  # no name stands for itself
            yield _typed(name, "name", schema, wanted)
        yield Offer("steps", "name", "outputs of steps")
        yield from _functions(lambda owner: owner is None)


def fields_of(owner: JsonSchema, wanted: JsonSchema | None = None) -> Iterator[Offer]:
    """Yield the fields of a type."""
    view = view_of(owner)
    for name, part in field_schemas(view).items():
        schema = subschema(part, view.root).schema
        yield _typed(name, "field", schema, wanted, str(schema.get("description", "")))


def names_of_steps(subject: CheckContext, pointer: str) -> Iterator[Offer]:
    """Yield the steps that may be named at a place: of those that a step waits for none that waits
    for it.
    """
    section, number = pointer_keys(pointer)[:2]
    excluded: set[StepId] = set()
    if section == "steps":
        own = subject.plan.steps[int(number)].id
        excluded = {own, *(subject.graph.descendants(own) if own in subject.steps else ())}
    for name, step in subject.steps.items():
        if name not in excluded and not is_stand_in(name):
            yield Offer(name, "name", step.tool, step.why or "")


def fields_of_gate(subject: CheckContext, pointer: str) -> Iterator[Offer]:
    """Yield the fields of the output that a gate looks at."""
    gate = subject.plan.gates[int(pointer_keys(pointer)[1])]
    step = None if gate.on is None else subject.steps.get(gate.on)
    tool = None if gate.on_tool is None else subject.tools.get(gate.on_tool)
    if step is not None:
        yield from fields_of(subject.types.call_output(step))
    elif tool is not None:
        yield from fields_of(tool.output_schema or {})


def fields_of_cap(subject: CheckContext, _pointer: str) -> Iterator[Offer]:
    """Yield the parts of the result whose confidence may be capped."""
    yield Offer("overall", "field", "the confidence of the whole")
    for name in as_object(subject.plan.result):
        yield Offer(name, "field", "")


def _typed(
    name: str,
    kind: Literal["name", "field"],
    schema: JsonSchema,
    wanted: JsonSchema | None,
    meaning: str = "",
) -> Offer:
    fits = wanted is None or incompatibility(schema, wanted) is None
    return Offer(name, kind, type_name(schema), meaning, rank=int(not fits))


def _methods(owner: JsonSchema) -> Iterator[Offer]:
    view = view_of(owner)
    kinds = view.kinds

    def is_asked_of(word: str | None) -> bool:
        return word is not None and ("open" in kinds or bool(_OWNERS.get(word, kinds) & kinds))

    return _functions(is_asked_of)


def _functions(is_offered: Callable[[str | None], bool]) -> Iterator[Offer]:
    seen: set[str] = set()
    for entry in function_entries():
        if is_offered(entry.owner) and entry.name not in seen:
            seen.add(entry.name)
            kind: Literal["function", "method"] = "function" if entry.owner is None else "method"
            yield Offer(entry.name, kind, entry.call, entry.meaning, 2, f"{entry.name}(")
