"""What failed calls left behind, short enough for a package and a page.

The journal holds more of each attempt, and every attempt; `wavewright show RUN STEP` and `logs RUN` print that.
"""

from __future__ import annotations

from typing import Final

from wavewright.executor.events import TracebackFrame
from wavewright.executor.state import RunState
from wavewright.planner.types import StepId
from wavewright.reviewer.records import AttemptReport

MAX_ATTEMPTS: Final = 20
_MAX_CHARS = {"traceback": 4_000, "stdout": 2_000, "stderr": 2_000, "log": 2_000}


def list_failed_attempts(state: RunState) -> tuple[AttemptReport, ...]:
    """Return the last attempt of each call that has failed in the end, in the order in which they failed."""
    failed = [event for place, event in state.faults.items() if _has_failed(state, *place)]
    return tuple(
        AttemptReport(
            step=event.step,
            index=event.index,
            attempt=event.attempt,
            **{name: _tail(getattr(event, name), most) for name, most in _MAX_CHARS.items()},
        )
        for event in sorted(failed, key=lambda event: event.at)[:MAX_ATTEMPTS]
    )


def frame_line(frame: TracebackFrame) -> str:
    """Return a frame on one line: file, line, function and the code there."""
    place = f"{frame.file}:{frame.line} in {frame.function}"
    return f"{place}: {frame.code}" if frame.code else place


def _has_failed(state: RunState, step: StepId, index: int | None) -> bool:
    items = state.items.get(step)
    ending = state.steps.get(step) if index is None else items.get(index) if items else None
    return ending is not None and ending.status == "failed"


def _tail(text: str, most: int) -> str:
    return text if len(text) <= most else f"… {text[-most:]}"
