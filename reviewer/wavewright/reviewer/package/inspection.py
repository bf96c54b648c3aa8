"""A closer look at a run: what its journal tells of one step, and why a confidence is what it is.

The record of a step has its calls with their resolved parameters, its attempts and its models. The proof of a
confidence has its raw figure, and each cap with the steps by which it reaches the field.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from wavewright.executor.events.state import RunState
from wavewright.executor.events.types import (
    AnswerKept,
    AttemptLogged,
    Event,
    ItemFinished,
    ModelCalled,
    StepFinished,
)
from wavewright.planner.language.plan import Plan, Step
from wavewright.planner.ports.model_port import ModelQuestion
from wavewright.planner.types import JsonObject, StepId
from wavewright.reviewer.package.call_reports import params_of_call
from wavewright.reviewer.records import CapRecord, Confidence, Package, ReviewResult
from wavewright.reviewer.review.by_code import run_instant
from wavewright.reviewer.review.caps import confidence_in, is_cap_on


@dataclass(slots=True)
class StepRecord:
    """The journal's records of one step."""

    step: Step
    ending: StepFinished | None
    calls: list[tuple[int | None, JsonObject | None, StepFinished | ItemFinished]]
    """Each call: its item, its resolved parameters, its end."""
    attempts: list[AttemptLogged] = field(default_factory=list[AttemptLogged])
    uses: list[ModelCalled] = field(default_factory=list[ModelCalled])
    questions: list[tuple[ModelQuestion, str]] = field(default_factory=list[tuple[ModelQuestion, str]])
    """To models, with their answers."""


def step_record(plan: Plan, step: Step, state: RunState, events: Sequence[Event]) -> StepRecord:
    """Return what the events of a run tell of a step of its plan."""
    ending, items = state.steps.get(step.id), state.items.get(step.id)
    ended: list[StepFinished | ItemFinished] = [items[index] for index in sorted(items)] if items else []
    if not ended and ending is not None:
        ended = [ending]
    now = run_instant(state)
    record = StepRecord(step, ending, [])
    for one in ended:
        index = one.index if isinstance(one, ItemFinished) else None
        record.calls.append((index, params_of_call(plan, state, step, index, now), one))
    for event in events:
        match event:
            case AttemptLogged() if event.step == step.id:
                record.attempts.append(event)
            case ModelCalled() if event.use.step == step.id:
                record.uses.append(event)
            case _:
                pass
    record.questions += [(asked, answer) for asked, answer in model_messages(events) if asked.step == step.id]
    return record


def model_messages(events: Iterable[Event]) -> list[tuple[ModelQuestion, str]]:
    """Return what models were asked in a run, in order, each with its answer: a text, or parts and calls as JSON."""
    return [
        (event.question, _answer_text(event.answer))
        for event in events
        if isinstance(event, AnswerKept) and event.question is not None
    ]


def _answer_text(answer: JsonObject) -> str:
    if isinstance(text := answer.get("text"), str) and text:
        return text
    return json.dumps(answer.get("parts") or answer.get("calls") or answer, indent=2, ensure_ascii=False)


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
