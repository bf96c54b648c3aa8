"""The request to repeat a run that has ended, as a new run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.engine.run.context import RetryRequest
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.target_waves import target_waves
from wavewright.executor.events.state import RunState, fold, step_ids
from wavewright.executor.events.types import Event, RunFinished
from wavewright.planner.diagnostics.diagnostic import suggest_name
from wavewright.planner.language.goals import Goal
from wavewright.planner.types import RunId, StepId, as_object


class RetryRefused(WavewrightError):
    """A run that cannot be repeated, or not in that way."""

    exit_code = exit_codes.MISUSE
    is_shown_whole = True


def retry_of_run(
    run: RunId,
    events: Sequence[Event],
    *,
    start: str | None = None,
    again: Sequence[str] = (),
    inputs: InputOverrides | None = None,
    only_failed: bool = False,
) -> RetryRequest:
    """Return the request to repeat a run.

    Args:
        run: The run's id.
        events: All of its events.
        start: The step that is repeated with all that depend on it.
        again: Steps that are repeated although it is not known whether their writes took effect.
        inputs: They replace inputs of the run.
        only_failed: Whether only what failed is called, with what depends on it: what succeeded is
            kept also where the code of its tool has changed.

    Raises:
        RetryRefused: the run has not ended, it has several targets, it has no step or no input of
            that name, or only what failed is wanted and nothing did.
        DocumentError: an input has another type, or there is no place for it.
    """
    state = fold(events)
    # A run that is interrupted goes on by itself: what it has begun is its own to finish.
    if state.started is None or not isinstance(events[-1], RunFinished) or state.is_interrupted:
        raise RetryRefused(f"run {run!r} has not ended", f"continue with: wavewright resume {run}")
    if target_waves(state) is not None:
        raise RetryRefused(
            f"run {run!r} has several targets",
            f"`wavewright show {run}` lists their runs: retry one of them",
        )
    if only_failed and not _has_failed(state):
        raise RetryRefused(
            f"nothing of run {run!r} has failed",
            "without `--failed` it is repeated with tools whose code has changed",
        )
    for step in (*again, *(() if start is None else (start,))):
        _check_has_step(run, state, step)
    # The goal is the one of that run, whatever its job's file says by now.
    goal = Goal.model_validate(state.started.goal)
    _check_has_inputs(run, goal, state, inputs or InputOverrides())
    changed = inputs.applied(goal.inputs, goal.inputs_schema) if inputs else {}
    return RetryRequest(
        run,
        None if start is None else StepId(start),
        changed,
        tuple(map(StepId, again)),
        only_failed,
    )


_WITHOUT_OUTPUT: Final = frozenset({"failed", "blocked", "cancelled"})
"""Statuses of steps that have no output, and should have one."""


def _has_failed(state: RunState) -> bool:
    """Whether a step or an item has no output that it should have."""
    if any(ending.status in _WITHOUT_OUTPUT for ending in state.steps.values()):
        return True
    # A list may succeed although some of its items have failed.
    items = [item for of_step in state.items.values() for item in of_step.values()]
    return any(item.status == "failed" for item in items)


def _check_has_inputs(run: RunId, goal: Goal, state: RunState, inputs: InputOverrides) -> None:
    """Refuse a name that is no input of the run: its plan stands, and reads no other."""
    of_goal = as_object(goal.inputs_schema.get("properties"))
    known = {*goal.inputs, *of_goal, *as_object((state.plan or {}).get("inputs"))}
    for name in inputs.names:
        if name not in known:
            hint = suggest_name(name, known, what="its inputs") or "it has no inputs"
            raise RetryRefused(f"no input of run {run!r} is called {name!r}", hint)


def _check_has_step(run: RunId, state: RunState, start: str) -> None:
    names = step_ids(state.plan)
    if not any(name == start or name.startswith(f"{start}.") for name in names):
        raise RetryRefused(
            f"run {run!r} has no step {start!r}", suggest_name(start, names, what="its steps")
        )
