"""The live table of a run on a terminal."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from wavewright.engine.cli.progress import gate_lines, print_outcome
from wavewright.executor.events import Event, StepStatus
from wavewright.executor.state import RunState, reduce
from wavewright.planner.types import StepId

if TYPE_CHECKING:
    from wavewright.reviewer.records import Package

STYLES: dict[StepStatus, str] = {
    "ok": "green",
    "empty": "yellow",
    "failed": "bold red",
    "skipped": "dim",
    "blocked": "magenta",
    "cancelled": "magenta",
    "reused": "cyan",
}
_MARGIN = 6
"""Lines of the terminal that are left to headline, gates and prompt."""


class LiveProgress:
    """A table that grows with the run, and stays when it ends."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, get_renderable=self._render, refresh_per_second=8)
        self._state = RunState()

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, event: Event) -> None:
        """Take one event; the table is drawn a few times a second, not once an event."""
        self._state = reduce(self._state, event)

    def say(self, text: str) -> None:
        """Print a line above the table."""
        self._console.print(Text(text))

    @contextmanager
    def paused(self) -> Generator[None]:
        """Take the table away while a question is asked."""
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def conclude(self, package: Package, files: Sequence[Path]) -> None:
        """Print the outcome."""
        print_outcome(package, files)

    def _render(self) -> Group:
        return Group(self._headline(), self._table(), *self._gates())

    def _headline(self) -> Text:
        state = self._state
        if state.started is None:
            return Text("reading the job …", style="dim")
        plan = f"  plan {state.rung}" if state.rung else ""
        round_of = f"  recovery round {state.round}" if state.round else ""
        return Text(f"run {state.started.run}  job {state.started.job!r}{plan}{round_of}", style="bold")

    def _table(self) -> Table:
        table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
        for title in ("wave", "step", "status", "items", "seconds"):
            table.add_column(title, justify="right" if title in ("wave", "seconds") else "left")
        rows = list(self._rows())
        room = max(5, self._console.height - _MARGIN)
        for wave, step in rows[-room:]:
            table.add_row(str(wave + 1), Text(step), *self._cells(step))
        return table

    def _rows(self) -> Iterator[tuple[int, StepId]]:
        for record in self._state.waves:
            yield from ((record.wave, step) for step in record.steps)

    def _cells(self, step: StepId) -> tuple[Text, Text, Text]:
        ended = self._state.steps.get(step)
        if ended is None:
            done = len(self._state.items.get(step, {}))
            return Text("…", style="dim"), Text(str(done) if done else ""), Text("")
        items = f"{ended.items[0]}/{ended.items[1]}" if ended.items else ""
        return Text(ended.status, style=STYLES[ended.status]), Text(items), Text(f"{ended.seconds:.2f}")

    def _gates(self) -> list[Text]:
        red = [line for step in self._state.steps.values() for line in gate_lines(step.gates)]
        return [Text(line, style="red" if " blocks" in line else "yellow") for line in red[-_MARGIN:]]
