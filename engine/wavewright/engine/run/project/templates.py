"""Goal templates by name: those of the project and of packs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from wavewright.config import Document, DocumentError, DocumentFault, Settings, Source, did_you_mean
from wavewright.config.documents import read_bytes, read_faulty_document
from wavewright.planner import Diagnostic, GoalTemplate, PlanError, suggest_name
from wavewright.planner.diagnostics.diagnostic import locate_diagnostics
from wavewright.planner.reading.reader import read_model
from wavewright.tools import pack_templates


def named_template(name: str, settings: Settings) -> Path | None:
    """Return the file of a goal template by its name; None if the name is a path.

    Raises:
        DocumentError: there is neither a template nor a file of that name.
    """
    if _is_path(name) or Path(name).exists():
        return None
    path = template_path(name, Path(), settings)
    if path is None:
        known = template_names(settings)
        hint = suggest_name(name, known, what="goal templates")
        fault = DocumentFault(
            "unreadable_file", f"there is no goal template and no file {name!r}", hint=hint
        )
        raise DocumentError(Source(name, ""), (fault,))
    return path


def read_template_document(
    name: str, folder: Path, document: Document, settings: Settings
) -> Document:
    """Return the document of a goal template by its name, or by its path beside the job.

    Raises:
        DocumentError: it cannot be read.
        PlanError: there is no such template; the hint lists the known ones.
    """
    path = template_path(name, folder, settings)
    if path is None:
        known = template_names(settings)
        listed = ", ".join(map(repr, known)) or "none"
        missing = Diagnostic(
            code="E107",
            message=f"there is no goal template {name!r}",
            pointer="/goal_template",
            hint=did_you_mean(name, known)
            or f"there are {listed}; or give the path of a file beside the job",
        )
        raise PlanError(tuple(locate_diagnostics([missing], document)), document.source)
    return read_named_document(path, "/goal_template", document)


def read_template(name: str, folder: Path, document: Document, settings: Settings) -> GoalTemplate:
    """Return a goal template by its name, or by its path beside the job.

    Raises:
        DocumentError: it cannot be read.
        PlanError: there is no such template, or it is faulty.
    """
    return read_model(read_template_document(name, folder, document, settings), GoalTemplate)


def template_names(settings: Settings) -> list[str]:
    """Return the names of the goal templates of the project and of the packs."""
    own = {path.stem for folder in settings.templates for path in folder.glob("*.yaml")}
    return sorted(own | pack_templates().keys())


def template_files(settings: Settings) -> list[Path]:
    """Return the files of the goal templates of the project and of the packs, each name once."""
    files = {name: template_path(name, Path(), settings) for name in template_names(settings)}
    return [path for path in files.values() if path is not None]


def template_path(name: str, folder: Path, settings: Settings) -> Path | None:
    """Return the file of a goal template by its name, or of its path in a folder; None where the
    name is unknown.
    """
    if _is_path(name):
        return folder / name
    for home in settings.templates:
        for suffix in (".yaml", ".yml", ".json", ".toml"):
            if (home / f"{name}{suffix}").is_file():
                return home / f"{name}{suffix}"
    return pack_templates().get(name)


def _is_path(name: str) -> bool:
    return "/" in name or name.endswith((".yaml", ".yml", ".json", ".toml"))


def read_named_document(path: Path, pointer: str, document: Document) -> Document:
    """Read a file that a document names; if it cannot be read, the fault is at the place of the
    name.
    """
    try:
        content = read_bytes(path, named_from=Path(document.source.name).parent)
    except DocumentError as error:
        faults = tuple(
            replace(fault, pointer=pointer, span=document.nearest_span(pointer))
            for fault in error.faults
        )
        raise DocumentError(document.source, faults) from error
    return read_faulty_document(content, str(path))
