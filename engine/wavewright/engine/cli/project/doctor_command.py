"""`wavewright doctor`: check the installation and the project, and show how to fix what fails."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace

import anyio

from wavewright.config import exit_codes
from wavewright.config.documents import read_document_file
from wavewright.config.installation import EXTRAS, install_hint, is_installed
from wavewright.config.settings import Settings
from wavewright.config.sources import DocumentError
from wavewright.engine.cli.common.arguments import has_journal, open_journal, project_settings
from wavewright.engine.cli.common.output import print_json, without_secrets
from wavewright.engine.cli.project.doctor_models import model_findings
from wavewright.engine.cli.project.project_checks import (
    DoctorFinding,
    broker_findings,
    calibration_findings,
    finding_of_faulty_file,
    ladder_findings,
    prompt_findings,
)
from wavewright.engine.pipeline.version import __version__
from wavewright.engine.project.templates import template_names
from wavewright.engine.project.tools import all_tools
from wavewright.executor.store.journal import JournalError
from wavewright.executor.stores import place_of_journal
from wavewright.planner.diagnostics.diagnostic import PlanError
from wavewright.planner.diagnostics.suggestions import counted
from wavewright.planner.language.goals import GoalTemplate
from wavewright.planner.reading.reader import read_model
from wavewright.tools.functions.contracts import ToolDefinitionError
from wavewright.tools.packs import PackError, pack_names


def examine(*, output_format: str, is_offline: bool) -> int:
    """Print the findings and return the exit code: 1 if there is a fault.

    Unless `is_offline`, each configured language model is asked one short question, and the broker is checked for the
    daemon's access.
    """
    findings = [_redacted(found) for found in _findings(is_offline=is_offline)]
    if output_format == "json":
        print_json([asdict(found) for found in findings])
    else:
        for found in findings:
            hint = f"\n{'':<18}= help: {found.hint}" if found.hint else ""
            sys.stdout.write(f"{found.state:<6}{found.subject:<12}{found.detail}{hint}\n")
    return exit_codes.NEGATIVE if any(found.state == "fault" for found in findings) else exit_codes.OK


def _redacted(found: DoctorFinding) -> DoctorFinding:
    """Return a finding without secrets: details quote settings and messages of providers."""
    return replace(found, detail=without_secrets(found.detail), hint=without_secrets(found.hint))


def _findings(*, is_offline: bool) -> Iterator[DoctorFinding]:
    yield DoctorFinding("version", "ok", f"wavewright {__version__}, Python {platform.python_version()}")
    try:
        settings = project_settings()
    except (DocumentError, PlanError) as error:
        yield finding_of_faulty_file(
            "settings", error, "fix the file; `wavewright schema settings` prints its schema"
        )
        return
    origin = (
        str(settings.file) if settings.file is not None else "defaults (no wavewright.yaml here or above)"
    )
    yield DoctorFinding("settings", "ok", origin)
    if settings.journal_url is not None and not is_installed("postgres"):
        yield DoctorFinding(
            "journal", "fault", "the extra 'postgres' is not installed", install_hint("postgres")
        )
        return
    yield _journal(settings)
    yield _tools(settings)
    yield from _mcp_servers(settings)
    yield DoctorFinding("packs", "ok", ", ".join(pack_names()) or "none")
    yield from _templates(settings)
    yield from _extras()
    yield from prompt_findings(settings)
    yield from ladder_findings(settings)
    yield from calibration_findings(settings)
    yield from broker_findings(settings, is_offline=is_offline)
    yield from model_findings(settings, is_offline=is_offline)


def _journal(settings: Settings) -> DoctorFinding:
    if not has_journal(settings):
        return _place_of_journal(settings)
    try:
        count = anyio.run(_count_runs, settings)
    except JournalError as error:
        error.place = error.place or place_of_journal(settings)
        return DoctorFinding.of_error("journal", error)
    return DoctorFinding("journal", "ok", f"{place_of_journal(settings)} ({counted(count, 'run')})")


def _place_of_journal(settings: Settings) -> DoctorFinding:
    """Return whether the first run can create its journal."""
    existing = next(place for place in settings.journal.parents if place.exists())
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return DoctorFinding("journal", "ok", f"{settings.journal} (none yet; the first run creates it)")
    return DoctorFinding(
        "journal",
        "fault",
        f"{settings.journal} cannot be written: {existing} is {'read-only' if existing.is_dir() else 'no folder'}",
        "set 'state_dir' in wavewright.yaml, or WAVEWRIGHT_STATE, to a folder that can be written to",
    )


async def _count_runs(settings: Settings) -> int:
    async with open_journal(settings) as journal:
        return len(await journal.list_runs())


def _tools(settings: Settings) -> DoctorFinding:
    try:
        registry = all_tools(settings)
    except (ToolDefinitionError, PackError) as error:
        return DoctorFinding("tools", "fault", str(error), error.hint or "")
    return DoctorFinding("tools", "ok", ", ".join(sorted(registry)) or "none")


def _mcp_servers(settings: Settings) -> Iterator[DoctorFinding]:
    """Compare the servers of the settings with the lock; starts no server."""
    if not settings.mcp.servers:
        return
    from wavewright.tools.mcp.lock import LOCK_NAME, read_lock, unlocked_server_error

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


def _templates(settings: Settings) -> Iterator[DoctorFinding]:
    """Read every goal template of the project; a faulty one otherwise fails only the jobs that name it."""
    faulty: set[str] = set()
    for path in sorted(
        path for folder in settings.templates if folder.is_dir() for path in folder.glob("*.yaml")
    ):
        try:
            read_model(read_document_file(path), GoalTemplate)
        except (DocumentError, PlanError) as error:
            faulty.add(path.stem)
            yield finding_of_faulty_file(
                "templates", error, "fix the file; `wavewright schema goal` prints its schema"
            )
    if valid := [name for name in template_names(settings) if name not in faulty]:
        yield DoctorFinding("templates", "ok", ", ".join(valid))


def _extras() -> Iterator[DoctorFinding]:
    for name, extra in EXTRAS.items():
        if is_installed(name):
            yield DoctorFinding("extra", "ok", f"{name}: {extra.purpose}")
        else:
            yield DoctorFinding(
                "extra", "note", f"{name} is not installed: {extra.purpose}", install_hint(name)
            )
