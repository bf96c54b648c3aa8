"""How much of the crash programme is run: a slice in every run of the tests, all of it where it is
asked for.

`make crash` runs all of it. Whatever is left to chance is drawn from a seed that is printed, and
may be given:

    WAVEWRIGHT_CRASH_SEED=17 python -m pytest tests/crash/test_kills.py
"""

from __future__ import annotations

import os
import random
from typing import Final

IS_WHOLE: Final = bool(os.environ.get("WAVEWRIGHT_CRASH"))


def volume(a_slice: int, whole: int) -> int:
    """Return how many there are to be tried."""
    return whole if IS_WHOLE else a_slice


SEED: Final = int(os.environ.get("WAVEWRIGHT_CRASH_SEED", "20261122"))


def chance() -> random.Random:
    """Return where chance comes from in one test, and print what repeats it."""
    print(f"drawn from WAVEWRIGHT_CRASH_SEED={SEED}")
    return random.Random(SEED)  # noqa: S311 - only to choose what is tried
