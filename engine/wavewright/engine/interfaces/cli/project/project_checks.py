"""Checks of a project's settings, workers, prompts, ladders, calibration and broker, for `doctor`
and `check`.

Prompt templates are rendered with sample values, because a faulty one otherwise fails only when a
model is asked. The check of the broker creates nothing there: missing queues are declared by the
daemon.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from wavewright.config import (
    Document,
    DocumentError,
    DocumentFault,
    Settings,
    Source,
    Span,
    WavewrightError,
    did_you_mean,
    install_hint,
    is_installed,
    read_document_file,
)
from wavewright.config.model_validation import read_as_model
from wavewright.config.notices import NoticeRule
from wavewright.config.settings import read_settings
from wavewright.engine.run.project.prompt_checks import (
    PromptDefect,
    find_prompt_defect,
    find_prompt_defects,
    used_prompts,
)
from wavewright.engine.run.project.templates import named_template
from wavewright.engine.run.project.tool_sources import open_sources, own_agents
from wavewright.engine.run.project.tools import all_tools, packs_of_project
from wavewright.engine.run.receipts import ReceiptError
from wavewright.engine.run.services import RuntimeNotOpened, check_runtime
from wavewright.engine.service.messages.contract import message_contract, with_contract_defaults
from wavewright.engine.service.messages.delivery import message_types, request_forms
from wavewright.engine.service.schedules.project_schedules import schedules_of_settings
from wavewright.planner import Diagnostic, GoalTemplate, PlanError, as_object
from wavewright.planner.diagnostics.diagnostic import (
    counted,
    diagnostics_of,
    locate_diagnostics,
)
from wavewright.planner.ports.fallback_ladder import read_ladders
from wavewright.planner.reading.reader import read_model
from wavewright.prompts import Prompts
from wavewright.reviewer import read_calibration
from wavewright.tools import (
    AgentSpec,
    PackError,
    ToolDefinitionError,
    Worker,
    WorkerSpec,
    load_pack,
    make_services,
    pack_names,
    project_prompts,
)
from wavewright.tools.models.endpoints import ModelConfigError, check_names, split_model
from wavewright.tools.workers.specs import PromptedSpec, load_workers
from wavewright.tools.workers.worker_tools import make_worker


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """The result of one check."""

    subject: str
    state: Literal["ok", "note", "fault"]
    """A `note` is no fault: something optional is missing."""
    detail: str
    hint: str = ""
    """How to fix it, where there is something to fix."""

    @classmethod
    def of_error(cls, subject: str, error: WavewrightError, mend: str = "") -> DoctorFinding:
        """Return the finding of an error with its place and its hint: of a faulty file its first
        fault, or `mend` where that has no hint.
        """
        if not isinstance(error, DocumentError | PlanError):
            place = f"{error.place}: " if error.place else ""
            return cls(subject, "fault", f"{place}{error.message}", error.hint or "")
        faults = error.diagnostics if isinstance(error, PlanError) else error.faults
        first, place = faults[0], error.source.name
        if first.span is not None and error.source.text:
            place += f":{error.source.position(first.span.start)[0]}"
        more = "" if len(faults) == 1 else f" (and {len(faults) - 1} more)"
        return cls(subject, "fault", f"{place}: {first.message}{more}", first.hint or mend)


def check_settings(document: Document, load: Callable[[], Settings]) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a settings file.

    `load` returns the settings of the project; if the file is theirs, its tools are imported as
    well.
    """
    try:
        read_settings(document)
    except DocumentError as error:
        return diagnostics_of(error)
    try:
        settings = load()
    except PackError as error:
        diagnostic = Diagnostic("E107", error.message, "/daemon", error.hint)
        return tuple(locate_diagnostics([diagnostic], document))
    if settings.file is None or settings.file != Path(document.source.name).absolute():
        return ()
    return tuple(locate_diagnostics(_settings_diagnostics(settings), document))


def _settings_diagnostics(settings: Settings) -> Iterator[Diagnostic]:
    try:
        tools = all_tools(settings)
    except ToolDefinitionError as error:
        yield Diagnostic("E107", str(error), "/tools", error.hint)
    except PackError as error:
        yield Diagnostic("E107", str(error), "/packs", error.hint)
    else:
        for position, message, hint in _unknown_fleet_tools(settings, tools):
            yield Diagnostic("E107", message, f"/fleet/tools/{position}", hint)
    try:
        read_ladders(settings.ladders, settings.document)
    except DocumentError as error:
        yield from diagnostics_of(error)
    yield from _misnamed_models(settings)
    for name, message in _faulty_schedules(settings):
        yield Diagnostic("E107", message, f"/schedules/{name}")
    with suppress(PackError):  # reported above
        for misnamed in _daemon_errors(settings):
            yield from _daemon_diagnostics(misnamed, settings)


