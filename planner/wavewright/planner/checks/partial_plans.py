"""The readable part of a plan whose document has faults of shape.

In a *partial plan* every step, gate and cap keeps its place, and placeholders stand for what could
not be read. It is checked and never run; `is_certain` tells the diagnostics of what was written from
those that follow from what is missing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias, TypeVar, cast

from pydantic import BaseModel, ValidationError

from wavewright.config.sources import DocumentFault, pointer_keys
from wavewright.planner.diagnostics.diagnostic import Diagnostic
from wavewright.planner.language.plan import Cap, Gate, Plan, Step
from wavewright.planner.plans.let_and_stop import with_let, with_stop
from wavewright.planner.types import GateId, Json, JsonObject, StepId

M = TypeVar("M", bound=BaseModel)
_LocatedFault: TypeAlias = "tuple[list[str], str]"
"""A fault of shape: the keys that lead to it, and its kind."""

_NEEDS_FIELD: Final = {"E204": "params", "E305": "for_each", "E306": "when"}
"""Codes that say what a step lacks, with the field that would give it."""
_NEEDS_NAMES: Final = frozenset({"E301", "E403", "E407", "E408"})
"""Codes that are certain only where the id of every step is known."""
_NEEDS_STEPS: Final = frozenset({"E503", "E505", "E506", "E508", "E701", "E702", "E703", "E704"})
"""Codes that are certain only where every step is known whole."""


@dataclass(slots=True)
class _PartialNode:
    """A step, gate or cap as it was written, with what is wrong in it."""

    given: JsonObject = field(default_factory=dict[str, Json])
    """Its fields, without the faulty ones."""
    faulty: set[str] = field(default_factory=set[str])
    """Names of its faulty fields."""
    has_unknown: bool = False
    """Whether it has a field that does not exist: any absent field may be meant by it."""
    is_whole: bool = True
    """Whether nothing is wrong in it."""

    def may_have(self, name: str) -> bool:
        """Whether a field that could not be read may have been given."""
        return name in self.faulty or (self.has_unknown and name not in self.given)


@dataclass(frozen=True, slots=True)
class PartialPlan:
    """A plan without what could not be read of it."""

    plan: Plan
    untyped: frozenset[StepId]
    """Steps of whose output nothing is known: they may run once an item or once."""
    _steps: Sequence[_PartialNode]
    _root: _PartialNode
    _replaced: frozenset[str]
    """Pointers of what was left out, or has a stand-in."""

    def is_certain(self, diagnostic: Diagnostic) -> bool:
        """Whether a diagnostic of `plan` holds of the plan as it was written."""
        keys = pointer_keys(diagnostic.pointer)
        owners = {"".join(f"/{key}" for key in keys[:length]) for length in (1, 2, 3)}
        if not self._replaced.isdisjoint(owners):
            return False
        if diagnostic.code in _NEEDS_NAMES:
            return all("id" in step.given for step in self._steps)
        if diagnostic.code in _NEEDS_STEPS:
            return all(step.is_whole for step in self._steps)
        if diagnostic.code == "E302":
            return not self._root.may_have("inputs")
        needed = _NEEDS_FIELD.get(diagnostic.code)
        if needed is None or keys[:1] != ["steps"]:
            return True
        return not self._steps[int(keys[1])].may_have(needed)

    def as_written(self, diagnostic: Diagnostic) -> Diagnostic:
        """Return a diagnostic that names a step without an id by its place."""
        message = _UNNAMED_STEP.sub(r"steps[\1]", diagnostic.message)
        return diagnostic if message == diagnostic.message else replace(diagnostic, message=message)


def read_partial_plan(value: Json, faults: Iterable[DocumentFault]) -> PartialPlan | None:
    """Return the valid part of a plan's value; nothing where it has no list of steps.

    Args:
        value: The document's value.
        faults: Everything that keeps it from being a plan, with pointers into it.
    """
    if not isinstance(value, dict) or not isinstance(value.get("steps"), list):
        return None
    located = [(pointer_keys(fault.pointer), fault.kind) for fault in faults]
    root = _part(value, [fault for fault in located if not _is_within_list(fault)])
    steps, gates, caps = (_parts(value.get(name), name, located) for name in _LISTS)
    update = {
        "steps": tuple(_step(part, number) for number, part in enumerate(steps)),
        "gates": tuple(_gate(part, number) for number, part in enumerate(gates)),
        "caps": tuple(_valid(Cap, part.given) or _NO_CAP for part in caps),
    }
    plan = _valid(Plan, {**root.given, "steps": [], "gates": [], "caps": []}) or Plan(steps=())
    plan = plan.model_copy(update=update)
    untyped = frozenset(
        step.id
        for step, part in zip(plan.steps, steps, strict=True)
        if part.may_have("for_each") or step.plan is not None
    )
    replaced = frozenset(_replaced_pointers(root, steps, gates, caps))
    return PartialPlan(with_stop(with_let(plan)[0]), untyped, steps, root, replaced)


def _is_within_list(fault: _LocatedFault) -> bool:
    path, _ = fault
    return len(path) > 1 and path[0] in _LISTS


def _replaced_pointers(
    root: _PartialNode,
    steps: Sequence[_PartialNode],
    gates: Sequence[_PartialNode],
    caps: Sequence[_PartialNode],
) -> Iterator[str]:
    """Yield the pointers of what was left out, or has a stand-in: of steps the fields, of gates and
    caps the whole.
    """
    yield from (f"/{name}" for name in root.faulty)
    for number, step in enumerate(steps):
        for name in step.faulty | (_REQUIRED - step.given.keys()):
            yield f"/steps/{number}/{name}"
    for name, parts in (("gates", gates), ("caps", caps)):
        for number, part in enumerate(parts):
            if not part.is_whole:
                yield f"/{name}/{number}"


_LISTS: Final = ("steps", "gates", "caps")
_REQUIRED: Final = frozenset({"id", "tool"})
_NO_CAP: Final = Cap.model_construct(field="overall", when="true", max=1.0, because="-")


def _parts(items: Json, name: str, faults: Sequence[_LocatedFault]) -> list[_PartialNode]:
    """Return each item of a list with what is wrong in it; none where it is no list."""
    if not isinstance(items, list):
        return []
    faults_by_item: dict[int, list[_LocatedFault]] = {}
    for path, kind in faults:
        if len(path) > 1 and path[0] == name and path[1].isdecimal():
            faults_by_item.setdefault(int(path[1]), []).append((path[2:], kind))
    return [_part(item, faults_by_item.get(number, ())) for number, item in enumerate(items)]


def _part(value: Json, faults: Sequence[_LocatedFault]) -> _PartialNode:
    if not isinstance(value, dict):
        return _PartialNode(has_unknown=True, is_whole=False)
    unknown = {path[0] for path, kind in faults if len(path) == 1 and kind == "unknown_field"}
    faulty = {path[0] for path, _ in faults if path} - unknown
    well_formed = {name: inner for name, inner in value.items() if name not in faulty | unknown}
    return _PartialNode(well_formed, faulty, has_unknown=bool(unknown), is_whole=not faults)


def is_stand_in(name: str) -> bool:
    """Whether a name stands for the id of a step or a gate that could not be read."""
    return name.startswith(_UNNAMED)


_UNNAMED: Final = "unnamed__"
_UNNAMED_STEP: Final = re.compile(rf"(?:step )?'{_UNNAMED}(\d+)'")


def _step(part: _PartialNode, number: int) -> Step:
    stand_in: JsonObject = {"id": f"{_UNNAMED}{number}", "tool": "?"}
    step = _valid(Step, stand_in | part.given)
    if step is not None:
        return step
    # Its fault is one of the fields together, or was not listed because there are too many.
    named = {name: value for name, value in part.given.items() if name == "id"}
    part.given, part.has_unknown, part.is_whole = named, True, False
    return _valid(Step, stand_in | named) or Step.model_validate(stand_in)


def _gate(part: _PartialNode, number: int) -> Gate:
    gate = _valid(Gate, part.given)
    if gate is not None:
        return gate
    part.is_whole = False
    # What it looks at is known while its other fields are being written.
    looked_at = {name: part.given[name] for name in ("on", "on_tool") if name in part.given}
    return Gate.model_construct(id=GateId(f"{_UNNAMED}{number}"), **cast("Any", looked_at))


def _valid(model: type[M], value: JsonObject) -> M | None:
    try:
        return model.model_validate(value, by_alias=True, by_name=False)
    except ValidationError:
        return None
