"""Benchmarks: given series, and baskets that say that they are baskets."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.packs.equities.market import MONTHS, equities, write_prices
from tests.tools.calling import call_for_document
from wavewright.packs.equities.documents import Point
from wavewright.packs.equities.series_documents import equal_weight_basket
from wavewright.tools import ToolError

DAYS = (dt.date(2010, 1, 1), dt.date(2010, 2, 1), dt.date(2010, 3, 1), dt.date(2010, 4, 1))


def line(*prices: float | None) -> list[Point]:
    return [(day, price) for day, price in zip(DAYS, prices, strict=False) if price is not None]


def test_a_baskets_return_is_the_mean_of_its_constituents() -> None:
    levels = equal_weight_basket({"A": line(10, 11, 11), "B": line(100, 130, 65)})

    assert [round(level, 9) for _, level in levels] == [100, 120, 90]


def test_a_constituent_joins_at_its_second_price_and_leaves_after_its_last() -> None:
    levels = equal_weight_basket({"A": line(10, 11, 12.1, 13.31), "B": line(None, 50, 75, None)})

    assert [round(level, 9) for _, level in levels] == [100, 110, 143, 157.3]


def test_on_a_date_without_a_price_the_last_one_stands() -> None:
    levels = equal_weight_basket({"A": line(10, 20, 20, 20), "B": line(10, None, 30, 30)})

    assert [round(level, 9) for _, level in levels] == [100, 150, 300, 300]


def test_a_basket_of_nothing_but_first_prices_is_a_failure() -> None:
    with pytest.raises(ToolError, match="a constituent with two prices"):
        equal_weight_basket({"A": line(1)})


def test_daily_and_monthly_constituents_do_not_mix() -> None:
    daily = [(dt.date(2010, 1, 1) + dt.timedelta(days=n), 1.0 + n) for n in range(5)]

    with pytest.raises(ToolError, match="A daily, B monthly"):
        equal_weight_basket({"A": daily, "B": line(1, 2, 3)})


@given(
    st.lists(st.floats(min_value=0.1, max_value=1e4), min_size=4, max_size=4),
    st.integers(min_value=1, max_value=5),
    st.floats(min_value=0.1, max_value=100),
)
def test_a_basket_of_equal_series_in_any_unit_is_that_series(
    values: list[float], copies: int, unit: float
) -> None:
    members = {
        f"S{n}": line(*(value * (unit if n % 2 else 1) for value in values)) for n in range(copies)
    }

    levels = equal_weight_basket(members)

    assert [level / 100 for _, level in levels] == pytest.approx(
        [value / values[0] for value in values]
    )


def test_equal_weight_is_the_basket_of_all_codes_and_says_so(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices", "AAA", [10.0, 11.0, 12.1])
    write_prices(tmp_path / "prices", "BBB", [10.0, 11.0, 12.1])

    document = call_for_document(equities(tmp_path)["fetch_index_data"], code="equal_weight")

    assert document["index_kind"] == "equal_weight_basket"
    assert document["constituents"] == ["AAA", "BBB"]
    assert document["prices"] == [
        ["2009-01-01", 100.0],
        ["2009-02-01", 110.0],
        ["2009-03-01", 121.0],
    ]
    assert document["kind"] == "index-data"
    assert document["tags"] == ["index-data", "equal_weight"]
    assert "is an equal-weight basket of AAA, BBB" in str(document["warnings"])
    assert document["currency"] is None


def test_a_configured_basket_takes_its_codes_only(tmp_path: Path) -> None:
    for code in ("AAA", "BBB", "CCC"):
        write_prices(tmp_path / "prices", code, [10.0, 11.0])
    tools = equities(tmp_path, indices={"two": {"codes": ["CCC", "aaa"]}})

    assert call_for_document(tools["fetch_index_data"], code="TWO")["constituents"] == [
        "AAA",
        "CCC",
    ]


def test_a_constituent_without_a_price_yet_is_left_out_and_named(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices", "OLD", [10.0] * 15)
    write_prices(tmp_path / "prices", "NEW", [10.0, 11.0], MONTHS[-2:])

    document = call_for_document(
        equities(tmp_path)["fetch_index_data"],
        code="EQUAL_WEIGHT",
        now=dt.datetime(2009, 6, 1, tzinfo=dt.UTC),
    )

    assert document["constituents"] == ["OLD"]
    assert "not in the basket, for want of a price: NEW" in str(document["warnings"])
    assert document["as_of"] == "2009-06-01"


@pytest.mark.parametrize(
    ("file", "warning"),
    [
        ("NONE.csv", "NONE is not in the basket EQUAL_WEIGHT: "),
        ("my notes.txt", "MY NOTES is not in the basket EQUAL_WEIGHT: 'MY NOTES' is no stock code"),
    ],
)
def test_what_cannot_be_read_is_left_out_of_the_basket_of_all(
    file: str, warning: str, tmp_path: Path
) -> None:
    for code in ("AAA", "BBB"):
        write_prices(tmp_path / "prices", code, [10.0, 11.0])
    (tmp_path / "prices" / file).write_text("")
    tools = equities(tmp_path, indices={"MINE": {"codes": ["AAA", "BBB", "NONE"]}})

    document = call_for_document(tools["fetch_index_data"], code="EQUAL_WEIGHT")

    assert document["constituents"] == ["AAA", "BBB"]
    assert warning in str(document["warnings"])
    with pytest.raises(ToolError, match="NONE"):
        call_for_document(tools["fetch_index_data"], code="MINE")
    (tmp_path / "prices" / "BBB.csv").unlink()
    with pytest.raises(ToolError):
        call_for_document(tools["fetch_index_data"], code="EQUAL_WEIGHT")


def test_a_given_series_is_read_from_its_own_file(tmp_path: Path) -> None:
    write_prices(tmp_path / "series", "xjo", [4000.0, 4100.0])
    tools = equities(tmp_path, prices=None, indices={"XJO": "series/xjo.csv"}, exchange="asx")

    document = call_for_document(tools["fetch_index_data"], code="XJO")

    assert document["id"] == "asx:XJO:index_data"
    assert document["index_kind"] == "series"
    assert document["constituents"] == []
    assert document["current_price"] == 4100


def test_a_code_of_the_price_source_can_be_the_benchmark(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices", "SPY", [1.0, 2.0])

    assert (
        call_for_document(equities(tmp_path)["fetch_index_data"], code="SPY")["index_kind"]
        == "series"
    )


def test_a_source_that_lists_no_codes_has_no_basket_of_all(tmp_path: Path) -> None:
    tools = equities(tmp_path, prices={"provider": "eodhd"})

    with pytest.raises(ToolError, match="cannot list its codes") as refused:
        call_for_document(tools["fetch_index_data"], code="EQUAL_WEIGHT")

    assert (
        refused.value.hint
        == "name the basket's codes under 'indices': {EQUAL_WEIGHT: {codes: [...]}}"
    )


def test_an_unknown_benchmark_is_a_failure_that_says_what_to_set(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices", "AAA", [1.0, 2.0])

    with pytest.raises(ToolError, match="no benchmark is called 'XJO'") as refused:
        call_for_document(
            equities(tmp_path, indices={"XAO": "x.csv"})["fetch_index_data"], code="XJO"
        )

    assert refused.value.hint is not None
    assert "configured are XAO, EQUAL_WEIGHT" in refused.value.hint
