"""Calls that need not be made: results that a begun run keeps, and results of earlier runs that can
be reused.

When a run is resumed or patched, each step is kept, runs, runs for its remaining items, or stays
failed and blocks its dependants until a patch replaces it. The executor decides by the same rules,
so the forecast matches the run.

A call is *reused* if its tool allows it (`cache_for`) and an earlier run journaled a result with
the same step key that is recent enough. Keys need parameters, so only calls whose parameters follow
from the inputs alone are looked up; the run itself may reuse more.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from wavewright.executor.events.state import SUCCESSES, RunState
from wavewright.executor.events.types import StepFinished
from wavewright.planner.cel.errors import ExpressionError
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.language.goals import Goal, config_of
from wavewright.planner.language.hashing import cache_key, call_content
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.plans.estimates import known_items
from wavewright.planner.plans.expressions import compile_render
from wavewright.planner.plans.graph import PlanGraph
from wavewright.planner.plans.uses import step_texts
from wavewright.planner.types import Json, RunId, StepId, StepKey

RerunStatusKind: TypeAlias = Literal["kept", "failed", "blocked", "skipped", "runs", "rest"]

CALLING: Final[frozenset[RerunStatusKind]] = frozenset({"runs", "rest"})
"""The statuses with which a step calls its tool."""
_STOPPING: Final[frozenset[RerunStatusKind]] = frozenset({"failed", "blocked"})


@dataclass(frozen=True, slots=True)
class RerunStatus:
    """What happens to one step when the run goes on."""

    kind: RerunStatusKind
    reason: str
    items_done: int = 0
    """Number of kept items of a `for_each` step."""


@dataclass(frozen=True, slots=True)
class BegunRunForecast:
    """A begun run, with what happens to each step of its plan."""

    run: RunId
    patch: str | None
    """The reason of the patch; None if the run is only resumed."""
    statuses: Mapping[StepId, RerunStatus]
    outputs: Mapping[StepId, Json]
    """Outputs of the kept steps."""
    approvals: tuple[str, ...] = ()
    """Approvals that are asked before the run goes on."""

    @property
    def items_done(self) -> dict[StepId, int]:
        """Return the number of kept items of each step that runs for its other items."""
        return {
            step: standing.items_done
            for step, standing in self.statuses.items()
            if standing.kind == "rest"
        }

    @property
    def finished(self) -> frozenset[StepId]:
        """Steps that do not run again."""
        return frozenset(
            step for step, standing in self.statuses.items() if standing.kind in {"kept", "failed"}
        )


def rerun_statuses(plan: Plan, state: RunState) -> dict[StepId, RerunStatus]:
    """Return the status of each step of a plan: the run's own plan, or the patched one.

    What has ended is kept, also where the code of its tool has changed since.
    """
    graph = PlanGraph.of(plan)
    statuses: dict[StepId, RerunStatus] = {}
    for step_id in graph.order():
        step = graph.steps[step_id]
        statuses[step_id] = _rerun_status(step, graph, state, statuses)
    return statuses


def _rerun_status(
    step: Step,
    graph: PlanGraph,
    state: RunState,
    statuses: Mapping[StepId, RerunStatus],
) -> RerunStatus:
    again = next(
        (
            name
            for name in graph.reads[step.id]
            if name in statuses and statuses[name].kind in CALLING
        ),
        None,
    )
    ended = state.steps.get(step.id)
    if ended is not None and ended.status in {*SUCCESSES, "failed"} and again is None:
        return _kept_status(ended)
    stopped = _blocking_reason(step, graph, state, statuses)
    if stopped is not None:
        return RerunStatus("blocked", stopped)
    if ended is not None and ended.status == "skipped" and again is None:
        return RerunStatus("skipped", "its condition was false")
    items = state.items.get(step.id)
    done = sum(item.status in SUCCESSES for item in items.values()) if items else 0
    if ended is not None and again is not None and ended.status in SUCCESSES:
        return RerunStatus(
            "runs", f"it reads {again}, which runs again and may give another output"
        )
    if done:
        return RerunStatus(
            "rest", f"{counted(done, 'item')} {'is' if done == 1 else 'are'} kept", done
        )
    return RerunStatus(
        "runs", _RERUN_REASONS.get(ended.status if ended is not None else "", "it has not run yet")
    )


_RERUN_REASONS = {
    "blocked": "it was blocked, and no longer is",
    "cancelled": "it was cancelled",
    "skipped": "steps that its condition reads run again",
}


def _kept_status(ended: StepFinished) -> RerunStatus:
    if ended.status == "failed":
        return RerunStatus("failed", "its failure stands until a patch replaces it")
    failed = next(
        (gate for gate in ended.gates if gate.has_failed and gate.severity == "block"), None
    )
    return RerunStatus(
        "kept", "it is done" if failed is None else f"it is done; gate {failed.gate!r} on it failed"
    )


def _blocking_reason(
    step: Step, graph: PlanGraph, state: RunState, statuses: Mapping[StepId, RerunStatus]
) -> str | None:
    """Return why a step cannot start; None if it can."""
    for name in dict.fromkeys((*step.depends_on, *graph.reads[step.id])):
        standing = statuses.get(name)
        if standing is None or graph.steps[name].optional:
            continue
        if standing.kind in _STOPPING:
            return f"{name} {'failed' if standing.kind == 'failed' else 'is blocked'}"
        if standing.kind == "kept" and not state.is_present(name):
            return f"a gate on {name} failed"
    return None


@dataclass(frozen=True, slots=True)
class StoredCall:
    """A call that some run has journaled."""

    run: RunId
    at: float
    """When it ended, in seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class StepReuse:
    """Stored results for the calls of one step."""

    calls: int
    runs: tuple[RunId, ...]
    """The runs that made them, without repetition."""
    oldest: float
    """When the oldest ended, in seconds since the epoch."""


