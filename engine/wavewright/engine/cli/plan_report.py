"""What `wavewright plan` prints: the plan, and how it came to be.

The text is a YAML document whatever it says: what is no part of the plan stands in comments, so that
`wavewright plan JOB > FILE` keeps a plan. Where there is no plan it says why, with the faults of the last answer shown
in that answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wavewright.config.documents import Source
from wavewright.engine.cli.asking import HOW_TO_ANSWER, question_lines
from wavewright.engine.cli.model_lines import cost_words, models_of, one_line, rung_line
from wavewright.engine.cli.plan_text import plan_as_yaml, plan_json
from wavewright.engine.job_faults import no_plan_error
from wavewright.planner.graph import PlanGraph
from wavewright.planner.hashing import plan_hash
from wavewright.planner.rendering import render_json, render_text
from wavewright.planner.types import Json, JsonObject
from wavewright.reviewer.costs import sum_costs

if TYPE_CHECKING:
    from wavewright.engine.planning_session import PlanReport
    from wavewright.planner.diagnostics import Diagnostic
    from wavewright.planner.models import Plan
    from wavewright.planner.planning import PlanningResult

_RUNGS_OF_ANSWERS = ("llm", "repaired")
"""Rungs whose plan is the model's last answer."""
_NO_SOURCE = Source("<the plan>", "")


def valid_plan(report: PlanReport) -> Plan | None:
    """Return the plan, where there is one without an error; a job's own plan may have some."""
    has_errors = any(found.severity == "error" for found in report.planned.diagnostics)
    return None if has_errors else report.planned.plan


def report_json(report: PlanReport) -> JsonObject:
    """Return the report as one JSON object."""
    planned, plan = report.planned, valid_plan(report)
    found, source = _shown_diagnostics(report)
    cost = sum_costs(report.uses)
    models: list[Json] = [*models_of(report.uses)]
    return {
        "plan": plan_json(plan) if plan is not None else None,
        "rung": planned.rung,
        "diagnostics": [*render_json(found, source)],
        "rungs": [
            {
                "ladder": record.ladder,
                "rung": record.rung,
                "outcome": record.outcome,
                "reason": record.reason,
                "seconds": round(record.seconds, 3),
                "ceiling": record.ceiling,
                "because": record.because,
            }
            for record in planned.rungs
        ],
        "attempts": len(planned.attempts),
        "answers": [
            {
                "rung": attempt.rung,
                "text": attempt.answer,
                "repairs": [repair.message for repair in attempt.repairs],
                "diagnostics": [*render_json(attempt.diagnostics, attempt.source)],
            }
            for attempt in planned.attempts
        ],
        "model": models[0] if models else None,
        "models": models,
        "calls": cost.calls,
        "tokens": {
            "input": cost.input_tokens,
            "output": cost.output_tokens,
            "total": cost.tokens,
            "estimated": cost.estimated > 0,
        },
        "usd": None if cost.unpriced else cost.usd or 0.0,
        "seconds": round(cost.seconds, 3),
        "question": _question_json(planned),
        "cannot_plan": planned.cannot_plan,
        "plan_hash": plan_hash(report.bound) if plan is not None and report.bound is not None else None,
        "estimate_tokens": report.estimate_tokens,
    }


def report_text(report: PlanReport) -> str:
    """Return the report as text: the plan as YAML with comments below it, or why there is none."""
    plan = valid_plan(report)
    if plan is None:
        return "".join(f"{line}\n" for line in _no_plan_text(report))
    comments = [line for part in _plan_comments(report, plan) for line in part.split("\n")]
    return plan_as_yaml(plan) + "".join(f"# {line}".rstrip() + "\n" for line in comments)


def _plan_comments(report: PlanReport, plan: Plan) -> Iterator[str]:
    """Yield what is to be known of a plan beside its text."""
    planned = report.planned
    yield f"rung    {planned.rung or 'unknown'}{_rung_reason(planned)}"
    for record in planned.rungs:
        yield f"        {rung_line(record)}"
    yield from _cost_comments(report)
    bound = report.bound or plan
    graph = PlanGraph.of(bound)
    steps, waves = _counted(len(bound.steps), "step"), _counted(graph.depth, "wave")
    expected = f", about {report.estimate_tokens:,} tokens of models" if report.estimate_tokens else ""
    yield f"plan    {steps} in {waves}, width {graph.width}{expected}"
    yield f"hash    {plan_hash(bound)}"
    found, source = _shown_diagnostics(report)
    if found:
        yield ""
        yield render_text(found, source)
    last = planned.attempts[-1] if planned.attempts else None
    if last is not None and planned.rung not in _RUNGS_OF_ANSWERS and last.diagnostics:
        yield ""
        yield "what was wrong with the model's last answer:"
        yield render_text(last.diagnostics, last.source)


def _rung_reason(planned: PlanningResult) -> str:
    match planned.rung:
        case "given":
            return ": the job's own plan; no planner is asked"
        case "template" if not planned.rungs:
            return ": the goal template's plan; no planner model is configured"
        case _:
            return ""


def _no_plan_text(report: PlanReport) -> Iterator[str]:
    planned = report.planned
    found, source = _shown_diagnostics(report)
    if planned.question is None and planned.cannot_plan is None and found:
        yield render_text(found, source)
        yield ""
    adjective = "" if planned.question is not None else "sound "
    yield f"no {adjective}plan for job {report.goal.job!r}"
    if planned.question is not None:
        yield from question_lines(planned.question)
        yield f"  = help: {HOW_TO_ANSWER}"
    elif planned.cannot_plan is not None:
        yield f"the planner says that it cannot be planned: {one_line(planned.cannot_plan)}"
    for record in planned.rungs:
        yield f"  {rung_line(record)}"
    yield from _cost_comments(report)


def _cost_comments(report: PlanReport) -> Iterator[str]:
    if report.uses:
        yield f"model   {', '.join(models_of(report.uses))}"
        yield f"cost    {cost_words(sum_costs(report.uses))}"


def _shown_diagnostics(report: PlanReport) -> tuple[Sequence[Diagnostic], Source]:
    """Return the diagnostics that are told, and the text that they speak of."""
    planned = report.planned
    if planned.plan is None and planned.attempts:
        last = planned.attempts[-1]
        return last.diagnostics, last.source
    found = planned.diagnostics
    if planned.plan is None and not planned.rungs and not found:
        nobody = no_plan_error(report.goal, _NO_SOURCE)
        return nobody.diagnostics, Source(f"job {report.goal.job!r}", "")
    return found, planned.document.source if planned.document is not None else _NO_SOURCE


def _question_json(planned: PlanningResult) -> JsonObject | None:
    if planned.question is None:
        return None
    return {"question": planned.question.question, "options": [*planned.question.options]}


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
