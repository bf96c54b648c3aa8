"""What `wavewright check` finds in settings files and in files of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config.documents import Document, DocumentError
from wavewright.config.settings import read_settings
from wavewright.config.shape import read_as_model
from wavewright.planner.diagnostics import Diagnostic, diagnostic_from_fault, locate_diagnostics
from wavewright.tools.functions import ToolDefinitionError
from wavewright.tools.packs import PackError

if TYPE_CHECKING:
    from wavewright.config.settings import Settings
    from wavewright.tools.workers.specs import WorkerSpec


def check_settings(document: Document, load: Callable[[], Settings]) -> tuple[Diagnostic, ...]:
    """Return what is wrong with a settings file.

    `load` gives the settings of the project: where the file is theirs, its tools are imported as well.
    """
    try:
        read_settings(document)
    except DocumentError as error:
        return tuple(diagnostic_from_fault(fault) for fault in error.faults)
    settings = load()
    if settings.file is None or settings.file != Path(document.source.name).absolute():
        return ()
    return tuple(locate_diagnostics(_settings_diagnostics(settings), document))


def _settings_diagnostics(settings: Settings) -> Iterator[Diagnostic]:
    from wavewright.engine.toolbox import all_tools
    from wavewright.planner.ladders import read_ladders

    try:
        all_tools(settings)
    except ToolDefinitionError as error:
        yield Diagnostic("E107", str(error), "/tools", error.hint)
    except PackError as error:
        yield Diagnostic("E107", str(error), "/packs", error.hint)
    try:
        read_ladders(settings.ladders, settings.document)
    except DocumentError as error:
        yield from (diagnostic_from_fault(fault) for fault in error.faults)


def check_worker(document: Document, settings: Settings) -> tuple[Diagnostic, ...]:
    """Return what is wrong with the file of a worker, its prompt included."""
    from wavewright.tools.workers.specs import WorkerSpec

    try:
        spec = read_as_model(document, WorkerSpec)
    except DocumentError as error:
        return tuple(diagnostic_from_fault(fault) for fault in error.faults)
    return tuple(locate_diagnostics(_worker_diagnostics(spec, settings), document))


def _worker_diagnostics(spec: WorkerSpec, settings: Settings) -> Iterator[Diagnostic]:
    from wavewright.engine.prompt_faults import find_prompt_defect
    from wavewright.prompts import Prompts
    from wavewright.tools.workers.making import make_worker
    from wavewright.tools.workers.services import make_services
    from wavewright.tools.workers.specs import Worker

    worker = Worker(spec)
    try:
        make_worker(worker, make_services(settings))
    except ToolDefinitionError as error:
        yield Diagnostic("E107", str(error), "", error.hint)
        return
    found = find_prompt_defect(spec.prompt, Prompts(settings.prompts), (worker,))
    if found is not None:
        yield Diagnostic(
            "E207", f"the prompt cannot be rendered: {found.place}: {found.message}", "/prompt", found.hint
        )
