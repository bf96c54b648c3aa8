"""`wavewright schema`: print the JSON Schema of a document, or write the schemas that editors complete by."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from wavewright.engine.cli import exit_codes
from wavewright.engine.cli.failures import CommandError

AUTHORED_SCHEMAS = ("plan", "job", "goal", "settings", "worker")
"""Documents that are written in an editor."""


def print_schema(name: str | None, folder: Path | None) -> int:
    """Print a published JSON Schema, or write it, or all that people write, into a folder.

    Raises:
        CommandError: there is neither a name nor a folder, or the folder cannot be written.
    """
    if folder is not None:
        names = AUTHORED_SCHEMAS if name is None else (name,)
        try:
            write_schemas(folder, names)
        except OSError as error:
            msg = f"{str(folder)!r} cannot be written: {error.strerror}"
            hint = "name a folder that can be written to"
            raise CommandError(msg, hint=hint, code=exit_codes.ENVIRONMENT) from error
        sys.stdout.write("".join(f"wrote {folder / each}.json\n" for each in names))
    elif name is not None:
        sys.stdout.write(schema_text(name))
    else:
        msg = "no schema is named"
        raise CommandError(msg, hint=f"name one of {', '.join(AUTHORED_SCHEMAS)}, or give --out DIR for all")
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
        from wavewright.reviewer.packaging import package_schema

        return package_schema()
    if name == "message":
        from wavewright.engine.messages.schemas import message_schema

        return message_schema()
    if name == "settings":
        from wavewright.config.settings import settings_schema

        return settings_schema()
    if name == "worker":
        from wavewright.config.published import published_schema
        from wavewright.tools.workers.specs import WorkerSpec

        return published_schema(WorkerSpec, "worker", "A tool that is a language model, in config/workers")
    from wavewright.planner.schema import document_schema

    return document_schema(name)
