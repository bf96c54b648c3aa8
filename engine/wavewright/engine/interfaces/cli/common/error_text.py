"""An error as a command prints it."""

from __future__ import annotations

from wavewright.config.errors import WavewrightError
from wavewright.config.sources import DocumentError
from wavewright.planner.diagnostics.diagnostic import PlanError, diagnostic_from_fault
from wavewright.planner.diagnostics.rendering import render_text


def error_text(error: WavewrightError) -> str:
    """Return an error with its place and fix; the errors of documents quote the lines that they
    speak of.
    """
    match error:
        case DocumentError():
            found = (
                (tuple(map(diagnostic_from_fault, document.faults)), document.source)
                for document in (error, *error.others)
            )
            return "\n".join(render_text(diagnostics, source) for diagnostics, source in found)
        case PlanError():
            return "\n\n".join(
                render_text(document.diagnostics, document.source)
                for document in (error, *error.others)
            )
        case _:
            return f"error: {error.describe()}"
