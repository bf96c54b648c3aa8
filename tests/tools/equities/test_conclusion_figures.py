"""Figures in sentences: what a document supports, and what it does not."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from wavewright.planner.types import JsonObject
from wavewright.tools.equities.conclusions import unsupported_figures

DOCUMENT: JsonObject = {
    "as_of": "2010-03-01",
    "stocks": [
        {"code": "AAPL", "current_price": 1223.02, "period_return": 7.5912, "volatility": 0.3468},
        {"code": "IBM", "return_1y": -0.0849, "observations": 123},
    ],
    "warnings": ["the average of the last 10 prices; 45 days at most"],
}


@pytest.mark.parametrize(
    "text",
    [
        "AAPL stood at 1,223.02 on 2010-03-01, or about 1223.",
        "It gained 759.1 % over all its prices.",
        "It gained 759%; its volatility is 34.7 percent (0.35 as a fraction).",
        "IBM lost 8.5 % within a year (-8.49 %).",
        "IBM lost 8.5 % within a year (\N{MINUS SIGN}8.5 %).",
        "Two of 5 stocks trend up; the 10-month average is the rule.",
        "In 2010 there were 123 prices, none older than 45 days.",
        "No figure at all.",
        "AAPL2 and V8 are names, not figures.",
    ],
)
def test_what_the_document_holds_is_supported(text: str) -> None:
    assert unsupported_figures(text, DOCUMENT) == ()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        pytest.param("It gained 760.9 %.", ("760.9 %",), id="another figure"),
        pytest.param("It stood at 1,224.", ("1,224",), id="rounded wrongly"),
        pytest.param("The spread is 42.5 points.", ("42.5",), id="computed by the model"),
        pytest.param("IBM gained +8.5 %.", ("+8.5 %",), id="the other sign"),
        pytest.param("On 2010-04-01 it fell.", ("2010-04-01",), id="another day"),
        pytest.param("Since 1999 it grew.", ("1999",), id="another year"),
        pytest.param("It will reach 300 by 2011.", ("300", "2011"), id="a forecast"),
    ],
)
def test_what_the_document_does_not_hold_is_named_as_it_is_written(text: str, wrong: tuple[str, ...]) -> None:
    assert unsupported_figures(text, DOCUMENT) == wrong


@given(st.floats(-1e6, 1e6, allow_nan=False), st.integers(0, 4))
def test_a_number_rounded_to_any_place_is_supported(number: float, places: int) -> None:
    assert unsupported_figures(f"It is {abs(number):,.{places}f}.", {"x": number}) == ()


@given(st.floats(-10, 10, allow_nan=False), st.integers(0, 3))
def test_a_fraction_written_as_percent_is_supported(number: float, places: int) -> None:
    assert unsupported_figures(f"It is {number * 100:+.{places}f} % now.", {"x": number}) == ()
