"""Figures of price series, and the confidence that their number of observations allows.

A *series* is a list of (date, price) in ascending order, with unique dates and prices above zero.
Every function is pure and documents its formula, its unit and its origin; results are fractions,
not percent. A *confidence* is between 0 and 1 and follows from the number of observations and their
completeness alone; caps may lower it later.
"""

from __future__ import annotations

import datetime as dt
import math
import statistics
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist

from wavewright.packs.equities.documents import (
    BenchmarkComparison,
    Drawdown,
    Figures,
    Frequency,
    Oddity,
    Point,
    Trend,
    TrendSignal,
)

Series = Sequence[Point]

_DOUBTFUL = 0.2

DAYS_PER_YEAR = 365.25
_ANNIVERSARY_DAYS = 7
"""Calendar days that hold five trading days."""

PERIODS_PER_YEAR: dict[Frequency, float] = {
    "daily": 252.0,
    "weekly": 52.0,
    "monthly": 12.0,
    "quarterly": 4.0,
    "yearly": 1.0,
}
"""Observations in a year, the conventional counts; an irregular series is counted by its own mean
gap.
"""

_GAPS: tuple[tuple[float, float, Frequency], ...] = (
    (0, 4, "daily"),
    (5, 10, "weekly"),
    (26, 35, "monthly"),
    (80, 100, "quarterly"),
    (350, 380, "yearly"),
)
"""Median days between observations, and what they are called."""

_TREND_WINDOWS: dict[Frequency, tuple[int, int]] = {
    "daily": (200, 21),
    "weekly": (40, 4),
    "monthly": (10, 1),
    "quarterly": (4, 1),
}
"""Observations in the moving average, and in the month over which its slope is taken."""


def detect_frequency(dates: Sequence[dt.date]) -> Frequency:
    """Return how often a series is observed, from the median of the days between its dates."""
    if len(dates) < 2:
        return "irregular"
    gap = statistics.median((later - earlier).days for earlier, later in pairwise(dates))
    fitting: list[Frequency] = [name for low, high, name in _GAPS if low <= gap <= high]
    return fitting[0] if fitting else "irregular"


def periods_per_year(dates: Sequence[dt.date], frequency: Frequency) -> float:
    """Return how many observations a year has: by convention, or by the mean gap of an irregular
    series.
    """
    if frequency in PERIODS_PER_YEAR:
        return PERIODS_PER_YEAR[frequency]
    return DAYS_PER_YEAR * (len(dates) - 1) / (dates[-1] - dates[0]).days


def period_return(series: Series) -> float:
    """Return last price / first price - 1."""
    return series[-1][1] / series[0][1] - 1


def one_year_return(series: Series) -> float | None:
    """Return last price / price of a year before - 1.

    The price of a year before is the last one on or before that day, if it is at most one and a
    half median gaps older, or five trading days where prices are daily: an anniversary may be a
    weekend or a holiday. Nothing where the series does not reach back so far.
    """
    dates = [date for date, _ in series]
    anchor = a_year_before(dates[-1])
    position = bisect_right(dates, anchor) - 1
    if position < 0:
        return None
    gap = statistics.median((later - earlier).days for earlier, later in pairwise(dates))
    if (anchor - dates[position]).days > max(_ANNIVERSARY_DAYS, 1.5 * gap):
        return None
    return series[-1][1] / series[position][1] - 1


def a_year_before(day: dt.date) -> dt.date:
    """Return the same day of the year before; 28 February for 29 February."""
    try:
        return day.replace(year=day.year - 1)
    except ValueError:
        return day.replace(year=day.year - 1, day=28)


def annual_growth(series: Series) -> float | None:
    """Return the compound annual growth rate, (last / first) ** (365.25 / days) - 1.

    Nothing for less than a year: a rate that is compounded up from a part of a year says more than
    the prices do.
    """
    days = (series[-1][0] - series[0][0]).days
    if days < 365:
        return None
    return math.exp(math.log(series[-1][1] / series[0][1]) * DAYS_PER_YEAR / days) - 1


def volatility(series: Series, per_year: float) -> float | None:
    """Return the sample standard deviation of log returns, times the square root of the periods in
    a year.

    The usual historical volatility (Hull, Options, Futures and Other Derivatives, "Estimating
    volatility from historical data"). Nothing for fewer than two returns.
    """
    returns = [math.log(later / earlier) for (_, earlier), (_, later) in pairwise(series)]
    if len(returns) < 2:
        return None
    return statistics.stdev(returns) * math.sqrt(per_year)


def max_drawdown(series: Series) -> Drawdown:
    """Return the least of price / highest price so far - 1, with the dates of peak, trough and
    recovery.
    """
    peak_date, peak = series[0]
    worst, worst_peak, worst_peak_date, trough = 0.0, peak, peak_date, peak_date
    for date, price in series:
        if price >= peak:
            peak_date, peak = date, price
        depth = price / peak - 1
        if depth < worst:
            worst, worst_peak, worst_peak_date, trough = depth, peak, peak_date, date
    recovered = None
    if worst < 0:
        recovered = next(
            (date for date, price in series if date > trough and price >= worst_peak), None
        )
    return Drawdown(depth=worst, peak=worst_peak_date, trough=trough, recovered=recovered)


