"""Jobs received from another system instead of in a file.

An *inline job* is the document of a job, or of a plan in its place, sent by another system. It may
name only files in the project's folder: a path that leaves it is refused before anything is opened.
It may not raise the limits of the run above `daemon.max_limits` of the settings.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath

from wavewright.config import Document, DocumentError, DocumentFault, Settings, read_document_file
from wavewright.config.sections import MaxLimitsSection
from wavewright.config.sources import pointer_keys, pointer_token
from wavewright.engine.run.jobs.documents import is_job, is_saved_plan
from wavewright.engine.run.jobs.inputs import InputOverrides
from wavewright.engine.run.jobs.plan_drafts import AUTO_PLAN
from wavewright.engine.run.jobs.resolving import ResolvedJob, resolve_job
from wavewright.planner import Json, JsonSchema, as_list, as_object
from wavewright.planner.language.json_values import map_texts
from wavewright.planner.schemas.views import schema_below
from wavewright.tools import PackError
from wavewright.tools.packs import pack_settings_schema

_NO_OVERRIDES = InputOverrides()
_NAMES_FILES = ("plan", "goal_template", "tools")
"""Fields of a job that may hold paths."""


def resolve_inline_job(
    document: Document, settings: Settings, inputs: InputOverrides = _NO_OVERRIDES
) -> ResolvedJob:
    """Return the resolved inline job; paths in it are relative to the project's folder.

    Raises:
        DocumentError: it names something outside the project's folder, raises a limit of its run
            above `daemon.max_limits`, or is a saved plan.
        PlanError: it is not valid; each fault has its place.
    """
    refuse_inline_faults(document, settings)
    return resolve_job(document, settings.root / "job", None, settings, inputs=inputs)


def refuse_inline_faults(document: Document, settings: Settings) -> None:
    """Refuse what no inline job may hold; its plan is not looked at.

    Raises:
        DocumentError: as in `resolve_inline_job`.
    """
    if faults := (
        *_faults(document, settings.root),
        *_raised_limits(document, settings.daemon.max_limits),
    ):
        raise DocumentError(document.source, faults)


def leaves_folder(path: str) -> bool:
    """Whether a text, taken as a path within a folder, would lead out of it."""
    windows = PureWindowsPath(path)
    return (
        PurePosixPath(path).is_absolute()
        or bool(windows.drive or windows.root)
        or path.startswith("~")
        or ".." in windows.parts
    )


def _leads_out_of(root: Path, path: str) -> bool:
    """Whether a text, taken as a path within a project, leads out of it, also by a symbolic link:
    what stands there would be quoted in the errors of a plan.
    """
    return leaves_folder(path) or not (root / path).resolve().is_relative_to(root.resolve())


def _faults(document: Document, root: Path) -> Iterator[DocumentFault]:
    if is_saved_plan(document):
        # Its paths belong to the machine that it was saved on.
        yield DocumentFault(
            "bad_value",
            "a saved plan is run from its file",
            hint="send the job that it was made of",
        )
    elif isinstance(document.value, dict):
        for name in _NAMES_FILES:
            named = _strings(document.value.get(name), pointer_token(name))
            for pointer, text in (
                *named,
                *(_sub_plans(document.value, "") if name == "plan" else ()),
            ):
                if _leads_out_of(root, text):
                    yield DocumentFault(
                        "bad_value",
                        f"{text!r} leads out of the project's folder",
                        document.nearest_span(pointer),
                        pointer,
                        hint="a job that is sent may name files of the project only, by their path in it",
                    )


def _raised_limits(document: Document, most: MaxLimitsSection) -> Iterator[DocumentFault]:
    """Yield a fault for each limit that is above what the settings allow; a goal template has its
    own at the top.
    """
    whole: dict[str, Json] = as_object(document.value)
    overrides = whole.get("overrides")
    by_pointer = {
        "/overrides/limits": overrides.get("limits") if isinstance(overrides, dict) else None,
        "/limits": whole.get("limits"),
        "/targets": whole.get("targets"),
    }
    for parent, limits in by_pointer.items():
        raised = as_object(limits)
        for name, bound in most.model_dump().items():
            value = raised.get(name)
            if isinstance(value, int) and value > bound:
                pointer = parent + pointer_token(name)
                limit = f"{parent.rpartition('/')[2]}.{name}"
                yield DocumentFault(
                    "bad_value",
                    f"{limit} is {value:,}, and a job that is sent may have {bound:,} at most",
                    document.nearest_span(pointer),
                    pointer,
                    hint=f"lower it, or have the daemon's operator raise daemon.max_limits.{name}",
                )


def _sub_plans(value: Json, pointer: str) -> Iterator[tuple[str, str]]:
    """Return each text that names a sub-plan, in a plan or in the plan of a job, with its pointer."""
    whole = as_object(value)
    steps = whole.get("steps")
    for number, step in enumerate(steps if isinstance(steps, list) else ()):
        if isinstance(step, dict) and isinstance(name := step.get("plan"), str):
            yield f"{pointer}/steps/{number}/plan", name
    if isinstance(inner := whole.get("plan"), dict):
        yield from _sub_plans(inner, f"{pointer}/plan")


def _strings(value: Json, pointer: str) -> Iterator[tuple[str, str]]:
    """Return each text in a value with its pointer; of an inline plan none, for its values are no
    paths.
    """
    match value:
        case str():
            yield pointer, value
        case list():
            for number, item in enumerate(value):
                yield from _strings(item, pointer + pointer_token(number))
        case dict() if pointer != "/plan":
            for key, item in value.items():
                yield from _strings(item, pointer + pointer_token(key))
        case _:
            return


def portable_job(document: Document, file: Path, settings: Settings) -> Document:
    """Return a job's document as it can be sent: with its plan embedded and paths relative to the
    project's root.

    Raises:
        DocumentError: its tools read what stands beside the job and not in the project: whoever
            takes the job does not have it.
    """
    if not isinstance(document.value, dict) or not is_job(document):
        return document
    value = dict(document.value)
    plan = value.get("plan")
    if isinstance(plan, str) and plan != AUTO_PLAN:
        value["plan"] = read_document_file(file.parent / plan).value
    if beside := [*_only_beside(document, file.parent, settings.root)]:
        raise DocumentError(document.source, tuple(beside))
    for name in ("goal_template", "tools"):
        if name in value:
            value[name] = map_texts(
                value[name], partial(_path_from_root, folder=file.parent, root=settings.root)
            )
    return Document(value, document.source, root=document.root)


def absent_paths(document: Document, file: Path, settings: Settings) -> Iterator[str]:
    """Yield the files and folders that the tools of a job read and that stand neither beside it nor
    in the project.
    """
    tools = as_object(as_object(document.value).get("tools")) if is_job(document) else {}
    for pack, given in tools.items():
        schema = _settings_of(pack)
        for pointer, text in _strings(given, ""):
            field = None if schema is None else schema_below(schema, pointer_keys(pointer))
            if field is None or not _is_path(text, field):
                continue
            places = (folder / _expanded(text) for folder in (file.parent, settings.root))
            if not any(map(_is_there, places)):
                yield text


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:  # the home of nobody
        return Path(text)


def _is_there(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a text that is too long to be a path
        return False


def _settings_of(pack: str) -> JsonSchema | None:
    try:
        return pack_settings_schema(pack)
    except PackError:  # told where the job is checked
        return None


def _is_path(text: str, field: JsonSchema) -> bool:
    """Whether a text is a path by the schema of its field, and no word that stands in its place."""
    members = [field, *map(as_object, as_list(field.get("anyOf")))]
    is_word = any(member.get("const") == text for member in members)
    return not is_word and any(member.get("format") == "path" for member in members)


def _only_beside(document: Document, folder: Path, root: Path) -> Iterator[DocumentFault]:
    """Yield a fault for each path in the settings of tools that is valid from the job's folder
    alone.
    """
    tools = as_object(document.value).get("tools")
    for pointer, text in _strings(tools, pointer_token("tools")):
        path = folder / text
        is_path = text and not text.isspace() and _is_there(path)
        # An absolute path stands beside nothing; that it leads out is found at the other end, too.
        is_beside = is_path and not Path(text).is_absolute()
        if is_beside and not path.resolve().is_relative_to(root.resolve()):
            yield DocumentFault(
                "bad_value",
                f"{text!r} stands beside the job, and the daemon's project {root} does not have it",
                document.nearest_span(pointer),
                pointer,
                hint="put it into the project, or give the path that it has there",
            )


def _path_from_root(text: str, folder: Path, root: Path) -> str:
    """Return a text that is a path from a folder as a path from the project's root; any other as it
    is.
    """
    path = folder / text
    if not _is_there(path) or not path.resolve().is_relative_to(root.resolve()):
        return text
    return path.resolve().relative_to(root.resolve()).as_posix()
