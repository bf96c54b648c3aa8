"""Where state is kept between runs that belong to no project; shells ask for it too, so nothing heavy is imported."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def user_state_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder where a user's programs keep state between runs, by the XDG base directory specification."""
    given = Path(environment.get("XDG_STATE_HOME", ""))
    return (given if given.is_absolute() else Path.home() / ".local" / "state") / "wavewright"
