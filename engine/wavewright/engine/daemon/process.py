"""What signals do to the daemon.

The first TERM (or INT, or HUP) asks it to stop: nothing new is begun, what runs is written down, and it ends with 0,
within `END_SECONDS` whatever hangs. The second one ends it at once; so does QUIT. Where a step holds the interpreter's
lock no signal is heard and no thread of ours runs; then the system's own timer ends the process. Whatever way it ends,
the journal holds every step that had ended.

The event loop is watched from beside it.

A *stall* is a stretch in which the event loop does not turn, because a step keeps it from everything else: no message
is taken in, no status goes out, no other job goes on. A stall is told of while it lasts, with the place in the code
that makes it. One that lasts as long as the settings allow ends the process, since nothing in it can be ended singly:
its jobs go on in the next daemon, and the one that does it again and again is dead-lettered like any that ends its
process. What was journaled stays as it is, and holds on runs are kept meanwhile, for they are renewed elsewhere.
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

from wavewright.engine.operations.logs import StructuredLog
from wavewright.planner.types import Json

SHUTDOWN_SECONDS: Final = 9.0
"""After the first signal; what has not ended by then hangs, and nothing of it would be written down later."""
GRACEFUL_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class ShutdownRequest:
    """Whether the daemon is to stop, and why."""

    def __init__(self) -> None:
        self.reason = ""
        self.owns_process = False
        """Whether the process is the daemon's own, to be ended by it where nothing else helps."""
        self._asked = anyio.Event()

    def request(self, reason: str) -> None:
        """Ask the daemon to stop."""
        if not self._asked.is_set():
            self.reason = reason
            self._asked.set()

    async def wait_requested(self) -> None:
        """Wait until somebody asks."""
        await self._asked.wait()


@contextmanager
def handling_signals(stopping: ShutdownRequest) -> Generator[None]:
    """Let signals stop the daemon while the block runs; it is entered on the event loop."""
    # Not the loop's own handlers: the second signal must end a daemon whose loop hangs.
    loop = asyncio.get_running_loop()
    told: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        if told:
            exit_at_once(number)
        told.append(number)
        _exit_after(SHUTDOWN_SECONDS)
        loop.call_soon_threadsafe(stopping.request, signal.Signals(number).name)

    def end(number: int, _frame: FrameType | None) -> None:
        exit_at_once(number)

    wanted = dict.fromkeys(GRACEFUL_SIGNALS, stop) | {signal.SIGQUIT: end}
    before = {number: signal.signal(number, action) for number, action in wanted.items()}
    # Its handler is not Python's: it tells where each thread is, and lets the signal end the process.
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
    """End this process after so many seconds, by a thread: the loop may be what hangs."""

    def end() -> None:
        # So that whoever reads the log tells it from an end that came by itself, and sees what hung.
        faulthandler.dump_traceback(2)
        os._exit(0)

    # A daemon: it keeps no process alive that ends by itself.
    last = threading.Timer(seconds, end)
    last.daemon = True
    last.start()


def exit_by_timer(seconds: float) -> None:
    """End this process once it has worked for so long, unless this is called again; 0 for never.

    A process that was frozen has used no processor, and comes to no harm. The timer counts the seconds of all threads
    together, and those that are in C code work at the same time: so it ends after that many on each processor.
    """
    # Not every system tells on which of its processors a process may run.
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    signal.setitimer(signal.ITIMER_PROF, seconds * processors)


def exit_at_once(number: int) -> NoReturn:
    """End this process as the signal would have done, with nothing wound down."""
    os._exit(128 + number)


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
