"""Settings: where a project keeps things, and how its runs behave unless a job says otherwise.

A *project* is the folder that holds `wavewright.yaml`, found from the working directory upwards; without such a file
it is the working directory. What the environment says goes before the file, and the file before the defaults. Paths
in the file are relative to the project, so that a command does the same wherever in it one stands.

| variable | setting |
|---|---|
| `WAVEWRIGHT_STATE` | `state_dir` |
| `WAVEWRIGHT_JOURNAL` | `journal` |
| `WAVEWRIGHT_OUTPUT` | `output_dir` |
| `WAVEWRIGHT_SCHEDULE` | `schedule` |
| `WAVEWRIGHT_CONCURRENCY` | `concurrency` |
| `WAVEWRIGHT_MODEL` | `model`, for every role and preference |
| `WAVEWRIGHT_BASE_URL` | `models.base_url` |
| `WAVEWRIGHT_API_KEY` | the key for `base_url`, or for the model's provider; it has no place in the file |
| `WAVEWRIGHT_CASSETTE` | `models.cassette` |
| `WAVEWRIGHT_CASSETTE_MODE` | `models.cassette_mode` |
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from wavewright.config.documents import (
    Document,
    DocumentError,
    Fault,
    ReadLimits,
    Source,
    Span,
    read_document_file,
)
from wavewright.config.model_settings import BudgetsSection, CassetteMode, ModelsSection
from wavewright.config.shape import read_shape
from wavewright.config.sources import EMPTY_DOCUMENT

FILE_NAMES = ("wavewright.yaml", "wavewright.yml")
_LIMITS = ReadLimits(max_bytes=256 * 2**10, max_depth=20)

Schedule: TypeAlias = Literal["waves", "dataflow"]


class SettingsFile(BaseModel):
    """What `wavewright.yaml` may hold; every field may be absent."""

    # Built at first use: where there is no settings file and no variable, there is nothing to validate.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    version: Literal[1] = 1
    """Version of this format."""
    state_dir: str = Field(default=".wavewright", min_length=1)
    """Folder of whatever the engine keeps between runs."""
    journal: str | None = Field(default=None, min_length=1)
    """SQLite file of the events of all runs; `journal.sqlite` in the state folder where it is absent."""
    output_dir: str | None = Field(default=None, min_length=1)
    """Folder of the packages of all runs; `runs` in the state folder where it is absent."""
    schedule: Schedule | None = None
    """How steps are started; the goal template's choice where it is absent."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """How many calls run at once; the goal template's choice where it is absent."""
    model: str | None = Field(default=None, min_length=1)
    """Language model for planning and reviewing, as `provider:name`."""
    models: ModelsSection = ModelsSection.model_construct()
    """Which models are asked, how patiently, at which prices."""
    budgets: BudgetsSection = BudgetsSection.model_construct()
    """What models may cost for a run, a job and a day."""
    prompts: list[str] = ["prompts"]
    """Folders of prompt templates; a template here replaces the shipped one of the same name."""
    workers: list[str] = ["config/workers"]
    """Files of model workers, or folders of such."""
    ladders: dict[str, JsonValue] = {}
    """Fallback ladders by name, in place of the shipped ones."""
    templates: list[str] = ["config/goals"]
    """Folders of goal templates; the first that has the name wins, before the shipped ones."""
    packs: dict[str, dict[str, JsonValue]] = {}
    """Settings of packs, by the pack's name."""
    tools: list[JsonValue] = []
    """The project's own functions as tools: a module's path or dotted name, or `{path | module, functions}`."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A project's settings, with every path worked out."""

    root: Path
    """The project's folder."""
    state_dir: Path
    journal: Path
    output_dir: Path
    file: Path | None = None
    """The file that the settings were read from, if there is one."""
    schedule: Schedule | None = None
    concurrency: int | None = None
    model: str | None = None
    model_is_forced: bool = False
    """Whether the environment names the model: then it is asked for every role and preference."""
    models: ModelsSection = field(default_factory=ModelsSection.model_construct)
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    cassette: Path | None = None
    cassette_mode: CassetteMode = "replay"
    calibration: Path | None = None
    budgets: BudgetsSection = field(default_factory=BudgetsSection.model_construct)
    prompts: tuple[Path, ...] = ()
    workers: tuple[Path, ...] = ()
    ladders: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    templates: tuple[Path, ...] = ()
    packs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    tools: tuple[JsonValue, ...] = ()
    document: Document | None = field(default=None, repr=False, compare=False)
    """The file as it was read: parts of it are looked at later, and their faults have their places there."""


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable and the setting that it replaces."""

    name: str
    setting: str


VARIABLES = (
    Variable("WAVEWRIGHT_STATE", "state_dir"),
    Variable("WAVEWRIGHT_JOURNAL", "journal"),
    Variable("WAVEWRIGHT_OUTPUT", "output_dir"),
    Variable("WAVEWRIGHT_SCHEDULE", "schedule"),
    Variable("WAVEWRIGHT_CONCURRENCY", "concurrency"),
    Variable("WAVEWRIGHT_MODEL", "model"),
    Variable("WAVEWRIGHT_BASE_URL", "base_url"),
    Variable("WAVEWRIGHT_API_KEY", "api_key"),
    Variable("WAVEWRIGHT_CASSETTE", "cassette"),
    Variable("WAVEWRIGHT_CASSETTE_MODE", "cassette_mode"),
)


def load_settings(start: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of the project that a folder lies in.

    Raises:
        DocumentError: the settings file or the environment is wrong; the fault names the line or the variable.
    """
    folder = start.absolute()
    file = find_settings_file(folder)
    document = None if file is None else _mapping(file)
    given = SettingsFile.model_construct() if document is None else _read_settings(document)
    root = folder if file is None else file.parent
    from_environment = _from_environment(environment)
    # A path from the environment is relative to where the command is given, as paths on a command line are.
    state = _path("state_dir", from_environment, folder) or root / Path(given.state_dir).expanduser()
    return Settings(
        root=root,
        file=file,
        state_dir=state,
        journal=_path("journal", from_environment, folder)
        or _below(root, given.journal)
        or state / "journal.sqlite",
        output_dir=_path("output_dir", from_environment, folder)
        or _below(root, given.output_dir)
        or state / "runs",
        schedule=from_environment.schedule or given.schedule,
        concurrency=from_environment.concurrency or given.concurrency,
        model=from_environment.model or given.model,
        model_is_forced=from_environment.model is not None,
        models=given.models,
        base_url=from_environment.base_url or given.models.base_url,
        api_key=from_environment.api_key,
        cassette=_path("cassette", from_environment, folder) or _below(root, given.models.cassette),
        cassette_mode=from_environment.cassette_mode or given.models.cassette_mode,
        calibration=_below(root, given.models.calibration),
        budgets=given.budgets,
        prompts=tuple(root / name for name in given.prompts),
        workers=tuple(root / name for name in given.workers),
        ladders=given.ladders,
        templates=tuple(root / name for name in given.templates),
        packs=given.packs,
        tools=tuple(given.tools),
        document=document,
    )


