"""The proof of one confidence: its raw figure, and each cap with the steps by which it reaches the
field.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from wavewright.planner import JsonObject
from wavewright.reviewer.records import (
    CapRecord,
    Confidence,
    FieldProvenance,
    Package,
    ReviewResult,
)
from wavewright.reviewer.review.caps import confidence_in, is_cap_on
from wavewright.reviewer.review.rounds import provenance_text
from wavewright.reviewer.values import look_up


def reviewed_fields(package: Package, review: ReviewResult) -> list[str]:
    """Return the fields of a result that have a confidence, `overall` first."""
    result = package.plan.get("result")
    if not isinstance(result, dict):
        # The whole result is one value, such as the output of a step: its fields are the result's.
        result = package.result
    members = [name for name in result if name != "confidence"] if isinstance(result, dict) else []
    computed = [confidence.field for confidence in review.confidences]
    reached = [name for cap in review.caps for name in (*cap.ways, *cap.spares)]
    return [*dict.fromkeys((*computed, *members, *reached))]


def reviewed_field(package: Package, review: ReviewResult, path: str) -> str | None:
    """Return the field of which a figure is known for a path in the result: the field itself, that of
    every entry of its list (`rows[*].price` for `rows[1].price`), or else what holds it. None where
    the result has no such path.
    """
    known = reviewed_fields(package, review)
    if path in known:
        return path
    parts = _PART.findall(path)
    names = [part.strip(".[]") for part in parts if part != "[*]"]
    if not any(is_there for _, _, is_there in look_up(package.result, names)):
        return None
    for count in range(len(parts), 0, -1):
        holder = "".join(parts[:count])
        of_entries = _POSITION.sub("[*]", holder)
        for field in (holder, of_entries):
            if field in known:
                return field
    return None


_PART: Final = re.compile(r"\[[^\]]*\]|\.?[^.\[\]]+")
_POSITION: Final = re.compile(r"\[\d+\]")


@dataclass(frozen=True, slots=True)
class ConfidenceProof:
    """Why a confidence is what it is."""

    package: Package
    review: ReviewResult
    found: Confidence

    @property
    def caps(self) -> list[CapRecord]:
        """The caps that hold on the field, the highest first; of equal ones, those that are about a
        step last.
        """
        field = self.found.field
        holding = [cap for cap in self.review.applied_caps if is_cap_on(cap, field)]
        return sorted(holding, key=lambda cap: (-cap.max, bool(cap.ways)))

    def lines(self) -> Iterator[str]:
        """Yield the proof: the raw figure, the caps that hold, the caps that do not, the
        conclusion.
        """
        confidence, holding = self.found, self.caps
        yield f"{confidence.field} {confidence.capped:.2f}"
        yield from (f"  from {provenance_text(origin)}" for origin in self._origins())
        yield f"  raw {confidence.raw:.2f}: {confidence.why[0]}"
        yield from (f"    {line}" for line in confidence.why[1:])
        for cap in holding:
            yield f"  at most {cap.max:.2f}: {cap.because}"
            yield from (f"    {line}" for line in self._way_lines(cap))
            if cap.fault:
                yield f"    its condition could not be evaluated, so it holds: {cap.fault}"
        for cap in self.review.caps:
            is_about_field = cap.field == confidence.field or confidence.field in cap.spares
            if not is_about_field or cap in holding:
                continue
            why = f"its condition is false: {cap.when}"
            if cap.applied:
                why = "nothing of it leads here"
            yield f"  not at most {cap.max:.2f}: {cap.because} ({why})"
        lowest = holding[-1] if holding else None
        is_lowered = lowest is not None and lowest.max < confidence.raw
        why = (
            f": {lowest.because}" if lowest is not None and is_lowered else ", as no cap lowers it"
        )
        yield f"so {confidence.field} is {confidence.capped:.2f}{why}"

    def _origins(self) -> Iterator[FieldProvenance]:
        """Yield where the field comes from, and what holds it or is inside it."""
        for origin in self.review.provenance:
            names = {origin.field, origin.field.partition(".")[0].partition("[")[0]}
            if self.found.field in names or origin.field == "result":
                yield origin

    def _way_lines(self, cap: CapRecord) -> Iterator[str]:
        """Yield a line for each step from the one that a cap is about to the one that the field
        reads.
        """
        log = {entry.id: entry for entry in self.package.execution_log}
        below = {entry.step: entry for entry in self.review.steps}
        for name in cap.ways.get(self.found.field, ()):
            figure = below[name].confidence if name in below else 1.0
            tool = log[name].tool if name in log else "?"
            records = [record for record in self.package.gates if record.step == name]
            verdicts = dict.fromkeys(f"{record.gate} {record.verdict}" for record in records)
            gates = f"  gates: {', '.join(verdicts)}" if verdicts else ""
            yield f"{name} ({tool}) {figure:.2f}{gates}"

    def as_json(self) -> JsonObject:
        """Return the proof for programs."""
        return {
            "run": self.package.run,
            "field": self.found.field,
            "raw": self.found.raw,
            "confidence": self.found.capped,
            "why": [*self.found.why, *self.found.lowered_by],
            "provenance": [origin.model_dump(mode="json") for origin in self._origins()],
            "caps": [
                {
                    **cap.model_dump(mode="json", include={"max", "because", "origin"}),
                    "way": [*cap.ways.get(self.found.field, ())],
                }
                for cap in self.caps
            ],
            "steps": [entry.model_dump(mode="json") for entry in self.review.steps],
        }


def proof_of(package: Package, review: ReviewResult, field: str) -> ConfidenceProof:
    """Return why the confidence in a field is what it is."""
    return ConfidenceProof(package, review, confidence_in(field, review))
