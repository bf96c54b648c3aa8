"""Numbers, currencies and dates in the forms that people and programs write."""

from __future__ import annotations

import datetime as dt

import pytest

from wavewright.packs.text.written_values import (
    bare_number,
    currency_beside,
    in_plain_digits,
    written_date,
)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-27",
        "2026-11-27 17:30",
        "27th November, 2026",
        "Friday, 27 November 2026",
        "Nov 27, 2026",
        "27-Nov-26",
        "Freitag, 27. November 2026",
        "Fr, 27.11.2026",
        "27. 11. 2026",
        "ven. 27 nov. 2026",
        "viernes, 27 de noviembre de 2026",
        "sexta-feira, 27 de novembro de 2026",
        "пт, 27.11.2026",
        "27 ноября 2026",
        "2026年11月27日",
    ],
)
def test_a_date_is_read_with_its_day_of_the_week_or_without(text: str) -> None:
    assert written_date(text) == dt.date(2026, 11, 27)


def test_a_word_for_a_day_and_a_month_is_a_month_where_no_other_one_is_named() -> None:
    assert written_date("mar. 24 nov. 2026") == dt.date(2026, 11, 24)
    assert written_date("Mar 1 2010") == dt.date(2010, 3, 1)


@pytest.mark.parametrize("text", ["03/04/2010", "Friday", "27 29 November 2026", "soon", ""])
def test_what_may_be_several_dates_or_none_is_none(text: str) -> None:
    assert written_date(text) is None


@pytest.mark.parametrize(
    "text", ["-5.00", "(5.00)", "5.00-", "-$5.00", "$-5.00", "($5.00)", "\u22125.00", "-5.00 EUR"]
)
def test_a_number_below_zero_has_a_minus_around_it_or_brackets(text: str) -> None:
    assert bare_number(text) == "-5.00"


@pytest.mark.parametrize(
    ("text", "has_decimal_comma"),
    [
        ("1,250.50", False),
        ("1'250.50", False),
        ("1 250,50", True),
        ("1\u202f250,50 €", True),
        ("1.250,50", True),
    ],
)
def test_marks_of_thousands_are_no_part_of_a_number(text: str, *, has_decimal_comma: bool) -> None:
    digits = in_plain_digits(bare_number(text), has_decimal_comma=has_decimal_comma)

    assert digits == "1250.50"


def test_a_sign_of_several_countries_names_no_currency() -> None:
    assert [currency_beside(text) for text in ("5 €", "US$ 5", "$5", "5")] == [
        "EUR",
        "USD",
        None,
        None,
    ]


@pytest.mark.parametrize("text", ["1" + " " * 100_000 + "x", "(1" + " " * 100_000, "1 " * 100_000])
def test_long_runs_of_blanks_are_read_in_one_pass(text: str) -> None:
    assert bare_number(text).split() == text.split()
    assert currency_beside(text) is None
