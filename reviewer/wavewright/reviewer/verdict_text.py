"""The verdict on a run in words: what is missing, line by line, and the sentences of a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wavewright.planner.goals import Goal
from wavewright.planner.types import StepId
from wavewright.reviewer.actions import recovery_actions
from wavewright.reviewer.assessment import Assessment
from wavewright.reviewer.findings import StepProblem
from wavewright.reviewer.records import Confidence

_MAX_LABELS = 8


def missing_data(found: Assessment) -> tuple[str, ...]:
    """Return what is not there or not good, one line each, in the plan's own names."""
    lines = [
        f"{_step_label(gate.step, gate.labels)}: {gate.message} (gate {gate.gate!r})" for gate in found.gates
    ]
    # What a blocked step lacks is told by whatever blocked it; its own line would say it twice.
    told_ends = [end for end in found.problems if end.status != "blocked"]
    lines += [f"{_step_label(end.step, end.labels)}: {_problem_text(end)}" for end in told_ends]
    told = {end.step for end in told_ends} | {gate.step for gate in found.gates}
    lacking = (*found.result.missing, *found.result.absent)
    lines += [line for line in lacking if line.partition(":")[0] not in told]
    lines += found.faults
    return tuple(dict.fromkeys(lines))


def invalid_because(found: Assessment) -> tuple[str, ...]:
    """Return why what came out is no valid result, one line each, without what a tool said.

    A red gate alone leaves a result valid. What is missing because a step failed is told by that step alone.
    """
    failing = [end for end in found.failing_problems if end.status != "blocked"]
    lines = [f"step {end.step!r}: {_status_text(end)}" for end in failing]
    if found.failing_problems and not failing:
        lines = [f"gate {gate.gate!r} stopped step {gate.step!r}" for gate in found.stopping_gates]
    return (*lines,) or (*found.result.missing, *found.faults)


def failure_sentences(found: Assessment) -> Iterator[str]:
    """Yield the sentences that say why a goal is not achieved."""
    for gate in found.stopping_gates[:5]:
        yield with_full_stop(
            f"Gate {gate.gate!r} stopped {_step_label(gate.step, gate.labels)}: {gate.message}"
        )
    for end in [end for end in found.failing_problems if end.status != "blocked"][:5]:
        yield with_full_stop(f"Step {_step_label(end.step, end.labels)!r} {_problem_text(end)}")
    blocked = [end for end in found.problems if end.status == "blocked"]
    lacking = (*found.result.missing, *found.faults)
    if blocked:
        names = ", ".join(end.step for end in blocked[:_MAX_LABELS])
        more = f" and {len(blocked) - _MAX_LABELS} more" if len(blocked) > _MAX_LABELS else ""
        yield f"So nothing could be built on it: {names}{more} did not run."
    elif lacking:
        yield with_full_stop(f"Lacking: {'; '.join(lacking[:4])}")


def remark_sentences(found: Assessment) -> Iterator[str]:
    """Yield the sentences on what is against a run without failing it."""
    if found.absent_steps:
        yield f"Absent, and the plan provides for that: {', '.join(found.absent_steps)}."
    if found.warnings:
        yield f"{_count(found.warnings, 'gate')} left a warning."


def fix_sentences(found: Assessment, goal: Goal) -> Iterator[str]:
    """Yield the sentence that says what would mend what keeps the goal from being achieved, if anything would."""
    actions = recovery_actions(found.stopping_gates, found.failing_problems, goal)
    hints = list(dict.fromkeys(action.hint for action in actions))
    if hints:
        yield with_full_stop(f"What would mend it: {'; '.join(hints[:4])}")


def confidence_sentence(confidence: Confidence) -> str:
    """Return the sentence that tells the confidence in the whole."""
    if confidence.capped < confidence.raw:
        return f"Confidence {confidence.capped:.2f}, lowered by caps from {confidence.raw:.2f}."
    return f"Confidence {confidence.capped:.2f}."


def with_full_stop(text: str) -> str:
    """Return a text with a full stop behind it, unless whoever wrote its end has put a sign there."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def _step_label(step: StepId, labels: Sequence[str]) -> str:
    if not labels:
        return step
    shown = ", ".join(labels[:_MAX_LABELS])
    more = f" and {len(labels) - _MAX_LABELS} more" if len(labels) > _MAX_LABELS else ""
    return f"{step}[{shown}{more}]"


def _problem_text(end: StepProblem) -> str:
    if end.status in {"ok", "empty", "reused"}:
        return f"these items failed ({end.error or 'no reason on record'}): {end.message}"
    return _status_text(end) + (f": {end.message}" if end.message != end.status else "")


def _status_text(end: StepProblem) -> str:
    return (end.status or "never ran") + (f" ({end.error})" if end.error else "")


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"
