"""What Ctrl-C and SIGTERM do to a run.

While steps run or a model is asked, the first signal is *gentle*: the run stops, all that is finished stays journaled,
and the run can be resumed. At any other time (a file that is read, a module that is imported, a question that waits)
there is nothing to wind down, and the command ends at once, as it does at the second signal.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType

from wavewright.engine.stopping import CancellationToken
from wavewright.executor.events import Event, Noted, PlanAccepted, RunStarted
from wavewright.planner.types import RunId


class InterruptHandler:
    """Takes the signals of one run."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.cancellation = CancellationToken()
        self.run: RunId | None = None
        """The run, as soon as it is in the journal."""
        self._show_line = say
        self._is_gentle = False
        self._was_announced = False

    def observe(self, event: Event) -> None:
        """Learn from an event how far the run is."""
        if isinstance(event, RunStarted):
            self.run = event.run
        elif isinstance(event, PlanAccepted) or (isinstance(event, Noted) and event.topic == "resumed"):
            self._is_gentle = True

    @contextmanager
    def first_signal_exits(self) -> Generator[None]:
        """Open a context in which the first signal ends the command."""
        before, self._is_gentle = self._is_gentle, False
        try:
            yield
        finally:
            self._is_gentle = before

    @contextmanager
    def handle_signals(self) -> Generator[None]:
        """Open a context in which the signals come here; it is entered on the event loop."""
        # Neither anyio's receiver, whose task group would wrap every error of the run, nor the loop's own handlers,
        # which wait for the loop: a module of the user's that hangs in its import would never be interrupted.
        loop = asyncio.get_running_loop()

        def stop(_number: int, _frame: FrameType | None) -> None:
            if self._was_announced or not (self._is_gentle or self.cancellation.has_open_scopes):
                raise KeyboardInterrupt
            self._was_announced = True
            loop.call_soon_threadsafe(self._cancel)

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, previous in before.items():
                signal.signal(number, previous)

    def _cancel(self) -> None:
        self._show_line("stopping; what is finished is journaled (once more to end at once)")
        self.cancellation.cancel()
