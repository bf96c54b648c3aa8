"""The schedules of a project: those of its settings, and those that its jobs' files have."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from wavewright.config import exit_codes
from wavewright.config.documents import read_document_file
from wavewright.config.errors import WavewrightError
from wavewright.config.schedules import ScheduleSettings, ScheduleTerms
from wavewright.config.settings import Settings
from wavewright.config.sources import DocumentError
from wavewright.engine.run.jobs.documents import is_job
from wavewright.planner.diagnostics.diagnostic import PlanError, suggest_name
from wavewright.planner.language.goals import Job
from wavewright.planner.reading.reader import read_model
from wavewright.planner.types import as_object

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json", ".toml"})
_MENTION: Final = re.compile(r"^\s*(?:\"schedule\"|schedule|\[schedule\])\s*[:=\]]?", re.MULTILINE)
"""What a job's file with a schedule has in it; others are not read."""
_SKIPPED_FOLDERS: Final = frozenset({"node_modules", "__pycache__", "venv", "site-packages"})
_MAX_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ProjectSchedule:
    """A schedule of a project."""

    name: str
    """Its name in the settings, or the job's file as a path from the project."""
    job: str
    """The job's file, relative to the project."""
    terms: ScheduleTerms | None
    fault: str = ""
    """Why it begins nothing: what is wrong with the file of its job."""


def project_schedules(settings: Settings) -> list[ProjectSchedule]:
    """Return the schedules of a project, by name; files are read anew each time."""
    named = [_of_settings(name, given, settings) for name, given in settings.schedules.items()]
    return sorted([*named, *_of_files(settings)], key=lambda schedule: schedule.name)


class ScheduleUnknown(WavewrightError):
    """A schedule that the project does not have, or that begins nothing."""

    exit_code = exit_codes.MISUSE


def named_schedule(settings: Settings, name: str) -> ProjectSchedule:
    """Return a schedule of a project.

    Raises:
        ScheduleUnknown: the project has no such schedule, or it is faulty.
    """
    known = {schedule.name: schedule for schedule in project_schedules(settings)}
    if name not in known:
        hint = suggest_name(name, known, what="schedules") or "the project has none"
        raise ScheduleUnknown(f"there is no schedule {name!r}", hint)
    if known[name].fault:
        hint = f"mend {known[name].job}"
        raise ScheduleUnknown(f"schedule {name!r} begins nothing: {known[name].fault}", hint)
    return known[name]


def _of_settings(name: str, given: ScheduleSettings, settings: Settings) -> ProjectSchedule:
    fault = "" if (settings.root / given.job).is_file() else f"there is no file {given.job!r}"
    return ProjectSchedule(name, given.job, given, fault)


def _of_files(settings: Settings) -> Iterator[ProjectSchedule]:
    for file in _candidates(settings):
        try:
            text = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if _MENTION.search(text) is None:
            continue
        path = file.relative_to(settings.root).as_posix()
        try:
            document = read_document_file(file)
        except DocumentError as error:
            yield ProjectSchedule(path, path, None, _first_fault(error))
            continue
        if not is_job(document) or "schedule" not in as_object(document.value):
            continue
        try:
            terms = read_model(document, Job).schedule
        except PlanError as error:
            yield ProjectSchedule(path, path, None, error.diagnostics[0].message)
            continue
        if terms is not None:
            yield ProjectSchedule(path, path, terms)


def _first_fault(error: DocumentError) -> str:
    return error.faults[0].message if error.faults else str(error)


def _candidates(settings: Settings) -> Iterator[Path]:
    """Yield the files of a project that may be jobs, in the order of their paths."""
    kept_out = {settings.state_dir.resolve(), settings.output_dir.resolve()}
    for folder, folders, names in os.walk(settings.root):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _SKIPPED_FOLDERS
            and (Path(folder) / name).resolve() not in kept_out
        )
        for name in sorted(names):
            file = Path(folder) / name
            if file.suffix in _SUFFIXES and file != settings.file and _is_small(file):
                yield file


def _is_small(file: Path) -> bool:
    try:
        return file.stat().st_size <= _MAX_BYTES
    except OSError:
        return False
