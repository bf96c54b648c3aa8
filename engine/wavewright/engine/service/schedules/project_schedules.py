"""The schedules of a project: those of its settings, and those that its jobs' files have."""

from __future__ import annotations

import datetime as dt
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Final

from wavewright.config import (
    Document,
    DocumentError,
    Settings,
    WavewrightError,
    exit_codes,
    read_document_file,
)
from wavewright.config.schedules import ScheduleTerms
from wavewright.engine.run.jobs.documents import is_job
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.jobs.resolving import DraftChecker, draft_checker, resolve_job
from wavewright.engine.run.permanent_errors import PERMANENT_ERRORS, permanent_error_text
from wavewright.planner import (
    ExpressionError,
    Job,
    JsonObject,
    PlanError,
    as_object,
    evaluate,
    render,
    suggest_name,
)
from wavewright.planner.reading.reader import read_model
from wavewright.tools import PackError, ToolDefinitionError

_SUFFIXES: Final = frozenset({".yaml", ".yml", ".json", ".toml"})
_FIELD: Final = re.compile(r"""(?:^|[\s{,\[])(["']?)schedule\1\s*(?:[]:=.]|$)""", re.MULTILINE)
"""The field of a job's file with a schedule, in YAML, JSON and TOML; others are not read."""
_OUTERMOST_FIELD: Final = re.compile(
    r"""^(?:\[\s*)?(["']?)schedule\1\s*(?:[]:=.]|$)""", re.MULTILINE
)
"""The same, where it is no part of something else, such as the manifest of a CronJob."""
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
    """Why it begins nothing: what is wrong with the file of its job, with its inputs, or with the
    plan.
    """

    @property
    def place(self) -> str:
        """Where it is written: the file of its job, or the settings, which name it."""
        return self.job if self.name == self.job else f"schedules.{self.name} of the settings"


def inputs_at(terms: ScheduleTerms, instant: float) -> JsonObject:
    """Return the inputs of the job that a schedule begins at an instant.

    Raises:
        ExpressionError: they cannot be computed.
    """
    moment = dt.datetime.fromtimestamp(instant, dt.UTC)
    return as_object(render(terms.inputs, lambda expression: evaluate(expression, {}, moment)))


def project_schedules(settings: Settings) -> list[ProjectSchedule]:
    """Return the schedules of a project, by name; files are read anew each time, and plans checked
    with the tools as they are.
    """
    schedules = [*schedules_of_settings(settings), *_of_files(settings)]
    return sorted(schedules, key=lambda schedule: schedule.name)


class ScheduleUnknown(WavewrightError):
    """A schedule that the project does not have, or that begins nothing."""

    exit_code = exit_codes.MISUSE


def named_schedule(settings: Settings, name: str) -> ProjectSchedule:
    """Return a schedule of a project, that of a job's file also by a path from the working directory.

    Raises:
        ScheduleUnknown: the project has no such schedule, or it is faulty.
    """
    known = {schedule.name: schedule for schedule in project_schedules(settings)}
    schedule = known.get(name) or known.get(os.path.relpath(Path(name).absolute(), settings.root))
    if schedule is None:
        hint = suggest_name(name, known, what="schedules") or "the project has none"
        raise ScheduleUnknown(f"there is no schedule {name!r}", hint)
    if schedule.fault:
        hint = f"see all of it with: wavewright check {schedule.job}"
        raise ScheduleUnknown(f"schedule {name!r} begins nothing: {schedule.fault}", hint)
    return schedule


def schedules_of_settings(settings: Settings) -> Iterator[ProjectSchedule]:
    """Yield the schedules that the settings name, in their order."""
    for name, terms in settings.schedules.items():
        schedule = ProjectSchedule(name, terms.job, terms)
        file = settings.root / terms.job
        if not file.is_file():
            yield replace(schedule, fault=f"there is no file {terms.job!r}")
            continue
        try:
            document = read_document_file(file)
        except DocumentError as error:
            yield replace(schedule, fault=_first_fault(error))
            continue
        yield _judged(schedule, terms, document, settings)


def _of_files(settings: Settings) -> Iterator[ProjectSchedule]:
    for file in _candidates(settings):
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError):
            continue
        if "schedule" not in text or _FIELD.search(text) is None:
            continue
        path = file.relative_to(settings.root).as_posix()
        try:
            document = read_document_file(file)
        except DocumentError as error:
            if _is_meant_as_job(path, text):
                yield ProjectSchedule(path, path, None, _first_fault(error))
            continue
        if not is_job(document) or not _has_own_schedule(document, path):
            continue
        try:
            terms = read_model(document, Job).schedule
        except PlanError as error:
            yield ProjectSchedule(path, path, None, error.diagnostics[0].message)
            continue
        if terms is not None:
            yield _judged(ProjectSchedule(path, path, terms), terms, document, settings)


def _judged(
    schedule: ProjectSchedule,
    terms: ScheduleTerms,
    document: Document,
    settings: Settings,
) -> ProjectSchedule:
    """Return a schedule with what is wrong with its job."""
    file, judge = settings.root / schedule.job, draft_checker(settings)
    return replace(schedule, fault=fault_of_job(terms, document, file, settings, judge))


def _has_own_schedule(document: Document, path: str) -> bool:
    """Whether a document with a job's fields has a schedule, and is not a file of another program: that
    has a `name` and a `schedule`, too, but has neither a plan nor a goal, nor says when in our words.
    """
    fields = as_object(document.value)
    if "schedule" not in fields:
        return False
    has_plan_or_goal = not fields.keys().isdisjoint({"plan", "goal_template", "goal"})
    says_when = not as_object(fields["schedule"]).keys().isdisjoint({"cron", "every"})
    return has_plan_or_goal or says_when or _is_called_job(path)


def _is_meant_as_job(path: str, text: str) -> bool:
    """Whether a file with a fault has a schedule of its own, and is not a file of another program."""
    is_named_so = _is_called_job(path) or path.endswith(".json")
    return is_named_so or _OUTERMOST_FIELD.search(text) is not None


def _is_called_job(path: str) -> bool:
    """Whether a file's name says that it is a job, or a folder of the project that it lies in."""
    *folders, name = PurePosixPath(path).parts
    return "jobs" in folders or ".job" in PurePosixPath(name).suffixes


def fault_of_job(
    terms: ScheduleTerms,
    document: Document,
    file: Path,
    settings: Settings,
    judge: DraftChecker,
) -> str:
    """Return why the job of a document would not begin by its schedule, with the inputs that this
    gives; else an empty text.

    Args:
        terms: The schedule.
        document: The job.
        file: Its path.
        settings: Settings of the project.
        judge: Finds what is wrong with the plan in these inputs.
    """
    try:
        # As if it were due now: what an input may be can depend on the year.
        inputs = InputOverrides(inputs_at(terms, time.time()))
        order = resolve_job(
            document, file, None, settings, judge=lambda _draft, _goal: (), inputs=inputs
        )
    except ExpressionError as error:
        return f"its inputs cannot be computed: {error.message}"
    except PERMANENT_ERRORS as error:
        return permanent_error_text(error)
    if order.draft is None:
        return ""
    try:
        refused = next(iter(judge(order.draft, order.goal)), None)
    except (ToolDefinitionError, PackError):
        return ""  # tools that are none are told by themselves
    if refused is None:
        return ""
    circumstances = " with these inputs" if terms.inputs else ""
    return f"its plan is refused{circumstances}: {refused.message}"


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
