"""What `wavewright doctor` finds, one thing at a time.

What `wavewright check` finds in settings files and in files of workers.

What `wavewright doctor` finds out about a project's own prompts and ladders, and its calibration of judges.

A template that replaces nothing is never used, and one that cannot be read, or that names a value which its prompt is
not given, fails only when a model is to be asked: all are told here.

What `wavewright doctor` finds out about the daemon's broker: whether the user of the settings may connect and write.

Nothing is made or delivered at the broker: a queue that is not there yet is made by the daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import anyio

from wavewright.config.documents import Document, DocumentError
from wavewright.config.installation import install_hint, is_installed
from wavewright.config.model_validation import read_as_model
from wavewright.config.settings import read_settings
from wavewright.config.suggestions import did_you_mean
from wavewright.engine.project.prompt_checks import find_prompt_defect
from wavewright.planner.diagnostics.diagnostic import (
    Diagnostic,
    PlanError,
    diagnostic_from_fault,
    locate_diagnostics,
)
from wavewright.planner.ports.fallback_ladder import read_ladders
from wavewright.prompts import Prompts
from wavewright.tools.functions.contracts import ToolDefinitionError
from wavewright.tools.packs import PackError, load_pack, pack_names

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.tools.workers.specs import Worker, WorkerSpec


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check."""

    subject: str
    state: Literal["ok", "note", "fault"]
    """A `note` is no fault: something optional is missing."""
    detail: str
    hint: str = ""
    """How to fix it, where there is something to fix."""


def finding_of_faulty_file(subject: str, error: DocumentError | PlanError, hint: str) -> DoctorFinding:
    """Name the first fault with its place; its own mend, such as the word that was meant, goes before `mend`."""
    found = error.diagnostics if isinstance(error, PlanError) else error.faults
    first = found[0]
    has_place = first.span is not None and bool(error.source.text)
    line = f":{error.source.position(first.span.start)[0]}" if has_place and first.span is not None else ""
    more = "" if len(found) == 1 else f" (and {len(found) - 1} more)"
    return DoctorFinding(
        subject, "fault", f"{error.source.name}{line}: {first.message}{more}", first.hint or hint
    )


def check_settings(document: Document, load: Callable[[], Settings]) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a settings file.

    `load` gives the settings of the project: where the file is theirs, its tools are imported as well.
    """
    try:
        read_settings(document)
    except DocumentError as error:
        return tuple(diagnostic_from_fault(fault) for fault in error.faults)
    settings = load()
    if settings.file is None or settings.file != Path(document.source.name).absolute():
        return ()
    return tuple(locate_diagnostics(_settings_diagnostics(settings), document))


def _settings_diagnostics(settings: Settings) -> Iterator[Diagnostic]:
    from wavewright.engine.project.tools import all_tools
    from wavewright.planner.ports.fallback_ladder import read_ladders

    try:
        all_tools(settings)
    except ToolDefinitionError as error:
        yield Diagnostic("E107", str(error), "/tools", error.hint)
    except PackError as error:
        yield Diagnostic("E107", str(error), "/packs", error.hint)
    try:
        read_ladders(settings.ladders, settings.document)
    except DocumentError as error:
        yield from (diagnostic_from_fault(fault) for fault in error.faults)


def check_worker(document: Document, settings: Settings) -> tuple[Diagnostic, ...]:
    """Return what is wrong with the file of a worker, its prompt included."""
    from wavewright.tools.workers.specs import WorkerSpec

    try:
        spec = read_as_model(document, WorkerSpec)
    except DocumentError as error:
        return tuple(diagnostic_from_fault(fault) for fault in error.faults)
    return tuple(locate_diagnostics(_worker_diagnostics(spec, settings), document))


def _worker_diagnostics(spec: WorkerSpec, settings: Settings) -> Iterator[Diagnostic]:
    from wavewright.engine.project.prompt_checks import find_prompt_defect
    from wavewright.prompts import Prompts
    from wavewright.tools.workers.factory import make_worker
    from wavewright.tools.workers.services import make_services
    from wavewright.tools.workers.specs import Worker

    worker = Worker(spec)
    try:
        make_worker(worker, make_services(settings))
    except ToolDefinitionError as error:
        yield Diagnostic("E107", str(error), "", error.hint)
        return
    found = find_prompt_defect(spec.prompt, Prompts(settings.prompts), (worker,))
    if found is not None:
        yield Diagnostic(
            "E207", f"the prompt cannot be rendered: {found.place}: {found.message}", "/prompt", found.hint
        )


def _valid_workers(settings: Settings) -> Iterator[Worker]:
    """Yield the workers of the project and of the packs, but for faulty ones, which are told elsewhere."""
    from wavewright.tools.workers.specs import load_workers

    with suppress(ToolDefinitionError):
        yield from load_workers(settings.workers)
    for name in pack_names():
        given = settings.packs.get(name)
        with suppress(ToolDefinitionError, PackError):
            yield from load_pack(name, given if isinstance(given, dict) else {}, settings.root).workers


def prompt_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Yield what is to be said of the project's own prompt templates; nothing where it has none."""
    shipped = set(Prompts().names())
    own = Prompts(settings.prompts)
    names = [name for name in own.names() if _is_project_file(own.file_of(name), settings)]
    if not names:
        return
    workers = tuple(_valid_workers(settings))
    used = shipped | {worker.spec.prompt for worker in workers}
    faults = {name: _prompt_finding(name, own, workers) for name in names}
    yield from dict.fromkeys(found for found in faults.values() if found is not None)
    valid = [name for name, found in faults.items() if found is None]
    if replacing := [name for name in valid if name in used]:
        yield DoctorFinding("prompts", "ok", f"{', '.join(replacing)} of this project's own")
    for name in valid:
        if name not in used:
            hint = did_you_mean(name, shipped) or "workers and other templates may still use it"
            yield DoctorFinding("prompts", "note", f"{own.file_of(name)} replaces no shipped prompt", hint)


