"""The review by code: did the run reach its goal, and if not, why and what would mend it.

A goal is *achieved* when every block gate that counts is green, everything that the result is made of is there, and
the result fits the goal's output schema. Code decides that from gate records and statuses; no model is asked, the
summary says so, and the confidence is capped for it.

An optional step that failed or was stopped is absent and does not fail the run: whoever reads it had to provide for
that. It is listed as missing and lowers the confidence.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping

from wavewright.executor.state import RunState
from wavewright.planner.goals import Goal
from wavewright.planner.models import Plan
from wavewright.planner.signatures import ToolSignature
from wavewright.reviewer.actions import recovery_actions
from wavewright.reviewer.assessment import (
    Assessment,
    SettledConfidences,
    assess,
    run_instant,
    settle_confidences,
)
from wavewright.reviewer.caps import CODE_REVIEW_CEILING
from wavewright.reviewer.records import ReviewResult
from wavewright.reviewer.verdict_text import (
    confidence_sentence,
    failure_sentences,
    fix_sentences,
    invalid_because,
    missing_data,
    remark_sentences,
)


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
    now = now or run_instant(state)
    found = assess(plan, goal, state, tools, now)
    settled = settle_confidences(plan, goal, state, tools, now, found.result, ceiling=CODE_REVIEW_CEILING)
    return ReviewResult(
        goal_achieved=found.is_achieved,
        confidence=settled.overall.capped,
        summary=" ".join(_summary_sentences(found, settled, goal)),
        missing_data=missing_data(found),
        invalid_because=invalid_because(found),
        recovery_actions=recovery_actions(found.gates, found.problems, goal),
        reviewer="code",
        confidences=settled.confidences,
        caps=settled.caps,
        round=state.round,
    )


def _summary_sentences(found: Assessment, settled: SettledConfidences, goal: Goal) -> Iterator[str]:
    if found.is_achieved:
        evaluated = " that was evaluated" if any(gate.is_unevaluated for gate in found.gates) else ""
        yield f"Goal achieved: every mandatory gate{evaluated} is green and everything that the result needs is there."
    else:
        yield "Goal not achieved."
        yield from failure_sentences(found)
    yield from remark_sentences(found)
    if not found.is_achieved:
        yield from fix_sentences(found, goal)
    yield confidence_sentence(settled.overall)
    yield "Reviewed by code from the gates and the steps' ends; no model read the result."
