"""What a reader of a dry run should look at twice, in sentences: one entry a line, nothing where nothing is to say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wavewright.engine.dry_run import DryRun
from wavewright.engine.dry_run_budget import BudgetMeasure, BudgetRow
from wavewright.engine.dry_run_trust import Egress, UntrustedFlow
from wavewright.reviewer.times import duration_text

Section = tuple[str, Sequence[str]]
_MAX_ENTRIES = 20
"""Entries of one section; the JSON has them all."""


def sections(dry_run: DryRun) -> Iterator[Section]:
    """Yield title and entries of each section that has any."""
    for title, entries in _all_sections(dry_run):
        if entries:
            more = len(entries) - _MAX_ENTRIES
            yield (
                title,
                [*entries[:_MAX_ENTRIES], *([f"and {more} more (--format json)"] if more > 0 else [])],
            )


def _all_sections(dry_run: DryRun) -> Iterator[Section]:
    yield f"budget ({dry_run.budget.verdict})", _budget_entries(dry_run)
    effects = [
        f"{step.id} calls {step.tool} ({', '.join(step.effects)})"
        for step in dry_run.steps
        if step.effects and not step.makes_no_call
    ]
    yield "side effects", effects
    yield "approvals", dry_run.approvals
    yield "leaves the run", [_egress_entry(one) for one in dry_run.trust.leaves]
    yield "text from outside", [_untrusted_entry(flow) for flow in dry_run.trust.untrusted]
    yield "gates", dry_run.gates
    yield "caps", dry_run.caps
    yield "warnings", [f"{found.code} {found.message}" for found in dry_run.warnings]


def _budget_entries(dry_run: DryRun) -> list[str]:
    refusals = [f"`run` would refuse it: {refusal}" for refusal in dry_run.budget.refusals]
    return [*refusals, *(_budget_entry(row) for row in dry_run.budget.rows)]


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


def _egress_entry(one: Egress) -> str:
    sent = [f"input {name}" for name in one.inputs] + [f"output of {name}" for name in one.steps]
    what = ", ".join(sent) or "what its parameters say"
    mark = "; with text from outside" if one.carries_untrusted else ""
    return f"{one.step} ({one.tool}) to {one.to}: {what}{mark}"


def _untrusted_entry(flow: UntrustedFlow) -> str:
    if not flow.read_by:
        return f"{flow.step} ({flow.tool}): no step reads it"
    further = [name for name in flow.reaches if name not in flow.read_by]
    told = f"{flow.step} ({flow.tool}) is read by {', '.join(flow.read_by)}"
    told += f", and reaches {', '.join(further)}" if further else ""
    return told + (f"; of these write or send: {', '.join(flow.acting_steps)}" if flow.acting_steps else "")


def dollars_text(amount: float) -> str:
    """Return dollars as they are read: to the cent, or finer where there are fewer."""
    if amount == 0:
        return "$0"
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.4f}"


def tokens_text(figure: float) -> str:
    """Return a number of tokens or calls, whole."""
    return f"{round(figure):,}"
