"""Diagnostics: everything that is wrong with a document, each with its place and its mend.

A *diagnostic* has a stable code, a severity, the JSON Pointer of the node it speaks of, a span where there is
source text, a message with the author's own names and a hint. It renders as text with a caret, as JSON and as
SARIF; the same text is what goes back to a planner that is to repair its plan.
"""

from __future__ import annotations

from dataclasses import dataclass

from wavewright.config.documents import Span
from wavewright.planner.types import Severity


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault or warning."""

    code: str
    """Stable, such as `E203`; `docs/reference/diagnostics/` has a page for each."""
    message: str
    pointer: str = ""
    """RFC 6901 pointer into the document; empty for the whole."""
    hint: str | None = None
    span: Span | None = None
    """Where in the source; found from the pointer when the diagnostic is placed."""
    severity: Severity = "error"
