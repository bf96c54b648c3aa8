"""A dry run as JSON, as a graph in Mermaid and DOT, and as data of its page.

The data of the page refers to steps and tools by number, since a page may hold a thousand; absent
values are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import cast

from wavewright.engine.rehearsal.dry_run.estimates import EstimateRange
from wavewright.engine.rehearsal.dry_run.records import PlanFacts, PlanForecast, StepForecast
from wavewright.engine.rehearsal.dry_run.text import dollars_text, repetition_text, tokens_text
from wavewright.planner.language.plan import Gate
from wavewright.planner.language.signatures import ToolSignature
from wavewright.planner.planning.tool_descriptions import type_text
from wavewright.planner.plans.gate_questions import gate_consequence, gate_question
from wavewright.planner.plans.uses import step_reads
from wavewright.planner.types import GATE_ID_SEPARATOR, JsonObject, JsonSchema, as_list, as_object
from wavewright.reviewer.values import duration_text, iso_of_epoch


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
        "standing": None if step.rerun_status is None else asdict(step.rerun_status),
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
    critical = _critical_edges(dry_run)
    lines += [
        f"    s_{before} {'==>' if (before, step.id) in critical else '-->'} s_{step.id}"
        for step in dry_run.steps
        for before in step.depends_on
    ]
    return "\n".join(lines) + "\n"


def _mermaid_node_line(step: StepForecast) -> str:
    label = f"{step.id}<br/>{step.tool}{repetition_text(step)}"
    return f's_{step.id}{{{{"{label}"}}}}' if step.effects else f's_{step.id}["{label}"]'


def as_dot(dry_run: PlanFacts) -> str:
    """Return the graph in Graphviz's DOT with a rank per wave; the critical path is drawn thick."""
    lines = [
        "digraph plan {",
        "    rankdir=LR;",
        '    node [shape=box, style=rounded, fontname="sans-serif"];',
    ]
    for step in dry_run.steps:
        style = ', style="rounded,dashed"' if step.optional else ""
        shape = ", shape=hexagon" if step.effects else ""
        faint = ", color=gray, fontcolor=gray" if step.is_skipped else ""
        label = f"{step.id}\\n{step.tool}{repetition_text(step)}"
        lines.append(f'    "{step.id}" [label="{label}"{style}{shape}{faint}];')
    for wave in dry_run.waves:
        names = " ".join(f'"{step_id}";' for step_id in wave)
        lines.append(f"    {{ rank=same; {names} }}")
    critical = _critical_edges(dry_run)
    for step in dry_run.steps:
        for before in step.depends_on:
            thick = " [penwidth=3]" if (before, step.id) in critical else ""
            lines.append(f'    "{before}" -> "{step.id}"{thick};')
    return "\n".join([*lines, "}"]) + "\n"


def _critical_edges(dry_run: PlanFacts) -> set[tuple[str, str]]:
    return set(zip(dry_run.critical_path, dry_run.critical_path[1:], strict=False))


_OMITTED_FIELDS = frozenset({
    "id", "tool", "wave", "depends_on", "gates", "expected_seconds", "p90_seconds", "seconds_from", "calls_seen",
    "tokens", "usd", "tokens_from", "spends_seen",
})  # fmt: skip
"""Fields that the page shows in another form; all others are shown by their names."""


def page_data(dry_run: PlanFacts, tools: Mapping[str, ToolSignature]) -> dict[str, object]:
    """Return the data of the page's script: steps in the plan's order, and the tools that they
    call.
    """
    numbers = {step.id: number for number, step in enumerate(dry_run.steps)}
    names = list(dict.fromkeys(step.tool for step in dry_run.steps))
    gates = {str(gate.id): _gate_text(gate) for gate in dry_run.plan.gates}
    known = cast("list[dict[str, object]]", dry_run_json(dry_run)["steps"])
    critical = set(dry_run.critical_path)
    steps: list[dict[str, object]] = []
    for record, step, planned in zip(known, dry_run.steps, dry_run.plan.steps, strict=True):
        read = {numbers[name] for name in step_reads(planned) if name in numbers}
        fields: dict[str, object] = {
            name: value
            for name, value in record.items()
            if name not in _OMITTED_FIELDS and _is_shown(value)
        }
        fields |= {
            "id": step.id,
            "tool": names.index(step.tool),
            "wave": step.wave + 1,
            "waits": [numbers[name] for name in step.depends_on],
            "reads": sorted(read),
            "time": "" if step.is_skipped else _time_text(record),
            "cost": _cost_text(record),
            "gates": [gates[name] for name in step.gates],
            "critical": step.id in critical,
        }
        if fields.get("calls_made") == fields.get("calls"):
            fields.pop("calls_made", None)
        steps.append({name: value for name, value in fields.items() if _is_shown(value)})
    return {"steps": steps, "tools": [_tool_json(name, tools.get(name)) for name in names]}


def _is_shown(value: object) -> bool:
    return value is not None and value is not False and value not in ("", [], {})


def _time_text(record: Mapping[str, object]) -> str:
    expected, p90 = cast("float", record["expected_seconds"]), cast("float", record["p90_seconds"])
    if not record["calls_made"]:
        return duration_text(expected)
    seen = record["calls_seen"]
    basis = (
        f"from {seen} past calls"
        if record["seconds_from"] == "history"
        else "the tool's own figure"
    )
    return f"{duration_text(expected)}, p90 {duration_text(p90)} ({basis})"


def _cost_text(record: Mapping[str, object]) -> str:
    """Return the money and the tokens of a step that asks a model."""
    if record["model"] is None:
        return ""
    tokens = cast("Mapping[str, float]", record["tokens"])
    usd = cast("Mapping[str, float] | None", record["usd"])
    money = (
        "price not known"
        if usd is None
        else f"{dollars_text(usd['expected'])}, p90 {dollars_text(usd['p90'])}"
    )
    return f"{money}; {tokens_text(tokens['expected'])} tokens, p90 {tokens_text(tokens['p90'])}"


def _gate_text(gate: Gate) -> dict[str, object]:
    return {
        "id": gate.id.removesuffix(f"{GATE_ID_SEPARATOR}{gate.on}"),
        "kind": gate.kind,
        "consequence": gate_consequence(gate),
        "asked": gate_question(gate),
        "hint": gate.hint or "",
    }


def _tool_json(name: str, signature: ToolSignature | None) -> dict[str, object]:
    if signature is None:
        return {"name": name}
    needed = as_list(signature.input_schema.get("required"))
    described = as_object(signature.input_schema.get("properties"))
    return {
        "name": name,
        "about": signature.description,
        "takes": [
            {
                "name": field if field in needed else f"{field}?",
                "type": type_text(
                    {**_definitions(signature), **schema} if isinstance(schema, dict) else {}
                ),
                "about": schema.get("description", "") if isinstance(schema, dict) else "",
            }
            for field, schema in described.items()
        ],
        "gives": type_text(signature.output_schema),
    }


def _definitions(signature: ToolSignature) -> JsonSchema:
    """Return the definitions that the types of parameters may refer to."""
    definitions = signature.input_schema.get("$defs")
    return {} if definitions is None else {"$defs": definitions}
