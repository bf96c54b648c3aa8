"""The calls of a run as a table of pandas."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from wavewright.config import exit_codes
from wavewright.config.errors import WavewrightError
from wavewright.executor.events.state import SUCCESSES, RunState
from wavewright.executor.events.types import ItemFinished, StepFinished
from wavewright.planner.diagnostics.diagnostic import suggest_name
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.types import StepId
from wavewright.reviewer.package.call_reports import params_renderer
from wavewright.reviewer.review.results import run_instant

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("step", "item", "status", "input", "output", "error", "attempts", "seconds")


class NoFrame(WavewrightError):
    """There is no table of a run: pandas is not installed, or the run has no step of that name."""

    exit_code = exit_codes.MISUSE
    is_shown_whole = True


def frame_of_run(state: RunState, only: str | None) -> pd.DataFrame:
    """Return a row for each call that has ended, or for each of one step.

    Raises:
        NoFrame: pandas is not installed, or there is no step of that name.
    """
    try:
        # It ships no types.
        library: Any = importlib.import_module("pandas")
    except ImportError as error:
        raise NoFrame(
            "a table of a run needs pandas, which is not installed",
            "install it: pip install pandas",
        ) from error
    plan = Plan.model_validate(state.plan)
    steps = [step for step in plan.steps if only in (None, step.id)]
    if not steps and only is not None:
        names = [step.id for step in plan.steps]
        raise NoFrame(f"the run has no step {only!r}", suggest_name(only, names, what="its steps"))
    rows = [row for step in steps for row in _rows_of(plan, step, state)]
    frame = library.DataFrame(rows, columns=[*_COLUMNS])
    # Positions of items stay whole numbers beside steps that have none.
    return cast("pd.DataFrame", frame.astype({"item": "Int64"}))


def _rows_of(plan: Plan, step: Step, state: RunState) -> Iterator[dict[str, object]]:
    items, ending = state.items.get(step.id), state.steps.get(step.id)
    calls: list[ItemFinished | StepFinished] = []
    if items:
        calls = [items[index] for index in sorted(items)]
    elif ending is not None:
        calls = [ending]
    renderer = params_renderer(plan, state, step, run_instant(state)) if calls else None
    for call in calls:
        index = call.index if isinstance(call, ItemFinished) else None
        was_called = index is not None or step.for_each is None
        yield {
            "step": StepId(step.id),
            "item": index,
            "status": call.status,
            "input": renderer.params_of(index) if renderer is not None and was_called else None,
            "output": call.output if call.status in SUCCESSES else None,
            "error": None if call.error is None else call.error.message,
            "attempts": call.attempts,
            "seconds": call.seconds,
        }
