"""The review and the package of a run, as a test looks at them.

The views are of the latest run: a test may ask for them before it runs anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavewright.engine.testing.claims import Claim, ExplainedNumber, ExplainedText, unknown_name

if TYPE_CHECKING:
    from wavewright.executor.events import GateRecord
    from wavewright.planner.types import Json
    from wavewright.reviewer.records import CapRecord, OutputDocument, Package, RecoveryAction, ReviewResult


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ReviewView:
    """What the reviewer says of a run."""

    read: Callable[[], ReviewResult]

    @property
    def record(self) -> ReviewResult:
        """The whole review."""
        return self.read()

    @property
    def verdict(self) -> ExplainedText:
        """`achieved` or `not_achieved`."""
        found = self.read()
        return ExplainedText("achieved" if found.goal_achieved else "not_achieved", found.summary)

    @property
    def summary(self) -> str:
        """Why, in words."""
        return self.read().summary

    @property
    def missing(self) -> tuple[str, ...]:
        """What is missing from the result."""
        return self.read().missing_data

    @property
    def recovery_actions(self) -> tuple[RecoveryAction, ...]:
        """What would mend it."""
        return self.read().recovery_actions

    @property
    def caps(self) -> tuple[CapRecord, ...]:
        """The caps that lowered a confidence."""
        return tuple(cap for cap in self.read().caps if cap.applied)

    def confidence(self, field: str = "overall") -> ExplainedNumber:
        """Return the capped confidence in a field of the result; in the whole where none is named."""
        __tracebackhide__ = True
        found = self.read()
        known = {one.field: one for one in found.confidences}
        if field in known:
            one = known[field]
            return ExplainedNumber(one.capped, f"confidence in {field!r}: " + "; ".join(one.why))
        if field == "overall":
            return ExplainedNumber(found.confidence, found.summary)
        raise unknown_name(field, known, what="confidence", of="the review")

    def __repr__(self) -> str:
        found = self.read()
        return f"<review: {self.verdict}, confidence {found.confidence:g}>"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PackageView:
    """What leaves a run."""

    read: Callable[[], Package]

    @property
    def record(self) -> Package:
        """The whole package."""
        return self.read()

    @property
    def status(self) -> ExplainedText:
        """How the run ended."""
        found = self.read()
        return ExplainedText(found.status, found.review.summary if found.review else found.reason)

    @property
    def result(self) -> Json:
        """What the run was for."""
        return self.read().result

    @property
    def documents(self) -> tuple[OutputDocument, ...]:
        """The documents, with their tags."""
        return self.read().documents

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the sources."""
        return tuple(source.name for source in self.read().sources)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What the package warns of."""
        return self.read().warnings

    def __repr__(self) -> str:
        found = self.read()
        return f"<package of job {found.job!r}: {found.status}>"


def gate_claim(gate: str, records: tuple[GateRecord, ...]) -> Claim:
    """Return whether a gate passed everywhere that it was asked."""
    red = [record for record in records if record.has_failed]
    shown = red or records
    lines = [_line(record) for record in shown[:3]]
    if len(shown) > 3:
        lines.append(f"and {len(shown) - 3} more")
    return Claim(not red, f"gate {gate!r} " + "; ".join(lines))


def _line(record: GateRecord) -> str:
    verdict = {
        "pass": "passed",
        "fail": "failed",
        "error": "could not be asked",
        "not_evaluated": "was not evaluated",
    }[record.verdict]
    item = "" if record.index is None else f"[{record.index}]"
    looked_at = "" if record.looked_at in record.message else record.looked_at
    said = ": ".join(part for part in (record.message, looked_at) if part)
    return f"{verdict} on {record.step}{item} ({record.severity}s)" + (f": {said}" if said else "")
