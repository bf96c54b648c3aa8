"""The init of a container that has none: what process 1 owes the other processes.

The system ignores a signal to process 1 that has no handler, and makes it the parent of every
process whose own parent has ended. So where a command is process 1 it works in a child, and process
1 only passes signals on, reaps whoever ends, and ends with the exit code of the child.
"""

from __future__ import annotations

import os
import signal
from typing import Final, NoReturn

_FORWARDED: Final = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_FROM_KERNEL: Final = 0x80
"""Code of a signal of the terminal, which every process in the foreground gets."""


def work_below_process_one() -> None:
    """Return in a child where this process is process 1, and otherwise do nothing."""
    if os.getpid() != 1:
        return
    # Blocked signals wait, also those for the child while it is made.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*_FORWARDED, signal.SIGCHLD})
    child = os.fork()
    if child:
        _be_init(child)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _be_init(child: int) -> NoReturn:
    while True:
        received = signal.sigwaitinfo({*_FORWARDED, signal.SIGCHLD})
        if received.si_signo == signal.SIGCHLD:
            _reap(child)
        elif received.si_code != _FROM_KERNEL:
            os.kill(child, received.si_signo)
        # A signal of the terminal has reached the child already.


def _reap(child: int) -> None:
    """Take note of every process that has ended; end with the child."""
    while True:
        ended, status = os.waitpid(-1, os.WNOHANG)
        if ended == child:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
        if not ended:
            return
