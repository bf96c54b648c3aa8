"""An error as a command prints it."""

from __future__ import annotations

from typing import Any, Final

from wavewright.config import DocumentError, WavewrightError
from wavewright.planner import JsonObject, PlanError, render_json, render_text
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


def error_json(error: Exception) -> list[JsonObject]:
    """Return what ended a command as the diagnostics of `check --format json`; what is no fault of a
    document has no code.
    """
    match error:
        case DocumentError():
            found = [(diagnostics_of(part), part.source) for part in (error, *error.others)]
        case PlanError():
            found = [(part.diagnostics, part.source) for part in (error, *error.others)]
        case ExceptionGroup():
            return [diagnostic for part in error.exceptions for diagnostic in error_json(part)]
        case _:
            return [_plain_json(error)]
    return [part for diagnostics, source in found for part in render_json(diagnostics, source)]


_DOCUMENT_FIELDS: Final = (
    *("code", "kind", "pointer"),
    *("line", "column", "end_line", "end_column"),
)


def _plain_json(error: Any) -> JsonObject:
    hint, place = getattr(error, "hint", None), getattr(error, "place", None)
    return {
        **dict.fromkeys(_DOCUMENT_FIELDS),
        "severity": "error",
        # Errors of the command line itself have a message that is not their text.
        "message": str(getattr(error, "message", None) or error),
        "file": place,
        "hint": hint,
    }
