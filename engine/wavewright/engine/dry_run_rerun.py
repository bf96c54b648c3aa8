"""What of a run that has begun would run again: after a patch, or when it is resumed.

A step's *standing* says what becomes of it: it is kept, it runs, or the rest of its items run; a failure stands until
a patch replaces the step, and blocks whoever needs it. It is worked out from the run's own events by the rules by
which the executor goes on, so what is kept here is not called there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from wavewright.executor.events import StepFinished
from wavewright.executor.state import SUCCESSES, RunState
from wavewright.planner.graph import PlanGraph
from wavewright.planner.models import Plan, Step
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import Json, RunId, StepId

RerunStatusKind: TypeAlias = Literal["kept", "failed", "blocked", "skipped", "runs", "rest"]

CALLING: Final[frozenset[RerunStatusKind]] = frozenset({"runs", "rest"})
"""Standings with which a step calls its tool."""
_STOPPING: Final[frozenset[RerunStatusKind]] = frozenset({"failed", "blocked"})


@dataclass(frozen=True, slots=True)
class RerunStatus:
    """What becomes of one step."""

    kind: RerunStatusKind
    reason: str
    items_done: int = 0
    """Items that are kept of a step that runs once an item."""


@dataclass(frozen=True, slots=True)
class BegunRunForecast:
    """A run that has begun, and what becomes of each step of its plan from here on."""

    run: RunId
    patch: str | None
    """Why the patch is made; None where the run is only resumed."""
    statuses: Mapping[StepId, RerunStatus]
    outputs: Mapping[StepId, Json]
    """Of the steps that are kept, as their readers see them."""
    approvals: tuple[str, ...] = ()
    """What a person is asked before it goes on."""

    @property
    def items_done(self) -> dict[StepId, int]:
        """Return how many items are kept, of the steps that are not kept whole."""
        return {
            step: standing.items_done for step, standing in self.statuses.items() if standing.kind == "rest"
        }

    @property
    def finished(self) -> frozenset[StepId]:
        """Steps that take nothing any more."""
        return frozenset(
            step for step, standing in self.statuses.items() if standing.kind in {"kept", "failed"}
        )


def rerun_statuses(
    plan: Plan, state: RunState, tools: Mapping[str, ToolSignature]
) -> dict[StepId, RerunStatus]:
    """Return the standing of each step of a plan, the run's own or the one that a patch makes of it."""
    graph = PlanGraph.of(plan)
    versions = state.started.versions if state.started is not None else {}
    found: dict[StepId, RerunStatus] = {}
    for step_id in graph.order():
        step = graph.steps[step_id]
        tool = tools.get(step.tool)
        before = versions.get(f"tool {step.tool}")
        is_other = tool is not None and before is not None and before != tool.version
        found[step_id] = _rerun_status(step, graph, state, found, is_other_tool=is_other)
    return found


def _rerun_status(
    step: Step,
    graph: PlanGraph,
    state: RunState,
    found: Mapping[StepId, RerunStatus],
    *,
    is_other_tool: bool,
) -> RerunStatus:
    again = next(
        (name for name in graph.reads[step.id] if name in found and found[name].kind in CALLING), None
    )
    ended = state.steps.get(step.id)
    if ended is not None and ended.status in {*SUCCESSES, "failed"} and again is None and not is_other_tool:
        return _kept_status(ended)
    stopped = _blocking_reason(step, graph, state, found)
    if stopped is not None:
        return RerunStatus("blocked", stopped)
    if ended is not None and ended.status == "skipped" and again is None:
        return RerunStatus("skipped", "its condition was false")
    items = state.items.get(step.id)
    done = sum(item.status in SUCCESSES for item in items.values()) if items else 0
    if is_other_tool:
        return RerunStatus("runs", f"tool {step.tool!r} has changed since")
    if ended is not None and again is not None and ended.status in SUCCESSES:
        return RerunStatus("runs", f"it reads {again}, which runs again and may give something else")
    if done:
        return RerunStatus("rest", f"{done} items are kept", done)
    return RerunStatus(
        "runs", _RERUN_REASONS.get(ended.status if ended is not None else "", "it has not run yet")
    )


_RERUN_REASONS = {
    "blocked": "it was blocked, and is so no longer",
    "cancelled": "it was cancelled",
    "skipped": "what its condition reads is made again",
}


def _kept_status(ended: StepFinished) -> RerunStatus:
    if ended.status == "failed":
        return RerunStatus("failed", "its failure stands until a patch replaces it")
    red = next((gate for gate in ended.gates if gate.has_failed and gate.severity == "block"), None)
    return RerunStatus("kept", "it is done" if red is None else f"it is done; gate {red.gate!r} on it is red")


def _blocking_reason(
    step: Step, graph: PlanGraph, state: RunState, found: Mapping[StepId, RerunStatus]
) -> str | None:
    """Return why a step cannot start: something that it needs is not there and will not come."""
    for name in dict.fromkeys((*step.depends_on, *graph.reads[step.id])):
        standing = found.get(name)
        if standing is None or graph.steps[name].optional:
            continue
        if standing.kind in _STOPPING:
            return f"{name} {'failed' if standing.kind == 'failed' else 'is blocked'}"
        if standing.kind == "kept" and not state.is_present(name):
            return f"a gate on {name} is red"
    return None
