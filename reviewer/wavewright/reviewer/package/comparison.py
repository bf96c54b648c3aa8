"""What is different between two runs, sentence by sentence.

A *comparison* holds a run against another, such as its replay: the plan, how steps ended, what
gates found, confidences and caps, the verdict, and what models cost. What is the same is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wavewright.config.errors import cut_end
from wavewright.executor import GateRecord, RunState
from wavewright.planner import (
    Json,
    JsonObject,
    Plan,
    PlanDiff,
    ToolSignatures,
    diff_plans,
)
from wavewright.planner.plans.diff import FieldChange
from wavewright.reviewer.cost_records import Cost
from wavewright.reviewer.package.call_reports import sum_uses
from wavewright.reviewer.records import CapRecord, Confidence, Package, ReviewResult, StepReport

_MAX_VALUE_LENGTH = 60
"""Characters of a value in a sentence."""


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of the two runs that are compared."""

    state: RunState
    package: Package | None
    """None where it ended before there was one."""
    ending: str = ""
    """Why it ended so, where there is no package."""

    @property
    def plan(self) -> Plan | None:
        """The plan in force at the end."""
        return None if self.state.plan is None else Plan.model_validate(self.state.plan)

    @property
    def review(self) -> ReviewResult | None:
        """The verdict."""
        return None if self.package is None else self.package.review

    @property
    def status(self) -> str:
        """How it ended."""
        return self.state.finished.status if self.state.finished is not None else "failed"


