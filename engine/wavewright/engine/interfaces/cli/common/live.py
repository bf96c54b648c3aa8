"""The live table of a run on a terminal.

There is a row for each step of the current plan, in the order of the waves. A plan with more steps
than the terminal has lines shows running steps, failed ones and the latest finished; the overall
progress is above. The table depends on the run's events alone, so that a resumed run also shows
earlier steps.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

from rich.console import Console, ConsoleRenderable, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from wavewright.engine.interfaces.cli.common.progress import (
    event_lines,
    frame_lines,
    gate_lines,
    print_package,
    step_line,
)
from wavewright.engine.interfaces.cli.common.run_text import (
    ModelLookup,
    activity_text,
    amount_words,
)
from wavewright.executor import Event, Noted, PlanAccepted, RunState, StepFinished, StepStatus, fold
from wavewright.executor.events.state import reduce
from wavewright.executor.events.types import OutputStreamed, RungTaken
from wavewright.planner import Plan, PlanGraph, StepId
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.diagnostics.rendering import printable
from wavewright.reviewer import Package
from wavewright.reviewer.package.call_reports import sum_costs

RowStatus: TypeAlias = StepStatus | Literal["running", "waiting"]

STYLES: dict[RowStatus, str] = {
    "ok": "green",
    "empty": "yellow",
    "failed": "bold red",
    "skipped": "dim",
    "blocked": "magenta",
    "cancelled": "magenta",
    "reused": "cyan",
    "running": "bold blue",
    "waiting": "dim",
}
_HEAD = 5
"""Lines of the terminal for headline, figures, column titles and prompt."""
_MAX_GATE_LINES = 6
_BAR = 24
"""Width of the progress bar in columns."""
_TAIL = 400
"""Characters of a streamed output that are kept for its line, more than any terminal's width."""


@dataclass(frozen=True, slots=True)
class _StepRow:
    """A step of the current plan."""

    step: StepId
    tool: str
    wave: int
    after: Collection[StepId]


class _RedactingConsole(Console):
    """The terminal at standard error, where nothing that tools print shows a secret."""

    def __init__(self, redact: Callable[[str], str]) -> None:
        super().__init__(stderr=True)
        self._redact = redact

    def print(self, *objects: Any, **options: Any) -> None:
        """Print; the live table calls it with what tools print."""
        super().print(*map(self._redacted, objects), **options)

    def _redacted(self, value: object) -> object:
        # Before it is wrapped to the width of the terminal, which would break a secret in two.
        if isinstance(value, Text) and (shown := self._redact(value.plain)) != value.plain:
            return Text(shown)
        return value


