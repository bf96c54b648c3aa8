"""What a patched plan keeps of a step that it calls again: the items that did not fail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from wavewright.executor.events.state import SUCCESSES, RunState
from wavewright.executor.events.types import ItemFinished
from wavewright.planner.language.plan import Plan, Step


def kept_items(plan: Plan, state: RunState, at: float) -> Iterator[ItemFinished]:
    """Yield the endings of items that the steps of a patched plan take over, as of a time in seconds
    since the epoch.

    A step with `only: failed` takes over every item of the step that it supersedes which has an
    output and failed no gate.
    """
    for step in plan.steps:
        if step.only == "failed" and step.supersedes is not None and step.id not in state.items:
            yield from _kept_items_of(step, state, at)


def _kept_items_of(step: Step, state: RunState, at: float) -> Iterator[ItemFinished]:
    assert step.supersedes is not None
    ending = state.steps.get(step.supersedes)
    gates = () if ending is None else ending.gates
    stopped = {gate.index for gate in gates if gate.has_failed}
    for index, item in sorted(state.items.get(step.supersedes, {}).items()):
        if item.status in SUCCESSES and index not in stopped:
            yield replace(item, at=at, step=step.id, status="reused", seconds=0.0, attempts=0)
