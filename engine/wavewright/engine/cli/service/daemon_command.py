"""Everything that keeps a daemon from working here, for whoever has to mend it: told at once.

*Faults of settings* are known by reading: what the file and the environment say, the project's tools and workers, the
packs, templates, ladders, models. *Faults of places* are found by trying: where health is to be answered, the store,
the broker. A place is tried only where something is wrong already, so a daemon that can start opens everything once.

`wavewright daemon`.
"""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from wavewright.config import exit_codes
from wavewright.config.documents import DocumentError
from wavewright.config.errors import WavewrightError
from wavewright.config.installation import user_state_dir
from wavewright.config.redaction import Redactor, known_secrets
from wavewright.config.sections import valid_host_port
from wavewright.config.settings import Settings, load_valid_settings
from wavewright.engine.bus.errors import BusError
from wavewright.engine.cli.common.broker import open_connection, open_daemon_bus
from wavewright.engine.cli.common.errors import CommandError
from wavewright.engine.cli.project.project_checks import prompt_findings
from wavewright.engine.daemon.daemon import run_daemon
from wavewright.engine.daemon.process import ShutdownRequest, handling_signals
from wavewright.engine.daemon.settings_check import check_daemon_settings
from wavewright.engine.messages.contract import message_contract, with_contract_defaults
from wavewright.engine.operations.health import PortTakenError, open_listener
from wavewright.engine.operations.logs import StructuredLog, capture_output
from wavewright.engine.operations.monitoring import Telemetry
from wavewright.engine.operations.tracing import TracingError, check_tracing, export_traces
from wavewright.engine.project.tools import all_tools, load_named_pack
from wavewright.executor.store.errors import JournalError, JournalLocked, JournalNotOpened
from wavewright.executor.stores import open_stores
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.ports.fallback_ladder import read_ladders
from wavewright.reviewer.gates.calibration import read_calibration
from wavewright.tools.functions.contracts import ToolDefinitionError
from wavewright.tools.functions.user_tools import load_user_tools
from wavewright.tools.packs import PackError, pack_names
from wavewright.tools.workers.specs import load_workers

_SETTINGS_ERRORS = (DocumentError, PlanError, ToolDefinitionError, PackError, TracingError)
_NOT_STARTED = "the daemon cannot serve"
_STORE_SETTINGS = ("journal", "state", "pg_url")
START_ERRORS = (BusError, JournalError, PortTakenError)


@dataclass(frozen=True, slots=True)
class StartCheck:
    """A project's settings, and what is wrong with them."""

    settings: Settings
    """The valid part of them."""
    settings_errors: tuple[WavewrightError, ...] = ()
    settings_error_text: str = ""
    """What was said of file and environment: of what is named there, `settings` holds the default."""

    async def environment_errors(self) -> list[WavewrightError]:
        """Try everything that a daemon opens, and return what refused it.

        Nothing is made by a default that somebody meant to change: a queue, once made, stays as it is.
        """
        section, found = self.settings.daemon, list[WavewrightError]()
        if section.health is not None:
            found += _errors_of(partial(_check_port, section.health), START_ERRORS)
        if not any(name in self.settings_error_text for name in _STORE_SETTINGS):
            found += await _opening_errors(open_stores(self.settings))
        if section.amqp_url is not None:
            is_named = "daemon" not in self.settings_error_text
            found += await _opening_errors(
                open_daemon_bus(section) if is_named else open_connection(section.amqp_url)
            )
        return [_with_start_code(error) for error in found]


def check_start(
    *, slots: int | None = None, health: str | None = None, log_level: str | None = None
) -> StartCheck:
    """Return the project's settings, with what is given in place of theirs, and all that is wrong with them.

    Nothing is opened.
    """
    settings, invalid = load_valid_settings(Path.cwd(), default_state=user_state_dir())
    told = " ".join(fault.message for error in invalid for fault in error.faults).lower()
    faults: list[WavewrightError] = [*invalid]
    try:
        settings = with_contract_defaults(settings)
    except PackError as error:
        faults.append(error)
        settings = replace(settings, daemon=settings.daemon.model_copy(update={"pack": None}))
    faults += _settings_faults(settings, told)
    given: dict[str, int | str | None] = {"slots": slots, "log_level": log_level}
    try:
        given["health"] = None if health is None else valid_host_port(health)
    except ValueError as error:
        faults.append(CommandError(f"--health {health!r}: {error}"))
    update = {name: value for name, value in given.items() if value is not None}
    return StartCheck(
        replace(settings, daemon=settings.daemon.model_copy(update=update)), tuple(faults), told
    )


