"""Make diagnostics of the catalogue's codes."""

from __future__ import annotations

from wavewright.config.documents import Span
from wavewright.planner.catalogue import severity_of
from wavewright.planner.diagnostics import Diagnostic


def make_diagnostic(
    code: str, pointer: str, message: str, hint: str | None = None, *, within: Span | None = None
) -> Diagnostic:
    """Return a diagnostic as grave as the catalogue says; `within` is the part of the node's text that is meant."""
    return Diagnostic(code, message, pointer, hint, severity=severity_of(code), within=within)
