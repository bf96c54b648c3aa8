"""A dry run as text: a summary, the waves as tables, then sections on budgets, side effects,
approvals and warnings.

Every character is printable, so no text of a plan can move the cursor or hide a line.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from wavewright.engine.rehearsal.dry_run.estimates import (
    MIN_CALLS,
    BudgetMeasure,
    BudgetRow,
    EstimateRange,
)
from wavewright.engine.rehearsal.dry_run.kept_results import CALLING, StepReuse
from wavewright.engine.rehearsal.dry_run.records import PlanFacts, StepForecast
from wavewright.engine.rehearsal.dry_run.trust import Egress, UntrustedFlow
from wavewright.planner.diagnostics.diagnostic import counted
from wavewright.planner.diagnostics.rendering import wrap_paragraph
from wavewright.planner.types import GATE_ID_SEPARATOR
from wavewright.reviewer.values import duration_text

Section = tuple[str, Sequence[str]]
_MAX_ENTRIES = 20
"""Entries of one section; the JSON has them all."""


def sections(dry_run: PlanFacts) -> Iterator[Section]:
    """Yield title and entries of each section that has any."""
    for title, entries in _all_sections(dry_run):
        if entries:
            more = len(entries) - _MAX_ENTRIES
            yield (
                title,
                [
                    *entries[:_MAX_ENTRIES],
                    *([f"and {more} more (--format json)"] if more > 0 else []),
                ],
            )


def _all_sections(dry_run: PlanFacts) -> Iterator[Section]:
    refusals = [f"`run` would refuse it: {refusal}" for refusal in dry_run.budget.refusals]
    yield (
        f"budget ({dry_run.budget.verdict})",
        [*refusals, *map(_budget_entry, dry_run.budget.rows)],
    )
    effects = [
        f"{step.id} calls {step.tool} ({', '.join(step.effects)})"
        for step in dry_run.steps
        if step.effects and not step.makes_no_call
    ]
    yield "side effects", effects
    yield "approvals", dry_run.approvals
    yield "egress", [_egress_entry(entry) for entry in dry_run.trust.egress]
    yield "untrusted text", [_untrusted_entry(flow) for flow in dry_run.trust.untrusted]
    yield "names", dry_run.names
    yield "stop", [dry_run.stop] if dry_run.stop else []
    yield "gates", dry_run.gates
    yield "caps", dry_run.caps
    yield "warnings", [f"{warning.code} {warning.message}" for warning in dry_run.warnings]


def _budget_entry(row: BudgetRow) -> str:
    whose = f"step {row.step}" if row.step is not None else row.scope
    what = {"time": "time", "usd": "dollars"}.get(row.measure, row.measure)
    left = _amount_text(row.measure, row.left)
    if row.expected is None or row.p90 is None:
        return f"{whose}, {what}: not known of {left} left: {row.verdict}"
    expected, p90 = _amount_text(row.measure, row.expected), _amount_text(row.measure, row.p90)
    return f"{whose}, {what}: {expected} (p90 {p90}) of {left} left: {row.verdict}"


def _amount_text(measure: BudgetMeasure, figure: float) -> str:
    match measure:
        case "usd":
            return dollars_text(figure)
        case "time" | "seconds":
            return duration_text(figure)
        case "tokens" | "calls":
            return tokens_text(figure)


def _egress_entry(egress: Egress) -> str:
    sent = [f"input {name}" for name in egress.inputs] + [
        f"output of {name}" for name in egress.steps
    ]
    what = ", ".join(sent) or "what its parameters say"
    mark = "; with untrusted text" if egress.carries_untrusted else ""
    return f"{egress.step} ({egress.tool}) to {egress.to}: {what}{mark}"


def _untrusted_entry(flow: UntrustedFlow) -> str:
    if not flow.read_by:
        return f"{flow.step} ({flow.tool}): no step reads it"
    further = [name for name in flow.reaches if name not in flow.read_by]
    text = f"{flow.step} ({flow.tool}) is read by {', '.join(flow.read_by)}"
    text += f", and reaches {', '.join(further)}" if further else ""
    return text + (
        f"; of these write or send: {', '.join(flow.acting_steps)}" if flow.acting_steps else ""
    )


def dollars_text(amount: float) -> str:
    """Return dollars with two digits, or four below one dollar."""
    if amount == 0:
        return "$0"
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def tokens_text(figure: float) -> str:
    """Return a number of tokens or calls, whole."""
    return f"{round(figure):,}"


WIDTH = 80
"""Columns of the text."""
_LABEL_WIDTH = 11
_FIGURE_WIDTH = 9
_MAX_NAMES = 12
_DEFAULT_MARK = "~"
"""Marks an estimate that is the tool's own default."""


def dry_run_text(dry_run: PlanFacts) -> str:
    """Return the dry run as text: a summary, the waves, then details."""
    return "\n".join(_lines(dry_run)) + "\n"


