"""Gates asked by code.

A *gate* stops bad data: it looks at the output of a step as soon as that has ended and leaves a record with what it
looked at, the values found and its verdict. `make_verifier` answers the executor's port `Verify`. A gate that cannot
be asked is red. There is one exception: a `judge` gate needs a model, so without one it is recorded as an unanswered
warning, which lowers the confidence and blocks nothing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from wavewright.executor.events import GateRecord
from wavewright.executor.ports import GateView, Verify
from wavewright.planner.binding import template_gate_of
from wavewright.planner.expressions import ExpressionFault
from wavewright.planner.goals import Goal
from wavewright.planner.models import Gate, Plan
from wavewright.planner.references import reads
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import GateId, GateSeverity, Json, StepId
from wavewright.planner.uses import condition_use
from wavewright.reviewer.gate_kinds import (
    Call,
    Question,
    ask_check,
    ask_fresh_within,
    ask_judge,
    ask_required,
    ask_schema,
    cannot_ask,
)

LIVE_LEEWAY = 3600.0
"""Seconds by which data may be younger than `now()` where a run takes its own start for now: it may have come in
since. A job that sets `as_of` allows none, for data from after it would be a look into the future."""

_MOST_GREEN = 100
"""Records of calls that pass, per gate; those beyond are counted in one. Red ones are all kept."""


def make_verifier(
    plan: Plan, tools: Mapping[str, ToolSignature], goal: Goal | None, now: dt.datetime
) -> Verify:
    """Return what the executor asks about each output: every gate of the (bound) plan that stands on the step."""
    by_step: dict[StepId, list[Gate]] = {}
    for gate in plan.gates:
        if gate.on is not None:
            by_step.setdefault(gate.on, []).append(gate)
    asker = _Asker(plan, tools, goal, now)
    prepared: dict[StepId, tuple[_PreparedGate, ...]] = {}

    def verify(step_id: StepId, output: Json, view: GateView) -> tuple[GateRecord, ...]:
        gates = by_step.get(step_id)
        if gates is None:
            return ()
        if step_id not in prepared:
            prepared[step_id] = tuple(asker.prepare(gate) for gate in gates)
        return tuple(record for gate in prepared[step_id] for record in _ask(gate, step_id, output, view))

    return verify


@dataclass(frozen=True, slots=True)
class _PreparedGate:
    gate: Gate
    question: Question
    is_per_call: bool
    severity: GateSeverity
    template_gate: GateId | None


class _Asker:
    """Prepares gates; equal schemas share one validator."""

    def __init__(
        self, plan: Plan, tools: Mapping[str, ToolSignature], goal: Goal | None, now: dt.datetime
    ) -> None:
        self._tool_of = {step.id: step.tool for step in plan.steps}
        self._tools = tools
        self._goal = goal
        self._now = now
        self._leeway = _leeway(goal)

    def prepare(self, gate: Gate) -> _PreparedGate:
        return _PreparedGate(
            gate=gate,
            question=self._question(gate),
            is_per_call=_is_per_call(gate),
            severity="warn" if gate.judge is not None else gate.severity,
            template_gate=template_gate_of(gate.id, self._goal) if self._goal else None,
        )

    def _question(self, gate: Gate) -> Question:
        if gate.check is not None:
            return self._check(gate.check)
        if gate.schema_ is not None:
            return ask_schema(gate.schema_)
        if gate.fresh_within is not None:
            assert gate.on is not None
            tool = self._tool_of.get(gate.on, "")
            field = self._tools[tool].freshness_field if tool in self._tools else None
            return ask_fresh_within(gate.fresh_within, field, tool, self._now, leeway=self._leeway)
        if gate.required is not None:
            return ask_required(gate.required)
        assert gate.judge is not None
        return ask_judge(gate.judge.rubric)

    def _check(self, condition: str) -> Question:
        try:
            return ask_check(_bare(condition), self._now)
        except ExpressionFault as fault:
            return cannot_ask(condition, f"not an expression: {fault.message}")


def _leeway(goal: Goal | None) -> float:
    if goal is None:
        return LIVE_LEEWAY
    if goal.as_of is not None:
        return 0.0
    return max(LIVE_LEEWAY, goal.limits.run_timeout or 0.0)


def _is_per_call(gate: Gate) -> bool:
    if gate.check is None:
        return gate.judge is None
    try:
        return any(read.root in {"output", "item", "index"} for read in reads(_bare(gate.check)))
    except ExpressionFault:
        # What cannot be read is not asked a thousand times: once is enough to find it red.
        return False


def _bare(condition: str) -> str:
    """Return a condition without the `${…}` that an author may put around all of it."""
    return condition_use(condition, "", "gate").expression


def _ask(prepared: _PreparedGate, step: StepId, output: Json, view: GateView) -> Iterator[GateRecord]:
    if not (prepared.is_per_call and view.items is not None and isinstance(output, list)):
        yield _record(prepared, Call(step, output, output, view))
        return
    if not output:
        yield _no_calls(prepared, step)
    greens = 0
    last_green: GateRecord | None = None
    for entry, (index, item) in zip(output, view.items, strict=True):
        record = _record(prepared, Call(step, entry, output, view, item, index))
        if record.is_red:
            yield record
            continue
        greens += 1
        last_green = record
        if greens <= _MOST_GREEN:
            yield record
    if last_green is not None and greens > _MOST_GREEN:
        yield replace(
            last_green, index=None, looked_at=f"{greens - _MOST_GREEN} more calls, all of which pass"
        )


def _record(prepared: _PreparedGate, call: Call) -> GateRecord:
    finding = prepared.question(call)
    gate = prepared.gate
    is_red = finding.verdict != "pass"
    return GateRecord(
        gate=gate.id,
        step=call.step,
        kind=gate.kind,
        severity=prepared.severity,
        verdict=finding.verdict,
        looked_at=finding.looked_at,
        message=finding.message,
        hint=gate.hint if is_red else None,
        index=call.index,
        template_gate=prepared.template_gate,
    )


def _no_calls(prepared: _PreparedGate, step: StepId) -> GateRecord:
    gate = prepared.gate
    return GateRecord(
        gate=gate.id,
        step=step,
        kind=gate.kind,
        severity=prepared.severity,
        verdict="pass",
        looked_at="no calls: the list of items is empty",
        template_gate=prepared.template_gate,
    )