def trend(series: Series, frequency: Frequency) -> Trend:
    """Return the trend signal: price against its moving average, and the average's slope.

    `up` where the price is above the average and the average is rising, `down` where it is below
    and the average is falling, else `sideways`; `unknown` where the series is too short. The
    average covers 10 months, 40 weeks or 200 days: M. Faber, "A Quantitative Approach to Tactical
    Asset Allocation" (2007), rule of the 10-month simple moving average; the slope over a month is
    asked too, which lets fewer one-month crossings through.
    """
    window, month = _TREND_WINDOWS.get(frequency, (0, 0))
    if not window or len(series) < window + month:
        return Trend(
            signal="unknown", average=None, window=window or None, distance=None, slope=None
        )
    prices = [price for _, price in series]
    average = math.fsum(prices[-window:]) / window
    earlier = math.fsum(prices[-window - month : -month]) / window
    distance, slope = prices[-1] / average - 1, average / earlier - 1
    return Trend(
        signal=_signal(distance, slope),
        average=average,
        window=window,
        distance=distance,
        slope=slope,
    )


def _signal(distance: float, slope: float) -> TrendSignal:
    if distance > 0 and slope > 0:
        return "up"
    if distance < 0 and slope < 0:
        return "down"
    return "sideways"


def compute_figures(series: Series) -> Figures:
    """Return all figures of a series of at least two prices."""
    dates = [date for date, _ in series]
    frequency = detect_frequency(dates)
    return Figures(
        since=dates[0],
        until=dates[-1],
        observations=len(series),
        frequency=frequency,
        period_return=period_return(series),
        return_1y=one_year_return(series),
        annual_growth=annual_growth(series),
        volatility=volatility(series, periods_per_year(dates, frequency)),
        max_drawdown=max_drawdown(series),
        trend=trend(series, frequency),
    )


def compare(series: Series, benchmark: Series, benchmark_code: str) -> BenchmarkComparison | None:
    """Return a series against a benchmark over the dates that both have; nothing for fewer than two
    such dates.

    Beta is covariance / variance of the benchmark and correlation Pearson's, both of simple returns
    between consecutive common dates; the tracking error is the sample standard deviation of the
    difference of those returns, annualised. All three are nothing where their divisor is zero or
    there are fewer than three returns.
    """
    other = dict(benchmark)
    common = [(date, price, other[date]) for date, price in series if date in other]
    if len(common) < 2:
        return None
    own = [later[1] / earlier[1] - 1 for earlier, later in pairwise(common)]
    others = [later[2] / earlier[2] - 1 for earlier, later in pairwise(common)]
    dates = [date for date, _, _ in common]
    per_year = periods_per_year(dates, detect_frequency(dates))
    beta, correlation, tracking = _moments(own, others, per_year)
    (since, own_first, other_first), (until, own_last, other_last) = common[0], common[-1]
    return BenchmarkComparison(
        benchmark=benchmark_code,
        since=since,
        until=until,
        observations=len(own),
        excess_return=own_last / own_first - other_last / other_first,
        beta=beta,
        correlation=correlation,
        tracking_error=tracking,
    )


def _moments(
    own: Sequence[float], others: Sequence[float], per_year: float
) -> tuple[float | None, float | None, float | None]:
    """Return beta, correlation and annualised tracking error of two lists of returns."""
    if len(own) < 3:
        return None, None, None
    tracking = statistics.stdev([a - b for a, b in zip(own, others, strict=True)]) * math.sqrt(
        per_year
    )
    spread, other_spread = statistics.pstdev(own), statistics.pstdev(others)
    if not _varies(others, other_spread):
        return None, None, tracking
    beta = statistics.covariance(own, others) / statistics.variance(others)
    correlation = statistics.correlation(own, others) if _varies(own, spread) else None
    return beta, correlation, tracking


def _varies(returns: Sequence[float], spread: float) -> bool:
    """Whether a spread is more than the rounding of its returns."""
    return spread > 1e-12 * max(1.0, *(abs(value) for value in returns))


def confidence_by_figure(
    figures: Figures, comparison: BenchmarkComparison | None, oddities: Sequence[Oddity] = ()
) -> dict[str, float]:
    """Return how far the prices carry each figure, from 0 to 1.

    `returns` and `drawdown`: the share of the expected observations that are there. `volatility`: 1
    less the relative half-width of its 95 % interval, 1.96 / sqrt(2 (n - 1)). `trend`: the
    probability that one more period's normal noise would not carry the price across its average; 0
    where the signal is unknown.
    `benchmark`: 1 less the half-width of the correlation's 95 % interval, 1.96 (1 - r²) / sqrt(n -
    1).

    A jump that looks like a split or like another unit leaves `_DOUBTFUL` at most of all of them:
    each is computed from it.
    """
    there = _completeness(figures)
    returns = figures.observations - 1
    spread = 0.0 if returns < 2 else _clamped(1 - 1.96 / math.sqrt(2 * (returns - 1)))
    fields = {
        "returns": there,
        "drawdown": there,
        "volatility": spread,
        "trend": _trend_confidence(figures),
    }
    if comparison is not None and comparison.correlation is not None:
        width = 1.96 * (1 - comparison.correlation**2) / math.sqrt(comparison.observations - 1)
        fields["benchmark"] = _clamped(1 - width)
    else:
        fields["benchmark"] = 0.0
    most = _DOUBTFUL if any(oddity.kind != "gap" for oddity in oddities) else 1.0
    return {name: round(min(value, most), 4) for name, value in fields.items()}


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
