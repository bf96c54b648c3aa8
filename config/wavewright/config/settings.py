"""Settings of a project: where it keeps things, and the defaults of its runs.

A *project* is the folder that holds `wavewright.yaml`, searched from a folder upwards; without such
a file it is that folder. The environment takes precedence over the file, and the file over the
defaults. Paths in the file are relative to the project, those in the environment to the working
directory. All faults of file and environment are reported at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, Field, JsonValue

from wavewright.config.documents import Document, read_bytes, read_faulty_document
from wavewright.config.environment import (
    VARIABLES,
    EnvironmentSettings,
    drop_invalid_variables,
    read_environment,
)
from wavewright.config.mcp_servers import McpSection, literal_secret_faults
from wavewright.config.model_validation import read_as_model, sort_by_position, valid_subset
from wavewright.config.notices import NoticeRule, NoticeRuleName
from wavewright.config.schedules import ScheduleName, ScheduleSettings
from wavewright.config.sections import (
    BudgetsSection,
    CassetteMode,
    DaemonSection,
    FleetSection,
    ModelsSection,
    PlannerSection,
    ReceiptsSection,
    Schedule,
    ViewSection,
)
from wavewright.config.sources import (
    EMPTY_DOCUMENT,
    DocumentError,
    DocumentFault,
    ReadLimits,
    ScalarNode,
    Source,
    combine_errors,
    pointer_keys,
)
from wavewright.config.value_types import JournalLocation, PublicUrl, Seconds, SettingsModel, is_url

FILE_NAMES = ("wavewright.yaml", "wavewright.yml")
M = TypeVar("M", bound=BaseModel)
_LIMITS = ReadLimits(max_bytes=256 * 2**10, max_depth=20)


class SettingsFile(SettingsModel):
    """What `wavewright.yaml` may hold; every field may be absent."""

    version: Literal[1] = 1
    """Version of this format."""
    state_dir: str = Field(default=".wavewright", min_length=1)
    """Folder of whatever the engine keeps between runs."""
    journal: JournalLocation | None = Field(default=None, min_length=1)
    """SQLite file of the events of all runs, or address of a PostgreSQL database
    (`postgresql://…`); `journal.sqlite` in the state folder where it is absent.
    """
    output_dir: str | None = Field(default=None, min_length=1)
    """Folder of the packages of all runs; `runs` in the state folder where it is absent."""
    retention: Seconds | None = None
    """How long after its end a run is kept by the daemon, as seconds or with a unit (`30d`); for
    ever where absent.
    """
    schedule: Schedule | None = None
    """How steps are started; the goal template's choice where it is absent."""
    concurrency: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """How many calls run at once; the goal template's choice where it is absent."""
    model: str | None = Field(default=None, min_length=1)
    """Language model for planning and reviewing, as `provider:name`."""
    models: ModelsSection = ModelsSection.model_construct()
    """Which models are asked, how patiently, at which prices."""
    planner: PlannerSection = PlannerSection.model_construct()
    """How plans of a model are taken."""
    budgets: BudgetsSection = BudgetsSection.model_construct()
    """What models may cost for a run, a job and a day."""
    daemon: DaemonSection = DaemonSection.model_construct()
    """Broker, queues and slots of the daemon."""
    view: ViewSection = ViewSection.model_construct()
    """Who may use the live page, and what each of them may do."""
    public_url: PublicUrl | None = None
    """Address at which a proxy offers what `view`, `play`, `mcp --http` and `daemon.view` serve,
    such as `https://ops.example/ww/`.
    """
    mcp: McpSection = McpSection.model_construct()
    """MCP servers whose tools plans may call."""
    fleet: FleetSection | None = None
    """Calls that workers on other machines make; needs a journal in PostgreSQL. Every call is made
    in the process of its run where it is absent.
    """
    receipts: ReceiptsSection = ReceiptsSection.model_construct()
    """Keys with which receipts of runs are signed and checked."""
    runtime: str | None = Field(default=None, pattern=r"^\w+(\.\w+)*:\w+$")
    """What makes calls elsewhere in the place of a fleet, as `module:function` of the project."""
    schedules: dict[ScheduleName, ScheduleSettings] = {}
    """Jobs that begin by themselves, by name; a job's file may have its own `schedule`."""
    notify: dict[NoticeRuleName, NoticeRule] = {}
    """What people are told of while nobody watches, by the name of each rule."""
    prompts: list[str] = ["prompts"]
    """Folders of prompt templates; a template here replaces the shipped one of the same name."""
    workers: list[str] = ["config/workers"]
    """Files of model workers, or folders of such."""
    agents: list[str] = ["config/agents"]
    """Files of named agents, or folders of such."""
    ladders: dict[str, JsonValue] = {}
    """Fallback ladders by name, in place of the shipped ones."""
    templates: list[str] = ["config/goals"]
    """Folders of goal templates; the first that has the name wins, before the shipped ones."""
    packs: dict[str, dict[str, JsonValue]] = {}
    """Settings of packs, by the pack's name."""
    tools: list[JsonValue] = []
    """The project's own functions as tools: a module's path or dotted name, or `{path | module,
    functions}`.
    """


