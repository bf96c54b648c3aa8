"""Calls that need not be made: results that a begun run keeps, and results of earlier runs that can
be reused.

When a run is resumed or patched, each step is kept, runs, runs for its remaining items, or stays
failed and blocks its dependants until a patch replaces it. The executor decides by the same rules,
so the forecast matches the run.

A call is *reused* if its tool allows it (`cache_for`) and another run journaled a result with the
same step key that is recent enough, and *shared* if an equal call of the run serves it. Both need
parameters, so only calls whose parameters follow from the inputs alone are looked at; the run itself
may call less.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from wavewright.engine.rehearsal.dry_run.known_values import KnownValues
from wavewright.executor import RunState, StepFinished
from wavewright.executor.events.state import SUCCESSES, blocking_gate
from wavewright.executor.run.rules import kept_items
from wavewright.planner import (
    ExpressionError,
    Goal,
    Json,
    Plan,
    PlanGraph,
    RunId,
    Step,
    StepId,
    StepKey,
    ToolSignature,
    ToolSignatures,
)
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.language.goals import config_of
from wavewright.planner.language.hashing import cache_key, call_content
from wavewright.planner.language.signatures import asks_approval, may_share_call
from wavewright.planner.plans.expressions import compile_render
from wavewright.planner.plans.graph import superseded_by
from wavewright.planner.plans.uses import step_texts
from wavewright.planner.types import CallContent

RerunStatusKind: TypeAlias = Literal["kept", "failed", "blocked", "skipped", "runs", "rest"]

CALLING: Final[frozenset[RerunStatusKind]] = frozenset({"runs", "rest"})
"""The statuses with which a step calls its tool."""
_STOPPING: Final[frozenset[RerunStatusKind]] = frozenset({"failed", "blocked"})


@dataclass(frozen=True, slots=True)
class RerunStatus:
    """What happens to one step when the run goes on."""

    kind: RerunStatusKind
    reason: str
    items_kept: frozenset[int] = frozenset()
    """Of a `for_each` step that runs for its other items."""


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
    """Approvals of the patch, which are asked before the run goes on."""
    answered: StepId | None = None
    """A step whose approval was answered already."""

    @property
    def items_done(self) -> dict[StepId, int]:
        """Return the number of kept items of each step that runs for its other items."""
        return {
            step: len(standing.items_kept)
            for step, standing in self.statuses.items()
            if standing.kind == "rest"
        }

    @property
    def finished(self) -> frozenset[StepId]:
        """Steps that do not run again."""
        return frozenset(
            step for step, standing in self.statuses.items() if standing.kind in {"kept", "failed"}
        )

    @property
    def absent(self) -> frozenset[StepId]:
        """Steps that are left without an output."""
        return frozenset(
            step
            for step, standing in self.statuses.items()
            if standing.kind in {"failed", "blocked", "skipped"}
        )


def known_values(plan: Plan, now: dt.datetime, rerun: BegunRunForecast | None) -> KnownValues:
    """Return what is known of a run of a bound plan, also of one that has begun."""
    known = KnownValues(plan, now)
    if rerun is not None:
        known = KnownValues(plan, now, rerun.outputs, rerun.absent)
    return known.with_skipped_steps()


def rerun_statuses(plan: Plan, state: RunState) -> dict[StepId, RerunStatus]:
    """Return the status of each step of a plan: the run's own plan, or the patched one.

    What has ended is kept, also where the code of its tool has changed since.
    """
    graph = PlanGraph.of(plan)
    successors = superseded_by(plan)
    items_done = _items_done(plan, state)
    statuses: dict[StepId, RerunStatus] = {}
    for step_id in graph.order():
        step = graph.steps[step_id]
        done = frozenset(items_done.get(step_id, ()))
        status = _rerun_status(step, graph, state, statuses, done)
        if status.kind == "failed" and step_id in successors:
            status = RerunStatus("failed", f"{successors[step_id]} stands for it from now on")
        statuses[step_id] = status
    return statuses


def _items_done(plan: Plan, state: RunState) -> dict[StepId, set[int]]:
    """Return the items of each step that are not called again: its own that have succeeded, and
    those that it takes over from the step that it supersedes.
    """
    done: dict[StepId, set[int]] = {}
    for step, items in state.items.items():
        done[step] = {index for index, item in items.items() if item.status in SUCCESSES}
    for item in kept_items(plan, state, at=0.0):
        done.setdefault(item.step, set()).add(item.index)
    return done


def _rerun_status(
    step: Step,
    graph: PlanGraph,
    state: RunState,
    statuses: Mapping[StepId, RerunStatus],
    done: frozenset[int],
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
    if ended is not None and again is not None and ended.status in SUCCESSES:
        return RerunStatus(
            "runs", f"it reads {again}, which runs again and may give another output"
        )
    if done:
        is_or_are = "is" if len(done) == 1 else "are"
        return RerunStatus("rest", f"{counted(len(done), 'item')} {is_or_are} kept", done)
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
    failed = blocking_gate(ended.gates)
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


@dataclass(frozen=True, slots=True)
class SavedCalls:
    """Calls of a run that it need not make, by step."""

    reused: Mapping[StepId, StepReuse] = field(default_factory=dict[StepId, StepReuse])
    shared: Mapping[StepId, int] = field(default_factory=dict[StepId, int])
    """How many of its calls an equal call of the run serves."""


FindStored = Callable[[set[StepKey]], Mapping[StepKey, StoredCall]]
"""Looks up keys in the journal."""


def find_saved_calls(
    known: KnownValues,
    goal: Goal,
    tools: ToolSignatures,
    *,
    wall: float,
    find: FindStored,
    rerun: BegunRunForecast | None = None,
) -> SavedCalls:
    """Return the calls that need not be made, as the rules of the executor have it: an equal call of
    the run comes first, then one of another run.

    Args:
        known: The bound plan, with what is known of its run.
        goal: The goal; its configuration of tools is part of the keys.
        tools: Signatures, which say whether and how long a result may be reused.
        wall: The wall-clock time in seconds since the epoch, by which outputs age.
        find: Looks up keys.
        rerun: The run, if it has begun: what it keeps is not made again, and its own results are
            no other run's.
    """
    calls = [
        call
        for step in known.plan.steps
        if (tool := tools.get(step.tool)) is not None and step.id not in known.absent
        for call in _known_calls(step, known, goal, tool)
        if not _is_kept(call, rerun)
    ]
    keys = {call.key for call in calls if call.key is not None}
    stored = find(keys) if keys else dict[StepKey, StoredCall]()
    own = None if rerun is None else rerun.run
    shared: Counter[StepId] = Counter()
    reused: dict[StepId, list[StoredCall]] = {}
    contents = set[CallContent]()
    for call in calls:
        if call.is_shareable and call.content in contents:
            shared[call.step.id] += 1
            continue
        # A step with a condition may not run, and then serves no other.
        if call.is_shareable and call.step.when is None:
            contents.add(call.content)
        earlier = None if call.key is None else stored.get(call.key)
        kept_for = tools[call.step.tool].cache_for
        if earlier is None or kept_for is None or earlier.run == own:
            continue
        if wall - earlier.at <= kept_for:
            reused.setdefault(call.step.id, []).append(earlier)
    return SavedCalls({step: _reuse_of(found) for step, found in reused.items()}, dict(shared))


def _is_kept(call: _KnownCall, rerun: BegunRunForecast | None) -> bool:
    status = None if rerun is None else rerun.statuses.get(call.step.id)
    if status is None:
        return False
    return status.kind not in CALLING or call.index in status.items_kept


def _reuse_of(calls: Sequence[StoredCall]) -> StepReuse:
    runs = tuple(dict.fromkeys(call.run for call in calls))
    return StepReuse(len(calls), runs, min(call.at for call in calls))


@dataclass(frozen=True, slots=True)
class _KnownCall:
    """A call whose parameters are known before the run."""

    step: Step
    index: int
    content: CallContent
    is_shareable: bool
    """Whether an equal call of the run may serve it."""
    key: StepKey | None
    """Under which a result of another run is found; none where none may be reused."""


def _known_calls(
    step: Step, known: KnownValues, goal: Goal, tool: ToolSignature
) -> Iterator[_KnownCall]:
    is_shareable = may_share_call(step, tool, asks_person=asks_approval(step, tool))
    # A step that supersedes another was added because the earlier result was not good enough.
    may_reuse = tool.cache_for is not None and tool.only_reads and step.supersedes is None
    if not (is_shareable or may_reuse) or not _has_known_params(step, goal):
        return
    items = known.chosen_items(step) or {}
    config = config_of(tool.name, goal.tools)
    params_of = compile_render(step.params)
    for index, item in items.items():
        variables = known.plan.scope({})
        if step.for_each is not None:
            variables |= {"item": item, "index": index}
        try:
            params: Json = params_of(variables, known.now)
            if not isinstance(params, dict):
                continue
            content = call_content(tool.name, params, config=config)
            key = None
            if may_reuse and tool.cache_for is not None:
                key = cache_key(tool, content, now=known.now.timestamp(), cache_for=tool.cache_for)
        except (ExpressionError, ValueError):
            continue  # the run reports the fault
        yield _KnownCall(step, index, content, is_shareable, key)


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
