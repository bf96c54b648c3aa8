"""What the section on models shows: sums in words, and one table of costs in groups."""

from __future__ import annotations

from dataclasses import dataclass

from wavewright.reviewer.cost_records import NamedCost
from wavewright.reviewer.costs import cost_lines
from wavewright.reviewer.records import Package

_MAX_ROWS = 100


@dataclass(frozen=True, slots=True)
class ModelCostSection:
    """The section, ready to be written."""

    lines: tuple[str, ...]
    costs: tuple[tuple[str, tuple[NamedCost, ...]], ...]
    """Titles of groups with their rows."""


def model_cost_section(package: Package) -> ModelCostSection | None:
    """Return what is shown; none where no model was asked."""
    uses = package.model_uses
    if not uses.total.calls:
        return None
    groups = (
        ("By model", uses.models),
        ("By role", uses.roles),
        ("By rung", uses.rungs),
        ("By step", uses.steps),
        ("All together", (NamedCost(name="the run", cost=uses.total),)),
    )
    lines = tuple(cost_lines(uses, package.orchestrator_tokens, package.worker_tokens))
    return ModelCostSection(lines, tuple((title, rows[:_MAX_ROWS]) for title, rows in groups if rows))
