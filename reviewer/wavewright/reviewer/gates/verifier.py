"""The evaluation of gates, by code or, for a rubric, by a judge.

A *gate* stops bad data: it inspects the output of a step as soon as the step has ended and leaves a
record with its subject, the values found and its verdict. `make_verifier` implements the executor's
port `Verify`: it returns records
if code alone decides, else an awaitable. A gate that cannot be evaluated counts as failed, with one
exception: a judge gate without a configured model is recorded as a warning, which lowers the
confidence and blocks nothing. A gate on a
step without items is not evaluated: a warning and a cap, unless its `on_empty` says otherwise.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import anyio

from wavewright.executor import GateRecord
from wavewright.executor.run.ports import GateRecords, GateView, Verify
from wavewright.planner import Gate, Goal, Json, Plan, StepId, ToolSignatures
from wavewright.planner.plans.binding import template_gate_of
from wavewright.planner.plans.gate_questions import is_asked_per_call
from wavewright.planner.types import GateId, GateSeverity
from wavewright.reviewer.gates.kinds import (
    GateCheck,
    GateContext,
    GateSubject,
    make_gate_check,
)
from wavewright.reviewer.values import grouped

if TYPE_CHECKING:
    # The caller with a judge has imported the module; a run without a model does not load it.
    from wavewright.reviewer.gates.judge import GateJudge

LIVE_LEEWAY_SECONDS = 3600.0
"""Seconds by which data may be younger than `now()` where a run takes its own start for now: it may
have come in since. A job that sets `as_of` allows none, for data from after it would be a look into
the future.
"""

_MAX_PASSED_RECORDS = 100
"""Records of calls that pass, per gate; those beyond are counted in one. Red ones are all kept."""

_MAX_PARALLEL_JUDGEMENTS = 8
"""Maximum number of concurrent questions to a judge about one step."""


def make_verifier(
    plan: Plan,
    tools: ToolSignatures,
    goal: Goal | None,
    now: dt.datetime,
    judge: GateJudge | None = None,
) -> Verify:
    """Return the function that evaluates every gate of the (bound) plan on a step's output.

    It returns records, or an awaitable for steps with a judge gate if there is a `judge`.

    The example goes on from that of `review_by_code`.

    >>> import datetime as dt
    >>> from wavewright.reviewer import make_verifier
    >>> verify = make_verifier(plan, tools, goal, dt.datetime(2026, 3, 1, tzinfo=dt.UTC))
    """
    by_step = grouped(plan.gates, lambda gate: gate.on)
    asker = _GatePreparer(plan, tools, goal, now)
    prepared: dict[StepId, tuple[_PreparedGate, ...]] = {}

    def verify(
        step_id: StepId, output: Json, view: GateView
    ) -> GateRecords | Awaitable[GateRecords]:
        gates = by_step.get(step_id)
        if gates is None:
            return ()
        if step_id not in prepared:
            prepared[step_id] = tuple(asker.prepare(gate) for gate in gates)
        ready = prepared[step_id]
        if judge is not None and any(gate.is_judged for gate in ready):
            return _evaluate_with_judge(judge, ready, step_id, output, view)
        return tuple(record for gate in ready for record in _evaluate(gate, step_id, output, view))

    return verify


async def _evaluate_with_judge(
    judge: GateJudge, gates: Sequence[_PreparedGate], step: StepId, output: Json, view: GateView
) -> GateRecords:
    """Return the records of all gates, in their order; a judge is asked about several items
    concurrently.
    """
    judged: list[GateRecords] = []
    for gate in gates:
        if gate.is_judged:
            judged.append(tuple(await _judge_records(judge, gate, step, output, view)))
        else:
            judged.append(tuple(_evaluate(gate, step, output, view)))
    return tuple(record for records in judged for record in records)


async def _judge_records(
    judge: GateJudge, prepared: _PreparedGate, step: StepId, output: Json, view: GateView
) -> Iterator[GateRecord]:
    if view.items is None or not isinstance(output, list):
        record = await judge.judge(prepared.gate, step, output, view, index=None)
        return iter([prepared.completed(record)])
    if not output:
        return iter([_no_items_record(prepared, step)])
    records: list[GateRecord | None] = [None] * len(output)
    limiter = anyio.CapacityLimiter(_MAX_PARALLEL_JUDGEMENTS)

    async def one(position: int, entry: Json, index: int) -> None:
        async with limiter:
            record = await judge.judge(prepared.gate, step, entry, view, index=index)
        records[position] = prepared.completed(record)

    async with anyio.create_task_group() as group:
        for position, (entry, (index, _item)) in enumerate(zip(output, view.items, strict=True)):
            group.start_soon(one, position, entry, index)
    made = [record for record in records if record is not None]
    return _thinned(_warning_below_share(prepared.gate, made))


@dataclass(frozen=True, slots=True)
class _PreparedGate:
    gate: Gate
    check: GateCheck
    is_per_call: bool
    severity: GateSeverity
    template_gate: GateId | None

    @property
    def is_judged(self) -> bool:
        """Whether a rubric decides."""
        return self.gate.judge is not None

    def completed(self, record: GateRecord) -> GateRecord:
        """Return a judge's record with its hint and its gate in the template."""
        # The author's hint fixes the output; if the gate could not be judged, the judge's own hint
        # fixes that.
        hint = record.hint or (self.gate.hint if record.has_failed else None)
        return replace(record, hint=hint, template_gate=self.template_gate)


