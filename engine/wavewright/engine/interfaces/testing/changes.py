"""What changes between two normal forms, in sentences: what a failing snapshot shows before its
text.

A sentence says what a change means: `step b added`, `width 3 → 5`, `gate fresh now blocks`. A
change that has no sentence is shown by its path.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar, cast

from pydantic import ValidationError

from wavewright.planner.language.json_values import json_changes
from wavewright.planner.language.plan import Cap, Gate, Plan
from wavewright.planner.plans.diff import FieldChange, PlanDiff, StepChange, diff_plans
from wavewright.planner.types import Json, JsonObject, as_object

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_VALUE_WIDTH = 60


def describe_plan_changes(old: JsonObject, new: JsonObject) -> Iterator[str]:
    """Yield what changes from one plan, as JSON, to another; nothing where one is no plan of this
    version.
    """
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
        yield from (
            _of_field(change, field) for field in change.fields if field.path != "depends_on"
        )
    yield from (f"edge {before} → {after}" for before, after in diff.edges_added)
    yield from (
        f"edge {before} → {after} gone"
        for before, after in diff.edges_removed
        if not {before, after} & gone
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
    for name, was, now in pair_by_name(
        {gate.id: gate for gate in old}, {gate.id: gate for gate in new}
    ):
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
    """Yield what changes of caps; they have no ids: those of one field with one reason or one
    condition are one.
    """
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


_MAX_SENTENCES = 12
"""Changes that are shown by their path."""


def describe_changes(old: JsonObject, new: JsonObject) -> list[str]:
    """Return what changes from one normal form to another, in sentences; none where they are equal."""
    if next(json_changes(old, new), None) is None:
        return []
    if old.get("form") != new.get("form"):
        return [f"form {short_value(old.get('form'))} → {short_value(new.get('form'))}"]
    sentences = list(dict.fromkeys(_DESCRIBERS[str(new.get("form"))](old, new)))
    if not sentences:
        others = list(_differences(old, new))
        sentences = others[:_MAX_SENTENCES]
        if len(others) > _MAX_SENTENCES:
            sentences.append(f"and {len(others) - _MAX_SENTENCES} more")
    return sentences


def _of_plans(old: JsonObject, new: JsonObject) -> Iterator[str]:
    yield from describe_plan_changes(_object(old, "plan"), _object(new, "plan"))


def _of_dags(old: JsonObject, new: JsonObject) -> Iterator[str]:
    for step, was, now in pair_by_name(_object(old, "steps"), _object(new, "steps")):
        if was is None:
            yield f"step {step} added (calls {now})"
        elif now is None:
            yield f"step {step} removed (called {was})"
        elif was != now:
            yield f"step {step} calls {now}, not {was}"
    before, after = _texts(old, "edges"), _texts(new, "edges")
    yield from (f"edge {edge}" for edge in after if edge not in before)
    yield from (f"edge {edge} gone" for edge in before if edge not in after)
    yield from _of_number("waves", len(_texts(old, "waves")), len(_texts(new, "waves")))
    yield from _of_number("width", old.get("width"), new.get("width"))


def _of_reviews(old: JsonObject, new: JsonObject) -> Iterator[str]:
    yield from _of_number("verdict", old.get("verdict"), new.get("verdict"))
    yield from _of_number("confidence", old.get("confidence"), new.get("confidence"))
    for name, was, now in pair_by_name(
        _keyed(old, "confidences", "field"), _keyed(new, "confidences", "field")
    ):
        if name != "overall":
            yield from _of_number(f"confidence {name}", _part(was, "capped"), _part(now, "capped"))
    for _, was, now in pair_by_name(
        _keyed(old, "caps", "field", "because"), _keyed(new, "caps", "field", "because")
    ):
        yield from _of_cap(was, now)
    yield from _of_lists("missing", _texts(old, "missing_data"), _texts(new, "missing_data"))
    actions = ("action", "step", "gate", "tool")
    yield from _of_keys(
        "recovery action",
        _keyed(old, "recovery_actions", *actions),
        _keyed(new, "recovery_actions", *actions),
    )
    yield from _of_number("reviewer", old.get("reviewer", "code"), new.get("reviewer", "code"))
    yield from _of_number("round", old.get("round", 0), new.get("round", 0))


def _of_cap(was: Json, now: Json) -> Iterator[str]:
    if not isinstance(was, dict) or not isinstance(now, dict):
        given = cast("JsonObject", now if was is None else was)
        yield f"cap {given.get('field')} {given.get('max')} {'added' if was is None else 'removed'}"
        return
    name = now.get("field")
    if was.get("max") != now.get("max"):
        yield f"cap {name} {short_value(was.get('max'))} → {short_value(now.get('max'))}"
    if was.get("applied") != now.get("applied"):
        yield f"cap {name} {now.get('max')} {'now holds' if now.get('applied') else 'holds no longer'}"


def _of_packages(old: JsonObject, new: JsonObject) -> Iterator[str]:
    if (was := _review_of(old)).get("verdict") == (now := _review_of(new)).get("verdict"):
        yield from _of_number(
            "status", _status_text(old.get("status")), _status_text(new.get("status"))
        )
    yield from describe_plan_changes(_object(old, "plan"), _object(new, "plan"))
    yield from _of_steps(_keyed(old, "execution_log", "id"), _keyed(new, "execution_log", "id"))
    yield from _of_gate_records(old.get("gates"), new.get("gates"))
    yield from _of_reviews(was, now)
    yield from _of_keys("document", _keyed(old, "documents", "id"), _keyed(new, "documents", "id"))
    yield from _of_keys("source", _keyed(old, "sources", "name"), _keyed(new, "sources", "name"))
    yield from _of_lists("warning", _texts(old, "warnings"), _texts(new, "warnings"))
    yield from list(_differences(old.get("result"), new.get("result"), "result"))[:_MAX_SENTENCES]


def _of_events(old: JsonObject, new: JsonObject) -> Iterator[str]:
    before, after = _by_kind(old), _by_kind(new)
    plans = [
        [_object(event, "plan") for event in side.get("plan_accepted", [])]
        for side in (before, after)
    ]
    for was, now in zip(*plans, strict=False):
        yield from describe_plan_changes(was, now)
    yield from _of_number("patches", max(0, len(plans[0]) - 1), max(0, len(plans[1]) - 1))
    ends = [
        {str(event["step"]): event for event in side.get("step_finished", [])}
        for side in (before, after)
    ]
    yield from _of_steps(cast("JsonObject", ends[0]), cast("JsonObject", ends[1]))
    records = [
        [gate for event in side.values() for gate in _objects(event, "gates")] for side in ends
    ]
    yield from _of_gate_records(cast("Json", records[0]), cast("Json", records[1]))
    statuses = [
        [_status_text(event.get("status")) for event in side.get("run_finished", [])][-1:]
        for side in (before, after)
    ]
    if statuses[0] != statuses[1]:
        yield f"verdict {short_value(*statuses[0] or [None])} → {short_value(*statuses[1] or [None])}"
    counts = [
        Counter({kind: len(events) for kind, events in side.items()}) for side in (before, after)
    ]
    for kind, were, are in pair_by_name(counts[0], counts[1]):
        yield from _of_number(f"events {kind}", were or 0, are or 0)


def _of_steps(old: JsonObject, new: JsonObject) -> Iterator[str]:
    """Yield how steps ended otherwise; those that only one side has are described with the plan."""
    for step, was, now in pair_by_name(old, new):
        if isinstance(was, dict) and isinstance(now, dict):
            yield from _of_number(f"step {step}", was.get("status"), now.get("status"))
            yield from _of_number(f"items of step {step}", was.get("items"), now.get("items"))


def _of_gate_records(old: Json, new: Json) -> Iterator[str]:
    sides = [_keyed({"gates": side}, "gates", "gate", "step", "index") for side in (old, new)]
    for _, was, now in pair_by_name(sides[0], sides[1]):
        if isinstance(was, dict) and isinstance(now, dict):
            item = "" if now.get("index") is None else f"[{now.get('index')}]"
            yield from _of_number(
                f"gate {now.get('gate')} on {now.get('step')}{item}",
                was.get("verdict"),
                now.get("verdict"),
            )


_DESCRIBERS = {
    "plan": _of_plans,
    "dag": _of_dags,
    "events": _of_events,
    "review": _of_reviews,
    "package": _of_packages,
}


def _of_number(name: str, old: Json, new: Json) -> Iterator[str]:
    if old != new:
        yield f"{name} {short_value(old)} → {short_value(new)}"


def _of_lists(name: str, old: list[str], new: list[str]) -> Iterator[str]:
    yield from (f"{name} added: {short_value(text)}" for text in new if text not in old)
    yield from (f"{name} gone: {short_value(text)}" for text in old if text not in new)


def _of_keys(name: str, old: JsonObject, new: JsonObject) -> Iterator[str]:
    for key, was, now in pair_by_name(old, new):
        if was != now:
            yield f"{name} {key} {'added' if was is None else 'gone' if now is None else 'changed'}"


def _differences(old: Json, new: Json, *above: str) -> Iterator[str]:
    for change in json_changes(old, new, above, within_lists=True):
        match change.kind:
            case "added":
                yield f"{change.dotted_path} added: {short_value(change.new)}"
            case "removed":
                yield f"{change.dotted_path} gone: {short_value(change.old)}"
            case "changed":
                yield f"{change.dotted_path} {short_value(change.old)} → {short_value(change.new)}"


def _object(form: JsonObject, name: str) -> JsonObject:
    return as_object(form.get(name))


def _objects(form: Json, name: str) -> list[JsonObject]:
    found = form.get(name) if isinstance(form, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _texts(form: JsonObject, name: str) -> list[str]:
    found = form.get(name)
    return [str(item) for item in found] if isinstance(found, list) else []


def _keyed(form: JsonObject, name: str, *fields: str) -> JsonObject:
    """Return the objects of a list by what names them; of several with one name the last."""
    return {
        " ".join(str(item[field]) for field in fields if item.get(field) is not None): item
        for item in _objects(form, name)
    }


def _by_kind(form: JsonObject) -> dict[str, list[JsonObject]]:
    found: dict[str, list[JsonObject]] = {}
    for event in _objects(form, "events"):
        found.setdefault(str(event.get("kind")), []).append(event)
    return found


def _review_of(form: JsonObject) -> JsonObject:
    return _object(form, "review")


def _part(value: Json, name: str) -> Json:
    return value.get(name) if isinstance(value, dict) else None


def _status_text(status: Json) -> Json:
    return status.replace("_", " ") if isinstance(status, str) else status
