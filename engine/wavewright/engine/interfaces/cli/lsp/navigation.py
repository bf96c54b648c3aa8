"""Where a name is defined and used, and renaming it wherever it is used."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from lsprotocol import types

from wavewright.config.documents import read_faulty_document
from wavewright.config.errors import WavewrightError
from wavewright.config.sources import DocumentError, Span, pointer_keys
from wavewright.config.text_edits import NotEditable
from wavewright.engine.interfaces.cli.lsp.documents import ReadText
from wavewright.engine.interfaces.cli.lsp.positions import TextPositions
from wavewright.engine.run.project.templates import named_template
from wavewright.planner.checks.names import NameAt, NameKind, name_at, places_of
from wavewright.planner.diagnostics.diagnostic import Addition
from wavewright.planner.types import GATE_ID_PATTERN, ID_PATTERN, STEP_ID_PATTERN, as_object
from wavewright.tools.pack_folders import project_prompts

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.engine.interfaces.cli.lsp.documents import OpenDocument, Surroundings
    from wavewright.engine.interfaces.cli.lsp.projects import OpenProject
    from wavewright.planner.diagnostics.diagnostic import Diagnostic

_PATTERNS: Final[Mapping[NameKind, str]] = {
    "step": STEP_ID_PATTERN,
    "input": STEP_ID_PATTERN,
    "let": ID_PATTERN,
    "gate": GATE_ID_PATTERN,
}
"""What the names that can be changed look like, by what they name."""


def name_of(
    document: OpenDocument, position: types.Position, around: Surroundings
) -> NameAt | None:
    """Return the name at a place of a document; None where none stands there."""
    read = document.read
    if read is None:
        return None
    offset = document.places.offset(position)
    return name_at(read.document, offset, read.base, read.subject(around))


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
            return _tool_location(name.name, around.project)
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


def _tool_location(name: str, project: OpenProject) -> types.Location | None:
    tool = project.tools().get(name)
    if tool is None:
        return None
    if callable(tool.function):
        return _function_location(tool.function, None)
    for folder in project.settings.workers:
        for worker in (folder / f"{name}.yaml", folder):
            if worker.is_file() and name in worker.read_text(encoding="utf-8"):
                return _file_start(worker)
    lock = project.settings.root / "tools.lock.json"
    return _words_location(lock, f'"{name.rpartition(".")[2]}"')


def parameter_location(
    found: Diagnostic, read: ReadText, project: OpenProject
) -> types.Location | None:
    """Return where the parameter of a tool stands that a diagnostic of an argument speaks of, or
    else the tool.
    """
    keys = pointer_keys(read.in_plan(found.pointer) or "")
    span = read.document.span(f"{read.base}/steps/{keys[1]}/tool") if len(keys) > 1 else None
    if span is None:
        return None
    name = read.document.source.text[span.start : span.end].strip("\"'")
    tool = project.tools().get(name)
    if tool is None or not callable(tool.function):
        return _tool_location(name, project)
    if isinstance(found.mend, Addition):
        return _function_location(tool.function, found.mend.key)
    return _function_location(tool.function, keys[3] if len(keys) > 3 else None)


def _function_location(
    function: Callable[..., object], parameter: str | None
) -> types.Location | None:
    """Return where a function stands, or its parameter where that is found there."""
    function = inspect.unwrap(function)
    try:
        file, (lines, first) = inspect.getsourcefile(function), inspect.getsourcelines(function)
    except (OSError, TypeError):
        return None
    if file is None:
        return None
    start = end = types.Position(first - 1, 0)
    word = re.compile(rf"(?<![\w.]){re.escape(parameter)}(?=\s*[:=,)])") if parameter else None
    for number, line in enumerate(lines if word is not None else ()):
        found = word.search(line) if word is not None else None
        if found is not None:
            start = types.Position(first - 1 + number, found.start())
            end = types.Position(first - 1 + number, found.end())
            break
    return types.Location(Path(file).as_uri(), types.Range(start, end))


def _words_location(file: Path, words: str) -> types.Location | None:
    text = file.read_text(encoding="utf-8") if file.is_file() else ""
    start = text.find(words)
    if start < 0:
        return None
    where = TextPositions(text, "utf-16").range(Span(start, start + len(words)))
    return types.Location(file.as_uri(), where)


def _file_start(file: Path | None) -> types.Location | None:
    if file is None or not file.is_file():
        return None
    start = types.Position(0, 0)
    return types.Location(file.resolve().as_uri(), types.Range(start, start))


# --- renaming


class RenameRefused(WavewrightError):
    """A name cannot be changed; the message says why."""


def rename(
    document: OpenDocument, params: types.RenameParams, around: Surroundings
) -> types.WorkspaceEdit:
    """Return the edits that give a step, an input, a name of `let` or a gate another name, in the file, in the jobs
    and tests that name the file, and in the goal templates of these jobs; of a file that is open,
    in its text as it stands there.

    Raises:
        RenameRefused: no such name stands there, the new name is none or is taken, or it cannot be
            written everywhere.
    """
    name, read, new = name_of(document, params.position, around), document.read, params.new_name
    if read is None or name is None or name.kind not in _PATTERNS:
        raise RenameRefused(
            "only steps, inputs, names of `let` and gates of a plan that can be read are renamed"
        )
    if not re.fullmatch(_PATTERNS[name.kind], new):
        raise RenameRefused(f"{new!r} is no name of a {name.kind}")
    try:
        if places_of(read.document, read.base, NameAt(name.kind, new)):
            raise RenameRefused(f"{new!r} is taken")
        spans = places_of(read.document, read.base, name)
        changes = {document.uri: _edits(document.places, spans, new)}
        others = [NameAt(kind, name.name) for kind in _PATTERNS if kind != name.kind]
        is_shared = any(places_of(read.document, read.base, other) for other in others)
        # What `let` names is read in the plan alone.
        elsewhere = () if name.kind == "let" else _files_that_name(document.path, around)
        for file, text in elsewhere:
            if file.suffix == ".py" and is_shared:
                continue  # a test does not say whether it means the step or the gate of that name
            edits = _edits_of_file(file, text, name, new, document.places.encoding)
            if edits:
                changes[file.as_uri()] = edits
    except NotEditable as error:
        raise RenameRefused(str(error)) from error
    return types.WorkspaceEdit(changes=changes)


def _edits_of_file(
    file: Path, text: str, name: NameAt, new: str, encoding: str
) -> list[types.TextEdit]:
    places = TextPositions(text, encoding)
    if file.suffix == ".py":
        literals = re.finditer(rf"(?<=([\"'])){re.escape(name.name)}(?=\1)", text)
        return _edits(places, [Span(*found.span()) for found in literals], new)
    read = _read(text, file)
    spans = [] if read is None else places_of(read.document, read.base, name)
    return _edits(places, spans, new)


def _edits(places: TextPositions, spans: Iterable[Span], new: str) -> list[types.TextEdit]:
    return [types.TextEdit(places.range(span), new) for span in sorted(spans)]


def _read(text: str, file: Path) -> ReadText | None:
    try:
        return ReadText(read_faulty_document(text, str(file)))
    except DocumentError:
        return None


def _files_that_name(file: Path, around: Surroundings) -> Iterator[tuple[Path, str]]:
    """Yield the documents that name a file, their goal templates, and the tests of the project that
    name the file or one of these jobs.

    Documents are looked for beside the file, in the folder `jobs`, and, where the file is a goal
    template, by its name.
    """
    root, names = around.settings.root, _names_of(file, around.open_texts)
    jobs: dict[Path, str] = {}
    templates: dict[Path, str] = {}
    # A pattern finds nothing in a folder that was moved away while its file is open.
    for path in sorted({*file.parent.glob("*"), *(root / "jobs").rglob("*")} - {file}):
        if path.suffix not in _DOCUMENTS or not path.is_file():
            continue
        text = _text_of(path, around.open_texts)
        read = _read(text, path) if any(name in text for name in names) else None
        if read is None or not _names_one_of(read, names):
            continue
        jobs[path] = text
        template = _template_of(read, around.settings)
        if template is not None and template != file:
            templates[template] = _text_of(template, around.open_texts)
    yield from {**jobs, **templates}.items()
    names += [path.name for path in jobs]
    for test in sorted((root / "tests").rglob("*.py")):
        text = _text_of(test, around.open_texts)
        if any(name in text for name in names):
            yield test, text


_DOCUMENTS: Final = (".yaml", ".yml", ".json")


def _text_of(path: Path, open_texts: Mapping[Path, str]) -> str:
    known = open_texts.get(path)
    return path.read_text(encoding="utf-8", errors="replace") if known is None else known


def _names_of(file: Path, open_texts: Mapping[Path, str]) -> list[str]:
    """Return what jobs may call a plan or a goal template."""
    read = _read(_text_of(file, open_texts), file)
    if read is None or read.kind != "goal":
        return [file.name]
    return [file.name, str(as_object(read.document.value).get("name", file.stem))]


def _names_one_of(read: ReadText, names: list[str]) -> bool:
    """Whether a document names a plan or a goal template by one of these names."""
    fields = as_object(read.document.value)
    named = (fields.get("plan"), fields.get("goal_template"))
    return any(isinstance(name, str) and name.rpartition("/")[2] in names for name in named)


def _template_of(read: ReadText, settings: Settings) -> Path | None:
    name = as_object(read.document.value).get("goal_template")
    if not isinstance(name, str):
        return None
    with suppress(DocumentError):
        found = named_template(name, settings)
        return None if found is None else found.absolute()
    return None
