"""`wavewright doctor`: check the installation and the project, and show how to fix what fails.

Each model that a role would ask is asked one short question with a short timeout. The cost is
charged to the day's budget in the journal, if there is one. Keys are never shown.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final, get_args

import anyio

from wavewright.config import (
    DocumentError,
    Settings,
    exit_codes,
    install_hint,
    is_installed,
    read_document_file,
)
from wavewright.config.installation import EXTRAS
from wavewright.config.sections import BudgetSettings
from wavewright.engine.interfaces.cli.common.arguments import (
    has_journal,
    open_journal,
    project_settings,
)
from wavewright.engine.interfaces.cli.common.output import print_json, without_secrets
from wavewright.engine.interfaces.cli.common.run_text import amount_words, one_line
from wavewright.engine.interfaces.cli.project.project_checks import (
    DoctorFinding,
    calibration_findings,
    ladder_findings,
    prompt_findings,
    schedule_findings,
    service_findings,
)
from wavewright.engine.run.project.sound_part import sound_part
from wavewright.engine.run.project.templates import template_names
from wavewright.engine.run.project.tools import all_tools
from wavewright.engine.run.project.used_packs import PackUse, pack_use
from wavewright.engine.run.version import __version__
from wavewright.executor import JournalError, MemoryBudgetStore, budget_store_of
from wavewright.executor.stores import place_of_journal
from wavewright.planner import GoalTemplate, PlanError
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.ports.budgets import (
    Allowance,
    BudgetScope,
    InspectableBudgetStore,
    RemainingBudget,
)
from wavewright.planner.ports.model_port import (
    ModelCall,
    ModelClient,
    ModelError,
    ModelErrorKind,
    ModelUse,
    Role,
)
from wavewright.planner.reading.reader import read_model
from wavewright.reviewer.package.call_reports import sum_costs, usd_text
from wavewright.tools import PackError, ToolDefinitionError
from wavewright.tools.mcp.lock import LOCK_NAME, read_lock, unlocked_server_error
from wavewright.tools.models import (
    ModelConfigError,
    check_models,
    choose_model,
    model_configured,
    open_models,
    output_mode_of,
)
from wavewright.tools.models.endpoints import check_names

if TYPE_CHECKING:
    from wavewright.tools.models.messages import OutputMode


_TIMEOUT_SECONDS = 20.0
"""Timeout of one question, including its retries."""
_MAX_TOKENS = 512
"""Token limit of one answer: enough for a model that thinks before it answers."""
_QUESTION = "Answer with the one word: ready"
_HINTS: dict[ModelErrorKind, str] = {
    "unreachable": "check the address and whether a server answers there, or set models.fallbacks",
    "overloaded": "try again later, or set models.fallbacks",
    "denied": "check that the key is right and may use this model",
    "refused": "name another model",
    "bad_answer": "check that the address implements the provider's API, or name another model",
    "timeout": "try again later, or set models.fallbacks",
    "over_budget": "raise the budget in wavewright.yaml",
    "over_context": "name a model with a larger context window",
}
"""Hints for errors without a hint of their own."""


@dataclass(slots=True)
class _ProbedModel:
    """A model, with the roles that ask it for the same reason."""

    model: str
    why: str
    fallbacks: tuple[str, ...]
    roles: list[Role] = field(default_factory=list[Role])


def examine(*, output_format: str, is_offline: bool, examines_model: bool = False) -> int:
    """Print the findings and return the exit code: 1 if there is a fault.

    Unless `is_offline`, each configured language model is asked one short question, and the broker
    is checked for the daemon's access. `examines_model` asks the planner's model three questions
    instead of all that, and says what it is good for.
    """
    found_by = _model_examination() if examines_model else _findings(is_offline=is_offline)
    findings = [_redacted(finding) for finding in found_by]
    if output_format == "json":
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            hint = f"\n{'':<18}= help: {finding.hint}" if finding.hint else ""
            sys.stdout.write(f"{finding.state:<6}{finding.subject:<12}{finding.detail}{hint}\n")
    return (
        exit_codes.NEGATIVE
        if any(finding.state == "fault" for finding in findings)
        else exit_codes.OK
    )


def _model_examination() -> Iterator[DoctorFinding]:
    # Only `--model` loads the planner.
    from wavewright.engine.interfaces.cli.project.model_examination import examine_model

    try:
        settings = project_settings()
        check_models(settings)
        choose_model(settings, "auto", "planner", os.environ)
        yield from anyio.run(examine_model, replace(settings, cassette=None))
    except (DocumentError, PlanError, PackError) as error:
        yield DoctorFinding.of_error("settings", error, "fix the file")
    except ModelConfigError as error:
        yield DoctorFinding.of_error("model", error)


def _redacted(found: DoctorFinding) -> DoctorFinding:
    """Return a finding without secrets: details quote settings and messages of providers."""
    return replace(found, detail=without_secrets(found.detail), hint=without_secrets(found.hint))


def _findings(*, is_offline: bool) -> Iterator[DoctorFinding]:
    yield DoctorFinding(
        "version", "ok", f"wavewright {__version__}, Python {platform.python_version()}"
    )
    try:
        settings = project_settings()
    except (DocumentError, PlanError, PackError) as error:
        mend = "fix the file; `wavewright schema settings` prints its schema"
        yield DoctorFinding.of_error("settings", error, mend)
        return
    origin = (
        str(settings.file)
        if settings.file is not None
        else "defaults (no wavewright.yaml here or above)"
    )
    yield DoctorFinding("settings", "ok", origin)
    if settings.journal_url is not None and not is_installed("postgres"):
        yield DoctorFinding(
            "journal", "fault", "the extra 'postgres' is not installed", install_hint("postgres")
        )
        return
    yield _journal(settings)
    sound, faults = sound_part(settings)
    packs = pack_use(sound)
    yield _tools(sound, packs)
    for fault in faults:
        yield DoctorFinding.of_error("tools", fault)
    yield from _mcp_servers(settings)
    yield _packs(packs)
    yield from _templates(settings, packs)
    yield from _extras()
    yield from prompt_findings(settings)
    yield from ladder_findings(settings)
    yield from calibration_findings(settings)
    yield from schedule_findings(settings)
    yield from service_findings(settings)
    yield from _broker_findings(settings, is_offline=is_offline)
    yield from model_findings(settings, is_offline=is_offline)


def _broker_findings(settings: Settings, *, is_offline: bool) -> Iterator[DoctorFinding]:
    """Yield the findings on the broker, if the settings name one."""
    section = settings.daemon
    url = section.amqp_url
    if url is None:
        return
    if not is_installed("daemon"):
        yield DoctorFinding(
            "broker", "fault", "the extra 'daemon' is not installed", install_hint("daemon")
        )
        return
    # Most projects have no broker; its client is an extra, and takes a third of a second to load.
    from wavewright.engine.interfaces.cli.project.broker_check import access_findings

    yield from access_findings(section, url, is_offline=is_offline)


def _journal(settings: Settings) -> DoctorFinding:
    if settings.journal_url is None and (fault := _fault_of_folder(settings.journal)) is not None:
        return fault
    if not has_journal(settings):
        detail = f"{settings.journal} (none yet; the first run creates it)"
        return DoctorFinding("journal", "ok", detail)
    try:
        count, pooled = anyio.run(_look_into_journal, settings)
    except JournalError as error:
        error.place = error.place or place_of_journal(settings)
        return DoctorFinding.of_error("journal", error)
    detail = f"{place_of_journal(settings)} ({counted(count, 'run')})"
    if not pooled:
        return DoctorFinding("journal", "ok", detail)
    detail = f"{detail}, through a connection pooler: no prepared statements are used"
    if settings.fleet is None:
        return DoctorFinding("journal", "ok", detail)
    return DoctorFinding(
        "journal",
        "note",
        detail,
        "fleet workers listen, which a pooler allows in sessions alone: `pool_mode = session`, or"
        " the server's own address",
    )


def _fault_of_folder(journal: Path) -> DoctorFinding | None:
    """Return why a run could not write its events into a file; None where it could."""
    existing = next(place for place in journal.parents if place.exists())
    hint = "set 'state_dir' in wavewright.yaml, or WAVEWRIGHT_STATE, to a folder that can be written to"
    if not existing.is_dir():
        reason = "no folder"
    elif not os.access(existing, os.W_OK | os.X_OK):
        reason = "read-only"
    else:
        try:
            # Whether a disk is full is seen by writing alone; the file has no name.
            with TemporaryFile(dir=existing) as file:
                file.write(bytes(_BYTES_OF_RUN))
        except OSError as error:
            reason, hint = f"not writable: {error.strerror}", "make room there"
        else:
            return None
    return DoctorFinding(
        "journal", "fault", f"{journal} cannot be written: {existing} is {reason}", hint
    )


_BYTES_OF_RUN: Final = 1 << 16
"""That a small run adds to the journal."""


async def _look_into_journal(settings: Settings) -> tuple[int, bool]:
    """Return how many runs there are, and whether they are behind a connection pooler.

    Raises:
        JournalError: the journal cannot be opened, or not be written.
    """
    async with open_journal(settings) as journal:
        await journal.check_writable()
        return len(await journal.list_runs()), await journal.is_pooled()


def _tools(sound: Settings, packs: PackUse) -> DoctorFinding:
    """Return the tools of the sound part of a project."""
    try:
        registry = all_tools(sound)
    except (ToolDefinitionError, PackError) as error:
        return DoctorFinding.of_error("tools", error)
    hidden = packs.tools_of_unused()
    shown = sorted(name for name in registry if name not in hidden)
    return DoctorFinding("tools", "ok", ", ".join(shown) or "none")


def _packs(packs: PackUse) -> DoctorFinding:
    beside = f" (also installed: {', '.join(packs.unused)})" if packs.unused else ""
    return DoctorFinding("packs", "ok", f"{', '.join(packs.used) or 'none used'}{beside}")


def _mcp_servers(settings: Settings) -> Iterator[DoctorFinding]:
    """Compare the servers of the settings with the lock; starts no server."""
    if not settings.mcp.servers:
        return
    try:
        locked = read_lock(settings.root).servers
    except ToolDefinitionError as error:
        yield DoctorFinding.of_error("mcp", error)
        return
    for name, section in settings.mcp.servers.items():
        if name not in locked:
            yield DoctorFinding.of_error("mcp", unlocked_server_error(name))
            continue
        server = locked[name]
        missing = sorted(set(section.tools or ()) - server.hashes.keys())
        if missing:
            detail = f"{name}: {', '.join(missing)} is not in {LOCK_NAME}"
            hint = f"fix mcp.servers.{name}.tools, or run `wavewright tools --lock`"
            yield DoctorFinding("mcp", "fault", detail, hint)
        for tool, left_out in server.left_out.items():
            yield DoctorFinding("mcp", "note", f"{name}.{tool} is left out: {left_out.reason}")
        about = f"{name}: {counted(len(server.tools), 'tool')} of {server.name} {server.version}"
        yield DoctorFinding("mcp", "ok", about.rstrip())


def _templates(settings: Settings, packs: PackUse) -> Iterator[DoctorFinding]:
    """Read every goal template of the project; a faulty one otherwise fails only the jobs that name
    it.
    """
    faulty: set[str] = set()
    for path in sorted(
        path for folder in settings.templates if folder.is_dir() for path in folder.glob("*.yaml")
    ):
        try:
            read_model(read_document_file(path), GoalTemplate)
        except (DocumentError, PlanError) as error:
            faulty.add(path.stem)
            mend = "fix the file; `wavewright schema goal` prints its schema"
            yield DoctorFinding.of_error("templates", error, mend)
    left_out = faulty | packs.templates_of_unused()
    if valid := [name for name in template_names(settings) if name not in left_out]:
        yield DoctorFinding("templates", "ok", ", ".join(valid))


def _extras() -> Iterator[DoctorFinding]:
    for name, extra in EXTRAS.items():
        if is_installed(name):
            yield DoctorFinding("extra", "ok", f"{name}: {extra.purpose}")
        else:
            yield DoctorFinding(
                "extra", "note", f"{name} is not installed: {extra.purpose}", install_hint(name)
            )


def model_findings(settings: Settings, *, is_offline: bool) -> Iterator[DoctorFinding]:
    """Yield the configured models and, unless offline, whether they answer."""
    try:
        check_names(settings)
    except ModelConfigError as error:
        yield DoctorFinding.of_error("model", error)
        return
    if not model_configured(settings):
        yield DoctorFinding(
            "model",
            "note",
            "none configured: plans come from jobs and goal templates, reviews from code",
        )
        return
    try:
        check_models(settings)
        chosen = _choices(settings, os.environ)
    except ModelConfigError as error:
        yield DoctorFinding.of_error("model", error)
        return
    for choice in chosen:
        yield DoctorFinding("model", "ok", _choice_words(choice))
    replays = settings.cassette is not None and settings.cassette_mode == "replay"
    if settings.cassette is not None:
        yield anyio.run(_cassette, settings)
    try:
        answers, left = anyio.run(_probe, settings, () if is_offline or replays else chosen)
    except (ModelConfigError, JournalError) as error:
        yield DoctorFinding("model", "fault", str(error), error.hint or "")
        return
    yield from answers
    yield _budget_findings(settings, left)


def _choices(settings: Settings, environment: Mapping[str, str]) -> list[_ProbedModel]:
    """Return the models of all roles; roles that ask the same model for the same reason are
    grouped.
    """
    probed: dict[tuple[str, str], _ProbedModel] = {}
    roles: tuple[Role, ...] = get_args(Role)
    for role in roles:
        choice = choose_model(settings, "auto", role, environment)
        place = (choice.model, choice.why)
        probed.setdefault(
            place, _ProbedModel(choice.model, choice.why, choice.fallbacks)
        ).roles.append(role)
    return list(probed.values())


def _choice_words(choice: _ProbedModel) -> str:
    fallbacks = f", then {', then '.join(choice.fallbacks)}" if choice.fallbacks else ""
    is_for_all = len(choice.roles) == len(get_args(Role))
    roles = "every role" if is_for_all else ", ".join(choice.roles)
    return one_line(f"{choice.model}{fallbacks} for {roles}: {choice.why}")


async def _cassette(settings: Settings) -> DoctorFinding:
    """Return whether a run could open the cassette."""
    try:
        async with open_models(settings, MemoryBudgetStore()):
            pass
    except ModelConfigError as error:  # names and keys were checked before
        return DoctorFinding.of_error("cassette", error)
    if settings.cassette_mode == "record":
        return DoctorFinding(
            "cassette", "note", f"{settings.cassette}: missing answers are asked and recorded"
        )
    return DoctorFinding(
        "cassette", "note", f"answers are replayed from {settings.cassette}; no model is asked"
    )


async def _probe(
    settings: Settings, chosen: Iterable[_ProbedModel]
) -> tuple[list[DoctorFinding], Allowance]:
    """Ask each model once; return the answers, and the budget that is left afterwards.

    Raises:
        ModelConfigError: the models are not configured correctly.
        JournalError: the journal, which keeps the budgets, cannot be used.
    """
    async with AsyncExitStack() as stack:
        budget_store = await stack.enter_async_context(_budget_store(settings))
        answers: list[DoctorFinding] = []
        asked: dict[str, Role] = {
            choice.model: choice.roles[0] for choice in reversed(list(chosen))
        }
        if asked:
            # Without the cassette, which does not record this question.
            live = replace(settings, cassette=None)
            models = await stack.enter_async_context(open_models(live, budget_store))
            for model in reversed(asked):
                answers.append(await _probe_model(models, model, asked[model]))
                if answers[-1].state != "fault":
                    answers += await _form_findings(models, model)
        return answers, await budget_store.left(BudgetScope())


def _budget_store(settings: Settings) -> AbstractAsyncContextManager[InspectableBudgetStore]:
    """Return the project's budget store; without a journal, an empty one in memory."""
    if has_journal(settings):
        return budget_store_of(settings)
    return MemoryBudgetStore(settings.budgets)


