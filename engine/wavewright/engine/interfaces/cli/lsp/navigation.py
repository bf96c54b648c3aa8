"""Where a name is defined and used, and renaming it wherever it is used."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types

from wavewright.config import Settings
from wavewright.config.sources import pointer_keys
from wavewright.engine.interfaces.cli.lsp.positions import TextPositions
from wavewright.engine.run.jobs.read_texts import ReadText
from wavewright.engine.run.jobs.renaming import NothingToRename, ProjectTexts, places_to_rename
from wavewright.engine.run.project.templates import named_template
from wavewright.planner.checks.names import NameAt, name_at, places_of
from wavewright.planner.diagnostics.diagnostic import Addition
from wavewright.tools import Registry, project_prompts
from wavewright.tools.functions.places import CodePlace, place_in_code

if TYPE_CHECKING:
    from wavewright.engine.interfaces.cli.lsp.documents import OpenDocument, Surroundings
    from wavewright.engine.interfaces.cli.lsp.projects import OpenProject
    from wavewright.planner import Diagnostic


def name_of(
    document: OpenDocument, position: types.Position, around: Surroundings
) -> NameAt | None:
    """Return the name at a place of a document; None where none stands there."""
    read = document.read
    if read is None:
        return None
    offset = document.places.offset(position)
    return name_at(read.document, offset, read.base, around.subject(read))


def references(
    document: OpenDocument, params: types.ReferenceParams, around: Surroundings
) -> list[types.Location]:
    """Return where a document defines and uses a name."""
    name, read = name_of(document, params.position, around), document.read
    if name is None or read is None:
        return []
    spans = places_of(read.document, read.base, name)
    return [types.Location(document.uri, document.places.range(span)) for span in sorted(spans)]


# --- definitions


def definition(
    document: OpenDocument, params: types.DefinitionParams, around: Surroundings
) -> types.Location | None:
    """Return where a name is defined: in the document, in code, or in another file."""
    name, read = name_of(document, params.position, around), document.read
    if name is None or read is None:
        return None
    match name.kind:
        case "tool":
            return _code_location(tool_place(name.name, around.project.tools(), around.settings))
        case "prompt":
            return _file_start(project_prompts(around.settings.prompts).file_of(name.name))
        case "plan" | "template":
            beside = document.path.parent / name.name
            is_beside = name.kind == "plan" and beside.is_file()
            return _file_start(beside if is_beside else named_template(name.name, around.settings))
        case _:
            spans = places_of(read.document, read.base, name)
            if not spans:
                return None
            return types.Location(document.uri, document.places.range(spans[0]))


def parameter_location(
    diagnostic: Diagnostic, read: ReadText, project: OpenProject
) -> types.Location | None:
    """Return where the parameter of a tool stands that a diagnostic of an argument speaks of, or
    else the tool.
    """
    keys = pointer_keys(read.in_plan(diagnostic.pointer) or "")
    span = read.document.span(f"{read.base}/steps/{keys[1]}/tool") if len(keys) > 1 else None
    if span is None:
        return None
    name = read.document.source.text[span.start : span.end].strip("\"'")
    parameter = keys[3] if len(keys) > 3 else None
    if isinstance(diagnostic.mend, Addition):
        parameter = diagnostic.mend.key
    return _code_location(tool_place(name, project.tools(), project.settings, parameter))


def _code_location(place: CodePlace | None) -> types.Location | None:
    if place is None:
        return None
    start, end = (types.Position(place.line, column) for column in (place.start, place.end))
    return types.Location(place.file.as_uri(), types.Range(start, end))


def _file_start(file: Path | None) -> types.Location | None:
    if file is None or not file.is_file():
        return None
    start = types.Position(0, 0)
    return types.Location(file.resolve().as_uri(), types.Range(start, start))


# --- renaming


def rename(
    document: OpenDocument, params: types.RenameParams, around: Surroundings
) -> types.WorkspaceEdit:
    """Return the edits that give a step, an input, a name of `let` or a gate another name, in the file
    and in what names it; of a file that is open, in its text as it stands there.

    Raises:
        RenameRefused: no such name stands there, the new name is none or is taken, or it cannot be
            written everywhere.
    """
    name, read = name_of(document, params.position, around), document.read
    if read is None or name is None:
        raise NothingToRename
    project = ProjectTexts(around.settings, around.open_texts)
    changes: dict[str, list[types.TextEdit]] = {}
    for file, text, spans in places_to_rename(read, document.path, name, params.new_name, project):
        is_own = file == document.path
        places = document.places if is_own else TextPositions(text, document.places.encoding)
        uri = document.uri if is_own else file.as_uri()
        changes[uri] = [types.TextEdit(places.range(span), params.new_name) for span in spans]
    return types.WorkspaceEdit(changes=changes)


def tool_place(
    name: str, tools: Registry, settings: Settings, parameter: str | None = None
) -> CodePlace | None:
    """Return where a tool is defined, of a function its parameter where that is found there; None
    of a tool that the project does not have, or whose function has no file.
    """
    tool = tools.get(name)
    if tool is None:
        return None
    if callable(tool.function):
        return place_in_code(tool.function, parameter)
    for folder in settings.workers:
        for worker in (folder / f"{name}.yaml", folder):
            if worker.is_file() and name in worker.read_text(encoding="utf-8"):
                return CodePlace(worker.resolve(), 0)
    return _words_place(settings.root / "tools.lock.json", f'"{name.rpartition(".")[2]}"')


def _words_place(file: Path, words: str) -> CodePlace | None:
    lines = file.read_text(encoding="utf-8").split("\n") if file.is_file() else []
    for number, line in enumerate(lines):
        start = line.find(words)
        if start >= 0:
            return CodePlace(file, number, start, start + len(words))
    return None
