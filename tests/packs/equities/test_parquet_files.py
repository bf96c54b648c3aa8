"""Parquet files of prices."""

from __future__ import annotations

import datetime as dt
import importlib
from pathlib import Path
from typing import Any

import pytest

from tests.packs.equities.market import equities
from tests.tools.calling import call_for_document
from wavewright.planner.types import as_list, as_object
from wavewright.tools import ToolError

pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
arrow: Any = importlib.import_module("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")

DATES = [dt.date(2010, 1, 1), dt.date(2010, 2, 1)]


def write(root: Path, columns: dict[str, Any], name: str = "AAPL.parquet") -> None:
    (root / "prices").mkdir(exist_ok=True)
    parquet.write_table(arrow.table(columns), root / "prices" / name)


@pytest.mark.parametrize(
    "dates",
    [
        pytest.param(DATES, id="dates"),
        pytest.param([dt.datetime.combine(date, dt.time(16)) for date in DATES], id="times"),
        pytest.param([date.isoformat() for date in DATES], id="text"),
    ],
)
def test_a_parquet_file_is_read_like_a_csv_file(dates: list[Any], tmp_path: Path) -> None:
    write(tmp_path, {"Date": dates, "Close": [10.0, 11.0], "Volume": [1, 2]})

    document = call_for_document(equities(tmp_path)["fetch_stock_data"], code="AAPL")

    assert document["prices"] == [["2010-01-01", 10.0], ["2010-02-01", 11.0]]
    assert document["sources"] == [
        {"name": "prices of AAPL", "location": "prices/AAPL.parquet", "as_of": "2010-02-01"}
    ]


def test_a_long_parquet_file_holds_several_codes(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "symbol": ["A", "B", "A"],
            "date": [DATES[0], DATES[0], DATES[1]],
            "close": [1.0, 5.0, 2.0],
        },
        "all.parquet",
    )
    tools = equities(tmp_path, prices="prices/all.parquet")

    assert call_for_document(tools["fetch_stock_data"], code="A")["current_price"] == 2


def test_a_price_that_is_not_above_zero_is_a_doubt_with_its_day(tmp_path: Path) -> None:
    write(tmp_path, {"date": DATES, "close": [10.0, -1.0]})

    document = call_for_document(equities(tmp_path)["fetch_stock_data"], code="AAPL")

    [found] = [as_object(one) for one in as_list(document["oddities"])]
    assert "the price -1 in row 2 is not above zero" in str(found["text"])
    assert document["doubts"] == ["2010-02-01 value"]


def test_what_is_no_parquet_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "prices").mkdir()
    (tmp_path / "prices" / "AAPL.parquet").write_bytes(b"date,close\n")

    with pytest.raises(
        ToolError, match=r"prices/AAPL\.parquet: this is no Parquet file"
    ) as refused:
        call_for_document(equities(tmp_path)["fetch_stock_data"], code="AAPL")

    assert "\n" not in str(refused.value)


def test_missing_pyarrow_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"date": DATES, "close": [1.0, 2.0]})

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("wavewright.packs.equities.price_files.importlib.import_module", missing)

    with pytest.raises(ToolError, match="pyarrow, which is not installed") as refused:
        call_for_document(equities(tmp_path)["fetch_stock_data"], code="AAPL")

    assert "pip install 'wavewright[parquet]'" in (refused.value.hint or "")
