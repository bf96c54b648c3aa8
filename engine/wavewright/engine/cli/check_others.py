"""What `wavewright check` finds in settings files and in files of workers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config.documents import Document, DocumentError
from wavewright.config.settings import read_settings
from wavewright.config.shape import read_shape
from wavewright.planner.diagnostics import Diagnostic, diagnostic_of, place
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
        return tuple(diagnostic_of(fault) for fault in error.faults)
    settings = load()
    if settings.file is None or settings.file != Path(document.source.name).absolute():
        return ()
    return tuple(place(_project_faults(settings), document))


def _project_faults(settings: Settings) -> Iterator[Diagnostic]:
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
        yield from (diagnostic_of(fault) for fault in error.faults)


def check_worker(document: Document, settings: Settings) -> tuple[Diagnostic, ...]:
    """Return what is wrong with the file of a worker, its prompt included."""
    from wavewright.tools.workers.specs import WorkerSpec

    try:
        spec = read_shape(document, WorkerSpec)
    except DocumentError as error:
        return tuple(diagnostic_of(fault) for fault in error.faults)
    return tuple(place(_worker_faults(spec, settings), document))


def _worker_faults(spec: WorkerSpec, settings: Settings) -> Iterator[Diagnostic]:
    from wavewright.engine.prompt_faults import prompt_fault
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
    found = prompt_fault(spec.prompt, Prompts(settings.prompts), (worker,))
    if found is not None:
        yield Diagnostic(
            "E207", f"the prompt cannot be rendered: {found.place}: {found.message}", "/prompt", found.hint
        )
