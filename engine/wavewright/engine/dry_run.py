"""What a run would do, worked out without calling a tool.

A *dry run* is a record of the checked plan: its waves, width and critical path, what each step calls and waits for,
how many calls are known already, which side effects and approvals it has. Every format is a rendering of this one
record.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from dataclasses import dataclass

from wavewright.config.documents import Source
from wavewright.engine.jobs import Order, no_plan
from wavewright.planner.binding import bind_plan
from wavewright.planner.checker import check
from wavewright.planner.diagnostics import Diagnostic, PlanError
from wavewright.planner.expressions import ExpressionFault, evaluate
from wavewright.planner.goals import Goal
from wavewright.planner.graph import PlanGraph
from wavewright.planner.hashing import plan_hash
from wavewright.planner.models import Plan, Step
from wavewright.planner.references import parse_text, reads, render
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import Json, StepId


@dataclass(frozen=True, slots=True)
class StepForecast:
    """What is known of one step before it runs."""

    id: StepId
    tool: str
    why: str | None
    wave: int
    """Counted from 0."""
    depends_on: tuple[StepId, ...]
    for_each: bool
    calls: int | None
    """How many calls it makes; `None` where that depends on an output. None at all where it is skipped."""
    is_skipped: bool
    """Its condition is false for these inputs, whatever the outputs are."""
    when: str | None
    optional: bool
    effects: tuple[str, ...]
    """Without `read`."""
    seconds: float
    """Expected, of all its calls, from the tool's own figure."""
    gates: tuple[str, ...]
    params: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class DryRun:
    """A checked plan and what follows from it."""

    job: str
    goal: str
    rung: str
    plan_hash: str
    schedule: str
    concurrency: int
    steps: tuple[StepForecast, ...]
    waves: tuple[tuple[StepId, ...], ...]
    width: int
    critical_path: tuple[StepId, ...]
    critical_seconds: float
    total_seconds: float
    """One call after another."""
    gates: tuple[str, ...]
    caps: tuple[str, ...]
    approvals: tuple[str, ...]
    warnings: tuple[Diagnostic, ...]
    source: Source


def forecast(order: Order, tools: Mapping[str, ToolSignature], *, now: dt.datetime) -> DryRun:
    """Return what running the order would do.

    Raises:
        PlanError: there is no plan, or it is not sound.
    """
    goal, draft = order.goal, order.draft
    if draft is None:
        raise no_plan(goal, order.source)
    plan = bind_plan(draft.plan, goal, tools)
    found = draft.origin.place(check(plan, goal, tools))
    source = draft.origin.document.source
    if any(diagnostic.severity == "error" for diagnostic in found):
        raise PlanError(found, source)
    return _forecast(plan, goal, tools, draft.rung, found, source, now)


def _forecast(
    plan: Plan,
    goal: Goal,
    tools: Mapping[str, ToolSignature],
    rung: str,
    warnings: tuple[Diagnostic, ...],
    source: Source,
    now: dt.datetime,
) -> DryRun:
    graph = PlanGraph.of(plan)
    waves = graph.wave_of()
    steps = tuple(
        _step(step, plan, goal, tools[step.tool], waves[step.id], frozenset(graph.dependencies[step.id]), now)
        for step in plan.steps
    )
    seconds = {step.id: step.seconds for step in steps}
    path = graph.critical_path(seconds)
    return DryRun(
        job=goal.job,
        goal=goal.text,
        rung=rung,
        plan_hash=plan_hash(plan),
        schedule=goal.schedule,
        concurrency=goal.limits.concurrency,
        steps=steps,
        waves=graph.waves,
        width=graph.width,
        critical_path=path.steps,
        critical_seconds=path.seconds,
        total_seconds=math.fsum(
            tools[step.tool].expected_seconds * (1 if forecast.calls is None else forecast.calls)
            for step, forecast in zip(plan.steps, steps, strict=True)
        ),
        gates=tuple(f"{gate.id} on {gate.on}: {gate.kind}, {gate.severity}s" for gate in plan.gates),
        caps=tuple(f"{cap.field} at most {cap.max:g} when {cap.when}: {cap.because}" for cap in plan.caps),
        approvals=tuple(
            f"step {step.id!r} calls {step.tool!r}, which needs approval"
            for step in plan.steps
            if tools[step.tool].needs_approval
        ),
        warnings=warnings,
        source=source,
    )


