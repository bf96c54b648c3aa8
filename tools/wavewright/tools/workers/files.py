"""Workers that a project declares in files of its own.

A file of JSON or YAML holds one worker. Faults are told with file and line, all files are read before any tool is
made, and no two workers may have one name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from wavewright.config.documents import DocumentError, read_document_file
from wavewright.config.shape import read_as_model
from wavewright.tools.functions import ToolDefinitionError
from wavewright.tools.workers.specs import Worker, WorkerSpec

_WORKER_FILE_SUFFIXES = (".yaml", ".yml", ".json")
_MAX_FAULTS = 3
_SCHEMA_HINT = "mend the file; `wavewright schema worker` says what it may hold"


def load_workers(places: Sequence[Path]) -> tuple[Worker, ...]:
    """Return the workers of files, and of the files in folders; a folder that is not there holds none.

    Raises:
        ToolDefinitionError: a file is missing or faulty, or two have one name; names the file and the line.
    """
    found: dict[str, Path] = {}
    workers: list[Worker] = []
    for file in _worker_files(places):
        spec = read_worker_file(file)
        if spec.name in found:
            raise ToolDefinitionError(
                f"{file}: worker {spec.name!r} is declared twice",
                hint=f"the other one is in {found[spec.name]}",
            )
        found[spec.name] = file
        workers.append(Worker(spec, file=file))
    return tuple(workers)


def read_worker_file(file: Path) -> WorkerSpec:
    """Return the worker that a file declares.

    Raises:
        ToolDefinitionError: it cannot be read, or declares no sound worker; names the line.
    """
    try:
        return read_as_model(read_document_file(file), WorkerSpec)
    except DocumentError as error:
        raise ToolDefinitionError(_fault_text(error), hint=_fault_hint(error)) from error


def _fault_text(error: DocumentError) -> str:
    """Return the first faults, the first with file and line, the others with their lines."""
    shown = error.faults[:_MAX_FAULTS]
    lines = [0 if fault.span is None else error.source.position(fault.span.start)[0] for fault in shown]
    place = f"{error.source.name}:{lines[0]}" if lines[0] else error.source.name
    others = [f"line {line}: {fault.message}" for line, fault in zip(lines[1:], shown[1:], strict=True)]
    more = len(error.faults) - len(shown)
    tail = [f"and {more} more"] if more else []
    return "; ".join([f"{place}: {shown[0].message}", *others, *tail])


def _fault_hint(error: DocumentError) -> str:
    """Return the mend of a misspelt word, which is behind most faults, or else the first there is."""
    misspelt = [fault.hint for fault in error.faults if fault.kind == "unknown_field" and fault.hint]
    hints = [fault.hint for fault in error.faults if fault.hint]
    return next(iter([*misspelt, *hints]), _SCHEMA_HINT)


def _worker_files(places: Sequence[Path]) -> Iterator[Path]:
    for place in places:
        if place.suffix.lower() in _WORKER_FILE_SUFFIXES:
            yield place
        elif place.is_dir():
            yield from sorted(
                file for file in place.iterdir() if file.suffix.lower() in _WORKER_FILE_SUFFIXES
            )
