"""A dry run as text, Mermaid and DOT."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from wavewright.engine.dry_run import DryRun, StepForecast
from wavewright.reviewer.times import duration_text

WIDTH = 80
"""Columns of the text, as on the narrowest common terminal."""


def as_text(dry_run: DryRun) -> str:
    """Return the dry run as a tree of waves with what a reader must know before saying yes."""
    return "\n".join(_lines(dry_run)) + "\n"


def _lines(dry_run: DryRun) -> Iterator[str]:
    calls = sum(1 if step.calls is None else step.calls for step in dry_run.steps)
    open_calls = any(step.calls is None for step in dry_run.steps)
    yield from _wrapped(f"{dry_run.job}: {dry_run.goal}", "")
    yield f"plan {dry_run.rung}, {dry_run.plan_hash[:19]}, {dry_run.schedule}, {dry_run.concurrency} calls at once"
    yield (
        f"{_count(len(dry_run.steps), 'step')}, {'at least ' if open_calls else ''}{_count(calls, 'call')}, "
        f"{_count(len(dry_run.waves), 'wave')}, width {dry_run.width}"
    )
    path = " → ".join(dry_run.critical_path)
    yield from _wrapped(f"critical path {duration_text(dry_run.critical_seconds)}: {path}", "  ")
    yield f"one after another it would take {duration_text(dry_run.total_seconds)}"
    yield from _waves(dry_run)
    effects = [
        f"{step.id} calls {step.tool} ({', '.join(step.effects)})"
        for step in dry_run.steps
        if step.effects and not step.is_skipped
    ]
    yield ""
    yield from _section("side effects", effects)
    yield from _section("approvals", dry_run.approvals)
    yield from _section("gates", dry_run.gates)
    yield from _section("caps", dry_run.caps)
    yield from _section("warnings", [f"{found.code} {found.message}" for found in dry_run.warnings])


def _waves(dry_run: DryRun) -> Iterator[str]:
    steps = {step.id: step for step in dry_run.steps}
    id_width = min(28, max(map(len, steps), default=0))
    tool_width = min(28, max((len(step.tool) for step in dry_run.steps), default=0) + 4)
    for number, wave in enumerate(dry_run.waves, 1):
        yield ""
        yield f"wave {number}"
        for position, step_id in enumerate(wave, 1):
            last = position == len(wave)
            lines = list(_step_lines(steps[step_id], id_width, tool_width))
            yield f"{'└─' if last else '├─'} {lines[0]}"
            yield from (f"{'  ' if last else '│ '} {line}" for line in lines[1:])


def _step_lines(step: StepForecast, id_width: int, tool_width: int) -> Iterator[str]:
    marks = [
        *step.effects,
        *(["optional"] if step.optional else []),
        *(["skipped"] if step.is_skipped else []),
    ]
    told = f"  {', '.join(marks)}" if marks else ""
    seconds = "" if step.is_skipped else duration_text(step.seconds)
    yield f"{step.id:<{id_width}}  {step.tool + times_of(step):<{tool_width}} {seconds:>7}{told}".rstrip()
    details = [f"after {', '.join(step.depends_on)}"] if step.depends_on else []
    false = " (false for these inputs)" if step.is_skipped else ""
    details += [f"when {step.when}{false}"] if step.when else []
    details += [f"gates {', '.join(gate.partition('__')[0] for gate in step.gates)}"] if step.gates else []
    for detail in details:
        yield from _wrapped(detail, "  ", indent="  ", width=WIDTH - 3)


def _section(title: str, entries: list[str] | tuple[str, ...]) -> Iterator[str]:
    if not entries:
        yield f"{title}: none"
        return
    yield f"{title}:"
    for entry in entries:
        yield from _wrapped(entry, "    ", indent="  ")


def _wrapped(text: str, rest: str, *, indent: str = "", width: int = WIDTH) -> list[str]:
    flat = " ".join(text.split())
    return textwrap.wrap(
        flat, width, initial_indent=indent, subsequent_indent=rest, break_long_words=False
    ) or [""]


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def as_mermaid(dry_run: DryRun) -> str:
    """Return the graph as a Mermaid flowchart, one subgraph a wave; the critical path is drawn thick."""
    lines = ["flowchart LR"]
    steps = {step.id: step for step in dry_run.steps}
    for number, wave in enumerate(dry_run.waves, 1):
        lines.append(f"    subgraph wave_{number} [wave {number}]")
        lines += [f"        {_mermaid_node(steps[step_id])}" for step_id in wave]
        lines.append("    end")
    critical = _critical_edges(dry_run)
    lines += [
        f"    s_{before} {'==>' if (before, step.id) in critical else '-->'} s_{step.id}"
        for step in dry_run.steps
        for before in step.depends_on
    ]
    return "\n".join(lines) + "\n"


def _mermaid_node(step: StepForecast) -> str:
    label = f"{step.id}<br/>{step.tool}{times_of(step)}"
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
        label = f"{step.id}\\n{step.tool}{times_of(step)}"
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


def times_of(step: StepForecast) -> str:
    """Return how often a `for_each` step calls its tool, as ` ×5`; nothing for any other."""
    return "" if not step.for_each else f" ×{step.calls if step.calls is not None else '?'}"


def _critical_edges(dry_run: DryRun) -> set[tuple[str, str]]:
    return set(zip(dry_run.critical_path, dry_run.critical_path[1:], strict=False))
