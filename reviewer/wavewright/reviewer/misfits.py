"""What does not fit a schema, told in a few words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wavewright.planner.validators import SchemaViolation
from wavewright.reviewer.values import path_text, shorten

_MAX_MISFITS = 3


def misfit_texts(misfits: Sequence[SchemaViolation]) -> Iterator[str]:
    """Yield the first misfits with their places, then how many more there are."""
    for misfit in misfits[:_MAX_MISFITS]:
        yield f"{_pointer_text(misfit.pointer)} {shorten(misfit.message, 120)}"
    if len(misfits) > _MAX_MISFITS:
        yield f"and {len(misfits) - _MAX_MISFITS} more"


def _pointer_text(pointer: str) -> str:
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    return path_text([int(part) if part.isdecimal() else part for part in parts])
