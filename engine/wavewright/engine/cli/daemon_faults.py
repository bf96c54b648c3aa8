"""Everything that keeps a daemon from working here, for whoever has to mend it: told at once.

*Faults of settings* are known by reading: what the file and the environment say, the project's tools and workers, the
packs, templates, ladders, models. *Faults of places* are found by trying: where health is to be answered, the store,
the broker. A place is tried only where something is wrong already, so a daemon that can start opens everything once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from wavewright.config.daemon_settings import sound_place
from wavewright.config.documents import DocumentError
from wavewright.config.settings import Settings, sound_settings
from wavewright.config.user_state import user_state_dir
from wavewright.engine.bus.errors import BusError
from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.broker import connected, reached_daemon_bus, told_of_bus
from wavewright.engine.cli.doctor_prompts import prompt_findings
from wavewright.engine.cli.failures import CommandError
from wavewright.engine.daemon.faults import refuse_faulty_settings
from wavewright.engine.operations.exporting import TracingError, refuse_faulty_tracing
from wavewright.engine.operations.health import PortTakenError, listening
from wavewright.engine.toolbox import all_tools, load_named_pack
from wavewright.executor.journal_errors import JournalError, JournalHeld, JournalNotOpened
from wavewright.executor.stores import open_stores
from wavewright.planner.diagnostics import PlanError
from wavewright.planner.ladders import read_ladders
from wavewright.reviewer.calibration import read_calibration
from wavewright.tools.functions import ToolDefinitionError
from wavewright.tools.packs import PackError, pack_names
from wavewright.tools.user_tools import load_user_tools
from wavewright.tools.workers.files import load_workers

_OF_SETTINGS = (DocumentError, PlanError, ToolDefinitionError, PackError)
_OF_STORE = ("journal", "state", "pg_url")
OF_PLACES = (BusError, JournalError, PortTakenError)


@dataclass(frozen=True, slots=True)
class Looked:
    """A project's settings, and what is wrong with them."""

    settings: Settings
    """What is sound of them."""
    faults: tuple[Exception, ...] = ()
    unsound: str = ""
    """What was said of file and environment: of what is named there, `settings` holds the default."""

    async def faults_of_places(self) -> list[Exception]:
        """Try everything that a daemon opens, and return what refused it.

        Nothing is made by a default that somebody meant to change: a queue, once made, stays as it is.
        """
        section, found = self.settings.daemon, list[Exception]()
        if section.health is not None:
            found += _caught(partial(_listen, section.health), OF_PLACES)
        if not any(name in self.unsound for name in _OF_STORE):
            found += await _refused(open_stores(self.settings))
        if section.amqp_url is not None:
            is_named = "daemon" not in self.unsound
            found += await _refused(reached_daemon_bus(section) if is_named else connected(section.amqp_url))
        return [as_told(fault) for fault in found]


def look(*, slots: int | None = None, health: str | None = None, log_level: str | None = None) -> Looked:
    """Return the project's settings, with what is given in place of theirs, and all that is wrong with them.

    Nothing is opened.
    """
    settings, unsound = sound_settings(Path.cwd(), default_state=user_state_dir())
    told = " ".join(fault.message for error in unsound for fault in error.faults).lower()
    faults = [*unsound, *_faults_of_settings(settings, told)]
    given: dict[str, int | str | None] = {"slots": slots, "log_level": log_level}
    try:
        given["health"] = None if health is None else sound_place(health)
    except ValueError as error:
        faults.append(CommandError(f"--health {health!r}: {error}"))
    update = {name: value for name, value in given.items() if value is not None}
    return Looked(replace(settings, daemon=settings.daemon.model_copy(update=update)), tuple(faults), told)


def _faults_of_settings(settings: Settings, unsound: str) -> Iterator[Exception]:
    is_address_told = "amqp_url" in unsound
    yield from _caught(partial(refuse_faulty_settings, settings, is_address_told=is_address_told))
    tools = [*_faults_of_tools(settings), *_faults_of_packs(settings)]
    # Each is sound by itself: two may still have one name.
    yield from tools or _caught(partial(all_tools, settings))
    yield from _caught(partial(read_ladders, settings.ladders, settings.document))
    if settings.calibration is not None:
        yield from _caught(partial(read_calibration, settings.calibration))
    for fault in _caught(refuse_faulty_tracing, (TracingError,)):
        yield CommandError(str(fault))
    for found in prompt_findings(settings):
        if found.state == "fault":
            yield CommandError(found.detail, hint=found.mend)


def _listen(place: str) -> None:
    listening(place).close()


def as_told(fault: Exception) -> Exception:
    """Return the fault of a place as a command tells it: with exit code 2 where waiting is no use, with 3 else."""
    match fault:
        case BusError():
            return told_of_bus(fault)
        case JournalError():
            is_wrong = isinstance(fault, JournalNotOpened) and not isinstance(fault, JournalHeld)
            code = exit_codes.MISUSE if is_wrong else exit_codes.ENVIRONMENT
            return CommandError(fault.message, hint=fault.mend, place=fault.place, code=code)
        case PortTakenError():
            return CommandError(str(fault))
        case _:
            return fault


def _faults_of_tools(settings: Settings) -> Iterator[Exception]:
    for position, entry in enumerate(settings.tools):
        yield from _caught(partial(load_user_tools, (entry,), settings.root, first=position))
    for place in settings.workers:
        if place.suffix or place.exists():
            yield from _caught(partial(load_workers, (place,)))


def _faults_of_packs(settings: Settings) -> Iterator[Exception]:
    for name in sorted({*settings.packs, *pack_names()}):
        given = settings.packs.get(name)
        only = replace(settings, packs={} if given is None else {name: given}, tools=(), workers=())
        yield from _caught(partial(load_named_pack, name, only))


def _caught(
    look: Callable[[], object], kinds: tuple[type[Exception], ...] = _OF_SETTINGS
) -> Iterator[Exception]:
    try:
        look()
    except kinds as fault:
        yield fault


async def _refused(opening: AbstractAsyncContextManager[object]) -> list[Exception]:
    try:
        async with opening:
            return []
    except OF_PLACES as fault:
        return [fault]
