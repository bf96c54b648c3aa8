"""How much of the crash programme is run: a slice in every run of the tests, all of it where it is asked for.

`make crash` runs all of it.
"""

from __future__ import annotations

import os
from typing import Final

IS_WHOLE: Final = bool(os.environ.get("WAVEWRIGHT_CRASH"))


def volume(a_slice: int, whole: int) -> int:
    """Return how many there are to be tried."""
    return whole if IS_WHOLE else a_slice
