"""An error as a command prints it."""

from __future__ import annotations

from wavewright.config import DocumentError, WavewrightError
from wavewright.planner import PlanError, render_text
from wavewright.planner.diagnostics.diagnostic import diagnostics_of


def error_text(error: WavewrightError) -> str:
    """Return an error with its place and fix; the errors of documents quote the lines that they
    speak of.
    """
    match error:
        case DocumentError():
            found = (
                (diagnostics_of(document), document.source) for document in (error, *error.others)
            )
            return "\n".join(render_text(diagnostics, source) for diagnostics, source in found)
        case PlanError():
            return "\n\n".join(
                render_text(document.diagnostics, document.source)
                for document in (error, *error.others)
            )
        case _:
            return f"error: {error.describe()}"
