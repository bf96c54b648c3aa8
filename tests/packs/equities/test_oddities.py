"""What makes prices doubtful, and by which sessions they are fresh."""

from __future__ import annotations

import datetime as dt
import itertools

import pytest

from wavewright.packs.equities.documents import Point
from wavewright.packs.equities.figures import compute_figures, confidence_by_figure, one_year_return
from wavewright.packs.equities.oddities import find_oddities, sessions_between
from wavewright.tools import ToolError

START = dt.date(2026, 1, 5)


def weekdays(count: int, start: dt.date = START) -> list[dt.date]:
    days = (start + dt.timedelta(days=n) for n in itertools.count())
    return list(itertools.islice((day for day in days if day.weekday() < 5), count))


def daily(*prices: float) -> list[Point]:
    return list(zip(weekdays(len(prices)), prices, strict=True))


@pytest.mark.parametrize(
    ("prices", "kinds"),
    [
        pytest.param(daily(100, 101, 50.4, 50.9, 51), ["split"], id="two for one"),
        pytest.param(daily(100, 101, 25.1, 25.2, 25.4), ["split"], id="four for one"),
        pytest.param(daily(10, 10.1, 101.5, 102, 102), ["split"], id="one for ten"),
        pytest.param(daily(70, 70.5, 10.1, 10.2, 10.1), ["split"], id="seven for one"),
        pytest.param(daily(30, 30.3, 20.1, 20.4, 20.2), ["split"], id="three for two"),
        pytest.param(daily(20, 20.2, 30.1, 30.4, 30.2), [], id="a rise by half"),
        pytest.param(daily(2, 2.02, 50.4, 51, 50.8), ["split"], id="one for twenty-five"),
        pytest.param(
            daily(20, 20.1, 2012, 20.2, 20.3), ["scale", "scale"], id="one price in pence"
        ),
        pytest.param(daily(20, 20.1, 2012, 2020, 2031), ["scale"], id="in pence from a day on"),
        pytest.param(daily(20, 20.1, 90, 20.2, 20.3), ["spike"], id="a spike"),
        pytest.param(daily(20, 20.1, 14.9, 15.2, 15), [], id="a fall by a quarter"),
    ],
)
def test_a_jump_that_no_market_makes_is_found_with_its_day(
    prices: list[Point], kinds: list[str]
) -> None:
    found = find_oddities(prices, "daily")

    assert [oddity.kind for oddity in found] == kinds
    assert all(oddity.date == prices[2][0] for oddity in found[:1])


def test_days_without_prices_are_found_where_there_are_more_than_holidays() -> None:
    days = weekdays(40)
    prices = [(day, 10.0) for day in (*days[:10], *days[30:])]

    [gap] = find_oddities(prices, "daily")

    assert (gap.kind, gap.date) == ("gap", days[30])
    assert f"between {days[9]} and {days[30]}" in gap.text


@pytest.mark.parametrize(("lost", "kinds"), [(5, ["gap"]), (4, [])])
@pytest.mark.parametrize("first", range(5, 10))
def test_a_week_of_sessions_without_prices_is_a_gap_on_whatever_day_it_begins(
    first: int, lost: int, kinds: list[str]
) -> None:
    days = weekdays(30)
    prices = [(day, 10.0) for day in (*days[:first], *days[first + lost :])]

    assert [oddity.kind for oddity in find_oddities(prices, "daily")] == kinds


def test_a_month_may_double_a_price() -> None:
    months = [(dt.date(2026, month, 1), price) for month, price in enumerate((1, 2, 1, 2), start=1)]

    assert find_oddities(months, "monthly") == []


def test_a_doubtful_jump_lowers_every_confidence() -> None:
    prices = daily(*[100 + n / 10 for n in range(250)], *[25 + n / 40 for n in range(50)])
    figures = compute_figures(prices)

    confidence = confidence_by_figure(figures, None, find_oddities(prices, "daily"))

    assert max(confidence.values()) <= 0.2


@pytest.mark.parametrize(
    ("last", "today", "behind"),
    [
        pytest.param("2026-11-20", "2026-11-21", 0, id="Friday's on Saturday"),
        pytest.param("2026-11-20", "2026-11-23", 0, id="Friday's on Monday"),
        pytest.param("2026-11-23", "2026-11-24", 0, id="yesterday's"),
        pytest.param("2026-11-20", "2026-11-24", 1, id="Friday's on Tuesday"),
        pytest.param("2026-11-13", "2026-11-23", 5, id="a week behind"),
        pytest.param("2026-11-24", "2026-11-24", 0, id="today's"),
    ],
)
def test_a_price_is_behind_by_the_sessions_that_have_ended_since(
    last: str, today: str, behind: int
) -> None:
    days = dt.date.fromisoformat(last), dt.date.fromisoformat(today)

    assert sessions_between(*days, None) == behind


def test_a_calendar_that_is_not_installed_is_named_with_its_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "exchange_calendars", None)

    with pytest.raises(ToolError, match="exchange-calendars, which is not installed"):
        sessions_between(dt.date(2026, 11, 20), dt.date(2026, 11, 24), "XNYS")


@pytest.mark.parametrize("ends", [*weekdays(10, dt.date(2026, 11, 16))])
def test_every_day_has_a_return_over_one_year(ends: dt.date) -> None:
    days = [day for day in weekdays(520, dt.date(2024, 12, 2)) if day <= ends]
    # A holiday on the anniversary's own day, whatever day that is.
    anniversary = ends.replace(year=ends.year - 1)
    series = [(day, 10.0) for day in days if day != anniversary]

    assert one_year_return(series) == 0.0


@pytest.mark.parametrize(
    ("on_the_day", "after", "kinds"),
    [
        pytest.param(1_000, 1_000, ["split"], id="back-adjusted volume"),
        pytest.param(2_100, 2_000, ["split"], id="twice the shares from then on"),
        pytest.param(9_000, 1_500, [], id="a day of very heavy trading"),
    ],
)
def test_a_fall_by_half_is_a_split_unless_its_day_saw_very_heavy_trading(
    on_the_day: float, after: float, kinds: list[str]
) -> None:
    prices = daily(*[100.0] * 30, *[50.0] * 30)
    volumes = [*[1_000.0] * 30, on_the_day, *[after] * 29]

    assert [oddity.kind for oddity in find_oddities(prices, "daily", volumes)] == kinds
