"""The daemon as a process that dies, as by `kill -9`, right after the end of one step is committed.

python -m tests.crash.dying_daemon COMMAND STEP
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Sequence

import pytest

from wavewright.engine.main import main
from wavewright.engine.service.daemon.outbox import OutboxJournal
from wavewright.executor.events.types import Event, StepFinished
from wavewright.executor.store.transaction import Alongside
from wavewright.planner.types import RunId


def die_after(step: str) -> None:
    """End this process as soon as the journal holds the result of the step."""
    append = OutboxJournal.append

    def append_or_die(
        journal: OutboxJournal,
        run: RunId,
        events: Sequence[Event],
        alongside: Alongside | None = None,
    ) -> Awaitable[None]:
        written = append(journal, run, events, alongside)
        is_last = any(isinstance(event, StepFinished) and event.step == step for event in events)
        return _die_once(written) if is_last else written

    pytest.MonkeyPatch().setattr(OutboxJournal, "append", append_or_die)


async def _die_once(written: Awaitable[None]) -> None:
    await written
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    *command, step = sys.argv[1:]
    die_after(step)
    sys.exit(main(command))
