"""`wavewright daemon`: check the settings, then execute jobs; everything that prevents the start is
reported at once.

*Errors of settings* are found by reading: the file, the environment, tools, workers, packs,
templates, ladders and models; neither the broker nor the store nor a model is contacted. *Errors of
the environment* are found by opening the health port, the store and the broker; that is tried only
if the settings have errors or the start failed, so a daemon that can start opens everything once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, TextIO

import anyio

from wavewright.config import (
    DocumentError,
    Settings,
    WavewrightError,
    exit_codes,
    known_secrets_redactor,
    user_state_dir,
)
from wavewright.config.sections import valid_host_port
from wavewright.config.settings import load_valid_settings
from wavewright.config.sources import combine_errors
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.interfaces.cli.common.broker import open_connection, open_daemon_bus
from wavewright.engine.interfaces.cli.common.http_serving import (
    listener_address,
    listener_at,
)
from wavewright.engine.interfaces.cli.common.output import CommandError, write_file
from wavewright.engine.interfaces.cli.project.project_checks import (
    named_setting_errors,
    prompt_findings,
    settings_error,
)
from wavewright.engine.interfaces.view.people import TOKEN_VARIABLE, PageAccess
from wavewright.engine.run.project.sound_part import sound_part
from wavewright.engine.run.project.tools import all_tools, load_named_pack
from wavewright.engine.service.bus.connection import read_address
from wavewright.engine.service.bus.faults import BusError, BusMisconfigured
from wavewright.engine.service.bus.topology import definitions
from wavewright.engine.service.daemon.daemon import run_daemon
from wavewright.engine.service.daemon.process import ShutdownRequest, handling_signals
from wavewright.engine.service.job_store.stores import open_stores
from wavewright.engine.service.messages.contract import message_contract, with_contract_defaults
from wavewright.engine.service.operations.health import PortTakenError, open_listener
from wavewright.engine.service.operations.logs import StructuredLog, capture_output
from wavewright.engine.service.operations.monitoring import Telemetry
from wavewright.engine.service.operations.trace_export import (
    TracingError,
    check_tracing,
    export_traces,
)
from wavewright.executor import JournalError
from wavewright.executor.store.errors import JournalLocked, JournalNotOpened
from wavewright.planner import PlanError
from wavewright.planner.ports.fallback_ladder import read_ladders
from wavewright.planner.ports.model_port import ModelError
from wavewright.reviewer import read_calibration
from wavewright.tools import PackError, ToolDefinitionError, pack_names
from wavewright.tools.models import check_models, model_configured

_SETTINGS_ERRORS = (DocumentError, PlanError, ToolDefinitionError, PackError, TracingError)
_NOT_STARTED = "the daemon cannot start"

_STORE_SETTINGS = ("journal", "state", "pg_url")
_HEALTH: Final = ("health and metrics", "daemon.health")
_VIEW: Final = ("the live page", "daemon.view")
START_ERRORS = (BusError, JournalError, PortTakenError)


@dataclass(frozen=True, slots=True)
class StartCheck:
    """A project's settings, with their errors."""

    settings: Settings
    """The valid part of them."""
    settings_errors: tuple[WavewrightError, ...] = ()
    settings_error_text: str = ""
    """The errors of file and environment as text; `settings` holds defaults for what is named in
    it.
    """

    async def environment_errors(self) -> list[WavewrightError]:
        """Open everything that a daemon opens, and return the errors.

        Nothing is created from a default that stands for a faulty setting: a queue cannot be
        changed afterwards.
        """
        section, errors = self.settings.daemon, list[WavewrightError]()
        if section.health is not None:
            errors += _errors_of(partial(_check_port, section.health, *_HEALTH), START_ERRORS)
        if section.view is not None:
            errors += _errors_of(partial(_check_port, section.view, *_VIEW), START_ERRORS)
        if not any(name in self.settings_error_text for name in _STORE_SETTINGS):
            errors += await _opening_errors(open_stores(self.settings, must_write=True))
        if section.amqp_url is not None:
            is_named = "daemon" not in self.settings_error_text
            errors += await _opening_errors(
                open_daemon_bus(section) if is_named else open_connection(section.amqp_url)
            )
        return [_with_start_code(error) for error in errors]


def check_start(
    *,
    slots: int | None = None,
    health: str | None = None,
    log_level: str | None = None,
    is_local: bool = False,
) -> StartCheck:
    """Return the project's settings with the given overrides, and all errors in them; nothing is
    opened.
    """
    settings, invalid = load_valid_settings(
        Path.cwd(), default_state=None if is_local else user_state_dir()
    )
    fault_text = " ".join(fault.message for error in invalid for fault in error.faults).lower()
    faults: list[WavewrightError] = [*invalid]
    try:
        settings = with_contract_defaults(settings)
    except PackError as error:
        faults.append(error)
        settings = replace(settings, daemon=settings.daemon.model_copy(update={"pack": None}))
    faults += _settings_faults(settings, fault_text, is_local=is_local)
    given: dict[str, int | str | None] = {"slots": slots, "log_level": log_level}
    try:
        given["health"] = None if health is None else valid_host_port(health)
    except ValueError as error:
        faults.append(CommandError(f"--health {health!r}: {error}"))
    update = {name: value for name, value in given.items() if value is not None}
    return StartCheck(
        replace(settings, daemon=settings.daemon.model_copy(update=update)),
        tuple(faults),
        fault_text,
    )