def _misnamed_models(settings: Settings) -> Iterator[Diagnostic]:
    try:
        # A model that the environment names stands in no document.
        if settings.model is not None and not settings.model_is_forced:
            split_model(settings.model)
    except ModelConfigError as error:
        yield Diagnostic("E107", str(error), "/model", error.hint)
    try:
        check_names(settings)
    except ModelConfigError as error:
        yield Diagnostic("E107", str(error), "/models", error.hint)


def _unknown_fleet_tools(
    settings: Settings, tools: Collection[str]
) -> Iterator[tuple[int, str, str]]:
    """Yield the position of each name in `fleet.tools` that is no tool, what it is, and its mend.

    Calls of the tool that was meant would be made in the process of the run, and nobody be told.
    """
    for position, name in enumerate(settings.fleet.tools if settings.fleet is not None else ()):
        if name != "*" and name not in tools:
            hint = did_you_mean(name, tools) or "`wavewright tools --all` lists the tools"
            yield position, f"fleet.tools: there is no tool {name!r}", hint


def service_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Yield the faults of settings that are used late: by a daemon, where calls are made elsewhere,
    when somebody is told of something, and when a receipt is signed.
    """
    yield from _daemon_findings(settings)
    if settings.fleet is not None or settings.runtime is not None:
        yield from _runtime_findings(settings)
    for name, rule in settings.notify.items():
        yield from _notice_findings(name, rule)
    keys = settings.receipts
    if keys.private_key is not None or keys.public_key is not None:
        yield from _receipt_findings(keys.private_key, keys.public_key)


def _daemon_diagnostics(error: DocumentError, settings: Settings) -> Iterator[Diagnostic]:
    """Yield what is wrong with the section `daemon`; faults of its goal template's file have no place
    in the settings but that of its name.
    """
    document = settings.document
    if document is not None and error.source.name == document.source.name:
        yield from diagnostics_of(error)
        return
    first = DoctorFinding.of_error("daemon", error, "fix the file")
    yield Diagnostic("E107", first.detail, "/daemon/goal_template", first.hint)


def _daemon_findings(settings: Settings) -> Iterator[DoctorFinding]:
    try:
        for error in _daemon_errors(settings):
            yield DoctorFinding.of_error("daemon", error, "fix `daemon` in wavewright.yaml")
    except PackError as error:
        yield DoctorFinding.of_error("daemon", error)


def _daemon_errors(settings: Settings) -> Iterator[DocumentError]:
    """Yield what is wrong with the names in the section `daemon`, where there is one.

    Raises:
        PackError: `daemon.pack` names no pack that defines messages.
    """
    if settings.daemon.model_fields_set:
        yield from named_setting_errors(with_contract_defaults(settings))


def named_setting_errors(settings: Settings) -> Iterator[DocumentError]:
    """Yield the errors of what the section `daemon` names: types of messages, and its goal template."""
    yield from _identity_errors(settings)
    yield from _template_errors(settings)


def _identity_errors(settings: Settings) -> Iterator[DocumentError]:
    known = message_types(request_forms(message_contract(settings)))
    for name, identity in settings.daemon.identities.items():
        if unknown := set(identity.may_send).difference(known):
            message = f"{', '.join(map(repr, sorted(unknown)))} is not a message type that the daemon reads"
            hint = f"message types are {', '.join(known)}"
            yield settings_error(settings, message, hint, f"/daemon/identities/{name}/may_send")


def _template_errors(settings: Settings) -> Iterator[DocumentError]:
    name, standing = settings.daemon.goal_template, settings.daemon.standing
    if standing is not None and standing.forks == "ask" and not settings.daemon.decisions:
        message = (
            "the standing job asks people which target is next, and `daemon.decisions` is false"
        )
        yield settings_error(settings, message, "set `forks: all`", "/daemon/standing/forks")
    if name is None and standing is not None:
        message = "a standing job needs a goal template"
        yield settings_error(
            settings, message, "name one in `daemon.goal_template`", "/daemon/standing"
        )
    if name is None:
        return
    try:
        path = named_template(name, settings) or settings.root / name
    except DocumentError as error:
        # The place to mend is the setting, and not a file of that name, which there is not.
        for fault in error.faults:
            yield settings_error(settings, fault.message, fault.hint, "/daemon/goal_template")
        return
    try:
        read_model(read_document_file(path), GoalTemplate)
    except DocumentError as error:
        yield error
    except PlanError as error:
        faults = (
            DocumentFault(
                "bad_value",
                diagnostic.message,
                diagnostic.span,
                diagnostic.pointer,
                diagnostic.hint,
            )
            for diagnostic in error.diagnostics
        )
        yield DocumentError(error.source, tuple(faults))


def settings_error(
    settings: Settings, message: str, hint: str | None, pointer: str
) -> DocumentError:
    """Return the error of a setting that is found once all of them are read."""
    document = settings.document
    if document is None:
        return DocumentError(
            Source("<settings>", ""), (DocumentFault("bad_value", message, hint=hint),)
        )
    # Without an excerpt, since the address may hold a password.
    return DocumentError(
        Source(document.source.name, ""),
        (DocumentFault("bad_value", message, pointer=pointer, hint=hint),),
    )


def _runtime_findings(settings: Settings) -> Iterator[DoctorFinding]:
    subject = "fleet" if settings.runtime is None else "runtime"
    try:
        check_runtime(settings)
    except (RuntimeNotOpened, ToolDefinitionError) as error:
        yield DoctorFinding.of_error(subject, error)
    with suppress(ToolDefinitionError, PackError):  # reported elsewhere
        for _, message, hint in _unknown_fleet_tools(settings, all_tools(settings)):
            yield DoctorFinding(subject, "fault", message, hint)


def _notice_findings(name: str, rule: NoticeRule) -> Iterator[DoctorFinding]:
    """Yield why a rule could tell nobody; what it tells, and whether it is taken, is not tried."""
    from wavewright.engine.service.notices.senders import NoticeNotSent, with_variables

    if rule.apprise is not None and not is_installed("notify"):
        message = f"rule {name!r}: the extra 'notify' is not installed"
        yield DoctorFinding("notify", "fault", message, install_hint("notify"))
    for address in (rule.webhook, rule.apprise, rule.mail and rule.mail.server):
        try:
            with_variables(address or "")
        except NoticeNotSent as error:
            yield DoctorFinding(
                "notify", "fault", f"rule {name!r}: {error.message}", error.hint or ""
            )


def _receipt_findings(private_key: Path | None, public_key: Path | None) -> Iterator[DoctorFinding]:
    if not is_installed("receipts"):
        hint = install_hint("receipts")
        yield DoctorFinding("receipts", "fault", "the extra 'receipts' is not installed", hint)
        return
    from wavewright.engine.run.signatures import read_private_key, read_public_key

    for read, file in ((read_private_key, private_key), (read_public_key, public_key)):
        try:
            if file is not None:
                read(file)
        except ReceiptError as error:
            yield DoctorFinding.of_error("receipts", error)


def schedule_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Yield the schedules of the settings that begin nothing."""
    for _, message in _faulty_schedules(settings):
        yield DoctorFinding(
            "schedule", "fault", message, "see it with: wavewright check wavewright.yaml"
        )


