"""What `wavewright doctor` finds out about a project's own prompts and ladders, and its calibration of judges.

A template that replaces nothing is never used, and one that cannot be read, or that names a value which its prompt is
not given, fails only when a model is to be asked: all are told here. Templates are tried with typical values; a value
of the wrong kind is no fault, for it may be the typical one that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config.documents import DocumentError
from wavewright.engine.cli.findings import Finding, finding_of_faulty_file
from wavewright.planner.diagnostics import PlanError
from wavewright.planner.ladders import read_ladders
from wavewright.prompts import PromptError, Prompts
from wavewright.tools.functions import ToolDefinitionError
from wavewright.tools.packs import PackError, load_pack, pack_names

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.tools.workers.specs import Worker


def _workers(settings: Settings) -> Iterator[Worker]:
    """Yield the workers of the project and of the packs, but for faulty ones, which are told elsewhere."""
    from wavewright.tools.workers.files import load_workers

    with suppress(ToolDefinitionError):
        yield from load_workers(settings.workers)
    for name in pack_names():
        given = settings.packs.get(name)
        with suppress(ToolDefinitionError, PackError):
            yield from load_pack(name, given if isinstance(given, dict) else {}, settings.root).workers


def prompt_findings(settings: Settings) -> Iterator[Finding]:
    """Yield what is to be said of the project's own prompt templates; nothing where it has none."""
    shipped = set(Prompts().names())
    own = Prompts(settings.prompts)
    names = [name for name in own.names() if _is_own(own.file_of(name), settings)]
    if not names:
        return
    workers = tuple(_workers(settings))
    used = shipped | {worker.spec.prompt for worker in workers}
    faults = {name: _fault(own.file_of(name)) or _misfit(name, own, workers) for name in names}
    yield from dict.fromkeys(found for found in faults.values() if found is not None)
    sound = [name for name, found in faults.items() if found is None]
    if replacing := [name for name in sound if name in used]:
        yield Finding("prompts", "ok", f"{', '.join(replacing)} of this project's own")
    for name in sound:
        if name not in used:
            near = get_close_matches(name, shipped, n=1)
            mend = f"did you mean {near[0]!r}?" if near else "workers and other templates may still use it"
            yield Finding("prompts", "note", f"{own.file_of(name)} replaces no shipped prompt", mend)


def ladder_findings(settings: Settings) -> Iterator[Finding]:
    """Yield what is to be said of the project's own ladders; nothing where it has none."""
    try:
        read_ladders(settings.ladders, settings.document)
    except DocumentError as error:
        yield finding_of_faulty_file("ladders", error, "mend `ladders` in wavewright.yaml")
        return
    if settings.ladders:
        yield Finding("ladders", "ok", f"{', '.join(sorted(settings.ladders))} of this project's own")


def calibration_findings(settings: Settings) -> Iterator[Finding]:
    """Yield what is to be said of the measured judges; nothing where the settings name no calibration."""
    if settings.calibration is None:
        return
    from wavewright.reviewer.calibration import read_calibration

    try:
        calibration = read_calibration(settings.calibration)
    except (DocumentError, PlanError) as error:
        mend = "mend the file, or take models.calibration out of the settings: judge gates only warn then"
        yield finding_of_faulty_file("calibration", error, mend)
        return
    count = len(calibration.gates)
    told = f"{settings.calibration} ({count} measurement{'' if count == 1 else 's'})"
    yield Finding("calibration", "ok", told)


def _is_own(file: Path | None, settings: Settings) -> bool:
    return file is not None and any(file.is_relative_to(folder) for folder in settings.prompts)


def _fault(file: Path | None) -> Finding | None:
    from jinja2 import Environment, TemplateSyntaxError

    assert file is not None
    try:
        Environment(autoescape=False).parse(file.read_text(encoding="utf-8"))  # noqa: S701 - only read, never rendered
    except TemplateSyntaxError as error:
        mend = "mend the template's syntax (Jinja2)"
        return Finding("prompts", "fault", f"{file}:{error.lineno}: {error.message}", mend)
    except (OSError, UnicodeDecodeError) as error:
        return Finding("prompts", "fault", f"{file}: {error}", "write the template as UTF-8 text")
    return None


def _misfit(name: str, own: Prompts, workers: tuple[Worker, ...]) -> Finding | None:
    """Return what keeps a template from being rendered, whatever its prompt is given."""
    from jinja2 import TemplateError

    from wavewright.engine.cli.prompt_contexts import contexts_of

    for context in contexts_of(name, workers):
        try:
            own.render(name, **context)
        except PromptError as error:
            if not isinstance(error.__cause__, TemplateError):
                continue
            file = error.file or own.file_of(name)
            place = f"{file}:{error.line}" if error.line is not None else f"{file}"
            return Finding("prompts", "fault", f"{place}: {error.message}", error.hint)
    return None
