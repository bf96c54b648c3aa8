"""Figures of price series: known cases by hand, and laws that hold for every series."""

from __future__ import annotations

import datetime as dt
import math
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from wavewright.packs.equities.documents import Frequency, Point
from wavewright.packs.equities.figures import (
    annual_growth,
    compare,
    compute_figures,
    detect_frequency,
    max_drawdown,
    one_year_return,
    period_return,
    periods_per_year,
    trend,
    volatility,
)

START = dt.date(2000, 1, 1)


def monthly(*prices: float) -> list[Point]:
    return [(dt.date(2000 + n // 12, n % 12 + 1, 1), price) for n, price in enumerate(prices)]


def spaced(days: int, count: int) -> list[dt.date]:
    return [START + dt.timedelta(days=days * n) for n in range(count)]


prices = st.lists(st.floats(min_value=0.1, max_value=1e5), min_size=3, max_size=40)
series = prices.map(lambda values: monthly(*values))


@pytest.mark.parametrize(
    ("days", "frequency", "per_year"),
    [
        (1, "daily", 252),
        (7, "weekly", 52),
        (30, "monthly", 12),
        (91, "quarterly", 4),
        (365, "yearly", 1),
    ],
)
def test_frequency_is_read_from_the_median_gap(
    days: int, frequency: Frequency, per_year: float
) -> None:
    dates = spaced(days, 9)

    assert detect_frequency(dates) == frequency
    assert periods_per_year(dates, frequency) == per_year


def test_weekends_and_holidays_do_not_change_a_daily_series() -> None:
    weekdays = [day for day in spaced(1, 60) if day.weekday() < 5 and day.day != 17]

    assert detect_frequency(weekdays) == "daily"


def test_an_irregular_series_is_counted_by_its_mean_gap() -> None:
    dates = spaced(15, 11)

    assert detect_frequency(dates) == "irregular"
    assert periods_per_year(dates, "irregular") == pytest.approx(365.25 / 15)


def test_period_return_by_hand() -> None:
    assert period_return(monthly(80, 200, 100)) == pytest.approx(0.25)


def test_one_year_return_takes_the_price_of_a_year_before() -> None:
    assert one_year_return(monthly(*range(100, 125))) == pytest.approx(124 / 112 - 1)


def test_one_year_return_takes_the_last_price_before_a_missing_day() -> None:
    values = [
        (date, price) for date, price in monthly(*range(100, 125)) if date != dt.date(2001, 1, 1)
    ]

    assert one_year_return(values) == pytest.approx(124 / 111 - 1)


def test_one_year_return_does_not_reach_over_a_long_gap() -> None:
    values = [
        (date, price)
        for date, price in monthly(*range(100, 125))
        if not 2 <= date.month <= 12 or date.year > 2000
    ]

    assert one_year_return(values[:1] + values[2:]) is None


def test_one_year_return_of_a_leap_day_is_taken_from_28_february() -> None:
    values = [
        (dt.date(2003, 2, 28), 10.0),
        (dt.date(2003, 8, 28), 12.0),
        (dt.date(2004, 2, 29), 15.0),
    ]

    assert one_year_return(values) == pytest.approx(0.5)


def test_annual_growth_by_hand() -> None:
    four_years = [(dt.date(2000, 1, 1), 100.0), (dt.date(2004, 1, 1), 146.41)]

    assert annual_growth(four_years) == pytest.approx(0.1)
    assert annual_growth(monthly(1, 2, 3)) is None


def test_volatility_by_hand() -> None:
    ups_and_downs = monthly(100, 110, 100, 110, 100)
    step = math.log(1.1)

    # Four returns of +s, -s, +s, -s: mean 0, sample variance 4 s² / 3.
    assert volatility(ups_and_downs, 12) == pytest.approx(step * math.sqrt(4 / 3) * math.sqrt(12))
    assert volatility(monthly(1, 2), 12) is None


def test_drawdown_by_hand() -> None:
    fall = max_drawdown(monthly(100, 120, 90, 60, 110, 130, 125))

    assert fall.depth == pytest.approx(-0.5)
    assert (fall.peak, fall.trough) == (dt.date(2000, 2, 1), dt.date(2000, 4, 1))
    assert fall.recovered == dt.date(2000, 6, 1)


def test_a_rising_series_has_no_drawdown() -> None:
    fall = max_drawdown(monthly(1, 2, 3))

    assert fall.depth == 0
    assert fall.recovered is None


def test_a_drawdown_at_the_end_is_not_recovered() -> None:
    assert max_drawdown(monthly(100, 50, 60)).recovered is None


def test_trend_by_hand() -> None:
    rising = trend(monthly(*range(1, 12)), "monthly")

    assert rising.signal == "up"
    assert rising.average == pytest.approx(6.5)
    assert rising.distance == pytest.approx(11 / 6.5 - 1)
    assert rising.slope == pytest.approx(6.5 / 5.5 - 1)
    assert rising.window == 10


@pytest.mark.parametrize(
    ("values", "signal"),
    [
        pytest.param(range(20, 9, -1), "down", id="falling"),
        pytest.param([5] * 11, "sideways", id="flat"),
        pytest.param([30, *range(20, 11, -1), 25], "sideways", id="above a falling average"),
        pytest.param(range(1, 11), "unknown", id="one short of a slope"),
    ],
)
def test_trend_signals(values: list[float], signal: str) -> None:
    assert trend(monthly(*values), "monthly").signal == signal


def test_a_daily_trend_takes_200_days_and_an_irregular_one_is_unknown() -> None:
    daily = [(date, 1.0 + n) for n, date in enumerate(spaced(1, 221))]

    assert trend(daily, "daily").window == 200
    assert trend(daily[1:], "daily").signal == "unknown"
    assert trend(daily, "irregular").signal == "unknown"


def test_a_series_compared_with_itself_has_beta_one_and_no_excess() -> None:
    values = monthly(10, 12, 9, 15, 14)

    comparison = compare(values, values, "SELF")

    assert comparison is not None
    assert comparison.beta == pytest.approx(1)
    assert comparison.correlation == pytest.approx(1)
    assert comparison.excess_return == 0
    assert comparison.tracking_error == 0


def test_a_series_with_twice_the_returns_has_beta_two() -> None:
    changes = [0.1, -0.05, 0.02, 0.07]
    benchmark, doubled = [100.0], [100.0]
    for change in changes:
        benchmark.append(benchmark[-1] * (1 + change))
        doubled.append(doubled[-1] * (1 + 2 * change))

    comparison = compare(monthly(*doubled), monthly(*benchmark), "B")

    assert comparison is not None
    assert comparison.beta == pytest.approx(2)
    assert comparison.correlation == pytest.approx(1)
    assert comparison.excess_return == pytest.approx(doubled[-1] / 100 - benchmark[-1] / 100)


def test_only_common_dates_are_compared() -> None:
    stock, benchmark = monthly(1, 2, 3, 4, 5, 6), monthly(10, 20, 30, 40, 50, 60)

    comparison = compare(stock[2:], benchmark[:5], "B")

    assert comparison is not None
    assert (comparison.since, comparison.until) == (dt.date(2000, 3, 1), dt.date(2000, 5, 1))
    assert comparison.observations == 2
    assert compare(stock[:2], benchmark[4:], "B") is None


def test_a_flat_benchmark_has_no_beta() -> None:
    comparison = compare(monthly(1, 2, 3, 4, 5), monthly(7, 7, 7, 7, 7), "FLAT")

    assert comparison is not None
    assert comparison.beta is None
    assert comparison.correlation is None


@given(series, st.floats(min_value=0.01, max_value=1000))
def test_the_unit_of_the_prices_changes_no_figure(values: list[Point], factor: float) -> None:
    figures = compute_figures(values)
    scaled = compute_figures([(date, price * factor) for date, price in values])

    assert scaled.period_return == pytest.approx(figures.period_return, abs=1e-9, rel=1e-9)
    assert scaled.volatility == pytest.approx(figures.volatility, abs=1e-9)
    assert scaled.max_drawdown.depth == pytest.approx(figures.max_drawdown.depth, abs=1e-9)


@given(series)
def test_returns_chain_to_the_return_of_the_whole(values: list[Point]) -> None:
    chained = (
        math.prod(1 + period_return([earlier, later]) for earlier, later in pairwise(values)) - 1
    )

    assert period_return(values) == pytest.approx(chained, rel=1e-6, abs=1e-6)


@given(series)
def test_a_drawdown_lies_between_nothing_and_everything_and_its_dates_are_in_order(
    values: list[Point],
) -> None:
    fall = max_drawdown(values)
    found = dict(values)

    assert -1 < fall.depth <= 0
    assert fall.peak <= fall.trough
    assert fall.recovered is None or fall.trough < fall.recovered
    assert fall.depth == pytest.approx(found[fall.trough] / found[fall.peak] - 1)
    assert (
        fall.depth <= min(later / earlier - 1 for (_, earlier), (_, later) in pairwise(values))
        or fall.depth == 0
    )


@given(series, series)
def test_correlation_is_between_minus_one_and_one_and_even(
    first: list[Point], second: list[Point]
) -> None:
    one, other = compare(first, second, "S"), compare(second, first, "F")

    assert one is not None
    assert other is not None
    if one.correlation is not None and other.correlation is not None:
        assert -1 - 1e-9 <= one.correlation <= 1 + 1e-9
        assert one.correlation == pytest.approx(other.correlation)
    assert one.excess_return == pytest.approx(-other.excess_return)


@given(st.floats(min_value=-0.2, max_value=0.2), st.integers(min_value=12, max_value=60))
def test_constant_growth_has_no_volatility(rate: float, months: int) -> None:
    values = monthly(*(100 * (1 + rate) ** month for month in range(months)))

    assert volatility(values, 12) == pytest.approx(0, abs=1e-9)
