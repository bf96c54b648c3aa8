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
from wavewright.engine.cli.daemon_faults import START_ERRORS, check_start, command_error_of
from wavewright.engine.cli.failures import SeveralErrors
from wavewright.engine.daemon.daemon import run_daemon
from wavewright.engine.daemon.stopping import ShutdownRequest, handling_signals
from wavewright.engine.operations.exporting import export_traces
from wavewright.engine.operations.logs import StructuredLog
from wavewright.engine.operations.printed import capture_output
from wavewright.engine.operations.watch import Telemetry

_GC_THRESHOLD: Final = 5_000
"""So many new objects make Python look for garbage: the fewer they are, the shorter the event loop stands still."""


def serve(*, slots: int | None = None, health: str | None = None, log_level: str | None = None) -> int:
    """Take jobs in from the broker and work on them until a signal; return the exit code.

    What is given here goes before the environment and the file.

    Raises:
        SeveralFaults: it cannot begin, with everything that keeps it from that; or it cannot go on.
    """
    looked = check_start(slots=slots, health=health, log_level=log_level)
    if looked.settings_errors:
        raise SeveralErrors([*looked.settings_errors, *anyio.run(looked.environment_errors)])
    settings = looked.settings
    section = settings.daemon
    log = StructuredLog(
        agent=section.agent,
        domain=section.goal_template or "jobs",
        level=section.log_level,
        redactor=Redactor(known_secrets(settings, os.environ)),
    )
    log.capture_logging()
    begun = list[bool]()
    try:
        with contextlib.chdir(settings.root), capture_output(log), export_traces():
            anyio.run(_serve, settings, Telemetry(log), begun)
    except START_ERRORS as fault:
        others = [] if begun else anyio.run(looked.environment_errors)
        # Where it is gone by now, the fault is still why the daemon has ended.
        raise SeveralErrors(others or [command_error_of(fault)]) from fault
    return exit_codes.OK


async def _serve(settings: Settings, watch: Telemetry, begun: list[bool]) -> None:
    stopping = ShutdownRequest()
    with handling_signals(stopping):

        def take_up_work() -> None:
            begun.append(True)
            freeze_startup_objects()

        await run_daemon(settings, watch, stopping, on_ready=take_up_work)


def freeze_startup_objects() -> None:
    """Have what the start has made looked through for garbage no more: the event loop stands still meanwhile."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
