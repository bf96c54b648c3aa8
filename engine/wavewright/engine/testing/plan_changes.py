"""What changes between two plans, in sentences a reviewer of a change can read."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

from pydantic import ValidationError

from wavewright.planner.models import Cap, Gate, Plan
from wavewright.planner.plan_diff import FieldChange, PlanDiff, StepChange, diff_plans
from wavewright.planner.types import Json, JsonObject

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_VALUE_WIDTH = 60


def describe_plan_changes(old: JsonObject, new: JsonObject) -> Iterator[str]:
    """Yield what changes from one plan, as JSON, to another; nothing where one is no plan of this version."""
    try:
        before, after = (Plan.model_validate_json(json.dumps(plan)) for plan in (old, new))
    except ValidationError:
        return
    yield from _of_diff(diff_plans(before, after, {}))
    yield from _of_gates(before.gates, after.gates)
    yield from _of_caps(before.caps, after.caps)
    for name, was, now in pair_by_name(before.inputs, after.inputs):
        if was != now:
            yield f"input {name} {short_value(was)} → {short_value(now)}"
    if before.result != after.result:
        yield f"result {short_value(before.result)} → {short_value(after.result)}"
    if (before.goal, before.reasoning) != (after.goal, after.reasoning):
        yield "the plan's own words changed"
    whys = {step.id: step.why for step in before.steps}
    yield from (
        f"why of step {step.id} changed"
        for step in after.steps
        if step.id in whys and step.why != whys[step.id]
    )


def pair_by_name(old: Mapping[K, V], new: Mapping[K, V]) -> Iterator[tuple[K, V | None, V | None]]:
    """Yield each name of either side with both values, the old side's order first."""
    for name in dict.fromkeys((*old, *new)):
        yield name, old.get(name), new.get(name)


def short_value(value: Json) -> str:
    """Return a value in a few characters."""
    if value is None:
        return "nothing"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = " ".join(text.split())
    return text if len(text) <= _VALUE_WIDTH else text[: _VALUE_WIDTH - 1] + "…"


def _of_diff(diff: PlanDiff) -> Iterator[str]:
    gone = {step.id for step in diff.removed}
    yield from (f"step {step.id} added (calls {step.tool})" for step in diff.added)
    yield from (f"step {step.id} removed (called {step.tool})" for step in diff.removed)
    for change in diff.changed:
        yield from (_of_field(change, field) for field in change.fields if field.path != "depends_on")
    yield from (f"edge {before} → {after}" for before, after in diff.edges_added)
    yield from (
        f"edge {before} → {after} gone" for before, after in diff.edges_removed if not {before, after} & gone
    )
    if diff.old.waves != diff.new.waves:
        yield f"waves {diff.old.waves} → {diff.new.waves}"
    if diff.old.max_parallelism != diff.new.max_parallelism:
        yield f"width {diff.old.max_parallelism} → {diff.new.max_parallelism}"


def _of_field(change: StepChange, field: FieldChange) -> str:
    if field.path == "optional":
        return f"step {change.step} is {'optional' if field.new else 'not optional'} now"
    return f"step {change.step}: {field.path} {short_value(field.old)} → {short_value(field.new)}"


def _of_gates(old: Iterable[Gate], new: Iterable[Gate]) -> Iterator[str]:
    for name, was, now in pair_by_name({gate.id: gate for gate in old}, {gate.id: gate for gate in new}):
        if was is None and now is not None:
            yield f"gate {name} added: {_blocking_text(now)} {now.on}"
        elif now is None and was is not None:
            yield f"gate {name} removed: {_was_blocking_text(was)} {was.on}"
        elif was is not None and now is not None:
            yield from _of_gate(was, now)


def _blocking_text(gate: Gate) -> str:
    return "blocks" if gate.severity == "block" else "warns about"


def _was_blocking_text(gate: Gate) -> str:
    return "blocked" if gate.severity == "block" else "warned about"


def _of_gate(was: Gate, now: Gate) -> Iterator[str]:
    if was.severity != now.severity:
        yield f"gate {now.id} now {'blocks' if now.severity == 'block' else 'only warns'}"
    sides: list[JsonObject] = [
        gate.model_dump(mode="json", by_alias=True, exclude_defaults=True) for gate in (was, now)
    ]
    for name, before, after in pair_by_name(sides[0], sides[1]):
        if before != after and name != "severity":
            yield f"gate {now.id}: {name} {short_value(before)} → {short_value(after)}"


def _of_caps(old: Iterable[Cap], new: Iterable[Cap]) -> Iterator[str]:
    """Yield what changes of caps; they have no ids: those of one field with one reason or one condition are one."""
    left = list(new)
    for was in old:
        now = next((cap for cap in left if _is_same_cap(was, cap)), None)
        if now is None:
            yield f"cap {was.field} {was.max:g} removed ({short_value(was.because)})"
            continue
        left.remove(now)
        if was.max != now.max:
            yield f"cap {now.field} {was.max:g} → {now.max:g}"
        if was.when != now.when:
            yield f"cap {now.field} {now.max:g}: when {short_value(was.when)} → {short_value(now.when)}"
    yield from (f"cap {cap.field} {cap.max:g} added ({short_value(cap.because)})" for cap in left)


def _is_same_cap(was: Cap, now: Cap) -> bool:
    return was.field == now.field and (was.because == now.because or was.when == now.when)