class LiveProgress:
    """A live table of the run, replaced by its outcome at the end."""

    def __init__(
        self,
        console: Console | None = None,
        clock: Callable[[], float] = time.time,
        at_work: ModelLookup | None = None,
        redact: Callable[[str], str] = str,
    ) -> None:
        self._console = console or _RedactingConsole(redact)
        self._clock = clock
        self._at_work = at_work
        self._streamed: dict[StepId, str] = {}
        """Ends of the streamed outputs of running steps; the latest is last."""
        self._told_rungs = set[str]()
        self._state = RunState()
        self._rows: tuple[_StepRow, ...] = ()
        self._live = Live(
            console=self._console,
            get_renderable=self.drawing,
            refresh_per_second=8,
            redirect_stdout=console is None,
            redirect_stderr=console is None,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def replay(self, events: Sequence[Event]) -> None:
        """Show the earlier events of a resumed run."""
        self._state = fold(events, self._state)
        self._rows = _rows_of(self._state)

    def show(self, event: Event) -> None:
        """Show one event; the table is drawn a few times a second, not once per event."""
        self._state = reduce(self._state, event)
        if isinstance(event, PlanAccepted):
            self._rows = _rows_of(self._state)
        elif isinstance(event, OutputStreamed):
            self._streamed[event.step] = (self._streamed.pop(event.step, "") + event.text)[-_TAIL:]
        elif isinstance(event, StepFinished):
            self._streamed.pop(event.step, None)
            if event.error is not None and event.error.frames:
                for line in (step_line(event), *frame_lines(event)):
                    self.print_line(line)
        elif isinstance(event, (Noted, RungTaken)):
            for line in event_lines(event, self._told_rungs):
                self.print_line(line)

    def print_line(self, text: str) -> None:
        """Print a line above the table."""
        self._console.print(Text(text))

    @contextmanager
    def paused(self) -> Generator[None]:
        """Remove the table while a question is asked."""
        self._live.stop()
        yield
        # Not after an exception: the run has ended at the question, so no table follows.
        self._live.start()

    def print_result(self, package: Package, files: Sequence[Path]) -> None:
        """Print the outcome, which has its own table; if standard output is redirected the live
        table stays.
        """
        self._live.transient = sys.stdout.isatty()
        self._live.stop()
        print_package(package, files)

    def drawing(self) -> Group:
        """Return the current picture."""
        state = self._state
        if state.started is None:
            return Group(Text("reading the job …", style="dim"))
        headline = Text.assemble(
            ("run ", "dim"),
            (state.started.run, "bold"),
            ("  job ", "dim"),
            (state.started.job, "bold"),
        )
        headline.no_wrap, headline.overflow = True, "ellipsis"
        asked = self._model_line(state)
        below = [*self._gates(), *self._streamed_line()]
        parts: list[ConsoleRenderable] = [headline, self._figures(state), *asked]
        if self._rows:
            taken = _HEAD + len(asked) + len(below)
            parts.append(self._table(state, room=max(3, self._console.height - taken)))
        return Group(*parts, *below)

    def _model_line(self, state: RunState) -> list[Text]:
        """Return a line with the model that is waited for and the cost of models so far, if there
        is any.
        """
        has_executed = bool(self._rows) and all(row.step in state.steps for row in self._rows)
        doing = activity_text(state, self._at_work, has_executed=has_executed)
        words = [doing] if doing is not None else []
        words += [amount_words(sum_costs(state.uses.values()))] if state.uses else []
        return [_one_line(" · ".join(words), "blue")] if words else []

    def _streamed_line(self) -> list[Text]:
        """Return a line with the end of the streamed output, if there is any."""
        if not self._streamed:
            return []
        step, text = next(reversed(self._streamed.items()))
        room = max(10, self._console.width - len(step) - 4)
        return [_one_line(f"  {step}: {printable(' '.join(text.split()))[-room:]}", "dim italic")]

    def _figures(self, state: RunState) -> Table:
        begun = [
            row
            for row in self._rows
            if self._status(row) not in ("waiting", "blocked", "cancelled")
        ]
        done, total = sum(row.step in state.steps for row in begun), len(self._rows)
        waves = 1 + max((row.wave for row in self._rows), default=0)
        wave = 1 + max((row.wave for row in begun), default=0)
        assert state.started is not None
        words = (
            [f"{done} of {counted(total, 'step')}", f"wave {wave} of {waves}"]
            if total
            else ["checking the plan"]
        )
        words += [f"recovery round {state.round}"] if state.round else []
        words += [f"{max(0.0, self._clock() - state.started.at):.1f} s"]
        line = Table.grid(padding=(0, 2, 0, 0))
        line.add_row(
            ProgressBar(total=max(1, total), completed=done, width=_BAR), Text(" · ".join(words))
        )
        return line

    def _table(self, state: RunState, *, room: int) -> ConsoleRenderable:
        table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False, header_style="dim")
        for title, right in (
            ("wave", True),
            ("step", False),
            ("tool", False),
            ("status", False),
            ("items", True),
            ("seconds", True),
        ):
            table.add_column(
                title, justify="right" if right else "left", no_wrap=True, overflow="ellipsis"
            )
        shown = self._visible_rows(state, room)
        for row in shown:
            status = self._status(row)
            table.add_row(
                str(row.wave + 1),
                Text(row.step),
                Text(row.tool, style="dim"),
                Text(status, style=STYLES[status]),
                *self._amounts(state, row, status),
            )
        left = len(self._rows) - len(shown)
        return Group(table, Text(f"      and {left} more", style="dim")) if left else table

    def _visible_rows(self, state: RunState, room: int) -> Sequence[_StepRow]:
        """Return the rows that fit: running steps, then failed ones, then the latest finished."""
        if len(self._rows) <= room:
            return self._rows

        def weight(place: int) -> tuple[int, float]:
            ended = state.steps.get(self._rows[place].step)
            if ended is None and self._status(self._rows[place]) == "running":
                return (0, 0)
            if ended is None or ended.status == "cancelled":
                return (3, place)
            return (1 if _is_failure(ended) else 2, -ended.at)

        best = sorted(range(len(self._rows)), key=weight)[: room - 1]
        return [self._rows[place] for place in sorted(best)]

    def _status(self, row: _StepRow) -> RowStatus:
        ended = self._state.steps.get(row.step)
        if ended is not None:
            return ended.status
        begun = any(row.step in record.steps for record in self._state.waves[-1:])
        is_free = all(before in self._state.steps for before in row.after)
        return "running" if begun or (not self._state.waves and is_free) else "waiting"

    def _amounts(self, state: RunState, row: _StepRow, status: RowStatus) -> tuple[str, str]:
        """Return the items and the seconds of a step."""
        ended = state.steps.get(row.step)
        if ended is not None:
            items = f"{ended.items[0]}/{ended.items[1]}" if ended.items else ""
            was_called = ended.status not in ("skipped", "blocked", "cancelled")
            return items, f"{ended.seconds:.2f}" if was_called else ""
        done = len(state.items.get(row.step, ()))
        seconds = ""
        if state.waves and status == "running":
            seconds = f"{self._clock() - state.waves[-1].started:.1f}"
        return str(done) if done else "", seconds

    def _gates(self) -> list[Text]:
        lines = [line for step in self._state.steps.values() for line in gate_lines(step.gates)]
        return [
            Text(line, style="red" if " blocks" in line else "yellow")
            for line in lines[-_MAX_GATE_LINES:]
        ]


def _rows_of(state: RunState) -> tuple[_StepRow, ...]:
    if state.plan is None:
        return ()
    plan = Plan.model_validate(state.plan)
    graph = PlanGraph.of(plan)
    waves = graph.wave_of()
    rows = [
        _StepRow(step.id, step.tool, waves[step.id], tuple(graph.dependencies[step.id]))
        for step in plan.steps
    ]
    return tuple(sorted(rows, key=lambda row: row.wave))


def _one_line(text: str, style: str) -> Text:
    line = Text(text, style=style)
    line.no_wrap, line.overflow = True, "ellipsis"
    return line


def _is_failure(ended: StepFinished) -> bool:
    return ended.status in ("failed", "blocked") or any(gate.has_failed for gate in ended.gates)
