"""`wavewright retry`: which run is repeated, and what of it is done anew."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import anyio

from wavewright.engine.cli.failures import CommandError
from wavewright.engine.cli.project import project_settings
from wavewright.engine.cli.stored_runs import load_run
from wavewright.engine.context import RetryRequest, RunRequest
from wavewright.engine.input_changes import InputOverrides
from wavewright.engine.target_waves import target_waves
from wavewright.executor.events import RunFinished
from wavewright.executor.state import RunState, fold
from wavewright.planner.goals import Goal
from wavewright.planner.suggestions import suggest_name
from wavewright.planner.types import RunId, StepId


def retry_request(
    run: str | None,
    *,
    start: str | None,
    inputs: Sequence[str],
    concurrency: int | None,
    output: Path | None,
) -> RunRequest:
    """Return the request that the options of `retry` make; `run` is found as by `find_run`.

    Raises:
        CommandError: the run has not ended, it has several targets, or it has no step of that name.
        RunNotFound: there is no such run.
        DocumentError: an input has another type, or there is no place for it.
    """
    found, events = anyio.run(load_run, project_settings(), run)
    state = fold(events)
    if state.started is None or not isinstance(events[-1], RunFinished) or state.is_interrupted:
        raise CommandError(f"run {found!r} has not ended", hint=f"go on with: wavewright resume {found}")
    if target_waves(state) is not None:
        raise CommandError(
            f"run {found!r} has several targets",
            hint=f"`wavewright show {found}` lists their runs: retry one of them",
        )
    _check_retryable(found, state, start)
    goal = Goal.model_validate(state.started.goal)
    given = (
        InputOverrides(assignments=tuple(inputs)).applied(goal.inputs, goal.inputs_schema) if inputs else {}
    )
    retry = RetryRequest(found, None if start is None else StepId(start), given)
    return RunRequest(retry=retry, concurrency=concurrency, output_dir=output)


def _check_retryable(run: RunId, state: RunState, start: str | None) -> None:
    steps = state.plan.get("steps") if state.plan is not None else None
    names = [str(step["id"]) for step in steps if isinstance(step, dict)] if isinstance(steps, list) else []
    if start is not None and start not in names:
        raise CommandError(
            f"run {run!r} has no step {start!r}", hint=suggest_name(start, names, what="its steps")
        )