@dataclass(frozen=True, slots=True)
class ReceiptKeys:
    """Files of the keys of receipts."""

    private_key: Path | None = None
    public_key: Path | None = None


@dataclass(frozen=True, slots=True)
class Settings:
    """A project's settings with resolved paths.

    >>> from pathlib import Path
    >>> from wavewright.config import load_settings
    >>> settings = load_settings(Path("/nowhere"), {"WAVEWRIGHT_MODEL": "ollama:qwen3"})
    >>> settings.model
    'ollama:qwen3'
    """

    root: Path
    """The project's folder."""
    state_dir: Path
    journal: Path
    """The SQLite file; not used if `journal_url` is given."""
    output_dir: Path
    file: Path | None = None
    """The file that the settings were read from, if there is one."""
    journal_url: str | None = field(default=None, repr=False)
    """The PostgreSQL database that the journal is in, in place of the file."""
    retention: float | None = None
    """Seconds after its end for which the daemon keeps a run; for ever where absent."""
    schedule: Schedule | None = None
    concurrency: int | None = None
    model: str | None = None
    model_is_forced: bool = False
    """Whether the environment names the model, which then answers for every role and preference."""
    models: ModelsSection = field(default_factory=ModelsSection.model_construct)
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    cassette: Path | None = None
    cassette_mode: CassetteMode = "replay"
    calibration: Path | None = None
    planner: PlannerSection = field(default_factory=PlannerSection.model_construct)
    budgets: BudgetsSection = field(default_factory=BudgetsSection.model_construct)
    daemon: DaemonSection = field(default_factory=DaemonSection.model_construct)
    view: ViewSection = field(default_factory=ViewSection.model_construct)
    public_url: str | None = None
    mcp: McpSection = field(default_factory=McpSection.model_construct)
    notify: Mapping[str, NoticeRule] = field(default_factory=dict[str, NoticeRule])
    schedules: Mapping[str, ScheduleSettings] = field(default_factory=dict[str, ScheduleSettings])
    fleet: FleetSection | None = None
    receipts: ReceiptKeys = field(default_factory=ReceiptKeys)
    runtime: object = None
    """`module:function`, or the function itself."""
    hmac_key: str | None = field(default=None, repr=False)
    """The key of messages' signatures; without one messages are neither signed nor verified."""
    prompts: tuple[Path, ...] = ()
    workers: tuple[Path, ...] = ()
    agents: tuple[Path, ...] = ()
    ladders: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    templates: tuple[Path, ...] = ()
    packs: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    tools: tuple[JsonValue, ...] = ()
    functions: tuple[object, ...] = field(default=(), repr=False)
    """Functions, or tools made of such, that a Python program adds to the project's own."""
    reuses_results: bool = True
    """Whether tools with `cache_for` take results of other runs; not with `--no-cache`."""
    document: Document | None = field(default=None, repr=False, compare=False)
    """The document of the file; faults of parts that are validated later have their places in it.
    """

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys, which are secret."""
        return tuple(key for key in (self.api_key, self.hmac_key) if key is not None)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses that may hold a password."""
        urls = (self.base_url, self.journal_url, self.daemon.amqp_url)
        return tuple(url for url in urls if url is not None)

    @property
    def secret_variables(self) -> frozenset[str]:
        """Names of environment variables that hold a secret of an MCP server."""
        return frozenset[str]().union(
            *(server.secret_variables for server in self.mcp.servers.values())
        )


