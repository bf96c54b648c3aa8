"""Where a name of a plan or a goal template changes when it is renamed: in its file, and in the
documents and tests of the project that name the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from wavewright.config import DocumentError, Span, WavewrightError
from wavewright.config.documents import read_faulty_document, value_at
from wavewright.config.sources import pointer_token
from wavewright.config.text_edits import NotEditable
from wavewright.engine.run.jobs.read_texts import ReadText
from wavewright.engine.run.project.templates import named_template
from wavewright.planner import ID_PATTERN, as_list, as_object
from wavewright.planner.checks.names import NameAt, NameKind, key_places, places_of
from wavewright.planner.types import GATE_ID_PATTERN, STEP_ID_PATTERN

if TYPE_CHECKING:
    from wavewright.config import Settings

NamePlaces: TypeAlias = "tuple[Path, str, list[Span]]"
"""A file, its text, and where a name stands in it, in the order of the text."""

_PATTERNS: Final[Mapping[NameKind, str]] = {
    "step": STEP_ID_PATTERN,
    "input": STEP_ID_PATTERN,
    "let": ID_PATTERN,
    "gate": GATE_ID_PATTERN,
}
"""What the names that can be changed look like, by what they name."""
_DOCUMENTS: Final = (".yaml", ".yml", ".json")


class RenameRefused(WavewrightError):
    """A name cannot be changed; the message says why."""


class NothingToRename(RenameRefused):
    """No name that can be changed stands there."""

    def __init__(self) -> None:
        super().__init__(
            "only steps, inputs, names of `let` and gates of a plan that can be read are renamed"
        )


@dataclass(frozen=True, slots=True)
class ProjectTexts:
    """The files of a project; of those that are open in an editor, as they stand there."""

    settings: Settings
    open_texts: Mapping[Path, str]

    def text(self, file: Path) -> str:
        """Return the text of a file."""
        known = self.open_texts.get(file)
        return file.read_text(encoding="utf-8", errors="replace") if known is None else known

    def read(self, file: Path) -> ReadText | None:
        """Return what a file says; None where it cannot be read."""
        try:
            return ReadText(read_faulty_document(self.text(file), str(file)))
        except DocumentError:
            return None


def places_to_rename(
    read: ReadText, file: Path, name: NameAt, new: str, project: ProjectTexts
) -> Iterator[NamePlaces]:
    """Yield each file with the places where a name changes: its own file, the jobs and plans that name
    this, the goal templates of these jobs, their schedules in the settings, and tests that name one
    of them.

    What a job says of the inputs and gates of a plan in another file is changed there as well.

    Raises:
        RenameRefused: the name cannot be changed, the new one is none or is taken, or it cannot be
            written everywhere.
    """
    if name.kind not in _PATTERNS:
        raise NothingToRename
    if not re.fullmatch(_PATTERNS[name.kind], new):
        raise RenameRefused(f"{new!r} is no name of a {name.kind}")
    if name.job is not None:
        file = (file.parent / name.job).resolve()
        job = project.read(file) if file.is_file() else None
        if job is None:
            raise NothingToRename
        read = job
    renamed_in, (read, file) = file, _defining(read, file, project)
    try:
        if places_of(read.document, read.base, NameAt(name.kind, new)):
            raise RenameRefused(f"{new!r} is taken")
        own = places_of(read.document, read.base, name)
        yield file, read.document.source.text, sorted(own)
        if name.kind == "let":
            return  # which is read in the plan alone
        others = [NameAt(kind, name.name) for kind in _PATTERNS if kind != name.kind]
        is_shared = any(places_of(read.document, read.base, other) for other in others)
        elsewhere: dict[Path, set[Span]] = {}
        for path, spans in _places_elsewhere(read, file, name, project, renamed_in):
            # A test does not say whether it means the step or the gate of that name.
            if spans and not (is_shared and path.suffix == ".py"):
                elsewhere.setdefault(path, set()).update(spans)
        for path, places in elsewhere.items():
            yield path, project.text(path), sorted(places)
    except NotEditable as error:
        raise RenameRefused(str(error)) from error


def _defining(read: ReadText, file: Path, project: ProjectTexts) -> tuple[ReadText, Path]:
    """Return the document that defines what a document names: of a job without a plan of its own
    the plan, or else the goal template, that it names.
    """
    if read.base is not None:
        return read, file
    plan = as_object(read.document.value).get("plan")
    beside = file.parent / plan if isinstance(plan, str) else None
    named = beside if beside is not None and beside.is_file() else _template_of(read, project)
    known = None if named is None else project.read(named.resolve())
    return (read, file) if named is None or known is None else (known, named.resolve())


def _places_elsewhere(
    read: ReadText, file: Path, name: NameAt, project: ProjectTexts, asked: Path
) -> Iterator[tuple[Path, list[Span]]]:
    """Yield where a name stands in what names its file.

    Documents are looked for beside the file and in the folders above it, beside the one that was
    `asked`, in the folder `jobs`, and, where the file is a goal template, by its name.
    """
    root, names = project.settings.root, _names_of(read, file)
    jobs = [file]
    templates: dict[Path, ReadText] = {}
    above = [folder for folder in file.parents if folder.is_relative_to(root)]
    beside = {path for folder in (file.parent, *above, asked.parent) for path in folder.glob("*")}
    # A pattern finds nothing in a folder that was moved away while its file is open.
    for path in sorted({*beside, asked, *(root / "jobs").rglob("*")} - {file}):
        if path.suffix not in _DOCUMENTS or not path.is_file():
            continue
        is_named = any(word in project.text(path) for word in names)
        other = project.read(path) if is_named else None
        if other is None:
            continue
        for caller, step in _callers(other, names):
            if name.kind == "input":
                owners = [f"{step}/params", f"{step}/repeat/params"]
                yield path, key_places(other.document, owners, name.name)
            else:
                yield path, places_of(other.document, other.base, name, within=caller)
        if not _is_job_of(other, names):
            continue
        yield path, places_of(other.document, other.base, name)
        jobs.append(path)
        template = _template_of(other, project)
        known = None if template in (None, file) else project.read(template)
        if template is not None and known is not None:
            templates[template] = known
    if name.kind == "input":
        yield from _scheduled_inputs(jobs, name.name, project)
    for path, other in templates.items():
        yield path, places_of(other.document, other.base, name)
    literal = re.compile(rf"(?<=([\"'])){re.escape(name.name)}(?=\1)")
    for test in sorted((root / "tests").rglob("*.py")):
        text = project.text(test)
        if any(word in text for word in (*names, *(job.name for job in jobs))):
            yield test, [Span(*match.span()) for match in literal.finditer(text)]


def _names_of(read: ReadText, file: Path) -> list[str]:
    """Return what jobs may call a plan or a goal template."""
    if read.kind != "goal":
        return [file.name]
    return [file.name, str(as_object(read.document.value).get("name", file.stem))]


def _is_job_of(read: ReadText, names: list[str]) -> bool:
    """Whether a document names a plan or a goal template by one of these names."""
    fields = as_object(read.document.value)
    return any(_is_one_of(fields.get(key), names) for key in ("plan", "goal_template"))


def _callers(read: ReadText, names: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the steps of a document's plan that call a plan by one of these names, and their
    pointers.
    """
    plan = None if read.base is None else value_at(read.document.value, read.base)
    for number, step in enumerate(as_list(as_object(plan).get("steps"))):
        fields = as_object(step)
        if _is_one_of(fields.get("plan"), names):
            yield str(fields.get("id")), f"{read.base}/steps/{number}"


def _scheduled_inputs(
    jobs: list[Path], name: str, project: ProjectTexts
) -> Iterator[tuple[Path, list[Span]]]:
    """Yield where the settings' schedules of some jobs give an input."""
    file = project.settings.file
    read = None if file is None or not jobs else project.read(file)
    if file is None or read is None:
        return
    schedules = as_object(as_object(read.document.value).get("schedules"))
    for schedule, terms in schedules.items():
        job = as_object(terms).get("job")
        if isinstance(job, str) and (file.parent / job).resolve() in jobs:
            owner = f"/schedules{pointer_token(schedule)}/inputs"
            yield file, key_places(read.document, [owner], name)


def _is_one_of(name: object, names: list[str]) -> bool:
    return isinstance(name, str) and name.rpartition("/")[2] in names


def _template_of(read: ReadText, project: ProjectTexts) -> Path | None:
    name = as_object(read.document.value).get("goal_template")
    if not isinstance(name, str):
        return None
    with suppress(DocumentError):
        file = named_template(name, project.settings)
        return None if file is None else file.absolute()
    return None
