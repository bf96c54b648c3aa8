"""What `wavewright show` adds to a run's summary: what models cost by role, rung and step, and the rungs tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wavewright.engine.cli.model_lines import cost_words, one_line
from wavewright.planner.rendering import printable

if TYPE_CHECKING:
    from wavewright.reviewer.cost_records import NamedCost, RungReport
    from wavewright.reviewer.records import Package

_MAX_COSTS = 20
_MAX_RUNGS = 30


def model_summary_lines(package: Package) -> Iterator[str]:
    """Yield the lines, an empty one first; nothing where no model was asked."""
    uses = package.model_uses
    if not uses.total.calls:
        return
    yield ""
    yield "Models"
    yield from _cost_lines("", uses.roles)
    yield from _cost_lines("rung ", uses.rungs)
    yield from _cost_lines("step ", uses.steps)
    if package.rungs:
        yield ""
        yield "Rungs"
        yield from (f"  {_rung_text(tried)}" for tried in package.rungs[:_MAX_RUNGS])
        if len(package.rungs) > _MAX_RUNGS:
            yield f"  … and {len(package.rungs) - _MAX_RUNGS} more"


def _cost_lines(kind: str, costs: Sequence[NamedCost]) -> Iterator[str]:
    for named in costs[:_MAX_COSTS]:
        yield f"  {f'{kind}{printable(named.name)}':<30}{cost_words(named.cost)}"
    if len(costs) > _MAX_COSTS:
        yield f"  … and {len(costs) - _MAX_COSTS} {kind.strip()}s more"


def _rung_text(tried: RungReport) -> str:
    item = f"[{tried.index}]" if tried.index is not None else ""
    step = f" for {tried.step}{item}" if tried.step is not None else ""
    outcome = "reached" if tried.outcome == "reached" else f"gave nothing: {one_line(tried.reason)}"
    return f"{printable(tried.ladder)}{step}: {tried.rung} {outcome}"