@dataclass(frozen=True, slots=True)
class RoleCostChange:
    """What a role's models cost, before and after."""

    role: str
    before: Cost
    after: Cost


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The differences between two runs."""

    plan: tuple[str, ...]
    steps: tuple[str, ...]
    gates: tuple[str, ...]
    confidence: tuple[str, ...]
    """Of confidences and caps."""
    review: tuple[str, ...]
    """Of the verdict, and what it rests on."""
    costs: tuple[RoleCostChange, ...]
    """By role, the sum of all last; empty where no model was asked in either."""
    diff: PlanDiff | None

    @property
    def is_empty(self) -> bool:
        """Whether both did the same, costs aside."""
        return not (self.plan or self.steps or self.gates or self.confidence or self.review)

    def to_json(self) -> JsonObject:
        """Return the differences for programs."""
        return {
            "plan": [*self.plan],
            "steps": [*self.steps],
            "gates": [*self.gates],
            "confidence": [*self.confidence],
            "review": [*self.review],
            "plan_diff": None if self.diff is None else self.diff.to_json(),
            "costs": [
                {
                    "role": cost.role,
                    "before": _cost_json(cost.before),
                    "after": _cost_json(cost.after),
                }
                for cost in self.costs
            ],
        }


def compare(before: ComparedRun, after: ComparedRun, signatures: ToolSignatures) -> RunComparison:
    """Return what is different in the second run.

    Args:
        before: A run.
        after: Its replay, or another run.
        signatures: Of the tools of both plans.
    """
    old, new = before.plan, after.plan
    diff = diff_plans(old, new, signatures) if old is not None and new is not None else None
    return RunComparison(
        plan=("one of them has no plan",) if diff is None else tuple(_plan(diff)),
        steps=tuple(_steps(before, after)),
        gates=tuple(_gates(before, after)),
        confidence=(*_confidences(before, after), *_caps(before, after)),
        review=tuple(_review(before, after)),
        costs=tuple(_costs(before, after)),
        diff=diff,
    )


def _plan(diff: PlanDiff) -> Iterator[str]:
    if diff.is_empty:
        return
    for step in diff.added:
        instead = f" instead of {step.supersedes}" if step.supersedes else ""
        yield f"step {step.id} added{instead}: calls {step.tool}"
    yield from (f"step {step.id} removed" for step in diff.removed)
    for change in diff.changed:
        yield from (f"step {change.step}: {_field(field)}" for field in change.fields)
    yield from (f"edge {before} → {after} added" for before, after in diff.edges_added)
    yield from (f"edge {before} → {after} removed" for before, after in diff.edges_removed)
    yield from (_field(field) for field in diff.elsewhere)
    for name, old, new in (
        ("steps", diff.old.steps, diff.new.steps),
        ("waves", diff.old.waves, diff.new.waves),
        ("width", diff.old.max_parallelism, diff.new.max_parallelism),
    ):
        if old != new:
            yield f"{name} {old} → {new}"


def _steps(before: ComparedRun, after: ComparedRun) -> Iterator[str]:
    old, new = _reports(before), _reports(after)
    for name, report in new.items():
        earlier = old.get(name)
        if earlier is None:
            yield f"step {name} (new) ended {report.status}{_why(report)}"
        elif earlier.status != report.status:
            yield f"step {name} {earlier.status} → {report.status}{_why(report)}"


def _why(report: StepReport) -> str:
    if report.error is not None:
        return f": {report.error.message.partition(chr(10))[0]}"
    return f": {report.reason}" if report.reason else ""


def _reports(side: ComparedRun) -> dict[str, StepReport]:
    log = () if side.package is None else side.package.execution_log
    return {report.id: report for report in log}


def _gates(before: ComparedRun, after: ComparedRun) -> Iterator[str]:
    old, new = _records(before), _records(after)
    for place, record in new.items():
        earlier = old.get(place)
        name = _gate_name(record)
        if earlier is None:
            yield f"gate {name} (new): {record.verdict}"
            continue
        if earlier.verdict != record.verdict:
            yield f"gate {name} {earlier.verdict} → {record.verdict}"
        if earlier.severity != record.severity:
            yield f"gate {name} now {'blocks' if record.severity == 'block' else 'only warns'}"
    yield from (
        f"gate {_gate_name(old[place])} is not evaluated" for place in old if place not in new
    )


def _records(side: ComparedRun) -> dict[tuple[str, str, int | None], GateRecord]:
    return {(record.gate, record.step, record.index): record for record in side.state.gates}


def _gate_name(record: GateRecord) -> str:
    return f"{record.gate} on {record.step}" + ("" if record.index is None else f"[{record.index}]")


def _confidences(before: ComparedRun, after: ComparedRun) -> Iterator[str]:
    old, new = _by_field(before), _by_field(after)
    for name in dict.fromkeys((*old, *new)):
        earlier, later = old.get(name), new.get(name)
        if earlier is None or later is None:
            change = "is computed" if earlier is None else "is not computed"
            yield f"confidence {name} {change}"
        elif earlier.capped != later.capped:
            yield f"confidence {name} {earlier.capped:.2f} → {later.capped:.2f}"


def _by_field(side: ComparedRun) -> Mapping[str, Confidence]:
    confidences = () if side.review is None else side.review.confidences
    return {confidence.field: confidence for confidence in confidences}


def _caps(before: ComparedRun, after: ComparedRun) -> Iterator[str]:
    old, new = _cap_records(before), _cap_records(after)
    for place, record in new.items():
        earlier = old.get(place)
        name = f"cap {record.field} {record.max:g}"
        if earlier is not None and earlier.max != record.max:
            yield f"cap {record.field} {earlier.max:g} → {record.max:g}"
        has_applied = earlier is not None and earlier.applied
        if has_applied != record.applied:
            yield f"{name} {'applies' if record.applied else 'applies no longer'}: {record.because}"
    for place, record in old.items():
        if place not in new and record.applied:
            yield f"cap {record.field} {record.max:g} applies no longer: {record.because}"


def _cap_records(side: ComparedRun) -> Mapping[tuple[str, str, str], CapRecord]:
    caps = side.review.caps if side.review is not None else ()
    return {(cap.field, cap.origin, cap.because): cap for cap in caps}


def _review(before: ComparedRun, after: ComparedRun) -> Iterator[str]:
    if before.status != after.status:
        yield f"verdict {_status_text(before.status)} → {_status_text(after.status)}"
    if after.ending:
        yield f"it ended without a package: {after.ending}"
    if before.state.round != after.state.round:
        yield f"recovery rounds {before.state.round} → {after.state.round}"
    if _reviewer(before) != _reviewer(after):
        yield f"reviewed by {_reviewer(before)} → {_reviewer(after)}"
    old = () if before.review is None else before.review.missing_data
    new = () if after.review is None else after.review.missing_data
    yield from (f"missing now: {line}" for line in new if line not in old)
    yield from (f"not missing now: {line}" for line in old if line not in new)


def _reviewer(side: ComparedRun) -> str:
    if side.review is None:
        return "nobody"
    return side.review.opinion.model if side.review.opinion is not None else "code"


def _status_text(status: str) -> str:
    return status.replace("_", " ")


def _costs(before: ComparedRun, after: ComparedRun) -> Iterator[RoleCostChange]:
    old_uses, new_uses = sum_uses(before.state), sum_uses(after.state)
    old, new = ({named.name: named.cost for named in uses.roles} for uses in (old_uses, new_uses))
    for role in dict.fromkeys((*old, *new)):
        yield RoleCostChange(role, old.get(role, Cost()), new.get(role, Cost()))
    if old or new:
        yield RoleCostChange("all", old_uses.total, new_uses.total)


def _cost_json(cost: Cost) -> JsonObject:
    return {"calls": cost.calls, "tokens": cost.tokens, "usd": cost.usd}


def _field(change: FieldChange) -> str:
    if change.old is None:
        return f"{change.path} {_short(change.new)} added"
    if change.new is None:
        return f"{change.path} {_short(change.old)} removed"
    return f"{change.path} {_short(change.old)} → {_short(change.new)}"


def _short(value: Json) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut_end(text, _MAX_VALUE_LENGTH)