def load_settings(
    start: Path,
    environment: Mapping[str, str] = os.environ,
    *,
    near: Path | None = None,
    default_state: Path | None = None,
) -> Settings:
    """Return the settings of the project that a folder lies in.

    Args:
        start: The folder; relative paths in the environment are relative to it.
        environment: The environment variables.
        near: A folder whose project is used if `start` lies in none.
        default_state: The state folder if there is no settings file; `.wavewright` in `start` if
            absent.

    Raises:
        DocumentError: the settings file or the environment is invalid; the fault names the line or
            the variable.

    >>> from pathlib import Path
    >>> from wavewright.config import load_settings
    >>> load_settings(Path("/nowhere"), {"WAVEWRIGHT_CONCURRENCY": "4"}).concurrency
    4
    """
    settings, faulty = load_valid_settings(
        start, environment, near=near, default_state=default_state
    )
    if faulty:
        raise combine_errors(faulty)
    return settings


def settings_without_file(folder: Path, default_state: Path) -> Settings:
    """Return the settings of a folder from the environment alone, whatever settings files there
    are.

    Raises:
        DocumentError: a variable of the environment is invalid; the fault names it.
    """
    document, sections, from_environment, faulty = _read_file_and_environment(None, os.environ)
    if faulty:
        raise combine_errors(faulty)
    return _resolve_settings(
        folder.absolute(), None, document, sections, from_environment, default_state
    )


def load_valid_settings(
    start: Path,
    environment: Mapping[str, str] = os.environ,
    *,
    near: Path | None = None,
    default_state: Path | None = None,
    text: str | None = None,
) -> tuple[Settings, list[DocumentError]]:
    """Return the valid part of the settings and every fault, so that a caller can look for further
    faults; with `text` the settings file is read as if that stood in it.
    """
    folder = start.absolute()
    file = find_settings_file(folder)
    if file is None and near is not None:
        file = find_settings_file(near.absolute())
    document, sections, from_environment, faulty = _read_file_and_environment(
        file, environment, text
    )
    state = default_state if file is None else None
    return _resolve_settings(folder, file, document, sections, from_environment, state), faulty


def _resolve_settings(
    folder: Path,
    file: Path | None,
    document: Document | None,
    sections: SettingsFile,
    from_environment: EnvironmentSettings,
    default_state: Path | None,
) -> Settings:
    root = folder if file is None else file.parent
    url_of_file = sections.models.base_url
    sections = _with_environment(sections, from_environment, folder)
    if default_state is None or from_environment.state_dir is not None:
        default_state = root / Path(sections.state_dir).expanduser()
    is_database = sections.journal is not None and is_url(sections.journal)
    journal = None if is_database else _resolve_path(root, sections.journal)
    return Settings(
        root=root,
        file=file,
        state_dir=default_state,
        journal=journal or default_state / "journal.sqlite",
        journal_url=from_environment.pg_url or (sections.journal if is_database else None),
        output_dir=_resolve_path(root, sections.output_dir) or default_state / "runs",
        retention=sections.retention,
        schedule=sections.schedule,
        concurrency=sections.concurrency,
        model=sections.model,
        model_is_forced=from_environment.model is not None,
        # The address of the environment is for the default model's provider, that of the file for
        # `openai-chat` alone: they are kept apart.
        models=sections.models.model_copy(update={"base_url": url_of_file}),
        base_url=sections.models.base_url,
        api_key=from_environment.api_key,
        cassette=_resolve_path(root, sections.models.cassette),
        cassette_mode=sections.models.cassette_mode,
        calibration=_resolve_path(root, sections.models.calibration),
        planner=sections.planner,
        budgets=sections.budgets,
        daemon=sections.daemon,
        view=sections.view,
        public_url=sections.public_url,
        mcp=sections.mcp,
        schedules=sections.schedules,
        notify=sections.notify,
        fleet=sections.fleet,
        receipts=ReceiptKeys(
            _resolve_path(root, sections.receipts.private_key),
            _resolve_path(root, sections.receipts.public_key),
        ),
        runtime=sections.runtime,
        hmac_key=from_environment.hmac_key,
        prompts=tuple(root / name for name in sections.prompts),
        workers=tuple(root / name for name in sections.workers),
        agents=tuple(root / name for name in sections.agents),
        ladders=sections.ladders,
        templates=tuple(root / name for name in sections.templates),
        packs=sections.packs,
        tools=tuple(sections.tools),
        document=document,
    )