async def _probe_model(models: ModelClient, model: str, role: Role) -> DoctorFinding:
    """Ask a model a short question and return the finding."""
    uses: list[ModelUse] = []
    call = ModelCall(
        role=role,
        name="doctor",
        instructions="You are asked whether you can be reached.",
        prompt=_QUESTION,
        thinking="minimal",
        max_tokens=_MAX_TOKENS,
        timeout=_TIMEOUT_SECONDS,
    )
    try:
        answer = await models.ask(call, on_use=uses.append)
    except ModelError as error:
        return DoctorFinding(
            "answer",
            "fault",
            f"{model} gave no answer: {one_line(str(error))}",
            error.hint or _HINTS[error.kind],
        )
    spent = amount_words(sum_costs(uses))
    by = answer.use.model if answer.use.model != model else ""
    instead = f" (a fallback: {model} gave no answer)" if by else ""
    detail = f"{by or model} answered in {answer.use.seconds:.2f} s{instead}, {spent}"
    name = (by or model).partition(":")[2]
    hint = f"set models.prices.{name} in wavewright.yaml" if sum_costs(uses).unpriced else ""
    return DoctorFinding("answer", "note" if by else "ok", detail, hint)


_MODE_WORDS: dict[OutputMode, str] = {
    "native": "response_format holds it to a JSON Schema",
    "tool": "by a tool; response_format does not hold it to a JSON Schema",
    "prompted": "in words alone: neither response_format nor a tool holds it to a JSON Schema",
}


