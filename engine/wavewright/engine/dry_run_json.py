"""A dry run as JSON: everything that is known, under names that stay."""

from __future__ import annotations

from wavewright.engine.dry_run import DryRun, PlanForecast, StepForecast
from wavewright.engine.dry_run_budget import BudgetRow
from wavewright.engine.dry_run_estimates import EstimateRange
from wavewright.planner.types import JsonObject
from wavewright.reviewer.times import iso_of_epoch


def dry_run_json(dry_run: DryRun) -> dict[str, object]:
    """Return the record as JSON."""
    return {
        "job": dry_run.job,
        "goal": dry_run.goal,
        "rung": dry_run.rung,
        "plan_hash": dry_run.plan_hash,
        "schedule": dry_run.schedule,
        "concurrency": dry_run.concurrency,
        "waves": [list(wave) for wave in dry_run.waves],
        "width": dry_run.max_parallelism,
        "critical_path": {"steps": list(dry_run.critical_path), "seconds": dry_run.critical_seconds},
        "total_seconds": dry_run.total_seconds,
        "estimate": estimate_json(dry_run.estimate),
        "budget": {
            "verdict": dry_run.budget.verdict,
            "refusals": list(dry_run.budget.refusals),
            "rows": [_row_json(row) for row in dry_run.budget.rows],
        },
        "steps": [_step_json(step) for step in dry_run.steps],
        "gates": list(dry_run.gates),
        "caps": list(dry_run.caps),
        "approvals": list(dry_run.approvals),
        "leaves": [
            {
                "step": one.step,
                "tool": one.tool,
                "to": one.to,
                "inputs": list(one.inputs),
                "steps": list(one.steps),
                "params": list(one.params),
                "carries_untrusted": one.carries_untrusted,
            }
            for one in dry_run.trust.leaves
        ],
        "untrusted": [
            {
                "step": flow.step,
                "tool": flow.tool,
                "read_by": list(flow.read_by),
                "reaches": list(flow.reaches),
                "acting": list(flow.acting_steps),
            }
            for flow in dry_run.trust.untrusted
        ],
        "rerun": _rerun_json(dry_run),
        "notes": list(dry_run.notes),
        "warnings": [
            {"code": found.code, "message": found.message, "pointer": found.pointer}
            for found in dry_run.warnings
        ],
    }


def estimate_json(estimate: PlanForecast) -> JsonObject:
    """Return what the whole plan is expected to take, as JSON."""
    return {
        "seconds": _range_json(estimate.seconds),
        "calls": estimate.calls,
        "tokens": _range_json(estimate.tokens),
        "usd": _range_json(estimate.usd),
        "is_least": estimate.is_lower_bound,
        "from_history": estimate.from_history,
        "from_priors": estimate.from_defaults,
    }


def _step_json(step: StepForecast) -> dict[str, object]:
    return {
        "id": step.id,
        "tool": step.tool,
        "why": step.why,
        "wave": step.wave + 1,
        "depends_on": list(step.depends_on),
        "for_each": step.for_each,
        "calls": step.calls,
        "calls_made": step.calls_made,
        "reuse": _reuse_json(step),
        "standing": _rerun_status_json(step),
        "skipped": step.is_skipped,
        "when": step.when,
        "optional": step.optional,
        "effects": list(step.effects),
        "needs_approval": step.needs_approval,
        "expected_seconds": step.seconds,
        "p90_seconds": step.p90_seconds,
        "seconds_from": step.call.seconds_from,
        "calls_seen": step.call.calls_seen,
        "model": step.call.model,
        "tokens": _range_json(step.tokens),
        "usd": _range_json(step.usd),
        "tokens_from": step.call.tokens_from if step.call.model is not None else None,
        "spends_seen": step.call.spends_seen,
        "gates": list(step.gates),
        "params": dict(step.params),
    }


def _reuse_json(step: StepForecast) -> dict[str, object] | None:
    if step.reuse is None:
        return None
    return {
        "calls": step.reuse.calls,
        "runs": list(step.reuse.runs),
        "oldest": iso_of_epoch(step.reuse.oldest),
    }


def _rerun_status_json(step: StepForecast) -> dict[str, object] | None:
    if step.rerun_status is None:
        return None
    return {
        "kind": step.rerun_status.kind,
        "reason": step.rerun_status.reason,
        "items_done": step.rerun_status.items_done,
    }


def _rerun_json(dry_run: DryRun) -> dict[str, object] | None:
    if dry_run.rerun is None:
        return None
    runs = [step.id for step in dry_run.steps if step.calls_made]
    kept = [
        step.id
        for step in dry_run.steps
        if step.rerun_status is not None and step.rerun_status.kind == "kept"
    ]
    return {"run": dry_run.rerun.run, "patch": dry_run.rerun.patch, "runs": runs, "kept": kept}


def _range_json(figure: EstimateRange | None) -> JsonObject | None:
    # What is left over of adding floats is nobody's microsecond.
    return None if figure is None else {"expected": round(figure.expected, 9), "p90": round(figure.p90, 9)}


def _row_json(row: BudgetRow) -> dict[str, object]:
    return {
        "scope": row.scope,
        "step": row.step,
        "measure": row.measure,
        "left": row.left,
        "expected": row.expected,
        "p90": row.p90,
        "verdict": row.verdict,
    }
