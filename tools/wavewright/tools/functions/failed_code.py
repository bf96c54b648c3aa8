"""Whose code has failed, and where: that of a user, of a pack, of a library or of the engine.

Imported only once something has failed.
"""

from __future__ import annotations

import os
import sysconfig
import traceback
from functools import cache
from pathlib import Path
from typing import Final

import anyio

import wavewright

_OWN: Final = str(Path(__file__).parent.parent)
_LIBRARY_FOLDERS: Final = frozenset({"site-packages", "dist-packages"})


def place_of_failure(error: BaseException) -> str:
    """Return the line of code outside of this package that has failed, as `file:line`; empty where
    there is none.

    What a library raises is the fault of the line that called it: the last one of the user's own
    code, or else, as of a pack that was installed with pip, the first one of what is installed.
    """
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    users = [frame for frame in frames if not is_library_code(frame.filename)]
    installed = [
        frame
        for frame in frames
        if _is_installed(frame.filename) and not is_engine_code(frame.filename)
    ]
    others = [
        frame
        for frame in frames
        if "importlib" not in frame.filename and not frame.filename.startswith(_OWN)
    ]
    frame = next(iter([*users[-1:], *installed[:1], *others[-1:]]), None)
    return "" if frame is None else f"{frame.filename}:{frame.lineno}"


def is_engine_code(file: str) -> bool:
    """Whether a file is one of this project, or of the libraries that run calls in threads."""
    return file.startswith(_engine_folders())


def is_library_code(file: str) -> bool:
    """Whether a file is no code of a user's own."""
    in_standard_library = file.startswith(("<", f"{_standard_library()}{os.sep}"))
    return is_engine_code(file) or in_standard_library or _is_installed(file)


def _is_installed(file: str) -> bool:
    return not _LIBRARY_FOLDERS.isdisjoint(Path(file).parts)


@cache
def _engine_folders() -> tuple[str, ...]:
    folders = (
        *map(Path, wavewright.__path__),
        Path(anyio.__file__).parent,
        _standard_library() / "concurrent",
    )
    return tuple(f"{folder}{os.sep}" for folder in folders)


@cache
def _standard_library() -> Path:
    return Path(sysconfig.get_path("stdlib"))
