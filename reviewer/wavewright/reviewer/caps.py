"""Confidence: raw figures from what was found, and the caps that lower them.

A *cap* is a ceiling on one field while its condition holds: the plan carries its own and the goal template's, the
engine adds those of the rungs that made the plan, the outputs and the review. All run through here, each leaves a
record, and a cap whose condition cannot be evaluated applies. Nothing raises a figure.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from wavewright.executor.state import RunState
from wavewright.planner.expressions import ExpressionError, evaluate
from wavewright.planner.goals import Goal
from wavewright.planner.models import Cap, Plan
from wavewright.planner.types import Json, JsonObject, StepId
from wavewright.planner.uses import condition_use
from wavewright.reviewer.evidence import StepEvidence, raw_overall, superseded_steps
from wavewright.reviewer.records import EVERY_FIELD, CapRecord, Confidence
from wavewright.reviewer.rungs import Ceiling, rung_ceilings
from wavewright.reviewer.scope import plan_scope
from wavewright.reviewer.values import brief, shorten

OVERALL = "overall"

NOT_EVALUATED_MAX = 0.5
"""The most that any confidence can be where a gate had no items to look at."""

CODE_REVIEW_CEILING = Ceiling(0.8, "reviewed by code alone; no model read the result")


def evaluate_caps(
    plan: Plan, goal: Goal | None, state: RunState, now: dt.datetime, *, review: Ceiling | None
) -> tuple[CapRecord, ...]:
    """Return one record for each cap of the bound plan and of the engine, asked over inputs and present outputs.

    `review` is the ceiling of the review's own rung, where it has one.
    """
    variables = plan_scope(plan, state)
    of_goal = goal.caps if goal is not None else ()
    asked = [_evaluate_cap(cap, variables, now, "goal" if cap in of_goal else "plan") for cap in plan.caps]
    ceilings = (
        *rung_ceilings(plan, state),
        *_unevaluated_ceilings(plan, state),
        *((review,) if review is not None else ()),
    )
    return (*asked, *(_engine_cap(ceiling) for ceiling in ceilings))


def compute_confidences(
    evidence: tuple[StepEvidence, ...], claims: Mapping[str, Mapping[str, float]], caps: tuple[CapRecord, ...]
) -> tuple[Confidence, ...]:
    """Return the confidence of `overall`, of every field that an output states a figure for, and of every capped one.

    Args:
        evidence: What the steps brought; gives the raw `overall`.
        claims: Field → who states it → figure. The lowest counts.
        caps: What was asked; only those that hold lower anything.
    """
    overall = _overall_confidence(evidence, claims.get(OVERALL, {}))
    named = [field for field in claims if field != OVERALL]
    capped = [cap.field for cap in caps if cap.field not in {EVERY_FIELD, OVERALL}]
    fields = dict.fromkeys((*named, *capped))
    raws = [overall, *(_field_confidence(field, claims.get(field), overall.raw) for field in fields)]
    return tuple(_capped(raw, caps) for raw in raws)


def stated_confidence(outputs: Iterable[tuple[str, Json]]) -> dict[str, dict[str, float]]:
    """Return the figures that outputs state under `confidence`, as field → place → figure within 0 and 1.

    `{"confidence": {"trend": 0.8}}` speaks of `trend`, `{"confidence": 0.8}` of `overall`; a list is read entry by
    entry. Whatever is not a number is no figure.
    """
    claims: dict[str, dict[str, float]] = {}
    for name, output in outputs:
        entries = enumerate(output) if isinstance(output, list) else [(None, output)]
        for position, entry in entries:
            place = name if position is None else f"{name}[{position}]"
            for field, figure in _figures(entry):
                claims.setdefault(field, {})[place] = min(1.0, max(0.0, figure))
    return claims


def cap_stated_confidence(value: Json, caps: Iterable[CapRecord], settled: Iterable[Confidence] = ()) -> Json:
    """Return a value in which no `confidence`, however deep, states more than the caps on its field let it.

    `{"confidence": {"trend": 0.8}}` is bounded by the caps on `trend`. A plain number speaks of the key that holds its
    object, through lists, and at the top of `overall`. What the value states of itself, at its top, is besides never
    above the settled figure of its field.
    """
    holding = [cap for cap in caps if cap.applied]
    figures = {found.field: found.capped for found in settled}

    def of_value(node: Json, field: str) -> Json:
        if isinstance(node, dict):
            return {
                name: of_claim(member, field) if name == "confidence" else of_value(member, name)
                for name, member in node.items()
            }
        return [of_value(entry, field) for entry in node] if isinstance(node, list) else node

    def of_claim(claim: Json, field: str, *, is_top: bool = False) -> Json:
        if isinstance(claim, dict):
            return {name: of_claim(figure, name, is_top=is_top) for name, figure in claim.items()}
        if isinstance(claim, (int, float)) and not isinstance(claim, bool):
            bounds = [cap.max for cap in holding if cap.field in {field, EVERY_FIELD}]
            own = figures.get(field, math.inf) if is_top else math.inf
            return min(claim, own, *bounds)
        return of_value(claim, field)

    capped = of_value(value, OVERALL)
    if isinstance(capped, dict) and "confidence" in capped:
        capped["confidence"] = of_claim(capped["confidence"], OVERALL, is_top=True)
    return capped


def _figures(output: Json) -> Iterator[tuple[str, float]]:
    if not isinstance(output, dict):
        return
    stated = output.get("confidence")
    fields = stated if isinstance(stated, dict) else {OVERALL: stated}
    for field, figure in fields.items():
        if isinstance(figure, (int, float)) and not isinstance(figure, bool) and math.isfinite(figure):
            yield field, float(figure)


def _evaluate_cap(
    cap: Cap, variables: JsonObject, now: dt.datetime, origin: Literal["plan", "goal"]
) -> CapRecord:
    fault: str | None = None
    applied = True
    try:
        answer = evaluate(condition_use(cap.when, "", "cap").expression, variables, now)
        if isinstance(answer, bool):
            applied = answer
        else:
            fault = f"gave {brief(answer)} instead of true or false"
    except ExpressionError as error:
        fault = shorten(error.message, 200)
    return CapRecord(
        field=cap.field,
        max=cap.max,
        because=cap.because,
        applied=applied,
        origin=origin,
        when=cap.when,
        fault=fault,
    )


def _unevaluated_ceilings(plan: Plan, state: RunState) -> Iterator[Ceiling]:
    """Yield a ceiling for each gate that was not evaluated on a step that counts."""
    replaced = superseded_steps(plan)
    for gate in state.gates:
        if gate.verdict == "not_evaluated" and gate.step not in replaced:
            yield Ceiling(NOT_EVALUATED_MAX, f"gate {gate.gate!r} was {gate.message}")


def _engine_cap(ceiling: Ceiling) -> CapRecord:
    return CapRecord(
        field=EVERY_FIELD, max=ceiling.max, because=ceiling.because, applied=True, origin="engine"
    )


def _overall_confidence(evidence: tuple[StepEvidence, ...], stated: Mapping[str, float]) -> Confidence:
    found = raw_overall(evidence)
    whole = sum(1 for part in evidence if part.share == 1.0)
    why = [f"{whole} of {len(evidence)} steps brought all that they should, which weighs {found:.2f}"]
    why += [f"{part.step}: {part.why}, counts {part.share:.2f}" for part in evidence if part.why]
    lowest = min(stated.items(), key=lambda claim: claim[1], default=None)
    if lowest is not None and lowest[1] < found:
        why.append(f"{lowest[0]} states {lowest[1]:.2f}")
        found = lowest[1]
    return Confidence(field=OVERALL, raw=found, capped=found, why=tuple(why))


def _field_confidence(field: str, stated: Mapping[str, float] | None, overall: float) -> Confidence:
    if not stated:
        why = "no output states a figure, so overall stands for it"
        return Confidence(field=field, raw=overall, capped=overall, why=(why,))
    place, figure = min(stated.items(), key=lambda claim: claim[1])
    of = f", the lowest of {len(stated)}" if len(stated) > 1 else ""
    return Confidence(field=field, raw=figure, capped=figure, why=(f"stated by {place}{of}",))


def _capped(confidence: Confidence, caps: tuple[CapRecord, ...]) -> Confidence:
    """Return the figure under every cap that holds on it; the reasons go from the highest ceiling down."""
    holding = [cap for cap in caps if cap.applied and cap.field in {confidence.field, EVERY_FIELD}]
    why = list(confidence.why)
    for cap in sorted(holding, key=lambda cap: -cap.max):
        doubt = f" (its condition could not be evaluated: {cap.fault})" if cap.fault else ""
        if cap.max < confidence.raw or doubt:
            why.append(f"at most {cap.max:g}: {cap.because}{doubt}")
    capped = min([confidence.raw, *(cap.max for cap in holding)])
    return Confidence(field=confidence.field, raw=confidence.raw, capped=capped, why=tuple(why))


def confidence_claims(
    terminal: Iterable[StepId], state: RunState, result: Json
) -> Iterator[tuple[str, Json]]:
    """Yield who may state a confidence, with what they say: the terminal steps that are present, and the result."""
    outputs = {step_id: state.steps[step_id].output for step_id in terminal if state.is_present(step_id)}
    for step_id, output in outputs.items():
        yield f"step {step_id!r}", output
    if result not in outputs.values():
        yield "the result", result
