"""The calls of a run that have failed, each with what it was handed and what it raised."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wavewright.executor import RunState, StepError
from wavewright.planner import Goal, JsonObject, Plan, StepId
from wavewright.reviewer.package.call_reports import params_renderer
from wavewright.reviewer.review.items import item_labels
from wavewright.reviewer.review.results import ReviewedRun
from wavewright.reviewer.values import grouped


@dataclass(frozen=True, slots=True)
class FailedCall:
    """A call that has failed for good: a plain step, or one item of a `for_each` step."""

    step: StepId
    index: int | None
    """Position of the item; None for a plain step, and where the items could not be computed."""
    label: str
    """Names the item; empty for a plain step."""
    params: JsonObject | None
    """What the call was handed; None where that cannot be computed."""
    error: StepError
    traceback: str
    """Empty where nothing was raised, and where the journal keeps no more of them."""
    replaced_by: StepId | None
    """The step of a recovery that stands for it."""

    def __str__(self) -> str:
        item = "" if self.index is None else f"[{self.index}]"
        hint = f" ({self.error.hint})" if self.error.hint else ""
        return f"{self.step}{item}: {self.error.kind}: {self.error.message}{hint}"


def failed_calls(state: RunState) -> tuple[FailedCall, ...]:
    """Return the calls that have failed, in the plan's order and that of the items; those that a
    recovery has replaced come last.
    """
    if state.started is None or state.plan is None:
        return ()
    plan, goal = Plan.model_validate(state.plan), Goal.model_validate(state.started.goal)
    run = ReviewedRun(plan, goal, state, {})
    calls = [call for step in plan.steps for call in _failed_calls_of(run, step.id)]
    return tuple(sorted(calls, key=lambda call: call.replaced_by is not None))


def group_failures(calls: Sequence[FailedCall]) -> list[tuple[FailedCall, ...]]:
    """Return failed calls in groups of one step, kind and message but for its numbers and quoted
    words; the largest group first, replaced ones last.
    """
    groups = grouped(calls, lambda call: (call.step, call.error.kind, _form_of(call.error.message)))
    return sorted(
        map(tuple, groups.values()),
        key=lambda calls: (calls[0].replaced_by is not None, -len(calls)),
    )


_PARTICULARS = re.compile(r"'[^']*'|\"[^\"]*\"|`[^`]*`|https?://\S+|\d+")


def _form_of(message: str) -> str:
    return _PARTICULARS.sub("…", message)


def _failed_calls_of(run: ReviewedRun, step_id: StepId) -> Iterator[FailedCall]:
    state, ending = run.state, run.state.steps.get(step_id)
    items = sorted(state.items.get(step_id, {}).items())
    failed = [(index, item.error) for index, item in items if item.error is not None]
    errors: list[tuple[int | None, StepError]] = [*failed]
    if not failed and ending is not None and ending.status == "failed" and ending.error is not None:
        errors = [(None, ending.error)]
    if not errors:
        return
    step = run.plan.step(step_id)
    labels = item_labels(run, step_id) if failed else ()
    renderer = params_renderer(run.plan, state, step, run.now)
    for index, error in errors:
        fault = state.faults.get((step_id, index))
        # Of a step whose items could not be computed, no call was made.
        was_called = index is not None or step.for_each is None
        yield FailedCall(
            step=step_id,
            index=index,
            label=labels[index] if index is not None and index < len(labels) else "",
            params=renderer.params_of(index) if renderer is not None and was_called else None,
            error=error,
            traceback="" if fault is None else fault.traceback,
            replaced_by=run.replaced.get(step_id),
        )
