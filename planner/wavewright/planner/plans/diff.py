"""Compare two plans, for approval and for programs.

A *diff* compares plans by step id: added, removed and changed steps, field by field, and the effect
on edges, waves, concurrency and the estimated duration of the run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wavewright.config.errors import cut_end
from wavewright.planner.language.goals import Goal
from wavewright.planner.language.hashing import plan_hash
from wavewright.planner.language.json_values import json_changes
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import ToolSignatures
from wavewright.planner.plans.estimates import expected_seconds
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.let_and_stop import with_joined
from wavewright.planner.types import Json, JsonObject, PlanHash, StepId

Edge = tuple[StepId, StepId]


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One value that differs; `None` on a side where it is not there."""

    path: str
    old: Json
    new: Json


@dataclass(frozen=True, slots=True)
class StepChange:
    """A step that both plans have, with what differs."""

    step: StepId
    fields: tuple[FieldChange, ...]


@dataclass(frozen=True, slots=True)
class PlanShape:
    """A plan's size."""

    hash: PlanHash
    steps: int
    waves: int
    max_parallelism: int
    seconds: float
    """Expected length of its critical path."""


@dataclass(frozen=True, slots=True)
class PlanDiff:
    """What changes from one plan to another.

    >>> from wavewright.planner import Plan, Step, diff_plans
    >>> old = Plan(steps=(Step(id="a", tool="fetch"),))
    >>> new = Plan(steps=(Step(id="a", tool="fetch"), Step(id="b", tool="rank")))
    >>> [step.id for step in diff_plans(old, new, {}).added]
    ['b']
    """

    old: PlanShape
    new: PlanShape
    added: tuple[Step, ...]
    removed: tuple[Step, ...]
    changed: tuple[StepChange, ...]
    edges_added: tuple[Edge, ...]
    edges_removed: tuple[Edge, ...]
    elsewhere: tuple[FieldChange, ...]
    """Changes of inputs, gates, caps and the result; and of goals, where each plan stands in a job.
    """

    @property
    def is_empty(self) -> bool:
        """Whether the plans do the same."""
        return self.old.hash == self.new.hash and not self.elsewhere

    def to_json(self) -> JsonObject:
        """Return the diff for programs."""
        return {
            "old": _shape_as_json(self.old),
            "new": _shape_as_json(self.new),
            "added": [_step_as_json(step) for step in self.added],
            "removed": [step.id for step in self.removed],
            "changed": [
                {"id": change.step, "fields": [_field_as_json(field) for field in change.fields]}
                for change in self.changed
            ],
            "edges_added": [list(edge) for edge in self.edges_added],
            "edges_removed": [list(edge) for edge in self.edges_removed],
            "elsewhere": [_field_as_json(field) for field in self.elsewhere],
        }

    def __str__(self) -> str:
        """Return the diff for people."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.is_empty:
            yield "the plans do the same"
            return
        for step in self.added:
            instead = f", instead of {step.supersedes}" if step.supersedes else ""
            yield f"+ {step.id}: {step.tool}{instead}"
            yield from (
                f"    {name}: {_value_text(value)}"
                for name, value in _step_as_json(step).items()
                if name not in _SHOWN_FIELDS
            )
        yield from (f"- {step.id}: {step.tool}" for step in self.removed)
        for change in self.changed:
            yield f"~ {change.step}"
            yield from (f"    {_change_text(field)}" for field in change.fields)
        yield from (f"~ {_change_text(field)}" for field in self.elsewhere)
        yield from (f"+ {before} -> {after}" for before, after in self.edges_added)
        yield from (f"- {before} -> {after}" for before, after in self.edges_removed)
        yield f"steps   {_metric_change(self.old.steps, self.new.steps)}"
        yield f"waves   {_metric_change(self.old.waves, self.new.waves)}"
        yield f"width   {_metric_change(self.old.max_parallelism, self.new.max_parallelism)}"
        yield f"seconds {_metric_change(self.old.seconds, self.new.seconds)}"


_SHOWN_FIELDS = frozenset({"id", "tool", "supersedes"})
_TEXT_WIDTH = 80


def diff_plans(
    old: Plan, new: Plan, tools: ToolSignatures, goals: tuple[Goal, Goal] | None = None
) -> PlanDiff:
    """Return what changes from one plan to another; the prose of plans does not count.

    `goals` are those of the two plans, where each is bound to one: their own differences count as
    well.

    >>> from wavewright.planner import Plan, Step, diff_plans
    >>> old = Plan(steps=(Step(id="a", tool="fetch"),))
    >>> new = Plan(steps=(Step(id="a", tool="fetch", params={"days": 7}),))
    >>> len(diff_plans(old, new, {}).changed)
    1
    """
    before, after = PlanGraph.of(old), PlanGraph.of(new)
    shapes = _plan_shape(old, before, tools), _plan_shape(new, after, tools)
    old, new = with_joined(old), with_joined(new)
    return PlanDiff(
        old=shapes[0],
        new=shapes[1],
        added=tuple(step for step in new.steps if step.id not in before.steps),
        removed=tuple(step for step in old.steps if step.id not in after.steps),
        changed=tuple(_step_changes(old, new)),
        edges_added=tuple(edge for edge in after.edges if edge not in frozenset(before.edges)),
        edges_removed=tuple(edge for edge in before.edges if edge not in frozenset(after.edges)),
        elsewhere=(
            *_other_changes(old, new),
            *(_goal_changes(*goals) if goals is not None else ()),
        ),
    )


def _plan_shape(plan: Plan, graph: PlanGraph, tools: ToolSignatures) -> PlanShape:
    return PlanShape(
        hash=plan_hash(plan),
        steps=len(plan.steps),
        waves=graph.depth,
        max_parallelism=graph.width,
        seconds=graph.critical_path(expected_seconds(plan, tools)).seconds,
    )


def _step_changes(old: Plan, new: Plan) -> Iterator[StepChange]:
    before = {step.id: _step_as_json(step) for step in old.steps}
    for step in new.steps:
        if step.id in before:
            fields = tuple(_field_changes(before[step.id], _step_as_json(step)))
            if fields:
                yield StepChange(step.id, fields)


def _other_changes(old: Plan, new: Plan) -> Iterator[FieldChange]:
    sides: list[JsonObject] = [
        {
            "inputs": plan.inputs,
            "gates": {
                str(gate.id): gate.model_dump(mode="json", by_alias=True, exclude_defaults=True)
                for gate in plan.gates
            },
            "caps": [cap.model_dump(mode="json") for cap in plan.caps],
            "let": plan.let,
            "stop": None if plan.stop is None else plan.stop.model_dump(mode="json"),
            "result": plan.result,
        }
        for plan in (old, new)
    ]
    yield from _field_changes(sides[0], sides[1])


def _goal_changes(old: Goal, new: Goal) -> Iterator[FieldChange]:
    sides = [
        goal.model_dump(mode="json", by_alias=True, exclude=_PLAN_FIELDS) for goal in (old, new)
    ]
    yield from _field_changes(sides[0], sides[1], "goal")


_PLAN_FIELDS: Final = {"name", "job", "inputs", "gates", "caps", "origin"}
"""What a bound plan has of its goal, names, and which file a job is of."""


def _field_changes(old: Json, new: Json, *above: str) -> Iterator[FieldChange]:
    for change in json_changes(old, new, above):
        yield FieldChange(change.dotted_path, change.old, change.new)


def _step_as_json(step: Step) -> JsonObject:
    return step.model_dump(mode="json", exclude_defaults=True, exclude={"why"})


def _shape_as_json(shape: PlanShape) -> JsonObject:
    return {
        "hash": shape.hash,
        "steps": shape.steps,
        "waves": shape.waves,
        "width": shape.max_parallelism,
        "seconds": shape.seconds,
    }


def _field_as_json(field: FieldChange) -> JsonObject:
    return {"path": field.path, "old": field.old, "new": field.new}


def _change_text(field: FieldChange) -> str:
    if field.old is None:
        return f"{field.path}: {_value_text(field.new)} (added)"
    if field.new is None:
        return f"{field.path}: removed"
    old, new = _whole_text(field.old), _whole_text(field.new)
    pairs = enumerate(zip(old, new, strict=False))
    alike = next((place for place, (a, b) in pairs if a != b), min(len(old), len(new)))
    # What differs is shown, however far into the text it stands.
    start = 0 if alike < _TEXT_WIDTH * 3 // 4 else alike - _TEXT_WIDTH // 4
    return f"{field.path}: {_cut(old, start)} -> {_cut(new, start)}"


def _value_text(value: Json) -> str:
    return _cut(_whole_text(value))


def _whole_text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _cut(text: str, start: int = 0) -> str:
    """Return a text of one line's length from a place on; one that is no longer whole."""
    shown = f"…{text[start:]}" if start and len(text) > _TEXT_WIDTH else text
    return cut_end(shown, _TEXT_WIDTH)


def _metric_change(old: float, new: float) -> str:
    return f"{old:g}" if old == new else f"{old:g} -> {new:g}"
