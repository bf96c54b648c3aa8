"""The progress of a run that a program or a notebook asks for, by `progress=True`.

A terminal has a bar, a notebook a line that changes in place, and whatever else reads standard error
gets a line at most every few seconds.
"""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

from markupsafe import escape

from wavewright.executor import Event, RunFinished, RunState, fold
from wavewright.planner import Plan, StepId
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.reviewer.package.call_reports import params_renderer
from wavewright.reviewer.review.results import run_instant
from wavewright.reviewer.values import duration_text

_SECONDS_BETWEEN_DRAWINGS: Final = 0.1
_SECONDS_BETWEEN_LINES: Final = 5.0


@dataclass(frozen=True, slots=True)
class RunFigures:
    """How far a run is, in numbers."""

    steps: int = 0
    ended: int = 0
    items: int = 0
    """Of `for_each` steps that have begun."""
    ended_items: int = 0
    failed: int = 0
    """Failed items, and failed steps that have none."""

    @property
    def share(self) -> float:
        """How much of the run is done, from 0 to 1: items count where a step has not ended."""
        begun = self.ended_items / self.items if self.items else 0.0
        parts = self.ended + (begun if self.ended < self.steps else 0.0)
        return parts / self.steps if self.steps else 0.0

    def text(self) -> str:
        """Return the figures on one line."""
        parts = [f"{self.ended} of {counted(self.steps, 'step')}"]
        if self.items:
            parts.append(f"{self.ended_items:,} of {counted(self.items, 'item')}")
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        return ", ".join(parts)


class _Surface(Protocol):
    """Where the figures are shown."""

    seconds_between: float
    """The least time between two drawings."""

    def draw(self, share: float, text: str) -> None:
        """Show them in place of what was shown before."""
        ...

    def close(self) -> None:
        """Leave what was shown last."""
        ...


@contextmanager
def shown_progress() -> Generator[Callable[[Event], None]]:
    """Yield the listener that shows the events of a run, until the block ends."""
    progress = _ShownProgress(_surface())
    try:
        yield progress.show
    finally:
        progress.close()


def _surface() -> _Surface:
    module = cast("Any", sys.modules.get("IPython"))
    shell = None if module is None else module.get_ipython()
    # IPython in a terminal has no kernel: it is shown the bar.
    if hasattr(shell, "kernel"):
        return _NotebookLine()
    if sys.stderr is not None and sys.stderr.isatty():
        return _TerminalBar()
    return _PlainLines()


@dataclass(slots=True)
class _ShownProgress:
    surface: _Surface
    state: RunState = field(default_factory=RunState)
    unread: list[Event] = field(default_factory=list[Event])
    lengths: dict[StepId, int] = field(default_factory=dict[StepId, int])
    """How many items the lists of steps have, as far as they are known."""
    began: float = field(default_factory=time.monotonic)
    drawn: float = 0.0

    def show(self, event: Event) -> None:
        self.unread.append(event)
        is_due = time.monotonic() - self.drawn >= self.surface.seconds_between
        if is_due or isinstance(event, RunFinished):
            self._draw()

    def close(self) -> None:
        if self.unread:
            self._draw()
        self.surface.close()

    def _draw(self) -> None:
        self.state, self.unread = fold(self.unread, self.state), []
        self.drawn = time.monotonic()
        if self.state.plan is None:
            return
        figures = self._figures(Plan.model_validate(self.state.plan))
        finished = self.state.finished
        status = "" if finished is None else f"{finished.status.replace('_', ' ')}: "
        took = duration_text(self.drawn - self.began)
        self.surface.draw(figures.share, f"{status}{figures.text()}, {took}")

    def _figures(self, plan: Plan) -> RunFigures:
        state = self.state
        ended_items = failed = 0
        for step in plan.steps:
            ending, items = state.steps.get(step.id), state.items.get(step.id)
            if items is None:
                failed += ending is not None and ending.status == "failed"
                continue
            ended_items += len(items)
            failed += sum(item.status == "failed" for item in items.values())
            if step.id not in self.lengths:
                renderer = params_renderer(plan, state, step, run_instant(state))
                self.lengths[step.id] = len(items if renderer is None else renderer.items)
        return RunFigures(
            steps=len(plan.steps),
            ended=sum(step.id in state.steps for step in plan.steps),
            items=sum(self.lengths.values()),
            ended_items=ended_items,
            failed=failed,
        )


class _TerminalBar:
    seconds_between = _SECONDS_BETWEEN_DRAWINGS

    def __init__(self) -> None:
        # Only a terminal is shown a bar.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        self._progress = Progress(
            BarColumn(bar_width=24),
            TextColumn("{task.description}", markup=False),
            console=Console(stderr=True),
        )
        self._progress.start()
        self._task = self._progress.add_task("planning", total=1.0)

    def draw(self, share: float, text: str) -> None:
        self._progress.update(self._task, completed=share, description=text)

    def close(self) -> None:
        self._progress.stop()


class _NotebookLine:
    seconds_between = _SECONDS_BETWEEN_DRAWINGS

    def __init__(self) -> None:
        library: Any = importlib.import_module("IPython.display")
        self._handle = library.display(_ProgressLine(0.0, "planning"), display_id=True)

    def draw(self, share: float, text: str) -> None:
        self._handle.update(_ProgressLine(share, text))

    def close(self) -> None:
        """Leave the line: it is an output of its cell."""


@dataclass(frozen=True, slots=True)
class _ProgressLine:
    """What a notebook shows: a bar and text, or the text alone."""

    share: float
    words: str

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        bar = f'<progress max="1" value="{self.share:.4f}"></progress>'
        return {"text/plain": self.words, "text/html": f"{bar} {escape(self.words)}"}


class _PlainLines:
    seconds_between = _SECONDS_BETWEEN_LINES

    def draw(self, share: float, text: str) -> None:
        del share
        if sys.stderr is not None:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    def close(self) -> None:
        """Nothing is open."""