def _lines(dry_run: PlanFacts) -> Iterator[str]:
    # A plan of a program is named by its goal.
    title = dry_run.goal if dry_run.job == dry_run.goal else f"{dry_run.job}: {dry_run.goal}"
    yield from wrap_paragraph(title)
    yield f"plan {dry_run.rung}, {dry_run.plan_hash[:19]}, {dry_run.schedule}, concurrency {dry_run.concurrency}"
    for note in dry_run.notes:
        yield from wrap_paragraph(f"note: {note}", rest="  ")
    yield ""
    for label, value in _summary_lines(dry_run):
        yield from wrap_paragraph(
            value, indent=f"  {label:<{_LABEL_WIDTH}}", rest=" " * (_LABEL_WIDTH + 2)
        )
    yield from _wave_lines(dry_run)
    for title, entries in sections(dry_run):
        yield ""
        yield f"{title}:"
        for entry in entries:
            yield from wrap_paragraph(entry, indent="  ", rest="    ")


def _summary_lines(dry_run: PlanFacts) -> Iterator[tuple[str, str]]:
    """Yield the label and the text of each line of the summary."""
    estimate, trust = dry_run.estimate, dry_run.trust
    least = "at least " if estimate.is_lower_bound else ""
    shape = f"{len(dry_run.steps)} in {counted(len(dry_run.waves), 'wave')}, max parallelism {dry_run.max_parallelism}"
    yield "steps", f"{shape}, {least}{counted(estimate.calls, 'call')}"
    yield (
        "time",
        f"{_seconds_text(estimate.seconds, least)}; sequential {duration_text(dry_run.total_seconds)}",
    )
    longest = " → ".join(_first_names(dry_run.critical_path)) or "nothing is called"
    yield "longest", f"{duration_text(dry_run.critical_seconds)}: {longest}"
    if dry_run.rerun is not None:
        yield from _rerun_text(dry_run)
    yield "estimates", _estimate_sources_text(dry_run)
    yield "cost", _cost_text(dry_run, least)
    yield "reuse", _reuse_text(dry_run)
    yield "budget", _BUDGET_OUTCOMES[dry_run.budget.verdict]
    yield (
        "effects",
        _names_text([step.id for step in dry_run.steps if step.effects and not step.makes_no_call]),
    )
    approvals = len(dry_run.approvals)
    yield (
        "approvals",
        f"asked when ready, for {counted(approvals, 'step')}" if approvals else "none",
    )
    sending = [egress.step for egress in trust.egress]
    yield "egress", f"data of {_names_text(sending)}" if sending else "none"
    yield "untrusted", _names_text([flow.step for flow in trust.untrusted])


_BUDGET_OUTCOMES = {
    "none": "none is set",
    "fits": "fits, at p90 too",
    "tight": "TIGHT: fits as expected, not at p90",
    "unknown": "UNKNOWN: a price is not known",
    "over": "OVER: see below",
}


def _rerun_text(dry_run: PlanFacts) -> Iterator[tuple[str, str]]:
    assert dry_run.rerun is not None
    what = "after the patch" if dry_run.rerun.patch is not None else "on resume"
    yield "runs", f"{_names_text([step.id for step in dry_run.steps if step.calls_made])} ({what})"
    by_kind: dict[str, list[str]] = {}
    for step in dry_run.steps:
        if step.rerun_status is not None and step.rerun_status.kind not in CALLING:
            by_kind.setdefault(step.rerun_status.kind, []).append(step.id)
    for kind, names in by_kind.items():
        yield kind, _names_text(names)


def _reuse_text(dry_run: PlanFacts) -> str:
    reused = [step for step in dry_run.steps if step.reuse is not None and not step.makes_no_call]
    if not reused:
        return "nothing of earlier runs"
    calls = sum(step.reuse.calls for step in reused if step.reuse is not None)
    return f"{counted(calls, 'call')} of earlier runs: {_names_text([step.id for step in reused])}"


def _estimate_sources_text(dry_run: PlanFacts) -> str:
    history, priors = dry_run.estimate.from_history, dry_run.estimate.from_defaults
    if not priors and not history:
        return "none: nothing is called"
    if not priors:
        return f"all of {counted(history, 'step')} from past calls"
    text = f"{_DEFAULT_MARK} for {counted(priors, 'step')}: the tool's own, fewer than {MIN_CALLS} past calls"
    return f"{text}; {history} from past calls" if history else text


def _cost_text(dry_run: PlanFacts, least: str) -> str:
    tokens, usd = dry_run.estimate.tokens, dry_run.estimate.usd
    if not any(step.call.model for step in dry_run.steps):
        return "nothing: no step asks a model"
    text = f"{least}{tokens_text(tokens.expected)} tokens, at p90 {tokens_text(tokens.p90)}"
    if usd is None:
        return f"{text}; in dollars not known: a model has no known price"
    return f"{least}{dollars_text(usd.expected)}, at p90 {dollars_text(usd.p90)}; {text}"


