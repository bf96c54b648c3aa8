"""A dry run as a graph in Mermaid and in DOT."""

from __future__ import annotations

from wavewright.engine.dry_run import DryRun, StepForecast
from wavewright.engine.dry_run_text import repetition_text


def as_mermaid(dry_run: DryRun) -> str:
    """Return the graph as a Mermaid flowchart, one subgraph a wave; the critical path is drawn thick."""
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


def as_dot(dry_run: DryRun) -> str:
    """Return the graph in Graphviz's DOT, one rank a wave; the critical path is drawn thick."""
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


def _critical_edges(dry_run: DryRun) -> set[tuple[str, str]]:
    return set(zip(dry_run.critical_path, dry_run.critical_path[1:], strict=False))
