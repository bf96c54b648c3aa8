"""`wavewright daemon`."""

from __future__ import annotations

import contextlib
import gc
import os
from typing import Final

import anyio

from wavewright.config.redaction import Redactor, known_secrets
from wavewright.config.settings import Settings
from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.daemon_faults import OF_PLACES, as_told, look
from wavewright.engine.cli.failures import SeveralFaults
from wavewright.engine.daemon.daemon import run_daemon
from wavewright.engine.daemon.stopping import Stopping, taking_signals
from wavewright.engine.operations.exporting import exporting_traces
from wavewright.engine.operations.logs import Log
from wavewright.engine.operations.printed import taking_output
from wavewright.engine.operations.watch import Watch

_YOUNG_OBJECTS: Final = 5_000
"""So many new objects make Python look for garbage: the fewer they are, the shorter the event loop stands still."""


def serve(*, slots: int | None = None, health: str | None = None, log_level: str | None = None) -> int:
    """Take jobs in from the broker and work on them until a signal; return the exit code.

    What is given here goes before the environment and the file.

    Raises:
        SeveralFaults: it cannot begin, with everything that keeps it from that; or it cannot go on.
    """
    looked = look(slots=slots, health=health, log_level=log_level)
    if looked.faults:
        raise SeveralFaults([*looked.faults, *anyio.run(looked.faults_of_places)])
    settings = looked.settings
    section = settings.daemon
    log = Log(
        agent=section.agent,
        domain=section.goal_template or "jobs",
        level=section.log_level,
        redactor=Redactor(known_secrets(settings, os.environ)),
    )
    log.take_over()
    begun = list[bool]()
    try:
        with contextlib.chdir(settings.root), taking_output(log), exporting_traces():
            anyio.run(_serve, settings, Watch(log), begun)
    except OF_PLACES as fault:
        others = [] if begun else anyio.run(looked.faults_of_places)
        # Where it is gone by now, the fault is still why the daemon has ended.
        raise SeveralFaults(others or [as_told(fault)]) from fault
    return exit_codes.OK


async def _serve(settings: Settings, watch: Watch, begun: list[bool]) -> None:
    stopping = Stopping()
    with taking_signals(stopping):

        def take_up_work() -> None:
            begun.append(True)
            settle()

        await run_daemon(settings, watch, stopping, on_ready=take_up_work)


def settle() -> None:
    """Have what the start has made looked through for garbage no more: the event loop stands still meanwhile."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)
