"""The event loop is watched from beside it.

A *stall* is a stretch in which the event loop does not turn, because a step keeps it from everything else: no message
is taken in, no status goes out, no other job goes on. A stall is told of while it lasts, with the place in the code
that makes it. One that lasts as long as the settings allow ends the process, since nothing in it can be ended singly:
its jobs go on in the next daemon, and the one that does it again and again is laid aside like any that ends its
process. What was journaled stays as it is, and holds on runs are kept meanwhile, for they are renewed elsewhere.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

import anyio

from wavewright.engine.daemon.stopping import exit_by_timer
from wavewright.engine.operations.logs import StructuredLog
from wavewright.planner.types import Json

STALL_EXIT_CODE: Final = 70
"""Exit code of a daemon that ends because its event loop stands still."""
LOOP_TICK_SECONDS: Final = 0.5
"""How often the loop shows that it turns."""
WATCHDOG_POLL_SECONDS: Final = 0.25
REPORT_AFTER_SECONDS: Final = 2.0
"""A stall that is as long is told of, and again whenever it has become twice as long."""
MAX_FRAMES: Final = 5
"""Of the code that keeps the loop, told from the inside out."""


class LoopWatchdog:
    """One watch over the loop that it is made on."""

    def __init__(
        self, log: StructuredLog, limit: float, jobs: Callable[[], list[str]], *, owns_process: bool
    ) -> None:
        """Watch nothing yet.

        Args:
            log: Where stalls are told of.
            limit: Seconds of the longest stall.
            jobs: Returns the jobs that are worked on.
            owns_process: Whether a stall that is too long ends the process; else it is only told of.
        """
        self._log = log
        self._limit = limit
        self._jobs = jobs
        self._owns_process = owns_process
        self._thread = threading.get_ident()
        """On which the loop turns."""
        self._turns = 0
        self._is_over = threading.Event()

    async def run(self) -> None:
        """Watch until this is cancelled."""
        # A daemon: it keeps no process alive.
        looking = threading.Thread(target=self._check, name="loop watch", daemon=True)
        looking.start()
        try:
            while True:
                self._turns += 1
                self._postpone_exit(self._limit)
                await anyio.sleep(LOOP_TICK_SECONDS)
        finally:
            self._is_over.set()
            self._postpone_exit(0.0)

    def _postpone_exit(self, seconds: float) -> None:
        if self._owns_process:
            exit_by_timer(seconds)

    def _check(self) -> None:
        seen, stalled, told, before = -1, 0.0, 0.0, time.monotonic()
        while not self._is_over.wait(WATCHDOG_POLL_SECONDS):
            now = time.monotonic()
            # A process that was frozen has not stood still: neither did this thread look meanwhile.
            passed, before = min(now - before, 2 * WATCHDOG_POLL_SECONDS), now
            if self._turns != seen:
                if told:
                    self._log.write("loop_turns_again", "warning", seconds=round(stalled, 1))
                seen, stalled, told = self._turns, 0.0, 0.0
                continue
            stalled += passed
            if self._owns_process and stalled >= self._limit:
                self._report(stalled, "end")
                os._exit(STALL_EXIT_CODE)
            if stalled >= max(REPORT_AFTER_SECONDS, 2 * told):
                told = stalled
                self._report(stalled, "wait")

    def _report(self, stalled: float, action: str) -> None:
        jobs: list[Json] = [*self._jobs()]
        self._log.write(
            "loop_stalled",
            "error" if action == "end" else "warning",
            seconds=round(stalled, 1),
            limit=self._limit,
            action=action,
            where=stack_of_thread(self._thread),
            jobs=jobs,
        )


def stack_of_thread(thread: int) -> str:
    """Return where in the code a thread is, the innermost place first."""
    # There is no other way to what another thread does; Python keeps this one for debuggers.
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    places = list[str]()
    while frame is not None and len(places) < MAX_FRAMES:
        places.append(f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(places)
