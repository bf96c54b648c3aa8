"""The display of a run's progress: chosen by the options and by where it is shown."""

from __future__ import annotations

import sys
from collections.abc import Callable

from wavewright.engine.interfaces.cli.common.progress import (
    JsonProgress,
    PlainProgress,
    Progress,
    QuietProgress,
)
from wavewright.engine.interfaces.cli.common.run_text import ModelLookup


def progress_for(
    *,
    as_json: bool,
    is_quiet: bool = False,
    at_work: ModelLookup | None = None,
    redact: Callable[[str], str] = str,
) -> Progress:
    """Return the progress display: JSON or quiet on request, a live table on a terminal, lines
    elsewhere.

    `at_work` gives the live table the model that a phase waits for, `redact` what is shown of what
    tools print.
    """
    if as_json:
        return JsonProgress()
    if is_quiet:
        return QuietProgress()
    if sys.stderr.isatty():
        # Imported here: its library takes a while to load.
        from wavewright.engine.interfaces.cli.common.live import LiveProgress

        return LiveProgress(at_work=at_work, redact=redact)
    return PlainProgress()
