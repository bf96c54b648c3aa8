"""The review by code: did the run reach its goal, and if not, why and what would mend it.

A goal is *achieved* when every block gate that counts is green, everything that the result is made of is there, and
the result fits the goal's output schema. Code decides that from gate records and statuses; no model is asked, the
summary says so, and the confidence is capped for it.

An optional step that failed or was stopped is absent and does not fail the run: whoever reads it had to provide for
that. It is listed as missing and lowers the confidence.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence

from wavewright.executor.state import RunState
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.types import StepId
from wavewright.reviewer.actions import recovery_actions
from wavewright.reviewer.caps import (
    OVERALL,
    claimants,
    settle_caps,
    settle_confidence,
    stated_confidence,
)
from wavewright.reviewer.evidence import weigh_evidence
from wavewright.reviewer.findings import BadEnd, RedGate, bad_ends, red_gates, unasked_gates
from wavewright.reviewer.records import Confidence, ReviewResult
from wavewright.reviewer.results import read_result, result_faults

_MOST_LABELS = 8


def review_by_code(
    plan: Plan,
    goal: Goal,
    state: RunState,
    tools: Mapping[str, ToolSignature],
    *,
    now: dt.datetime | None = None,
) -> ReviewResult:
    """Return the verdict on a run of a (bound) plan.

    Args:
        plan: The bound plan in force, patches included.
        goal: What was asked for.
        state: What happened.
        tools: Signatures by name.
        now: What `now()` gives; the run's own instant where absent.
    """
    now = now or instant_of(state)
    gates = (*red_gates(plan, goal, state, now), *unasked_gates(plan, goal, state))
    ends = bad_ends(plan, goal, state, now)
    result = read_result(plan, state, tools, now)
    faults = result_faults(plan, goal, state, result)

    optional = {step.id for step in plan.steps if step.optional}
    stopping = [gate for gate in gates if gate.severity == "block" and gate.step not in optional]
    failing = [end for end in ends if _fails_the_run(end)]
    achieved = not (stopping or failing or result.missing or faults)

    caps = settle_caps(plan, goal, state, now, reviewer="code")
    claims = stated_confidence(claimants(result.terminal, state, result.value))
    confidences = settle_confidence(weigh_evidence(plan, state, tools), claims, caps)
    actions = recovery_actions(gates, ends, goal)
    missing = _missing_data(gates, ends, (*result.missing, *result.absent), faults)
    return ReviewResult(
        goal_achieved=achieved,
        confidence=_overall(confidences).capped,
        summary=" ".join(
            _sentences(
                achieved=achieved,
                stopping=stopping,
                failing=failing,
                lacking=(*result.missing, *faults),
                blocked=[end for end in ends if end.status == "blocked"],
                absent=_absent(gates, ends, optional),
                warnings=sum(1 for gate in gates if gate.severity == "warn"),
                hints=_hints(stopping, failing, goal),
                confidence=_overall(confidences),
            )
        ),
        missing_data=missing,
        recovery_actions=actions,
        reviewer="code",
        confidences=confidences,
        caps=caps,
        round=state.round,
    )


def instant_of(state: RunState) -> dt.datetime:
    """Return the instant that a run takes for now."""
    assert state.started is not None, "a run is reviewed after it has started"
    return dt.datetime.fromtimestamp(state.started.now, dt.UTC)


def _overall(confidences: Sequence[Confidence]) -> Confidence:
    return next(confidence for confidence in confidences if confidence.field == OVERALL)


def _fails_the_run(end: BadEnd) -> bool:
    """Whether a step's end is against the goal: not where it is optional, nor where `min_ok` items were enough."""
    return not end.optional and end.status not in {"ok", "empty", "reused"}


def _absent(gates: Sequence[RedGate], ends: Sequence[BadEnd], optional: set[StepId]) -> list[StepId]:
    stopped = [gate.step for gate in gates if gate.severity == "block" and gate.step in optional]
    lost = [end.step for end in ends if end.optional and end.status not in {"ok", "empty", "reused"}]
    return list(dict.fromkeys((*stopped, *lost)))