def _step(
    step: Step,
    plan: Plan,
    goal: Goal,
    tool: ToolSignature,
    wave: int,
    dependencies: frozenset[StepId],
    now: dt.datetime,
) -> StepForecast:
    is_skipped = step.when is not None and _from_inputs(step.when, plan, now) is False
    calls = 0 if is_skipped else _calls(step, plan, now)
    at_once = min(step.concurrency or goal.limits.concurrency, tool.concurrency or goal.limits.concurrency)
    turns = math.ceil((calls if calls is not None else 1) / max(1, at_once))
    return StepForecast(
        id=step.id,
        tool=step.tool,
        why=step.why,
        wave=wave,
        depends_on=tuple(other.id for other in plan.steps if other.id in dependencies),
        for_each=step.for_each is not None,
        calls=calls,
        is_skipped=is_skipped,
        when=step.when,
        optional=step.optional,
        effects=tuple(sorted(tool.effects - {"read"})),
        seconds=tool.expected_seconds * turns,
        gates=tuple(gate.id for gate in plan.gates if gate.on == step.id),
        params=step.params,
    )


def _calls(step: Step, plan: Plan, now: dt.datetime) -> int | None:
    if step.for_each is None:
        return 1
    if isinstance(step.for_each, list):
        return len(step.for_each)
    items = _from_inputs(step.for_each, plan, now)
    return len(items) if isinstance(items, list) else None


def _from_inputs(text: str, plan: Plan, now: dt.datetime) -> Json:
    """Return the value of a condition or a `${…}` text that reads nothing but inputs; `None` for any other."""
    parts = parse_text(text)
    embedded = [part.expression for part in parts if not isinstance(part, str)]
    expressions = embedded or [text]
    if any(read.root != "inputs" for expression in expressions for read in reads(expression)):
        return None

    def value_of(expression: str) -> Json:
        return evaluate(expression, {"inputs": plan.inputs}, now)

    try:
        return render(text, value_of) if embedded else value_of(text)
    except ExpressionFault:
        return None


def as_json(dry_run: DryRun) -> dict[str, object]:
    """Return the record as JSON."""
    return {
        "job": dry_run.job,
        "goal": dry_run.goal,
        "rung": dry_run.rung,
        "plan_hash": dry_run.plan_hash,
        "schedule": dry_run.schedule,
        "concurrency": dry_run.concurrency,
        "waves": [list(wave) for wave in dry_run.waves],
        "width": dry_run.width,
        "critical_path": {"steps": list(dry_run.critical_path), "seconds": dry_run.critical_seconds},
        "total_seconds": dry_run.total_seconds,
        "steps": [_step_json(step) for step in dry_run.steps],
        "gates": list(dry_run.gates),
        "caps": list(dry_run.caps),
        "approvals": list(dry_run.approvals),
        "warnings": [
            {"code": found.code, "message": found.message, "pointer": found.pointer}
            for found in dry_run.warnings
        ],
    }


def _step_json(step: StepForecast) -> dict[str, object]:
    return {
        "id": step.id,
        "tool": step.tool,
        "why": step.why,
        "wave": step.wave + 1,
        "depends_on": list(step.depends_on),
        "for_each": step.for_each,
        "calls": step.calls,
        "skipped": step.is_skipped,
        "when": step.when,
        "optional": step.optional,
        "effects": list(step.effects),
        "expected_seconds": step.seconds,
        "gates": list(step.gates),
        "params": dict(step.params),
    }
