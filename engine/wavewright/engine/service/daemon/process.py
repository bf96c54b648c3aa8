"""Signals of the daemon's process, and the watchdog of its event loop.

The first TERM, INT or HUP requests a stop: no job starts, running ones are journaled, and the
process exits with 0 within `SHUTDOWN_SECONDS`, also where something hangs. The second one exits at
once; so does QUIT. Where a step holds the GIL no handler and no thread runs, and timers of the
system end the process. However it ends, the journal holds every step that had ended.

A *stall* is a time in which a step blocks the event loop, so that nothing else runs. The watchdog
thread logs a stall while it lasts, with the place in the code. A stall as long as
`daemon.stall_limit` ends the process, since a single step cannot be ended: the next daemon
continues its jobs, and a job that does it again and again is dead-lettered. Leases are renewed on
another thread, so a stall does not lose them.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

import anyio

from wavewright.engine.service.operations.logs import StructuredLog
from wavewright.planner import Json

SHUTDOWN_SECONDS: Final = 9.0
"""Seconds from the first signal to the end of the process."""
WAITING_FACTOR: Final = 10
_STDERR: Final = 2
GRACEFUL_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class ShutdownRequest:
    """A request to stop the daemon, with its reason."""

    def __init__(self) -> None:
        self.reason = ""
        self.owns_process = False
        """Whether the process is the daemon's own, so that the daemon may end it."""
        self._requested = anyio.Event()

    def request(self, reason: str) -> None:
        """Request a stop; the first reason counts."""
        if not self._requested.is_set():
            self.reason = reason
            self._requested.set()

    async def wait_requested(self) -> None:
        """Wait until a stop is requested."""
        await self._requested.wait()


@contextmanager
def handling_signals(stopping: ShutdownRequest) -> Generator[None]:
    """Handle signals while the block runs; must be entered on the event loop."""
    # Not the loop's own handlers: the second signal must end a daemon whose loop is blocked.
    loop = asyncio.get_running_loop()
    received: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        if received:
            exit_at_once(number)
        received.append(number)
        _exit_after(SHUTDOWN_SECONDS)
        loop.call_soon_threadsafe(stopping.request, signal.Signals(number).name)

    def end(number: int, _frame: FrameType | None) -> None:
        exit_at_once(number)

    handlers = dict.fromkeys(GRACEFUL_SIGNALS, stop) | {signal.SIGQUIT: end}
    before = {number: signal.signal(number, action) for number, action in handlers.items()}
    # A handler in C: it prints the stack of each thread, and then the signal ends the process.
    faulthandler.register(signal.SIGPROF, chain=True)
    stopping.owns_process = True
    try:
        yield
    finally:
        exit_by_timer(0.0)
        faulthandler.unregister(signal.SIGPROF)
        for number, action in before.items():
            signal.signal(number, action)


def _exit_after(seconds: float) -> None:
    """End this process after so many seconds, from a thread, since the event loop may be blocked."""

    def end() -> None:
        # The log shows what was blocked.
        faulthandler.dump_traceback(_STDERR)
        os._exit(0)

    # A daemon thread does not keep the process alive.
    last = threading.Timer(seconds, end)
    last.daemon = True
    last.start()


def exit_by_timer(seconds: float) -> None:
    """End this process after so many seconds of CPU time, and `WAITING_FACTOR` times as many of the
    clock, unless this is called again; 0 for never.

    A step that computes uses CPU time, which a suspended process does not. One that waits and holds
    the GIL uses none, and neither does a loop that waits for a thread which had no memory to start.
    Only the clock ends them, so it leaves more time: a process may be suspended for a while.

    The timer counts the CPU time of all threads together, and threads in C code run in parallel, so
    the seconds are multiplied by the number of CPUs.
    """
    # Not every system has the CPU affinity of a process.
    processors = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    signal.setitimer(signal.ITIMER_PROF, seconds * processors)
    if seconds:
        faulthandler.dump_traceback_later(WAITING_FACTOR * seconds, exit=True, file=_STDERR)
    else:
        faulthandler.cancel_dump_traceback_later()


def exit_at_once(number: int) -> NoReturn:
    """Exit with the signal's exit code, without any cleanup."""
    os._exit(128 + number)


STALL_EXIT_CODE: Final = 70
"""Exit code of a daemon that ends because its event loop is blocked."""
LOOP_TICK_SECONDS: Final = 0.5
"""How often the loop increments the counter that the watchdog reads."""
WATCHDOG_POLL_SECONDS: Final = 0.25
REPORT_AFTER_SECONDS: Final = 2.0
"""A stall is logged after so long, and again whenever it is twice as long."""
MAX_FRAMES: Final = 5
"""Frames of the code that blocks the loop, the innermost first."""


class LoopWatchdog:
    """Watches the event loop on which it is created."""

    def __init__(
        self, log: StructuredLog, limit: float, jobs: Callable[[], list[str]], *, owns_process: bool
    ) -> None:
        """Make a watchdog; `run` starts it.

        Args:
            log: Where stalls are logged.
            limit: Maximum seconds of a stall.
            jobs: Returns the ids of the running jobs.
            owns_process: Whether a stall that is too long ends the process; else it is only logged.
        """
        self._log = log
        self._limit = limit
        self._jobs = jobs
        self._owns_process = owns_process
        self._thread = threading.get_ident()
        """The thread of the loop."""
        self._turns = 0
        self._is_over = threading.Event()

    async def run(self) -> None:
        """Watch until this is cancelled."""
        # A daemon thread does not keep the process alive.
        threading.Thread(target=self._check, name="loop watchdog", daemon=True).start()
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
        seen, stalled, reported, before = -1, 0.0, 0.0, time.monotonic()
        while not self._is_over.wait(WATCHDOG_POLL_SECONDS):
            now = time.monotonic()
            # Time in which the whole process was suspended does not count: this thread did not run
            # either.
            passed, before = min(now - before, 2 * WATCHDOG_POLL_SECONDS), now
            if self._turns != seen:
                if reported:
                    self._log.write("loop_turns_again", "warning", seconds=round(stalled, 1))
                seen, stalled, reported = self._turns, 0.0, 0.0
                continue
            stalled += passed
            if self._owns_process and stalled >= self._limit:
                self._report(stalled, "end")
                os._exit(STALL_EXIT_CODE)
            if stalled >= max(REPORT_AFTER_SECONDS, 2 * reported):
                reported = stalled
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
    """Return the place in the code where a thread is, the innermost frame first."""
    # Python has no public function for the frame of another thread.
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    places = list[str]()
    while frame is not None and len(places) < MAX_FRAMES:
        places.append(f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}")
        frame = frame.f_back
    return " < ".join(places)