def _hints(stopping: Sequence[RedGate], failing: Sequence[BadEnd], goal: Goal) -> list[str]:
    """Return what would mend what keeps the goal from being achieved, each once."""
    return list(dict.fromkeys(action.hint for action in recovery_actions(stopping, failing, goal)))


def _missing_data(
    gates: Sequence[RedGate], ends: Sequence[BadEnd], missing: Sequence[str], faults: Sequence[str]
) -> tuple[str, ...]:
    lines = [f"{_named(gate.step, gate.labels)}: {gate.message} (gate {gate.gate!r})" for gate in gates]
    # What a blocked step lacks is told by whatever blocked it; its own line would say it twice.
    lines += [f"{_named(end.step, end.labels)}: {_end_text(end)}" for end in ends if end.status != "blocked"]
    told = {end.step for end in ends if end.status != "blocked"} | {gate.step for gate in gates}
    lines += [line for line in missing if line.partition(":")[0] not in told]
    lines += faults
    return tuple(dict.fromkeys(lines))


def _named(step: StepId, labels: Sequence[str]) -> str:
    if not labels:
        return step
    shown = ", ".join(labels[:_MOST_LABELS])
    more = f" and {len(labels) - _MOST_LABELS} more" if len(labels) > _MOST_LABELS else ""
    return f"{step}[{shown}{more}]"


def _end_text(end: BadEnd) -> str:
    if end.status in {"ok", "empty", "reused"}:
        return f"these items failed ({end.error or 'no reason on record'}): {end.message}"
    kind = f" ({end.error})" if end.error else ""
    return f"{end.status or 'never ran'}{kind}" + (f": {end.message}" if end.message != end.status else "")


def _sentences(
    *,
    achieved: bool,
    stopping: Sequence[RedGate],
    failing: Sequence[BadEnd],
    lacking: Sequence[str],
    blocked: Sequence[BadEnd],
    absent: Sequence[StepId],
    warnings: int,
    hints: Sequence[str],
    confidence: Confidence,
) -> Iterator[str]:
    if achieved:
        yield "Goal achieved: every mandatory gate is green and everything that the result needs is there."
    else:
        yield "Goal not achieved."
        yield from _reasons(stopping, [end for end in failing if end.status != "blocked"], blocked, lacking)
    if absent:
        yield f"Absent, and the plan provides for that: {', '.join(absent)}."
    if warnings:
        yield f"{_count(warnings, 'gate')} left a warning."
    if hints and not achieved:
        yield f"What would mend it: {'; '.join(hints[:4])}."
    yield _confidence_sentence(confidence)
    yield "Reviewed by code from the gates and the steps' ends; no model read the result."


def _reasons(
    stopping: Sequence[RedGate], failing: Sequence[BadEnd], blocked: Sequence[BadEnd], lacking: Sequence[str]
) -> Iterator[str]:
    for gate in stopping[:5]:
        yield f"Gate {gate.gate!r} stopped {_named(gate.step, gate.labels)}: {gate.message}."
    for end in failing[:5]:
        yield f"Step {_named(end.step, end.labels)!r} {_end_text(end)}."
    if blocked:
        names = ", ".join(end.step for end in blocked[:_MOST_LABELS])
        more = f" and {len(blocked) - _MOST_LABELS} more" if len(blocked) > _MOST_LABELS else ""
        yield f"So nothing could be built on it: {names}{more} did not run."
    elif lacking:
        yield f"Lacking: {'; '.join(lacking[:4])}."


def _confidence_sentence(confidence: Confidence) -> str:
    if confidence.capped < confidence.raw:
        return f"Confidence {confidence.capped:.2f}, lowered by caps from {confidence.raw:.2f}."
    return f"Confidence {confidence.capped:.2f}."


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
