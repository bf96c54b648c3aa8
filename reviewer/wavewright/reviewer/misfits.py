"""What does not fit a schema, told in a few words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wavewright.planner.validators import Misfit
from wavewright.reviewer.values import path_text, shorten

_MOST = 3


def misfit_texts(misfits: Sequence[Misfit]) -> Iterator[str]:
    """Yield the first misfits with their places, then how many more there are."""
    for misfit in misfits[:_MOST]:
        yield f"{_place(misfit.pointer)} {shorten(misfit.message, 120)}"
    if len(misfits) > _MOST:
        yield f"and {len(misfits) - _MOST} more"


def _place(pointer: str) -> str:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    return path_text([int(part) if part.isdecimal() else part for part in parts])
