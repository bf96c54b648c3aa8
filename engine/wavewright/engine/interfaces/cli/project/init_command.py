"""`wavewright schema`: JSON Schemas of documents; `wavewright init`: a new project."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

from wavewright.config import exit_codes
from wavewright.config.published_schemas import published_schema
from wavewright.config.settings import settings_schema
from wavewright.engine.interfaces.cli.common.arguments import project_settings
from wavewright.engine.interfaces.cli.common.output import CommandError, unwritable
from wavewright.planner.language.published_schemas import document_schema
from wavewright.tools import AgentSpec, WorkerSpec

AUTHORED_SCHEMAS = ("plan", "job", "goal", "settings", "worker", "agent")
"""Documents that are written in an editor."""


def print_schema(name: str | None, folder: Path | None) -> int:
    """Print a published JSON Schema, or write it, or those of all authored documents, into a
    folder.

    Raises:
        CommandError: there is neither a name nor a folder, or the folder cannot be written.
    """
    if folder is not None:
        names = AUTHORED_SCHEMAS if name is None else (name,)
        try:
            write_schemas(folder, names)
        except OSError as error:
            raise unwritable(folder, error, "name a folder that can be written to") from error
        sys.stdout.write("".join(f"wrote {folder / name}.json\n" for name in names))
    elif name is not None:
        sys.stdout.write(schema_text(name))
    else:
        msg = "no schema is named"
        raise CommandError(
            msg, hint="name one, such as 'plan' (--help lists them), or give --out DIR for all"
        )
    return exit_codes.OK


def write_schemas(folder: Path, names: tuple[str, ...] = AUTHORED_SCHEMAS) -> int:
    """Write schemas into a folder, one file each, and return how many.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / f"{name}.json").write_text(schema_text(name), encoding="utf-8")
    return len(names)


def schema_text(name: str) -> str:
    """Return the published JSON Schema of that name as text."""
    return json.dumps(_schema(name), indent=2, ensure_ascii=False) + "\n"


def _schema(name: str) -> object:
    if name == "package":
        # A project is made without a run, and without messages.
        from wavewright.reviewer import package_schema

        return package_schema()
    if name == "message":
        from wavewright.engine.service.messages.contract import message_contract, message_schema

        return message_schema(message_contract(project_settings()))
    if name == "settings":
        return settings_schema()
    if name == "worker":
        return published_schema(
            WorkerSpec, "worker", "A tool that is a language model, in config/workers"
        )
    if name == "agent":
        return published_schema(
            AgentSpec, "agent", "A model with tools of its own, in config/agents"
        )
    return document_schema(name)


_STARTER: Final = files("wavewright.engine.interfaces") / "starter"
_RENAMED = {"gitignore": ".gitignore"}
"""Files that are shipped under another name than they have in a project."""

SCHEMAS = Path("config", "schemas")
"""Folder of a project's schemas, which its documents name for editors."""


_NOT_OVERWRITTEN = ("README.md", ".gitignore")
"""Existing files that are kept: no project needs those of the starter."""


def write_project(folder: Path | None) -> int:
    """Write the starter project into a new or empty folder and print the next steps.

    Raises:
        CommandError: no folder is named, it is not empty, or it cannot be written.
    """
    if folder is None:
        raise CommandError("no folder is named", hint="name a new one; --here writes into this one")
    if _has_content(folder):
        msg = f"{str(folder)!r} exists and is not an empty folder"
        raise CommandError(
            msg, hint="name a folder that does not exist yet, or give --here within one"
        )
    return _write(folder, ())


def write_here(folder: Path | None) -> int:
    """Write the starter project into the working directory beside existing files, and print the
    next steps.

    A README and a `.gitignore` are kept.

    Raises:
        CommandError: a folder is named, a file of the starter exists already, or a file cannot be
            written.
    """
    if folder is not None:
        message = f"--here does not go with the folder {str(folder)!r}"
        raise CommandError(message, hint="leave one of the two out")
    folder = Path()
    names = [*(name for name, _ in _files_below(_STARTER)), str(SCHEMAS)]
    taken = [name for name in names if name not in _NOT_OVERWRITTEN and (folder / name).exists()]
    if taken:
        raise CommandError(
            f"{', '.join(taken)} {'exists' if len(taken) == 1 else 'exist'} already",
            hint="nothing was written; move these files away, or name a new folder",
        )
    kept = [name for name in _NOT_OVERWRITTEN if (folder / name).exists()]
    if kept:
        sys.stdout.write(f"kept {' and '.join(kept)}\n")
    return _write(folder, kept)


def _write(folder: Path, kept: Sequence[str]) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = write_schemas(folder / SCHEMAS)
        for name, file in _files_below(_STARTER):
            if name not in kept:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(file.read_bytes())
                written += 1
    except OSError as error:
        raise unwritable(folder, error, "name a folder in one that can be written to") from error
    lines = [f"wrote {written} files to {folder}", "next:"]
    lines += [f"    cd {shlex.quote(str(folder))}"] if folder.absolute() != Path.cwd() else []
    lines += ["    wavewright run plans/words.job.yaml"]
    sys.stdout.write("\n".join(lines) + "\n")
    return exit_codes.OK


def _has_content(folder: Path) -> bool:
    try:
        return folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
    except OSError:
        return True


def _files_below(folder: Traversable, above: str = "") -> Iterator[tuple[str, Traversable]]:
    """Yield the files of the starter, each by the path that it has in a project."""
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir() and entry.name != "__pycache__":
            yield from _files_below(entry, f"{above}{entry.name}/")
        elif entry.is_file():
            yield above + _RENAMED.get(entry.name, entry.name), entry