def _settings_faults(
    settings: Settings, invalid: str, *, is_local: bool
) -> Iterator[WavewrightError]:
    is_address_reported = is_local or "amqp_url" in invalid
    if is_local and settings.daemon.amqp_url is not None:
        yield CommandError(
            "the settings have the address of a broker, and `serve` takes jobs from none",
            hint="start `wavewright daemon`, which has the same schedules, or take the address away",
        )
    yield from _errors_of(
        partial(check_daemon_settings, settings, is_address_reported=is_address_reported)
    )
    tools = [*sound_part(settings)[1], *_pack_errors(settings)]
    # Each is valid by itself, but two may have the same name.
    yield from tools or _errors_of(partial(all_tools, settings))
    yield from _errors_of(partial(read_ladders, settings.ladders, settings.document))
    if settings.calibration is not None:
        yield from _errors_of(partial(read_calibration, settings.calibration))
    yield from _errors_of(check_tracing)
    if settings.daemon.view is not None:
        yield from _errors_of(partial(_check_view_access, settings), (WavewrightError,))
    for finding in prompt_findings(settings):
        if finding.state == "fault":
            yield CommandError(finding.detail, hint=finding.hint)


def _check_view_access(settings: Settings) -> None:
    access = PageAccess.from_settings(settings)
    access.common_token()
    if not access.names_people and not os.environ.get(TOKEN_VARIABLE):
        raise CommandError(
            "`daemon.view` serves a page whose token is not known",
            hint=f"set {TOKEN_VARIABLE} (`openssl rand -hex 32` makes one), or give people their"
            " own with `wavewright view --add NAME`",
        )


def _check_port(place: str, what: str, setting: str) -> None:
    open_listener(place, what, setting).close()


def _with_start_code(error: WavewrightError) -> WavewrightError:
    """Return the error, with exit code 2 if no later start can succeed without a change."""
    if isinstance(error, JournalNotOpened) and not isinstance(error, JournalLocked):
        error.exit_code = exit_codes.MISUSE
    return error


def _pack_errors(settings: Settings) -> Iterator[WavewrightError]:
    """Yield the errors of installed packs that the settings do not configure."""
    for name in sorted({*pack_names()} - settings.packs.keys()):
        only = replace(settings, packs={}, tools=(), workers=())
        yield from _errors_of(partial(load_named_pack, name, only))


def _errors_of(
    check: Callable[[], object], kinds: tuple[type[WavewrightError], ...] = _SETTINGS_ERRORS
) -> Iterator[WavewrightError]:
    try:
        check()
    except kinds as fault:
        yield fault


async def _opening_errors(opening: AbstractAsyncContextManager[object]) -> list[WavewrightError]:
    try:
        async with opening:
            return []
    except START_ERRORS as fault:
        return [fault]


_GC_THRESHOLD: Final = 5_000
"""New objects that trigger a garbage collection; fewer mean shorter pauses of the event loop."""


def serve(
    *,
    slots: int | None = None,
    health: str | None = None,
    log_level: str | None = None,
    page: str | None = None,
) -> int:
    """Execute jobs until a signal, and return the exit code: jobs from the broker, or with `page`
    those of schedules and of the live page that is served there, without a broker.

    The arguments take precedence over the environment and the settings file.

    Raises:
        ExceptionGroup: the daemon cannot start, with every error that prevents it, or cannot
            continue.
    """
    is_local = page is not None
    start = check_start(slots=slots, health=health, log_level=log_level, is_local=is_local)
    if start.settings_errors:
        errors = [*start.settings_errors, *anyio.run(start.environment_errors)]
        raise ExceptionGroup(_NOT_STARTED, errors)
    settings = start.settings
    section, contract = settings.daemon, message_contract(settings)
    log = StructuredLog(
        agent=section.agent,
        domain=contract.domain or section.goal_template or "jobs",
        level=section.log_level,
        redactor=known_secrets_redactor(settings),
        contract=contract,
    )
    log.capture_logging()
    begun, was_asked_to_stop = list[bool](), False
    own_page = None if page is None else _OwnPage(page, sys.stdout)
    try:
        with contextlib.chdir(settings.root), capture_output(log), export_traces():
            was_asked_to_stop = anyio.run(
                _serve,
                settings,
                Telemetry(log),
                begun,
                own_page,
                backend_options={"use_uvloop": sys.platform != "win32"},
            )
    except START_ERRORS as fault:
        others = [] if begun else anyio.run(start.environment_errors)
        # The error may be gone by now; it is still the reason.
        raise ExceptionGroup(_NOT_STARTED, others or [_with_start_code(fault)]) from fault
    except RuntimeError as fault:
        if not str(fault).startswith("Event loop stopped"):
            raise
    return exit_codes.OK if was_asked_to_stop else exit_codes.INTERNAL


