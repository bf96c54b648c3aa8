"""What `wavewright doctor` finds, one thing at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wavewright.config.documents import DocumentError
from wavewright.planner.diagnostics import PlanError


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that was looked at."""

    subject: str
    state: Literal["ok", "note", "fault"]
    """A `note` is no fault: something optional is absent."""
    detail: str
    mend: str = ""


def finding_of_faulty_file(subject: str, error: DocumentError | PlanError, mend: str) -> DoctorFinding:
    """Name the first fault with its place; its own mend, such as the word that was meant, goes before `mend`."""
    found = error.diagnostics if isinstance(error, PlanError) else error.faults
    first = found[0]
    has_place = first.span is not None and bool(error.source.text)
    line = f":{error.source.position(first.span.start)[0]}" if has_place and first.span is not None else ""
    more = "" if len(found) == 1 else f" (and {len(found) - 1} more)"
    return DoctorFinding(
        subject, "fault", f"{error.source.name}{line}: {first.message}{more}", first.hint or mend
    )
