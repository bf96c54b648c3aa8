"""A dry run as JSON and as a graph in Mermaid."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise

from wavewright.engine.rehearsal.dry_run.estimates import EstimateRange
from wavewright.engine.rehearsal.dry_run.kept_results import RerunStatus
from wavewright.engine.rehearsal.dry_run.records import PlanFacts, PlanForecast, StepForecast
from wavewright.engine.rehearsal.dry_run.text import repetition_text
from wavewright.planner import JsonObject
from wavewright.reviewer.values import iso_of_epoch


def dry_run_json(dry_run: PlanFacts) -> dict[str, object]:
    """Return the record as JSON."""
    return {
        "job": dry_run.job,
        "goal": dry_run.goal,
        "rung": dry_run.rung,
        "plan_hash": dry_run.plan_hash,
        "schedule": dry_run.schedule,
        "concurrency": dry_run.concurrency,
        "waves": [list(wave) for wave in dry_run.waves],
        "max_parallelism": dry_run.max_parallelism,
        "critical_path": {
            "steps": list(dry_run.critical_path),
            "seconds": dry_run.critical_seconds,
        },
        "total_seconds": dry_run.total_seconds,
        "estimate": estimate_json(dry_run.estimate),
        "budget": {
            "verdict": dry_run.budget.verdict,
            "refusals": list(dry_run.budget.refusals),
            "rows": [asdict(row) for row in dry_run.budget.rows],
        },
        "steps": [_step_json(step) for step in dry_run.steps],
        "names": list(dry_run.names),
        "stop": dry_run.stop,
        "gates": list(dry_run.gates),
        "caps": list(dry_run.caps),
        "approvals": list(dry_run.approvals),
        "egress": [asdict(entry) for entry in dry_run.trust.egress],
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
            {"code": warning.code, "message": warning.message, "pointer": warning.pointer}
            for warning in dry_run.warnings
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
        "from_defaults": estimate.from_defaults,
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
        "shared_calls": step.shared_calls,
        "standing": _standing_json(step.rerun_status),
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
    return {**asdict(step.reuse), "oldest": iso_of_epoch(step.reuse.oldest)}


def _standing_json(status: RerunStatus | None) -> dict[str, object] | None:
    if status is None:
        return None
    return {"kind": status.kind, "reason": status.reason, "items_done": len(status.items_kept)}


def _rerun_json(dry_run: PlanFacts) -> dict[str, object] | None:
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
    # Rounded to hide the error of adding floats.
    return (
        None
        if figure is None
        else {"expected": round(figure.expected, 9), "p90": round(figure.p90, 9)}
    )


def as_mermaid(dry_run: PlanFacts) -> str:
    """Return the graph as a Mermaid flowchart with a subgraph per wave; the critical path is drawn
    thick.
    """
    lines = ["flowchart LR"]
    steps = {step.id: step for step in dry_run.steps}
    for number, wave in enumerate(dry_run.waves, 1):
        lines.append(f"    subgraph wave_{number} [wave {number}]")
        lines += [f"        {_mermaid_node_line(steps[step_id])}" for step_id in wave]
        lines.append("    end")
    critical = set(pairwise(dry_run.critical_path))
    lines += [
        f"    s_{before} {'==>' if (before, step.id) in critical else '-->'} s_{step.id}"
        for step in dry_run.steps
        for before in step.depends_on
    ]
    return "\n".join(lines) + "\n"


def _mermaid_node_line(step: StepForecast) -> str:
    label = f"{step.id}<br/>{step.tool}{repetition_text(step)}"
    return f's_{step.id}{{{{"{label}"}}}}' if step.effects else f's_{step.id}["{label}"]'