async def _form_findings(models: ModelClient, model: str) -> list[DoctorFinding]:
    """Return how a server that is not its provider's own is asked for typed answers."""
    mode = await output_mode_of(models, model)
    if mode is None:
        return []
    detail = f"{model} is asked for typed answers: {_MODE_WORDS[mode]}"
    return [DoctorFinding("form", "ok" if mode == "native" else "note", detail)]


def _budget_findings(settings: Settings, left: Allowance) -> DoctorFinding:
    scopes = (
        ("run", settings.budgets.run, None),
        ("job", settings.budgets.job, None),
        ("day", settings.budgets.day, left.day),
    )
    words = [
        f"{scope}: {', '.join(_budget_bounds(budget, rest))}"
        for scope, budget, rest in scopes
        if any(value is not None for _, value in budget)
    ]
    spent = left.day.spent
    today = f"today {spent.tokens:,} tokens, {usd_text(spent.usd)}"
    if not words:
        detail = f"none: the cost of models is not limited ({today})"
        return DoctorFinding(
            "budgets", "note", detail, "set budgets.run or budgets.day in wavewright.yaml"
        )
    return DoctorFinding("budgets", "ok", "; ".join([*words, today]))


def _budget_bounds(budget: BudgetSettings, rest: RemainingBudget | None) -> Iterator[str]:
    """Yield each limit of a budget, with what is left of it if that is known."""
    bounds = (
        ("tokens", "tokens", ",.0f"),
        ("usd", "USD", ",.4f"),
        ("calls", "calls", ",.0f"),
        ("seconds", "s", ",.1f"),
    )
    for measure, unit, form in bounds:
        whole: float | None = getattr(budget, measure)
        if whole is None:
            continue
        remaining: float | None = getattr(rest, measure) if rest is not None else None
        of = f"{remaining:{form}} of " if remaining is not None else ""
        yield f"{of}{whole:{form}} {unit}{' left' if of else ''}"
