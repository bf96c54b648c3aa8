"""What `wavewright doctor` finds out about a project's own prompts and ladders, and its calibration of judges.

A template that replaces nothing is never used, and one that cannot be read, or that names a value which its prompt is
not given, fails only when a model is to be asked: all are told here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config.documents import DocumentError
from wavewright.engine.cli.findings import DoctorFinding, finding_of_faulty_file
from wavewright.engine.prompt_faults import find_prompt_defect
from wavewright.planner.diagnostics import PlanError
from wavewright.planner.ladders import read_ladders
from wavewright.prompts import Prompts
from wavewright.tools.functions import ToolDefinitionError
from wavewright.tools.packs import PackError, load_pack, pack_names

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.tools.workers.specs import Worker


def _valid_workers(settings: Settings) -> Iterator[Worker]:
    """Yield the workers of the project and of the packs, but for faulty ones, which are told elsewhere."""
    from wavewright.tools.workers.files import load_workers

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
    sound = [name for name, found in faults.items() if found is None]
    if replacing := [name for name in sound if name in used]:
        yield DoctorFinding("prompts", "ok", f"{', '.join(replacing)} of this project's own")
    for name in sound:
        if name not in used:
            near = get_close_matches(name, shipped, n=1)
            mend = f"did you mean {near[0]!r}?" if near else "workers and other templates may still use it"
            yield DoctorFinding("prompts", "note", f"{own.file_of(name)} replaces no shipped prompt", mend)


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
    from wavewright.reviewer.calibration import read_calibration

    try:
        calibration = read_calibration(settings.calibration)
    except (DocumentError, PlanError) as error:
        mend = "mend the file, or take models.calibration out of the settings: judge gates only warn then"
        yield finding_of_faulty_file("calibration", error, mend)
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
