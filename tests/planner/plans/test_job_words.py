"""The words of a job: which figures and bounds of periods they name."""

from __future__ import annotations

import pytest

from wavewright.planner.plans.job_words import JobWords


@pytest.mark.parametrize(
    "text",
    [
        *("sales in Q4 2023", "sales in 2023 Q4", "2023-Q4", "2023Q4", "the last quarter of 2023"),
        *("sales in 4Q 2023", "4Q2023", "4Q, 2023", "4Q of the year 2023", "the 4th quarter, 2023"),
    ],
)
def test_a_part_of_a_year_bounds_days_whichever_way_it_is_written(text: str) -> None:
    words = JobWords([text])

    assert words.names_bound(">=", "2023-10-01")
    assert words.names_bound("<", "2024-01-01")
    assert words.names_bound("<=", "2023-12-31")
    assert not words.names_bound(">=", "2023-07-01")


@pytest.mark.parametrize("text", ["the part 12023 Q4", "the model x-2023-q4-b", "2023 Q7"])
def test_what_only_looks_like_a_part_of_a_year_bounds_no_days(text: str) -> None:
    assert not JobWords([text]).names_bound(">=", "2023-10-01")


@pytest.mark.parametrize(
    "text", ["in Mar 2022", "Mar. 2022", "in March of 2022", "Mar and Apr 2022"]
)
def test_a_month_bounds_days_by_its_name_or_the_beginning_of_it(text: str) -> None:
    words = JobWords([text])

    assert words.names_bound(">=", "2022-03-01")
    assert words.names_bound("<", "2022-04-01")
    assert not words.names_bound(">=", "2022-02-01")


@pytest.mark.parametrize(
    ("text", "is_amount"),
    [
        ("values over 2000", True),
        ("values > 2000", True),
        ("up to 2000 items", True),
        ("at most 2000", True),
        ("the top 2000 towns", True),
        ("sales in 2000", False),
        ("the change over 2000 to 2010", False),
        ("sales up to 2000 and later", False),
        ("all sales since 2000", False),
    ],
)
def test_a_figure_that_might_be_a_year_is_an_amount_by_what_stands_beside_it(
    text: str, *, is_amount: bool
) -> None:
    assert JobWords([text]).names_figure(2000.0) is is_amount


@pytest.mark.parametrize(
    ("text", "is_amount"),
    [("up to 2050 items", True), ("the first 2050 rows", True), ("up to 2050", False)],
)
def test_a_figure_that_is_not_round_is_an_amount_of_things_that_are_counted(
    text: str, *, is_amount: bool
) -> None:
    assert JobWords([text]).names_figure(2050.0) is is_amount


@pytest.mark.parametrize(
    ("text", "days", "hours", "period"),
    [
        ("the last two weeks", 14.0, 336.0, "14d"),
        ("a 30-day window", 30.0, 720.0, "720h"),
        ("last week", 7.0, 168.0, "7d"),
        ("over a fortnight", 14.0, 336.0, "336h"),
        ("the past 3 months", 90.0, 2160.0, "90d"),
    ],
)
def test_a_period_names_as_many_days_and_hours_as_it_has(
    text: str, days: float, hours: float, period: str
) -> None:
    words = JobWords([text])

    assert words.names_figure(days)
    assert words.names_figure(hours)
    assert words.names_period(period)
    assert not words.names_figure(days + 1)
    assert not words.asks_for((("*", days),)) or f"{days:g}" in text


@pytest.mark.parametrize(
    ("text", "time", "is_named"),
    [
        ("from 9:00 on", "09:00", True),
        ("from 09:00 on", "9:00", True),
        ("until 5 pm", "17:00", True),
        ("until 17:00.", "5 pm", True),
        ("09:00: the first shift", "9:00", True),
        ("until 5:30 p.m.", "17:30", True),
        ("until 12 am", "00:00", True),
        ("until 5 pm", "05:30", False),
        ("until 9:00", "09:15", False),
        ("before noon", "12:00", True),
        ("by midnight", "00:00", True),
        ("by midnight", "24:00", True),
        ("from 9.30 to 17.45 o'clock", "09:30", True),
        ("until 9.30 pm", "21:30", True),
        ("ab 9 Uhr", "09:00", True),
        ("version 9.30.1", "09:30", False),
        ("from 6 pm on 2026-12-01", "2026-12-01T18:00:00Z", True),
        ("from noon on 1 December 2026", "2026-12-01T12:00", True),
        ("from 7 pm on 2026-12-01", "2026-12-01T18:00:00Z", False),
        ("from 6 pm on 2026-12-01", "2026-12-02T18:00:00Z", False),
        ("yesterday from 18:00 on", "T18:00:00Z", True),
        ("on 2026-12-01", "2026-12-01T00:00:00Z", True),
    ],
)
def test_a_time_of_day_is_named_in_whatever_way_it_is_written(
    text: str, time: str, *, is_named: bool
) -> None:
    assert JobWords([text]).names(time) is is_named


@pytest.mark.parametrize(
    ("text", "figure", "is_named"),
    [
        ("before noon", 12, True),
        ("until 5 pm", 17, True),
        ("ab 17.30 Uhr", 17, True),
        ("ab 17.30 Uhr", 30, True),
        ("from 9.15 to 17.45 o'clock", 17, True),
        ("over 17.30 EUR", 30, False),
        ("on Mondays", 1, True),
        ("on Mondays", 2, False),
        ("over 12.50 EUR", 12, False),
        ("at the weekend", 6, True),
        ("in the last quarter", 90, True),
        ("files above 5MB", 5, True),
        ("the 2nd of them", 2, False),
    ],
)
def test_hours_weekdays_and_measures_name_their_figures(
    text: str, figure: float, *, is_named: bool
) -> None:
    assert JobWords([text]).names_figure(figure) is is_named


@pytest.mark.parametrize(
    ("text", "name", "is_named"),
    [
        ("probes p1 and p2", "p1", True),
        ("probes p1 and p2", "p3", False),
        ("the share DE0007164600", "DE0007164600", True),
        ("room 4b", "room 4b", True),
        ("a run of 30 km", "30km", True),
        ("a run of 30km", "30 km", True),
        ("a run of 30 km", "40km", False),
    ],
)
def test_a_name_with_digits_is_a_word_and_a_measure_its_figure_and_unit(
    text: str, name: str, *, is_named: bool
) -> None:
    assert JobWords([text]).names(name) is is_named


@pytest.mark.parametrize(
    ("text", "label", "is_said"),
    [
        ("probes p1 and p2", "p1", True),
        ("restart web-1", "On web-1: ", True),
        ("probes p1 and p2", "p3", False),
        ("over 30 days", "30 items", False),
        ("over 12.50 EUR", "12.50 items", False),
        ("over 12.50 EUR", "12.50 EUR", True),
        ("open from 9.30", "at 9:30", True),
    ],
)
def test_a_name_with_digits_may_stand_beside_a_value_wherever_the_job_has_it(
    text: str, label: str, *, is_said: bool
) -> None:
    assert JobWords([text]).words_figures_so(label) is is_said
