"""What `wavewright doctor` finds out about a project's own prompts, ladders and model workers.

A template that replaces nothing is never used, and one that cannot be read fails only when a model is to be asked:
both are told here.
"""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from wavewright.config.documents import DocumentError
from wavewright.engine.cli.findings import Finding, finding_of_faulty_file
from wavewright.planner.ladders import read_ladders
from wavewright.prompts import Prompts
from wavewright.tools.functions import ToolDefinitionError

if TYPE_CHECKING:
    from wavewright.config.settings import Settings


def _of_workers(settings: Settings) -> set[str]:
    """Return the prompts that the project's workers name; none where a worker is faulty, which is told elsewhere."""
    from wavewright.tools.workers.files import load_workers

    try:
        return {worker.spec.prompt for worker in load_workers(settings.workers)}
    except ToolDefinitionError:
        return set()


def prompt_findings(settings: Settings) -> Iterator[Finding]:
    """Yield what is to be said of the project's own prompt templates; nothing where it has none."""
    shipped = set(Prompts().names())
    used = shipped | _of_workers(settings)
    own = Prompts(settings.prompts)
    names = [name for name in own.names() if _is_own(own.file_of(name), settings)]
    faulty = [found for name in names if (found := _fault(own.file_of(name))) is not None]
    yield from faulty
    sound = [name for name in names if not any(str(own.file_of(name)) in found.detail for found in faulty)]
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
