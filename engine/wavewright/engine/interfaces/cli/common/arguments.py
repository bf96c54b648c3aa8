"""The project that a command works in, and its arguments (instants, durations, inputs).

The project is that of the working directory, or else that of the job's file. Tools run in the
project's root. Without a project they run in the working directory and runs are kept in the user's
state folder, so that no command writes to a folder outside any project.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config import Settings, load_settings, read_document_file, user_state_dir
from wavewright.config.settings import find_settings_file
from wavewright.config.value_types import parse_duration
from wavewright.engine.interfaces.cli.common.output import CommandError, print_aside
from wavewright.engine.run.jobs.inputs import InputOverrides

if TYPE_CHECKING:
    from wavewright.executor.store.stored_journal import StoredJournal


def project_settings(job: Path | None = None, *, start: Path | None = None) -> Settings:
    """Return the settings of the project that a command works in; `job` is the file that it names.

    Without `start` the project is looked for from the working directory.

    Raises:
        DocumentError: the settings file or the environment is wrong.
        PackError: `daemon.pack` names no pack that defines messages.
    """
    near = None if job is None else job.parent.resolve()
    settings = load_settings(start or Path.cwd(), near=near, default_state=user_state_dir())
    if settings.daemon.pack is None:
        return settings
    # Few projects have a daemon with messages of a pack.
    from wavewright.engine.service.messages.contract import with_contract_defaults

    return with_contract_defaults(settings)


def project_notes(settings: Settings, job: Path | None = None) -> list[str]:
    """Return notes on the project of a run: that there is none, or that it was found from the job."""
    here = Path.cwd()
    if settings.file is None:
        kept = settings.journal_url is None and f", and runs are kept in {settings.state_dir}"
        return [f"no project: no wavewright.yaml in {here} or above; tools run there{kept or ''}"]
    if job is None:
        return []
    if not here.is_relative_to(settings.root):
        return [f"project {settings.root}, found from the job: {here} lies in no project"]
    return foreign_job_notes(job)


def foreign_job_notes(job: Path) -> list[str]:
    """Return a warning if a job lies in another project than the one whose settings and tools are
    used.
    """
    own, other = find_settings_file(Path.cwd()), find_settings_file(job.parent.resolve())
    if own is None or other is None or own.samefile(other):
        return []
    message = f"{str(job)!r} lies in the project {other.parent}, but settings and tools are of {own.parent}"
    return [f"warning: {message}; `wavewright -C {other.parent} ...` uses those of the job"]


def warn_of_foreign_job(job: Path) -> None:
    """Print the warning of `foreign_job_notes` to standard error."""
    for line in foreign_job_notes(job):
        print_aside(line)


def from_root(path: Path | None, settings: Settings) -> Path | None:
    """Return a path of the command line so that it is valid in the project's root, where tools run."""
    return path if path is None or Path.cwd() == settings.root else path.absolute()


def has_journal(settings: Settings) -> bool:
    """Whether there may be runs; commands that only read ask first, so that they create no empty
    journal.
    """
    return settings.journal_url is not None or settings.journal.exists()


def require_journal(settings: Settings) -> Settings:
    """Return the settings of a command that needs a run.

    Raises:
        CommandError: there are no runs yet.
    """
    if not has_journal(settings):
        hint = "`wavewright run JOB` starts one"
        raise CommandError("there are no runs yet", hint=hint, place=str(settings.journal))
    return settings


def open_journal(settings: Settings) -> StoredJournal:
    """Return the project's journal as a context manager; it is created if there is none."""
    # A check of a job opens no journal.
    from wavewright.executor.stores import journal_of

    return journal_of(settings)


def parse_instant(text: str | None, name: str = "--as-of") -> dt.datetime | None:
    """Return the instant that an option names.

    Raises:
        CommandError: it is not a date.
    """
    if text is None:
        return None
    try:
        instant = dt.datetime.fromisoformat(text)
        aware = instant.replace(tzinfo=dt.UTC) if instant.tzinfo is None else instant
        return dt.datetime.fromtimestamp(aware.timestamp(), dt.UTC)
    except (ValueError, OverflowError) as error:
        msg = f"{name} {text!r} is no date"
        raise CommandError(
            msg, hint="write it as 2010-03-01 or 2010-03-01T12:00:00+00:00"
        ) from error


def parse_seconds(text: str, name: str) -> float:
    """Return the duration that an option gives (`90`, `2h`, `30d`), in seconds.

    Raises:
        CommandError: it is not a duration.
    """
    try:
        seconds = parse_duration(float(text) if text.isdecimal() else text)
    except ValueError as error:
        raise CommandError(
            f"{name} {text!r} is no duration", hint="write it as 12h or 30d"
        ) from error
    assert isinstance(seconds, float | int)
    return float(seconds)


def parse_past_instant(text: str, name: str, now: float) -> float:
    """Return the instant that an option names as a date or as the time since then, in seconds since
    the epoch.

    Raises:
        CommandError: it is neither.
    """
    try:
        return now - parse_seconds(text, name)
    except CommandError:
        pass
    try:
        instant = parse_instant(text, name)
    except CommandError as error:
        msg = f"{name} {text!r} is neither a date nor a duration"
        raise CommandError(msg, hint="write it as 2010-03-01, or as 12h or 7d") from error
    assert instant is not None
    return instant.timestamp()


def input_overrides(single: Sequence[str] | None, file: Path | None) -> InputOverrides:
    """Return the inputs of `--set` and `--inputs`; values get their types when the job is read.

    Raises:
        CommandError: the file does not hold a mapping.
        DocumentError: the file cannot be read.
    """
    if file is None:
        return InputOverrides(assignments=tuple(single or ()))
    inputs = read_document_file(file).value
    if not isinstance(inputs, dict):
        message = "inputs are a mapping of names to values"
        raise CommandError(message, place=str(file), hint="write one 'name: value' per line")
    return InputOverrides(inputs, tuple(single or ()), may_add=True)
