"""How fast a machine is for the daemons of a test: as it is, or slower in one of two ways.

A *halting* machine gives a daemon only a share of the time, in turns too short for its watchdog; on
a *crowded* one the daemon comes last, beside a program that is never idle on each processor.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Final

import anyio

from wavewright.engine.main import main
from wavewright.engine.service.job_store import rules

TURN_SECONDS: Final = 0.1
"""How long a halting machine takes to let a daemon go on and to stop it again."""
CROWD_NICENESS: Final = 15
LAST_NICENESS: Final = 19
SHORT_PAUSES: Final = (0.1, 0.5)
"""Seconds between the attempts of a job whose process has ended: it is killed every second."""


@dataclass(frozen=True)
class Speed:
    """How fast a machine is."""

    name: str
    share: float = 1.0
    """Of the time, in which a daemon runs."""
    is_crowded: bool = False


FULL: Final = Speed("full")
HALTING: Final = Speed("halting", share=0.4)
CROWDED: Final = Speed("crowded", is_crowded=True)


def daemon_with_short_pauses(arguments: list[str]) -> None:
    """Run the command line; a job is begun again soon, however often its process has ended."""
    rules.ATTEMPT_PAUSES = SHORT_PAUSES
    main(arguments)


def last_daemon_with_short_pauses(arguments: list[str]) -> None:
    """Run the command line in the same way, as the last program of the machine."""
    os.nice(LAST_NICENESS)
    daemon_with_short_pauses(arguments)


@asynccontextmanager
async def machine(speed: Speed, running: Callable[[], Iterable[int]]) -> AsyncGenerator[None]:
    """Be as fast as that while the block runs.

    Args:
        speed: How fast.
        running: Returns the daemons' process groups.
    """
    crowd = list[subprocess.Popen[bytes]]()
    try:
        if speed.is_crowded:
            crowd += [_busy_process() for _ in range(os.cpu_count() or 1)]
        async with anyio.create_task_group() as tasks:
            if speed.share < 1:
                tasks.start_soon(_halt_again_and_again, speed.share, running)
            yield
            tasks.cancel_scope.cancel()
    finally:
        for process in crowd:
            process.kill()
            process.wait()


def _busy_process() -> subprocess.Popen[bytes]:
    program = f"import os; os.nice({CROWD_NICENESS})\nwhile True: pass"
    return subprocess.Popen([sys.executable, "-c", program])


async def _halt_again_and_again(share: float, running: Callable[[], Iterable[int]]) -> None:
    try:
        while True:
            _signal_all(signal.SIGSTOP, running())
            await anyio.sleep(TURN_SECONDS * (1 - share))
            _signal_all(signal.SIGCONT, running())
            await anyio.sleep(TURN_SECONDS * share)
    finally:
        _signal_all(signal.SIGCONT, running())


def _signal_all(number: signal.Signals, groups: Iterable[int]) -> None:
    for group in groups:
        with suppress(ProcessLookupError):
            os.killpg(group, number)