class _GatePreparer:
    """Prepares gates; equal schemas share one validator."""

    def __init__(
        self, plan: Plan, tools: ToolSignatures, goal: Goal | None, now: dt.datetime
    ) -> None:
        self._tool_of = {step.id: step.tool for step in plan.steps}
        self._tools = tools
        self._goal = goal
        self._now = now
        self._leeway = _leeway(goal)

    def prepare(self, gate: Gate) -> _PreparedGate:
        return _PreparedGate(
            gate=gate,
            check=make_gate_check(gate, self._context(gate)),
            is_per_call=gate.judge is None and is_asked_per_call(gate),
            severity="warn" if gate.judge is not None else gate.severity,
            template_gate=template_gate_of(gate.id, self._goal) if self._goal else None,
        )

    def _context(self, gate: Gate) -> GateContext:
        tool = "" if gate.on is None else self._tool_of.get(gate.on, "")
        field = self._tools[tool].freshness_field if tool in self._tools else None
        return GateContext(self._now, self._leeway, tool, field)


def _leeway(goal: Goal | None) -> float:
    if goal is None:
        return LIVE_LEEWAY_SECONDS
    if goal.as_of is not None:
        return 0.0
    return max(LIVE_LEEWAY_SECONDS, goal.limits.run_timeout or 0.0)


def _evaluate(
    prepared: _PreparedGate, step: StepId, output: Json, view: GateView
) -> Iterator[GateRecord]:
    if not (prepared.is_per_call and view.items is not None and isinstance(output, list)):
        yield _record(prepared, GateSubject(step, output, output, view))
        return
    if not output:
        yield _no_items_record(prepared, step)
    records = [
        _record(prepared, GateSubject(step, entry, output, view, item, index))
        for entry, (index, item) in zip(output, view.items, strict=True)
    ]
    yield from _thinned(_warning_below_share(prepared.gate, records))


def _warning_below_share(gate: Gate, records: Sequence[GateRecord]) -> Iterator[GateRecord]:
    """Yield the records of all calls; where fewer fail than the share from which the gate blocks, it
    warns of those.
    """
    failures = sum(record.has_failed for record in records)
    # A quotient is compared, because 0.7 * 10 is more than 7.
    is_below = bool(records) and failures / len(records) < gate.blocks_from
    for record in records:
        yield replace(record, severity="warn") if is_below and record.has_failed else record


def _thinned(records: Iterable[GateRecord]) -> Iterator[GateRecord]:
    """Yield every failed record, the first passed ones, and one for all other passed ones."""
    greens = 0
    last_green: GateRecord | None = None
    for record in records:
        if record.has_failed:
            yield record
            continue
        greens += 1
        last_green = record
        if greens <= _MAX_PASSED_RECORDS:
            yield record
    if last_green is not None and greens > _MAX_PASSED_RECORDS:
        yield replace(
            last_green,
            index=None,
            inspected=f"{greens - _MAX_PASSED_RECORDS} more calls, all of which pass",
        )


def _record(prepared: _PreparedGate, call: GateSubject) -> GateRecord:
    finding = prepared.check(call)
    gate = prepared.gate
    return GateRecord(
        gate.id,
        call.step,
        gate.kind,
        prepared.severity,
        finding.verdict,
        finding.inspected,
        message=finding.message,
        hint=gate.hint if finding.verdict != "pass" else None,
        index=call.index,
        template_gate=prepared.template_gate,
    )


def _no_items_record(prepared: _PreparedGate, step: StepId) -> GateRecord:
    """Return the record of a gate on a step without items, with the severity that the gate has for
    that.
    """
    gate = prepared.gate
    passed = GateRecord(
        gate.id,
        step,
        gate.kind,
        prepared.severity,
        "pass",
        "no calls: the list of items is empty",
        template_gate=prepared.template_gate,
    )
    if gate.on_empty == "pass":
        return passed
    return replace(
        passed,
        severity=gate.on_empty,
        verdict="not_evaluated",
        message=f"not evaluated: step {step!r} had no items",
        hint=f"find out why step {step!r} had no items, or set 'on_empty: pass' on the gate where that is right",
    )
