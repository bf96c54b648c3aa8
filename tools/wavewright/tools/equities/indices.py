"""Benchmarks: a given series, or an equal-weight basket that says it is one.

A *basket* holds the same weight of each constituent and is rebalanced at every observation: its return from one
date to the next is the mean of the constituents' returns. A constituent is in from its second price to its last;
on a date without a price its last one stands. The level starts at 100.
"""

from __future__ import annotations

import datetime as dt
import math
from bisect import bisect_right
from collections.abc import Mapping
from itertools import pairwise

from wavewright.tools.calls import ToolError
from wavewright.tools.equities.documents import Point
from wavewright.tools.equities.figures import Series, detect_frequency

EQUAL_WEIGHT = "EQUAL_WEIGHT"
"""Code of the basket of all codes that the price source has."""

BASE_LEVEL = 100.0


def equal_weight_basket(constituents: Mapping[str, Series]) -> tuple[Point, ...]:
    """Return the levels of an equal-weight basket, rebalanced at every observation.

    Raises:
        ToolError: the constituents are not observed equally often, or no two dates carry a return.
    """
    _require_one_frequency(constituents)
    dates = sorted({date for series in constituents.values() for date, _ in series})
    lines = [_Constituent(series) for series in constituents.values()]
    level = BASE_LEVEL
    points: list[Point] = []
    for earlier, later in pairwise(dates):
        returns = [change for line in lines if (change := line.change(earlier, later)) is not None]
        if not returns:
            continue
        if not points:
            points.append((earlier, level))
        level *= 1 + math.fsum(returns) / len(returns)
        points.append((later, level))
    if not points:
        raise ToolError(
            "a basket needs a constituent with two prices", hint="take an earlier start or a later 'as_of'"
        )
    return tuple(points)


class _Constituent:
    """One constituent, for look-ups by date."""

    def __init__(self, series: Series) -> None:
        self._dates = [date for date, _ in series]
        self._prices = [price for _, price in series]

    def change(self, earlier: dt.date, later: dt.date) -> float | None:
        """Return the return between two dates; nothing outside the constituent's life."""
        if earlier < self._dates[0] or later > self._dates[-1]:
            return None
        return self._price_at(later) / self._price_at(earlier) - 1

    def _price_at(self, date: dt.date) -> float:
        return self._prices[bisect_right(self._dates, date) - 1]


def _require_one_frequency(constituents: Mapping[str, Series]) -> None:
    detected = {code: detect_frequency([date for date, _ in series]) for code, series in constituents.items()}
    found = {code: frequency for code, frequency in detected.items() if frequency != "irregular"}
    if len(set(found.values())) > 1:
        shown = ", ".join(f"{code} {frequency}" for code, frequency in sorted(found.items()))
        raise ToolError(
            f"a basket needs constituents that are observed equally often; here: {shown}",
            hint="name constituents of one frequency in 'indices'",
        )
