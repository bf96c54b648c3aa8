"""Arguments that several tools of the server take: a document as text or as a file of the project.

A path that a call gives, itself or in a plan sent as text, leads to no file outside the project; a job file of the
project may name others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field, JsonValue

from wavewright.config.settings import Settings
from wavewright.engine.cli.common.errors import CommandError
from wavewright.engine.jobs.inline import leaves_folder


def _as_text(value: Any) -> Any:
    """Return the JSON text of an object: models often send one where a text is asked for."""
    return json.dumps(value, indent=2) if isinstance(value, dict) else value


# Plain `str` with "" for absence: of any other type the SDK parses a JSON text before a reader of plans sees it.
DocumentText: TypeAlias = Annotated[
    str,
    BeforeValidator(_as_text),
    Field(description="The plan as YAML or JSON text; a job or a goal template with a plan may stand there."),
]
DocumentFile: TypeAlias = Annotated[
    str, Field(description="In place of `plan`: its file, as a path within the project.")
]
Inputs: TypeAlias = Annotated[
    dict[str, JsonValue] | None, Field(description="Inputs by name; they replace those of the document.")
]


def document_file(plan: str, file: str, settings: Settings) -> Path | None:
    """Return the file that holds the document; None if its text is given.

    Raises:
        CommandError: both or neither are given, or the path leaves the project.
    """
    if bool(plan.strip()) == bool(file):
        raise CommandError("a call has either 'plan' or 'file'", hint="give one of the two")
    return project_file(file, settings) if file else None


def project_file(path: str, settings: Settings) -> Path:
    """Return a path within the project's root as an absolute path.

    Raises:
        CommandError: it leaves the project, also by a symbolic link.
    """
    found = (settings.root / path).resolve()
    if leaves_folder(path) or not found.is_relative_to(settings.root.resolve()):
        raise CommandError(f"{path!r} leads out of the project's folder", hint="name a file of the project")
    return found
