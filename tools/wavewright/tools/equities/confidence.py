"""How far a number of prices carries a figure.

A *confidence* is between 0 and 1 and comes from the number of observations and their completeness alone; caps of
the plan and the goal template may lower it later.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from wavewright.tools.equities.documents import BenchmarkComparison, Figures
from wavewright.tools.equities.figures import PERIODS_PER_YEAR


def confidence_by_figure(figures: Figures, comparison: BenchmarkComparison | None) -> dict[str, float]:
    """Return how far the prices carry each figure, from 0 to 1.

    `returns` and `drawdown`: the share of the expected observations that are there. `volatility`: 1 less the
    relative half-width of its 95 % interval, 1.96 / sqrt(2 (n - 1)). `trend`: the probability that one more
    period's normal noise would not carry the price across its average; 0 where the signal is unknown.
    `benchmark`: 1 less the half-width of the correlation's 95 % interval, 1.96 (1 - r²) / sqrt(n - 1).
    """
    there = _completeness(figures)
    returns = figures.observations - 1
    spread = 0.0 if returns < 2 else _clamped(1 - 1.96 / math.sqrt(2 * (returns - 1)))
    fields = {"returns": there, "drawdown": there, "volatility": spread, "trend": _trend_confidence(figures)}
    if comparison is not None and comparison.correlation is not None:
        width = 1.96 * (1 - comparison.correlation**2) / math.sqrt(comparison.observations - 1)
        fields["benchmark"] = _clamped(1 - width)
    else:
        fields["benchmark"] = 0.0
    return {name: round(value, 4) for name, value in fields.items()}


def _completeness(figures: Figures) -> float:
    per_year = PERIODS_PER_YEAR.get(figures.frequency)
    if per_year is None:
        return 0.5  # an irregular series does not say how many prices it should have
    expected = (figures.until - figures.since).days / 365.25 * per_year
    return _clamped((figures.observations - 1) / expected) if expected else 0.0


def _trend_confidence(figures: Figures) -> float:
    per_year = PERIODS_PER_YEAR.get(figures.frequency)
    if figures.trend.distance is None or not figures.volatility or per_year is None:
        return 0.0
    noise = figures.volatility / math.sqrt(per_year)
    return NormalDist().cdf(abs(figures.trend.distance) / noise)


def _clamped(value: float) -> float:
    return max(0.0, min(1.0, value))
