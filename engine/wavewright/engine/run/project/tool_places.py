"""Where a tool of a project is defined: its function, its worker's file, or its entry in the lock."""

from __future__ import annotations

from pathlib import Path

from wavewright.config import Settings
from wavewright.tools import Registry
from wavewright.tools.functions.places import CodePlace, place_in_code


def tool_place(
    name: str, tools: Registry, settings: Settings, parameter: str | None = None
) -> CodePlace | None:
    """Return where a tool is defined, of a function its parameter where that is found there; None
    of a tool that the project does not have, or whose function has no file.
    """
    tool = tools.get(name)
    if tool is None:
        return None
    if callable(tool.function):
        return place_in_code(tool.function, parameter)
    for folder in settings.workers:
        for worker in (folder / f"{name}.yaml", folder):
            if worker.is_file() and name in worker.read_text(encoding="utf-8"):
                return CodePlace(worker.resolve(), 0)
    return _words_place(settings.root / "tools.lock.json", f'"{name.rpartition(".")[2]}"')


def _words_place(file: Path, words: str) -> CodePlace | None:
    lines = file.read_text(encoding="utf-8").split("\n") if file.is_file() else []
    for number, line in enumerate(lines):
        start = line.find(words)
        if start >= 0:
            return CodePlace(file, number, start, start + len(words))
    return None
