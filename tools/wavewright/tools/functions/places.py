"""Where the function of a tool stands in its code, and the parameters of it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class CodePlace:
    """A stretch of one line of a file, counted from 0."""

    file: Path
    line: int
    start: int = 0
    end: int = 0


def place_in_code(
    function: Callable[..., object], parameter: str | None = None
) -> CodePlace | None:
    """Return where a function begins, or its parameter where that is found there; None of a function
    without a file.
    """
    function = inspect.unwrap(function)
    try:
        file, (lines, first) = inspect.getsourcefile(function), inspect.getsourcelines(function)
    except (OSError, TypeError):
        return None
    if file is None:
        return None
    if parameter is not None:
        word = re.compile(rf"(?<![\w.]){re.escape(parameter)}(?=\s*[:=,)])")
        for number, line in enumerate(lines):
            written = word.search(line)
            if written is not None:
                return CodePlace(Path(file), first - 1 + number, *written.span())
    return CodePlace(Path(file), first - 1)