def find_settings_file(folder: Path) -> Path | None:
    """Return the settings file of a folder or the nearest folder above it."""
    for home in (folder, *folder.parents):
        for name in FILE_NAMES:
            if (home / name).is_file():
                return home / name
    return None


def settings_schema() -> dict[str, JsonValue]:
    """Return the JSON Schema of `wavewright.yaml`, for editors."""
    from wavewright.config.published import published_schema

    return published_schema(SettingsFile, "settings", "Settings of a project, in wavewright.yaml")


def _read_settings(document: Document) -> SettingsFile:
    try:
        return read_shape(document, SettingsFile)
    except DocumentError as error:
        raise _without_keys(error) from None


_KEY_IN_FILE = re.compile(r"(?i)(api_?key[\"']?[ \t]*[:=][ \t]*)([^\s,}]+)")


def _without_keys(error: DocumentError) -> DocumentError:
    """Return an error whose excerpts show no key that somebody wrote into the file, and say where it belongs."""
    masked = _KEY_IN_FILE.sub(lambda found: found[1] + "*" * len(found[2]), error.source.text)
    if masked == error.source.text:
        return error
    faults = (
        replace(one, hint="a key is read from the environment only: set WAVEWRIGHT_API_KEY")
        if one.kind == "unknown_field" and "api" in one.message.split("'")[1].lower()
        else one
        for one in error.faults
    )
    return DocumentError(replace(error.source, text=masked), tuple(faults))


def _mapping(file: Path) -> Document:
    """Read a settings file; one that says nothing, or comments only, is an empty mapping."""
    try:
        document = read_document_file(file, limits=_LIMITS)
    except DocumentError as error:
        if [fault.message for fault in error.faults] != [EMPTY_DOCUMENT]:
            raise _without_keys(error) from None
        from wavewright.config.nodes import ScalarNode

        return Document({}, error.source, root=ScalarNode(None, 0, 0))
    if document.value is None:
        return Document({}, document.source, root=document.root)
    return document


class _Environment(BaseModel):
    """Settings as the environment gives them, after reading their texts."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    state_dir: str | None = None
    journal: str | None = None
    output_dir: str | None = None
    schedule: Schedule | None = None
    concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = None
    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    cassette: str | None = None
    cassette_mode: CassetteMode | None = None


def _from_environment(environment: Mapping[str, str]) -> _Environment:
    given = {one.setting: environment[one.name] for one in VARIABLES if environment.get(one.name, "").strip()}
    if not given:
        return _Environment.model_construct()
    try:
        return _Environment.model_validate(given)
    except ValidationError as error:
        raise _environment_error(error, given) from error


_WANTED = {
    "schedule": "'waves' or 'dataflow'",
    "concurrency": "a whole number from 1 to 10000",
    "cassette_mode": "'replay' or 'record'",
}


def _environment_error(error: ValidationError, given: Mapping[str, str]) -> DocumentError:
    names = {one.setting: one.name for one in VARIABLES}
    settings = [str(detail["loc"][0]) for detail in error.errors(include_url=False)]
    lines = [f"{names[setting]}={given[setting]}" for setting in settings]
    source = Source("<environment>", "\n".join(lines))
    faults: list[Fault] = []
    offset = 0
    for setting, line in zip(settings, lines, strict=True):
        wanted = _WANTED[setting]
        message = f"the environment variable {names[setting]} should be {wanted}, and is {given[setting]!r}"
        span = Span(offset + len(names[setting]) + 1, offset + len(line))
        faults.append(Fault("bad_value", message, span, hint=f"set it right, or unset {names[setting]}"))
        offset += len(line) + 1
    return DocumentError(source, tuple(faults))


def _path(setting: str, environment: _Environment, folder: Path) -> Path | None:
    return _below(folder, getattr(environment, setting))


def _below(folder: Path, path: str | None) -> Path | None:
    return None if path is None else folder / Path(path).expanduser()
