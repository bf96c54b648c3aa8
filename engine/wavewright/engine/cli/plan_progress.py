"""What `wavewright plan` shows while models are at work: lines, and on a terminal one that says what is waited for.

All of it goes to standard error, so that standard output holds the plan alone.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from wavewright.engine.cli.model_lines import amount_words, noteworthy_rungs, rung_line, use_line
from wavewright.reviewer.costs import sum_costs

if TYPE_CHECKING:
    from rich.status import Status

    from wavewright.planner.ladder import RungRecord
    from wavewright.planner.model_port import ModelUse


class PlanProgress:
    """Somebody who watches a planner."""

    def __init__(self) -> None:
        self._uses: list[ModelUse] = []
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console

            self._status = Console(stderr=True).status("planning …")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def show_use(self, use: ModelUse) -> None:
        """Take the cost of a model call."""
        self._uses.append(use)
        self.print_line(use_line(use))
        if self._status is not None:
            self._status.update(f"planning … {amount_words(sum_costs(self._uses))}")

    def show_rung(self, record: RungRecord) -> None:
        """Take a rung that was tried."""
        for told in noteworthy_rungs([record]):
            self.print_line(rung_line(told))

    def print_line(self, text: str) -> None:
        """Print a line."""
        if self._status is not None:
            from rich.text import Text

            self._status.console.print(Text(text))
        else:
            sys.stderr.write(f"{text}\n")
            sys.stderr.flush()

    @contextmanager
    def paused(self) -> Generator[None]:
        """Open a context in which the terminal is free for a question."""
        if self._status is not None:
            self._status.stop()
        yield
        if self._status is not None:
            self._status.start()