def ladder_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Yield what is to be said of the project's own ladders; nothing where it has none."""
    try:
        read_ladders(settings.ladders, settings.document)
    except DocumentError as error:
        yield finding_of_faulty_file("ladders", error, "mend `ladders` in wavewright.yaml")
        return
    if settings.ladders:
        yield DoctorFinding("ladders", "ok", f"{', '.join(sorted(settings.ladders))} of this project's own")


def calibration_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Yield what is to be said of the measured judges; nothing where the settings name no calibration."""
    if settings.calibration is None:
        return
    from wavewright.reviewer.gates.calibration import read_calibration

    try:
        calibration = read_calibration(settings.calibration)
    except (DocumentError, PlanError) as error:
        hint = "mend the file, or take models.calibration out of the settings: judge gates only warn then"
        yield finding_of_faulty_file("calibration", error, hint)
        return
    count = len(calibration.gates)
    told = f"{settings.calibration} ({count} measurement{'' if count == 1 else 's'})"
    yield DoctorFinding("calibration", "ok", told)


def _is_project_file(file: Path | None, settings: Settings) -> bool:
    return file is not None and any(file.is_relative_to(folder) for folder in settings.prompts)


def _prompt_finding(name: str, own: Prompts, workers: tuple[Worker, ...]) -> DoctorFinding | None:
    fault = find_prompt_defect(name, own, workers)
    return (
        None
        if fault is None
        else DoctorFinding("prompts", "fault", f"{fault.place}: {fault.message}", fault.hint)
    )


def broker_findings(settings: Settings, *, is_offline: bool) -> Iterator[DoctorFinding]:
    """Yield what is to be said of the broker; nothing where the settings name none."""
    section = settings.daemon
    url = section.amqp_url
    if url is None:
        return
    if not is_installed("daemon"):
        yield DoctorFinding("broker", "fault", "the extra 'daemon' is not installed", install_hint("daemon"))
        return
    # Most projects have no broker, and what connects to one takes a third of a second to load.
    from wavewright.engine.bus.address import read_address
    from wavewright.engine.bus.declaration import check_write_rights
    from wavewright.engine.bus.errors import BusError
    from wavewright.engine.bus.topology import topology_of
    from wavewright.engine.cli.common.broker import open_connection

    async def look() -> None:
        async with open_connection(url) as connection:
            routes = topology_of(section).routes()
            await check_write_rights(connection, routes, user=address.user, place=address.shown)

    try:
        address = read_address(url)
        if is_offline:
            yield DoctorFinding("broker", "ok", f"{address.shown} (not asked)")
            return
        anyio.run(look)
    except BusError as error:
        where = f"{error.place}: " if error.place else ""
        yield DoctorFinding("broker", "fault", f"{where}{error.message}", error.hint or "")
        return
    if address.is_encrypted or address.is_loopback:
        yield DoctorFinding("broker", "ok", f"{address.shown} lets the daemon in and lets it write")
    else:
        yield DoctorFinding(
            "broker",
            "note",
            f"{address.shown} lets the daemon in and lets it write, unencrypted",
            "begin the address with amqps://",
        )