def write_topology(*, out: Path | None, vhost: str) -> int:
    """Print what the broker loads, or write it to a file.

    Raises:
        CommandError: the passwords of users are missing.
        FileNotWrittenError: the file cannot be written.
    """
    document = definitions(project_settings().daemon, os.environ, vhost=vhost)
    text = json.dumps(document, indent=2) + "\n"
    if out is None:
        sys.stdout.write(text)
    else:
        write_file(out, text)
    return exit_codes.OK


@dataclass(slots=True)
class _OwnPage:
    """The live page of `wavewright serve`."""

    place: str
    """`HOST:PORT`."""
    out: TextIO
    """Where its address is printed with the token, which the log would redact."""
    url: str = ""
    """Its address with the token, once it is served."""


async def _serve(
    settings: Settings, watch: Telemetry, begun: list[bool], own_page: _OwnPage | None
) -> bool:
    """Run the daemon until it ends, and return whether it was asked to."""
    stopping = ShutdownRequest()
    with handling_signals(stopping):

        def on_ready() -> None:
            begun.append(True)
            # Not before: a page is served also while its database is away, which ends this start.
            if own_page is not None:
                print(
                    f"live page and schedules of {settings.root}: {own_page.url}",
                    file=own_page.out,
                    flush=True,
                )
            freeze_startup_objects()

        page = (
            _page_served(settings, watch.log)
            if own_page is None
            else _own_page_served(settings, own_page)
        )
        # Cancelled, as a tool may do with all tasks, it ends without having been asked to.
        with contextlib.suppress(asyncio.CancelledError):
            await run_daemon(settings, watch, stopping, beside=page, on_ready=on_ready)
    return bool(stopping.reason)


@contextlib.asynccontextmanager
async def _page_served(settings: Settings, log: StructuredLog) -> AsyncGenerator[None]:
    """Serve the live page while the block runs, where the settings name a place for it."""
    place = settings.daemon.view
    if place is None:
        yield
        return
    # Imported here and below: a daemon without a page does not need the extra of pages.
    from wavewright.engine.interfaces.cli.common.page_serving import live_page_served

    with open_listener(place, *_VIEW) as listener:
        async with live_page_served(settings, listener):
            log.write("view_served", place=listener_address(listener))
            yield


@contextlib.asynccontextmanager
async def _own_page_served(settings: Settings, own: _OwnPage) -> AsyncGenerator[None]:
    """Serve the live page while the block runs."""
    from wavewright.engine.interfaces.cli.common.page_serving import live_page_served

    with contextlib.closing(listener_at(own.place, "--listen")) as listener:
        async with live_page_served(settings, listener) as own.url:
            yield


def freeze_startup_objects() -> None:
    """Exclude the objects of the start from garbage collection, which pauses the event loop."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)


def check_daemon_settings(settings: Settings, *, is_address_reported: bool = False) -> None:
    """Raise where a daemon cannot be started with these settings.

    Args:
        settings: The valid part of the settings.
        is_address_reported: Whether the broker's address is missing because an error about it was
            reported.

    Raises:
        DocumentError: all errors found.
        PackError: `daemon.pack` names no pack that defines messages.
    """
    of_section = () if is_address_reported else _section_errors(settings)
    if found := [
        *of_section,
        *named_setting_errors(settings),
        *_model_errors(settings),
    ]:
        raise combine_errors(found)


def check_broker_configured(settings: Settings) -> None:
    """Raise where the settings have no valid address of a broker.

    Raises:
        DocumentError: the address is missing or invalid.
    """
    if found := [*_section_errors(settings)]:
        raise combine_errors(found)


def _section_errors(settings: Settings) -> Iterator[DocumentError]:
    url = settings.daemon.amqp_url
    if url is None:
        hint = "set WAVEWRIGHT_AMQP_URL=amqps://USER:PASSWORD@HOST/VHOST"
        yield settings_error(settings, "the address of the broker is missing", hint, "/daemon")
        return
    try:
        read_address(url)
    except BusMisconfigured as error:
        yield settings_error(
            settings, f"{error.message} ({error.place})", error.hint, "/daemon/amqp_url"
        )


def _model_errors(settings: Settings) -> Iterator[DocumentError]:
    if not model_configured(settings):
        return
    try:
        check_models(settings)
    except ModelError as error:
        yield settings_error(settings, str(error), error.hint, "/model")
