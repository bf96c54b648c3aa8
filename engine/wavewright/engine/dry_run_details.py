"""What a dry run's page shows of a step that is chosen: the record's own figures, types, gates, and its neighbours.

Numbers stand for steps and tools, because the page holds a thousand of them; what is absent is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from wavewright.engine.dry_run import DryRun
from wavewright.engine.dry_run_json import dry_run_json
from wavewright.engine.dry_run_sections import dollars_text, tokens_text
from wavewright.planner.models import Gate
from wavewright.planner.signatures import ToolSignature
from wavewright.planner.type_text import type_text
from wavewright.planner.types import GATE_ID_SEPARATOR, JsonSchema
from wavewright.planner.uses import step_reads
from wavewright.reviewer.times import duration_text

_OMITTED_FIELDS = frozenset(
    {
        "id",
        "tool",
        "wave",
        "depends_on",
        "gates",
        "expected_seconds",
        "p90_seconds",
        "seconds_from",
        "calls_seen",
    }
) | {"tokens", "usd", "tokens_from", "spends_seen"}
"""Fields of the record that are put into words here; whatever else it has is shown by its name."""


def page_data(dry_run: DryRun, tools: Mapping[str, ToolSignature]) -> dict[str, object]:
    """Return what the page's script reads: steps in the plan's order, and the tools that they call."""
    numbers = {step.id: number for number, step in enumerate(dry_run.steps)}
    names = list(dict.fromkeys(step.tool for step in dry_run.steps))
    gates = {str(gate.id): _gate_text(gate) for gate in dry_run.plan.gates}
    known = cast("list[dict[str, object]]", dry_run_json(dry_run)["steps"])
    critical = set(dry_run.critical_path)
    steps: list[dict[str, object]] = []
    for record, step, planned in zip(known, dry_run.steps, dry_run.plan.steps, strict=True):
        read = {numbers[name] for name in step_reads(planned) if name in numbers}
        told: dict[str, object] = {
            name: value for name, value in record.items() if name not in _OMITTED_FIELDS and _is_shown(value)
        }
        told |= {
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
        if told.get("calls_made") == told.get("calls"):
            told.pop("calls_made", None)
        steps.append({name: value for name, value in told.items() if _is_shown(value)})
    return {"steps": steps, "tools": [_tool_json(name, tools.get(name)) for name in names]}


def _is_shown(value: object) -> bool:
    return value is not None and value is not False and value not in ("", [], {})


def _time_text(record: Mapping[str, object]) -> str:
    expected, p90 = cast("float", record["expected_seconds"]), cast("float", record["p90_seconds"])
    if not record["calls_made"]:
        return duration_text(expected)
    seen = record["calls_seen"]
    basis = f"from {seen} past calls" if record["seconds_from"] == "history" else "the tool's own figure"
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
    asked: object = {
        "check": gate.check,
        "schema": "its JSON Schema",
        "fresh_within": f"no older than {duration_text(gate.fresh_within or 0)}",
        "required": ", ".join(gate.required or ()),
        "judge": gate.judge.rubric if gate.judge is not None else "",
    }[gate.kind]
    return {
        "id": gate.id.removesuffix(f"{GATE_ID_SEPARATOR}{gate.on}"),
        "kind": gate.kind,
        "severity": gate.severity,
        "asked": asked,
        "hint": gate.hint or "",
    }


def _tool_json(name: str, signature: ToolSignature | None) -> dict[str, object]:
    if signature is None:
        return {"name": name}
    properties = signature.input_schema.get("properties")
    required = signature.input_schema.get("required")
    needed = required if isinstance(required, list) else []
    described = properties if isinstance(properties, dict) else {}
    return {
        "name": name,
        "about": signature.description,
        "takes": [
            {
                "name": field if field in needed else f"{field}?",
                "type": type_text({**_definitions(signature), **schema} if isinstance(schema, dict) else {}),
                "about": schema.get("description", "") if isinstance(schema, dict) else "",
            }
            for field, schema in described.items()
        ],
        "gives": type_text(signature.output_schema),
    }


def _definitions(signature: ToolSignature) -> JsonSchema:
    """Return what the types of parameters may refer to."""
    found = signature.input_schema.get("$defs")
    return {} if found is None else {"$defs": found}