def _seconds_text(seconds: EstimateRange, least: str) -> str:
    return f"{least}{duration_text(seconds.expected)}, at p90 {duration_text(seconds.p90)}"


def _wave_lines(dry_run: PlanFacts) -> Iterator[str]:
    steps = {step.id: step for step in dry_run.steps}
    columns = _shown_columns(dry_run)
    figures = len(columns) * _FIGURE_WIDTH
    room = WIDTH - 3 - figures
    id_width = min(max(map(len, steps), default=0), room // 2) + 2
    head = "".join(f"{name:>{_FIGURE_WIDTH}}" for name in columns)
    for number, wave in enumerate(dry_run.waves, 1):
        yield ""
        title = f"wave {number}"
        yield f"{title:<{WIDTH - figures}}{head}" if number == 1 else title
        for position, step_id in enumerate(wave, 1):
            last = position == len(wave)
            lines = list(_step_lines(steps[step_id], id_width, room, columns))
            yield f"{'└─' if last else '├─'} {lines[0]}"
            yield from (f"{'  ' if last else '│ '} {line}" for line in lines[1:])


def _shown_columns(dry_run: PlanFacts) -> tuple[str, ...]:
    if not any(step.call.model for step in dry_run.steps):
        return ("expected", "p90")
    return ("expected", "p90", "tokens", "dollars")


def _step_lines(
    step: StepForecast, id_width: int, room: int, columns: Sequence[str]
) -> Iterator[str]:
    tool = f"{step.tool}{repetition_text(step)}"
    figures = "" if step.makes_no_call else _step_figures(step, columns)
    if len(step.id) < id_width and id_width + len(tool) <= room:
        yield f"{step.id:<{id_width}}{tool:<{room - id_width}}{figures}".rstrip()
    else:
        # Names that are too long for the table have a line each; the estimates keep their columns.
        yield step.id
        if len(tool) + 2 <= room:
            yield f"  {tool:<{room - 2}}{figures}".rstrip()
        else:
            yield from (f"  {tool}", f"{'':<{room}}{figures}".rstrip())
    false = " (false for these inputs)" if step.is_skipped else ""
    marks = [
        *step.effects,
        *(["asks for approval"] if step.needs_approval else []),
        *(["optional"] if step.optional else []),
        *(["skipped"] if step.is_skipped else []),
    ]
    details = [f"after {', '.join(_first_names(step.depends_on))}"] if step.depends_on else []
    details += [f"when {step.when}{false}"] if step.when else []
    details += [", ".join(marks)] if marks else []
    details += (
        [f"{step.rerun_status.kind}: {step.rerun_status.reason}"]
        if step.rerun_status is not None
        else []
    )
    details += (
        [_reused_text(step.reuse, step)]
        if step.reuse is not None and not step.makes_no_call
        else []
    )
    if step.shared_calls and not step.makes_no_call:
        details.append(f"{step.shared_calls} of {step.calls} calls served by an equal call")
    gates = [gate.removesuffix(f"{GATE_ID_SEPARATOR}{step.id}") for gate in step.gates]
    details += [f"gates {', '.join(gates)}"] if gates else []
    for detail in details:
        yield from wrap_paragraph(detail, indent="  ", rest="  ", width=WIDTH - 3)


def _reused_text(reuse: StepReuse, step: StepForecast) -> str:
    which = f"{reuse.calls} of {step.calls} calls" if step.for_each else "its call"
    return f"{which} reused from run {', '.join(_first_names(reuse.runs))}"


def _step_figures(step: StepForecast, columns: Sequence[str]) -> str:
    mark = _DEFAULT_MARK if step.call.seconds_from == "default" and step.calls_made else ""
    cells = [f"{mark}{duration_text(step.seconds)}", f"{mark}{duration_text(step.p90_seconds)}"]
    if len(columns) > len(cells) and step.call.model is not None:
        mark = _DEFAULT_MARK if step.call.tokens_from == "default" and step.calls_made else ""
        usd = "?" if step.usd is None else f"{mark}{dollars_text(step.usd.expected)}"
        cells += [f"{mark}{tokens_text(step.tokens.expected)}", usd]
    return "".join(f"{cell:>{_FIGURE_WIDTH}}" for cell in cells)


def repetition_text(step: StepForecast) -> str:
    """Return the number of calls of a `for_each` step as ` ×5`; empty for any other step."""
    return "" if not step.for_each else f" ×{step.calls if step.calls is not None else '?'}"


def _names_text(names: Sequence[str]) -> str:
    return ", ".join(_first_names(names)) or "none"


def _first_names(names: Sequence[str]) -> Iterable[str]:
    if len(names) <= _MAX_NAMES:
        return names
    # The ends of a long chain are more useful than its middle.
    half = _MAX_NAMES // 2
    return (*names[:half], f"… {len(names) - 2 * half} more …", *names[-half:])