def _faulty_schedules(settings: Settings) -> Iterator[tuple[str, str]]:
    """Yield the name of each schedule that begins nothing, and why."""
    for schedule in schedules_of_settings(settings):
        if schedule.fault:
            yield schedule.name, f"schedule {schedule.name!r} begins nothing: {schedule.fault}"


def check_worker(document: Document, settings: Settings) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a worker's file, including its prompt."""
    try:
        spec = read_as_model(document, WorkerSpec)
    except DocumentError as error:
        return diagnostics_of(error)
    return tuple(locate_diagnostics(_worker_diagnostics(spec, settings), document))


def check_agent(document: Document, settings: Settings) -> tuple[Diagnostic, ...]:
    """Return the diagnostics of a named agent's file, including its tools and its prompt."""
    try:
        spec = read_as_model(document, AgentSpec)
    except DocumentError as error:
        return diagnostics_of(error)
    try:
        open_sources(packs_of_project(settings), settings, make_services(settings)).check_agent(
            spec
        )
    except (ToolDefinitionError, PackError) as error:
        return tuple(locate_diagnostics([Diagnostic("E107", str(error), "", error.hint)], document))
    return ()


def _worker_diagnostics(spec: WorkerSpec, settings: Settings) -> Iterator[Diagnostic]:
    worker = Worker(spec)
    try:
        make_worker(worker, make_services(settings))
    except ToolDefinitionError as error:
        yield Diagnostic("E107", str(error), "", error.hint)
        return
    defect = find_prompt_defect(spec.prompt, project_prompts(settings.prompts), (worker,))
    if defect is not None:
        yield Diagnostic(
            "E207",
            f"the prompt cannot be rendered: {defect.place}: {defect.message}",
            "/prompt",
            defect.hint,
        )


def _valid_workers(settings: Settings) -> Iterator[Worker]:
    """Yield the valid workers of the project and of the packs; faulty ones are reported elsewhere."""
    with suppress(ToolDefinitionError):
        yield from load_workers(settings.workers)
    for name in pack_names():
        own = settings.packs.get(name)
        with suppress(ToolDefinitionError, PackError):
            yield from load_pack(name, as_object(own), settings.root).workers


