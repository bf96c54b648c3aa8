"""`wavewright init`: write a project that runs at once."""

from __future__ import annotations

import shlex
import sys
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.failures import CommandError
from wavewright.engine.cli.schema_command import write_schemas

_RENAMED = {"gitignore": ".gitignore"}
"""Files that cannot be shipped under the name they are to have."""

SCHEMAS = Path("config", "schemas")
"""Where the written documents find the schemas that editors complete by: there is no network in between."""


def write_project(folder: Path) -> int:
    """Write the starter project into a new or empty folder and say what to do next.

    Raises:
        CommandError: the folder holds something already, or cannot be written.
    """
    if _is_taken(folder):
        msg = f"{str(folder)!r} exists and is not an empty folder"
        raise CommandError(msg, hint="name a folder that does not exist yet")
    try:
        written = _copy(files("wavewright.engine") / "starter", folder)
        written += write_schemas(folder / SCHEMAS)
    except OSError as error:
        msg = f"{str(folder)!r} cannot be written: {error.strerror}"
        hint = "name a folder in one that can be written to"
        raise CommandError(msg, hint=hint, code=exit_codes.ENVIRONMENT) from error
    lines = [f"wrote {written} files to {folder}", "next:"]
    lines += [f"    cd {shlex.quote(str(folder))}"] if folder.absolute() != Path.cwd() else []
    lines += ["    wavewright run plans/words.job.yaml"]
    sys.stdout.write("\n".join(lines) + "\n")
    return exit_codes.OK


def _is_taken(folder: Path) -> bool:
    try:
        return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError:
        return True


def _copy(source: Traversable, target: Path) -> int:
    target.mkdir(parents=True, exist_ok=True)
    written = 0
    for entry in sorted(source.iterdir(), key=lambda entry: entry.name):
        if entry.name == "__pycache__":
            continue
        if entry.is_dir():
            written += _copy(entry, target / entry.name)
        else:
            (target / _RENAMED.get(entry.name, entry.name)).write_bytes(entry.read_bytes())
            written += 1
    return written
