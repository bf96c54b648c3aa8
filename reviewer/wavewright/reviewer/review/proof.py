"""Why a confidence is what it is: its raw figure, and each cap with the steps by which it reaches the field."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wavewright.planner.types import JsonObject, StepId
from wavewright.reviewer.records import CapRecord, Confidence, Package, ReviewResult
from wavewright.reviewer.review.caps import confidence_in, is_cap_on


def reviewed_fields(package: Package, review: ReviewResult) -> list[str]:
    """Return the fields of a result that have a confidence, `overall` first."""
    result = package.plan.get("result")
    members = [name for name in result if name != "confidence"] if isinstance(result, dict) else []
    reached = [name for cap in review.caps for name in (*cap.ways, *cap.spares)]
    return [*dict.fromkeys((*(found.field for found in review.confidences), *members, *reached))]


@dataclass(frozen=True, slots=True)
class ConfidenceProof:
    """Why a confidence is what it is."""

    package: Package
    review: ReviewResult
    found: Confidence

    @property
    def caps(self) -> list[CapRecord]:
        """The caps that hold on the field, the highest first; of equal ones, those that are about a step last."""
        field = self.found.field
        holding = [cap for cap in self.review.applied_caps if is_cap_on(cap, field)]
        return sorted(holding, key=lambda cap: (-cap.max, bool(cap.ways)))

    def lines(self) -> Iterator[str]:
        """Yield the proof: the raw figure, the caps that hold, the caps that do not, the conclusion."""
        found = self.found
        yield f"{found.field} {found.capped:.2f}"
        yield f"  raw {found.raw:.2f}: {found.why[0]}"
        yield from (f"    {line}" for line in found.why[1:] if not line.startswith("at most "))
        for cap in self.caps:
            yield f"  at most {cap.max:.2f}: {cap.because}"
            yield from (f"    {line}" for line in self._way_lines(cap))
            if cap.fault:
                yield f"    its condition could not be evaluated, so it holds: {cap.fault}"
        for cap in self.review.caps:
            if cap not in self.caps and (cap.field == found.field or found.field in cap.spares):
                why = "nothing of it leads here" if cap.applied else f"its condition is false: {cap.when}"
                yield f"  not at most {cap.max:.2f}: {cap.because} ({why})"
        lowest = self.caps[-1] if self.caps and self.caps[-1].max < found.raw else None
        why = ", as no cap lowers it" if lowest is None else f": {lowest.because}"
        yield f"so {found.field} is {found.capped:.2f}{why}"

    def _way_lines(self, cap: CapRecord) -> Iterator[str]:
        """Yield a line for each step from the one that a cap is about to the one that the field reads."""
        log = {entry.id: entry for entry in self.package.execution_log}
        below = {each.step: each for each in self.review.steps}
        for name in self._way(cap):
            figure = below[name].confidence if name in below else 1.0
            tool = log[name].tool if name in log else "?"
            gates = [f"{gate.gate} {gate.verdict}" for gate in self.package.gates if gate.step == name]
            asked = f"  gates: {', '.join(dict.fromkeys(gates))}" if gates else ""
            yield f"{name} ({tool}) {figure:.2f}{asked}"

    def _way(self, cap: CapRecord) -> tuple[StepId, ...]:
        way = cap.ways.get(self.found.field, "")
        return tuple(StepId(name) for name in way.split(" → ") if name)

    def as_json(self) -> JsonObject:
        """Return the proof for programs."""
        return {
            "run": self.package.run,
            "field": self.found.field,
            "raw": self.found.raw,
            "confidence": self.found.capped,
            "why": [*self.found.why],
            "caps": [
                {
                    **cap.model_dump(mode="json", include={"max", "because", "origin"}),
                    "way": [*self._way(cap)],
                }
                for cap in self.caps
            ],
            "steps": [each.model_dump(mode="json") for each in self.review.steps],
        }


def proof_of(package: Package, review: ReviewResult, field: str) -> ConfidenceProof:
    """Return why the confidence in a field is what it is."""
    return ConfidenceProof(package, review, confidence_in(field, review))