def prompt_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Yield the findings on the project's own prompt templates."""
    shipped = set(project_prompts().names())
    own = project_prompts(settings.prompts)
    names = [name for name in own.names() if _is_project_file(own.file_of(name), settings)]
    if not names:
        return
    workers = tuple(_valid_workers(settings))
    used = shipped | {worker.spec.prompt for worker in workers}
    with suppress(ToolDefinitionError):
        used |= {spec.prompt for spec in own_agents(settings).values()}
    faults = {name: _prompt_finding(name, own, workers) for name in names}
    yield from dict.fromkeys(defect for defect in faults.values() if defect is not None)
    valid = [name for name, defect in faults.items() if defect is None]
    if replacing := [name for name in valid if name in used]:
        yield DoctorFinding("prompts", "ok", f"{', '.join(replacing)} of this project")
    for name in valid:
        if name not in used:
            hint = (
                did_you_mean(name, shipped)
                or "it is unused unless a worker or another template names it"
            )
            yield DoctorFinding(
                "prompts", "note", f"{own.file_of(name)} replaces no shipped prompt", hint
            )


def faulty_prompts(
    settings: Settings, called: Collection[str] | None, *, is_planned: bool
) -> Iterator[tuple[Source, tuple[Diagnostic, ...]]]:
    """Yield the project's own templates that have faults, each with its text and its diagnostics.

    Args:
        settings: Of the project.
        called: The tools that a run which a model has yet to plan may call; None for all templates
            of the project, whatever a run renders.
        is_planned: Whether the run has a plan already.
    """
    own = project_prompts(settings.prompts)
    names = [name for name in own.names() if _is_project_file(own.file_of(name), settings)]
    if not names:
        return
    workers, agents = tuple(_valid_workers(settings)), dict[Path, AgentSpec]()
    with suppress(ToolDefinitionError):
        agents = own_agents(settings)
    if called is not None:
        specs: list[PromptedSpec] = [worker.spec for worker in workers]
        specs += agents.values()
        names = [*used_prompts(names, specs, called, is_planned=is_planned)]
    found = dict[Path, dict[PromptDefect, None]]()
    for name in names:
        for defect in find_prompt_defects(name, own, workers, agents.values()):
            found.setdefault(defect.file, {})[defect] = None
    for file, defects in sorted(found.items()):
        source = _source_of(file)
        yield source, tuple(_prompt_diagnostic(defect, source) for defect in defects)


def _source_of(file: Path) -> Source:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        text = ""
    return Source(str(file), text)


def _prompt_diagnostic(defect: PromptDefect, source: Source) -> Diagnostic:
    """Return a fault of a template, with the line that it is on as its place."""
    lines = source.text.splitlines(keepends=True)
    span = None
    if defect.line is not None and defect.line <= len(lines):
        start, line = sum(map(len, lines[: defect.line - 1])), lines[defect.line - 1]
        indent = len(line) - len(line.lstrip())
        span = Span(start + indent, start + max(indent + 1, len(line.rstrip())))
    message = f"the prompt cannot be rendered: {defect.message}"
    return Diagnostic("E207", message, "", defect.hint, span)


def ladder_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Yield the findings on the project's own ladders."""
    try:
        read_ladders(settings.ladders, settings.document)
    except DocumentError as error:
        yield DoctorFinding.of_error("ladders", error, "fix `ladders` in wavewright.yaml")
        return
    if settings.ladders:
        yield DoctorFinding(
            "ladders", "ok", f"{', '.join(sorted(settings.ladders))} of this project"
        )


def calibration_findings(settings: Settings) -> Iterator[DoctorFinding]:
    """Yield the findings on the calibration of judges, if the settings name one."""
    if settings.calibration is None:
        return
    try:
        calibration = read_calibration(settings.calibration)
    except (DocumentError, PlanError) as error:
        hint = "fix the file, or remove models.calibration from the settings; judge gates then only warn"
        yield DoctorFinding.of_error("calibration", error, hint)
        return
    detail = f"{settings.calibration} ({counted(len(calibration.gates), 'measurement')})"
    yield DoctorFinding("calibration", "ok", detail)


def _is_project_file(file: Path | None, settings: Settings) -> bool:
    """Whether a template is in the project's folders of prompts, and not beside the code of a
    package that lies there, as in the repository of wavewright.
    """
    return file is not None and any(
        file.is_relative_to(folder) and not _is_in_package(file, folder)
        for folder in settings.prompts
    )


def _is_in_package(file: Path, below: Path) -> bool:
    parents = (parent for parent in file.parents if parent.is_relative_to(below))
    return any((parent / "__init__.py").is_file() for parent in parents)


def _prompt_finding(name: str, own: Prompts, workers: tuple[Worker, ...]) -> DoctorFinding | None:
    if (fault := find_prompt_defect(name, own, workers)) is None:
        return None
    return DoctorFinding("prompts", "fault", f"{fault.place}: {fault.message}", fault.hint)
