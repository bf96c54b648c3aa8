"""Where an exception came from: the frames of the tool's own code, and the whole traceback as text.

Frames of the engine and of the libraries between it and a tool are left out, since nobody can fix anything there. What
is returned holds no known secret and is of bounded size.
"""

from __future__ import annotations

import os
import sysconfig
import traceback
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Final, cast

from wavewright.config.redaction import Redactor
from wavewright.executor.events import TracebackFrame
from wavewright.executor.json_values import valid_text
from wavewright.planner.rendering import cut_middle

MAX_FRAMES: Final = 4
"""Frames that an error holds."""
MAX_TRACEBACK_CHARS: Final = 16_000
_MAX_TRACED_FRAMES: Final = 40
"""Frames of one exception in the text of a traceback."""
_MAX_LINE_CHARS = 200
_MAX_REDACTED_CHARS = 16 * MAX_TRACEBACK_CHARS
_LIBRARY_FOLDERS = frozenset({"site-packages", "dist-packages"})


def last_frames(error: BaseException, redactor: Redactor) -> tuple[TracebackFrame, ...]:
    """Return the last frames of the user's own code, the innermost last.

    Where an exception passed through none of it, as in a tool that was installed with pip, those of libraries count.
    A group is followed into the first of its exceptions.
    """
    stack = [
        frame
        for one in _first_exceptions(error)
        for frame in _tool_frames(traceback.extract_tb(one.__traceback__))
    ]
    own = [frame for frame in stack if not _is_library(frame.filename)]
    shown = own or [frame for frame in stack if not _is_engine(frame.filename)]
    return tuple(_frame(frame, redactor) for frame in shown[-MAX_FRAMES:])


def traceback_text(error: BaseException, redactor: Redactor) -> str:
    """Return the traceback as Python prints it, without the frames of the engine above the tool's own."""
    whole = traceback.TracebackException.from_exception(error, limit=-_MAX_TRACED_FRAMES, compact=True)
    whole.stack = traceback.StackSummary.from_list(_tool_frames(whole.stack))
    text = "".join(whole.format()).rstrip()
    # Redacted before it is cut: half a secret is not recognised as one.
    text = valid_text(redactor.redact(cut_middle(text, _MAX_REDACTED_CHARS)))
    return cut_middle(text, MAX_TRACEBACK_CHARS)


def _first_exceptions(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and, where it is a group, the first one of each level of it."""
    yield error
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
        yield error


def _tool_frames(stack: Iterable[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Return a stack from the first frame on that is not the engine's; all of it where every frame is."""
    frames = list(stack)
    first = next((place for place, frame in enumerate(frames) if not _is_engine(frame.filename)), 0)
    return frames[first:]


def _frame(frame: traceback.FrameSummary, redactor: Redactor) -> TracebackFrame:
    code = redactor.redact((frame.line or "").strip())
    return TracebackFrame(_shown_path(frame.filename), frame.lineno or 0, frame.name, code[:_MAX_LINE_CHARS])


def _shown_path(file: str) -> str:
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):
        # The working directory was removed, or the file lies on another drive.
        return file
    return file if relative.startswith("..") else relative


def _is_engine(file: str) -> bool:
    return file.startswith(_engine_folders())


def _is_library(file: str) -> bool:
    return (
        _is_engine(file)
        or file.startswith(("<", f"{_standard_library()}{os.sep}"))
        or not _LIBRARY_FOLDERS.isdisjoint(Path(file).parts)
    )


@cache
def _engine_folders() -> tuple[str, ...]:
    """Return the folders of this package, and of the libraries that take calls into threads."""
    import anyio

    import wavewright

    folders = (
        *map(Path, wavewright.__path__),
        Path(anyio.__file__).parent,
        _standard_library() / "concurrent",
    )
    return tuple(f"{folder}{os.sep}" for folder in folders)


@cache
def _standard_library() -> Path:
    return Path(sysconfig.get_path("stdlib"))