def _settings_faults(settings: Settings, invalid: str) -> Iterator[WavewrightError]:
    is_address_told = "amqp_url" in invalid
    yield from _errors_of(partial(check_daemon_settings, settings, is_address_told=is_address_told))
    tools = [*_tool_errors(settings), *_pack_errors(settings)]
    # Each is valid by itself, but two may have the same name.
    yield from tools or _errors_of(partial(all_tools, settings))
    yield from _errors_of(partial(read_ladders, settings.ladders, settings.document))
    if settings.calibration is not None:
        yield from _errors_of(partial(read_calibration, settings.calibration))
    yield from _errors_of(check_tracing)
    for found in prompt_findings(settings):
        if found.state == "fault":
            yield CommandError(found.detail, hint=found.hint)


def _check_port(place: str) -> None:
    open_listener(place).close()


def _with_start_code(error: WavewrightError) -> WavewrightError:
    """Return what refused to be opened, with exit code 2 where no later start can succeed by itself."""
    if isinstance(error, JournalNotOpened) and not isinstance(error, JournalLocked):
        error.exit_code = exit_codes.MISUSE
    return error


def _tool_errors(settings: Settings) -> Iterator[WavewrightError]:
    for position, entry in enumerate(settings.tools):
        yield from _errors_of(partial(load_user_tools, (entry,), settings.root, first=position))
    for place in settings.workers:
        if place.suffix or place.exists():
            yield from _errors_of(partial(load_workers, (place,)))


def _pack_errors(settings: Settings) -> Iterator[WavewrightError]:
    for name in sorted({*settings.packs, *pack_names()}):
        given = settings.packs.get(name)
        only = replace(settings, packs={} if given is None else {name: given}, tools=(), workers=())
        yield from _errors_of(partial(load_named_pack, name, only))


def _errors_of(
    look: Callable[[], object], kinds: tuple[type[WavewrightError], ...] = _SETTINGS_ERRORS
) -> Iterator[WavewrightError]:
    try:
        look()
    except kinds as fault:
        yield fault


async def _opening_errors(opening: AbstractAsyncContextManager[object]) -> list[WavewrightError]:
    try:
        async with opening:
            return []
    except START_ERRORS as fault:
        return [fault]


_GC_THRESHOLD: Final = 5_000
"""So many new objects make Python look for garbage: the fewer they are, the shorter the event loop stands still."""


def serve(*, slots: int | None = None, health: str | None = None, log_level: str | None = None) -> int:
    """Take jobs in from the broker and work on them until a signal; return the exit code.

    What is given here goes before the environment and the file.

    Raises:
        ExceptionGroup: it cannot start, with everything that keeps it from that; or it cannot go on.
    """
    looked = check_start(slots=slots, health=health, log_level=log_level)
    if looked.settings_errors:
        errors = [*looked.settings_errors, *anyio.run(looked.environment_errors)]
        raise ExceptionGroup(_NOT_STARTED, errors)
    settings = looked.settings
    section = settings.daemon
    log = StructuredLog(
        agent=section.agent,
        domain=section.goal_template or "jobs",
        level=section.log_level,
        redactor=Redactor(known_secrets(settings, os.environ)),
        contract=message_contract(settings),
    )
    log.capture_logging()
    begun = list[bool]()
    try:
        with contextlib.chdir(settings.root), capture_output(log), export_traces():
            anyio.run(_serve, settings, Telemetry(log), begun)
    except START_ERRORS as fault:
        others = [] if begun else anyio.run(looked.environment_errors)
        # Where it is gone by now, the fault is still why the daemon has ended.
        raise ExceptionGroup(_NOT_STARTED, others or [_with_start_code(fault)]) from fault
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
