"""What signals do to the daemon.

The first TERM (or INT, or HUP) asks it to stop: nothing new is begun, what runs is written down, and it ends with 0,
within `END_SECONDS` whatever hangs. The second one ends it at once; so does QUIT. Where a step holds the interpreter's
lock no signal is heard and no thread of ours runs; then the system's own timer ends the process. Whatever way it ends,
the journal holds every step that had ended.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final, NoReturn

import anyio

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
