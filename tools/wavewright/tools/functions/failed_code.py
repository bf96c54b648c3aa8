"""Where code of a user, or of a pack, has failed: imported only once it has."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Final

_OWN: Final = str(Path(__file__).parent.parent)


def place_of_failure(error: BaseException) -> str:
    """Return the line of code outside of this package that has failed, as `file:line`; empty where
    there is none.
    """
    if isinstance(error, SyntaxError):
        return f"{error.filename}:{error.lineno}"
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "importlib" not in frame.filename and not frame.filename.startswith(_OWN)
    ]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""
