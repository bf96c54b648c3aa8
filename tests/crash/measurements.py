"""What the programme has measured, for the documentation: a line of JSON a test, in the file that
is named.

WAVEWRIGHT_CRASH_FIGURES=figures.jsonl make crash
"""

from __future__ import annotations

import os
from pathlib import Path

from tests.crash.crash_project import add_line
from wavewright.planner.types import Json


def note(row: str, **figures: Json) -> None:
    """Write figures down where somebody wants them, and show them."""
    print(row, figures)
    if place := os.environ.get("WAVEWRIGHT_CRASH_FIGURES"):
        add_line(Path(place), {"row": row, **figures})