FindStored = Callable[[set[StepKey]], Mapping[StepKey, StoredCall]]
"""Looks up keys in the journal."""


def find_reuse(
    plan: Plan,
    goal: Goal,
    tools: Mapping[str, ToolSignature],
    *,
    now: dt.datetime,
    wall: float,
    find: FindStored,
) -> dict[StepId, StepReuse]:
    """Return the results that would be reused, by step.

    Args:
        plan: The plan, bound to the goal.
        goal: The goal; its configuration of tools is part of the keys.
        tools: Signatures, which say whether and how long a result may be reused.
        now: What `now()` gives in the run.
        wall: The wall-clock time in seconds since the epoch, by which outputs age.
        find: Looks up keys.
    """
    keys = {
        step.id: list(_step_keys(step, plan, goal, tools[step.tool], now))
        for step in plan.steps
        if _may_reuse(step, tools.get(step.tool))
    }
    all_keys = {key for keys_of_step in keys.values() for key in keys_of_step}
    stored = find(all_keys) if all_keys else dict[StepKey, StoredCall]()
    reused: dict[StepId, StepReuse] = {}
    for step in plan.steps:
        kept_for = tools[step.tool].cache_for if step.id in keys else None
        calls = [stored[key] for key in keys.get(step.id, ()) if key in stored]
        young = [call for call in calls if kept_for is not None and wall - call.at <= kept_for]
        if young:
            runs = tuple(dict.fromkeys(call.run for call in young))
            reused[step.id] = StepReuse(len(young), runs, min(call.at for call in young))
    return reused


def _may_reuse(step: Step, tool: ToolSignature | None) -> bool:
    # A step that supersedes another was added because the earlier result was not good enough.
    return (
        tool is not None
        and tool.cache_for is not None
        and tool.only_reads
        and step.supersedes is None
    )


def _step_keys(
    step: Step, plan: Plan, goal: Goal, tool: ToolSignature, now: dt.datetime
) -> Iterator[StepKey]:
    if tool.cache_for is None or not _has_known_params(step, goal):
        return
    items = [None] if step.for_each is None else known_items(plan, step)
    config = config_of(tool.name, goal.tools)
    params_of = compile_render(step.params)
    for index, item in enumerate(items or ()):
        variables = plan.scope({})
        if step.for_each is not None:
            variables |= {"item": item, "index": index}
        try:
            params: Json = params_of(variables, now)
            if isinstance(params, dict):
                content = call_content(tool.name, params, config=config)
                yield cache_key(tool, content, now=now.timestamp(), cache_for=tool.cache_for)
        except (ExpressionError, ValueError):
            continue  # the run reports the fault


def _has_known_params(step: Step, goal: Goal) -> bool:
    """Whether the parameters and items of a step follow from the inputs alone."""
    for text in step_texts(step, 0):
        if text.role == "when":
            continue
        for use, read in text.reads.items():
            if isinstance(read, ExpressionError) or any(name.root == "steps" for name in read):
                return False
            if "now" in use.expression and goal.as_of is None:
                return False
    return True
