"""`wavewright daemon`."""

from __future__ import annotations

import os
from dataclasses import replace

import anyio

from wavewright.config.redaction import Redactor, known_secrets
from wavewright.config.settings import Settings
from wavewright.engine.bus.errors import BusError, BusMisconfigured
from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.failures import CommandError
from wavewright.engine.cli.project import project_settings
from wavewright.engine.daemon.daemon import run_daemon
from wavewright.engine.daemon.faults import refuse_faulty_settings
from wavewright.engine.daemon.stopping import Stopping, taking_signals
from wavewright.engine.operations.exporting import exporting_traces
from wavewright.engine.operations.health import PortTakenError
from wavewright.engine.operations.logs import Log
from wavewright.engine.operations.watch import Watch


def serve(*, slots: int | None) -> int:
    """Take jobs in from the broker and work on them until a signal; return the exit code.

    Raises:
        DocumentError: the settings are faulty, with everything that is wrong.
        CommandError: there is no broker, or its place for health is taken.
    """
    settings = project_settings()
    if slots is not None:
        settings = replace(settings, daemon=settings.daemon.model_copy(update={"slots": slots}))
    refuse_faulty_settings(settings)
    section = settings.daemon
    log = Log(
        agent=section.agent,
        domain=section.goal_template or "jobs",
        level=section.log_level,
        redactor=Redactor(known_secrets(settings, os.environ)),
    )
    log.take_over()
    try:
        with exporting_traces():
            anyio.run(_serve, settings, Watch(log))
    except BusError as error:
        code = exit_codes.MISUSE if isinstance(error, BusMisconfigured) else exit_codes.ENVIRONMENT
        raise CommandError(error.message, hint=error.mend, place=error.place, code=code) from error
    except PortTakenError as error:
        raise CommandError(str(error), code=exit_codes.ENVIRONMENT) from error
    return exit_codes.OK


async def _serve(settings: Settings, watch: Watch) -> None:
    stopping = Stopping()
    with taking_signals(stopping):
        await run_daemon(settings, watch, stopping)
