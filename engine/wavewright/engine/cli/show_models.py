"""What `wavewright show` adds to a run's summary: what models cost by role, rung and step, and the rungs tried."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from wavewright.engine.cli.model_lines import cost_words, short
from wavewright.planner.rendering import printable

if TYPE_CHECKING:
    from wavewright.reviewer.cost_records import NamedCost, RungReport
    from wavewright.reviewer.records import Package

_MOST_COSTS = 20
_MOST_RUNGS = 30


def model_lines(package: Package) -> Iterator[str]:
    """Yield the lines, an empty one first; nothing where no model was asked."""
    uses = package.model_uses
    if not uses.total.calls:
        return
    yield ""
    yield "Models"
    yield from _costs("", uses.roles)
    yield from _costs("rung ", uses.rungs)
    yield from _costs("step ", uses.steps)
    if package.rungs:
        yield ""
        yield "Rungs"
        yield from (f"  {_rung(tried)}" for tried in package.rungs[:_MOST_RUNGS])
        if len(package.rungs) > _MOST_RUNGS:
            yield f"  … and {len(package.rungs) - _MOST_RUNGS} more"


def _costs(kind: str, costs: Sequence[NamedCost]) -> Iterator[str]:
    for named in costs[:_MOST_COSTS]:
        yield f"  {f'{kind}{printable(named.name)}':<30}{cost_words(named.cost)}"
    if len(costs) > _MOST_COSTS:
        yield f"  … and {len(costs) - _MOST_COSTS} {kind.strip()}s more"


def _rung(tried: RungReport) -> str:
    item = f"[{tried.index}]" if tried.index is not None else ""
    step = f" for {tried.step}{item}" if tried.step is not None else ""
    outcome = "reached" if tried.outcome == "reached" else f"gave nothing: {short(tried.reason)}"
    return f"{printable(tried.ladder)}{step}: {tried.rung} {outcome}"