def _with_environment(
    sections: SettingsFile, environment: EnvironmentSettings, folder: Path
) -> SettingsFile:
    """Return the file's settings with those of the environment in their place; its paths are made
    absolute.
    """
    for field_name, variable in VARIABLES.items():
        value = getattr(environment, field_name)
        if value is None or not variable.setting:
            continue
        if variable.is_path and not is_url(value):
            value = str(_resolve_path(folder, value))
        sections = _replaced(sections, variable.setting.split("."), value)
    return sections


def _replaced(section: M, path: Sequence[str], value: object) -> M:
    """Return a copy of a section with another value at a path of fields."""
    name, *rest = path
    return section.model_copy(
        update={name: _replaced(getattr(section, name), rest, value) if rest else value}
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
    from wavewright.config.published_schemas import published_schema

    return published_schema(SettingsFile, "settings", "Settings of a project, in wavewright.yaml")


def _read_file_and_environment(
    file: Path | None, environment: Mapping[str, str], text: str | None = None
) -> tuple[Document | None, SettingsFile, EnvironmentSettings, list[DocumentError]]:
    """Return the settings of the file and of the environment, and the faults of both."""
    document, sections, faulty = None, SettingsFile.model_construct(), list[DocumentError]()
    try:
        if file is not None:
            document = _read_mapping(file, text)
            sections = read_settings(document)
    except DocumentError as error:
        faulty.append(error)
        if document is not None:
            sections = valid_subset(document, error, SettingsFile) or sections
    try:
        from_environment = read_environment(environment)
    except DocumentError as error:
        faulty.append(error)
        from_environment = read_environment(drop_invalid_variables(environment, error))
    return document, sections, from_environment, faulty


def read_settings(document: Document) -> SettingsFile:
    """Return the settings of a file.

    Raises:
        DocumentError: with every fault; no excerpt shows a key.
    """
    try:
        sections = read_as_model(document, SettingsFile)
    except DocumentError as error:
        raise _mask_keys(error) from None
    if faults := sort_by_position(document, literal_secret_faults(sections.mcp.servers)):
        raise DocumentError(_mask_spans(document.source, faults), faults)
    return sections


def _mask_spans(source: Source, faults: Sequence[DocumentFault]) -> Source:
    """Return a source whose text has asterisks at the spans of these faults."""
    text = source.text
    for span in (fault.span for fault in faults if fault.span is not None):
        text = (
            text[: span.start] + re.sub(r"\S", "*", text[span.start : span.end]) + text[span.end :]
        )
    return replace(source, text=text)


_KEY_IN_FILE = re.compile(
    r"(?i)((?:api|hmac)_?key[\"']?[ \t]*[:=][ \t]*)([^\s,}]+)" r"|(://[^\s/@:]*:)([^\s/]+)(?=@)"
)


def _mask_keys(error: DocumentError) -> DocumentError:
    """Return an error whose excerpts show no key and no password, with a hint on where a key
    belongs.
    """
    masked = _KEY_IN_FILE.sub(_mask_match, error.source.text)
    if masked == error.source.text:
        return error
    faults = tuple(_with_key_hint(fault) for fault in error.faults)
    return DocumentError(replace(error.source, text=masked), faults)


def _mask_match(match: re.Match[str]) -> str:
    kept, secret = (match[1], match[2]) if match[1] is not None else (match[3], match[4])
    return kept + "*" * len(secret)


def _with_key_hint(fault: DocumentFault) -> DocumentFault:
    if fault.kind == "unknown_field":
        field_name = pointer_keys(fault.pointer)[-1].lower()
        for word, variable in (("api", "WAVEWRIGHT_API_KEY"), ("hmac", "WAVEWRIGHT_HMAC_KEY")):
            if word in field_name and "key" in field_name:
                return replace(
                    fault, hint=f"a key is read from the environment only: set {variable}"
                )
    return fault


def _read_mapping(file: Path, text: str | None) -> Document:
    """Read a settings file; an empty one, or one with comments only, is an empty mapping."""
    try:
        content = read_bytes(file, _LIMITS) if text is None else text
        document = read_faulty_document(content, str(file), limits=_LIMITS)
    except DocumentError as error:
        if [fault.message for fault in error.faults] != [EMPTY_DOCUMENT]:
            raise _mask_keys(error) from None
        return Document({}, error.source, root=ScalarNode(None, 0, 0))
    if document.value is None:
        return Document({}, document.source, root=document.root)
    return document


def _resolve_path(folder: Path, path: str | None) -> Path | None:
    return None if path is None else folder / Path(path).expanduser()
