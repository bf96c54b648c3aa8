"""Folders and files of prices: what is read, and what each kind of bad file is answered with."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.packs.equities.market import MONTHS, equities, write_prices
from tests.tools.calling import MARCH_2010, call_for_document
from wavewright.packs.equities.price_files import FilePrices
from wavewright.packs.equities.price_tables import PriceColumnNames, TableForm, parse_date
from wavewright.packs.equities.prices import PriceSeries
from wavewright.planner.types import Json, JsonObject, as_list, as_object
from wavewright.tools import ToolError

HEADER = "date,close\n"


def fetch(root: Path, code: str = "AAPL", **settings: object) -> JsonObject:
    return call_for_document(equities(root, **settings)["fetch_stock_data"], code=code)


def points(document: JsonObject) -> list[Json]:
    prices = document["prices"]
    assert isinstance(prices, list)
    return prices


def write(root: Path, text: str | bytes, name: str = "AAPL.csv") -> None:
    folder = root / "prices"
    folder.mkdir(exist_ok=True)
    content = text.encode() if isinstance(text, str) else text
    (folder / name).write_bytes(content)


def test_a_folder_with_one_file_a_code_is_read(tmp_path: Path) -> None:
    write(tmp_path, "Date,Open,CLOSE,Volume\n2010-01-01,1,10.5,7\n2010-02-01,1,11,7\n")

    document = fetch(tmp_path, currency="USD", exchange="us")

    assert document["id"] == "us:AAPL:stock_collector"
    assert document["kind"] == "stock-data"
    assert document["tags"] == ["stock-data", "aapl"]
    assert document["as_of"] == "2010-02-01"
    assert document["current_price"] == 11
    assert document["currency"] == "USD"
    assert document["prices"] == [["2010-01-01", 10.5], ["2010-02-01", 11.0]]
    assert document["price_basis"] == "close"
    assert document["sources"] == [
        {"name": "prices of AAPL", "location": "prices/AAPL.csv", "as_of": "2010-02-01"}
    ]
    assert document["warnings"] == []


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("date,price\nJan 1 2010,10\nFeb 1 2010,11\n", id="dates in words"),
        pytest.param(
            "\ufeffDATE;Price\r\n2010-01-01;10\r\n2010-02-01;11\r\n", id="semicolon, CRLF and mark"
        ),
        pytest.param(
            "date\tclose\n2010-01-01T00:00:00Z\t10\n2010-02-01 16:00\t11\n", id="tab and times"
        ),
        pytest.param(
            '"date","close"\n"2010-01-01","10"\n\n"2010-02-01"," 11 "\n\n', id="quotes, blank lines"
        ),
        pytest.param("close,date\n10,20100101\n11,2010/02/01\n", id="other order and forms"),
        pytest.param(
            "date,close\n20100101 1730,10\n201002010930,9\n2010-02-01 173000,11\n",
            id="times without a colon",
        ),
        pytest.param(
            'Date,Close*,Adj Close**\n"Jan 1, 2010",10,10\n"Feb 1, 2010",11,11\n', id="stars"
        ),
        pytest.param(
            "Date,Close\n01/30/2010 16:00:00,#N/A\n01/01/2010 16:00:00,10\n02/01/2010 16:00:00,11\n",
            id="days with times, and a day without a price",
        ),
        pytest.param(
            'date,last sale\n"Friday, January 1, 2010",US$10\n"Monday, February 1, 2010",US$11\n',
            id="weekdays and dollars",
        ),
        pytest.param("t,c\n1262354400,10\n1265032800,11\n", id="one letter a column"),
        pytest.param("日付,終値\n2010年1月1日,10\n2010年2月1日,11\n", id="Japanese"),
        pytest.param(
            'Tarih,Şimdi,Fark %\n01.01.2010,"10,00","0,30%"\n01.02.2010,"11,00","1%"\n',
            id="Turkish",
        ),
        pytest.param(
            "Fund name:,ABC\n\nNAV Date,NAV per share (EUR),Total\n2010-01-01,10,5\n2010-02-01,11,5\n",
            id="fund",
        ),
        pytest.param(
            "symbol,date,close\nAAPL,2010-01-01,10\nAAPL,2010-02-01,11\nX,2010-02-01,9\n",
            id="symbols",
        ),
    ],
)
def test_common_forms_give_the_same_prices(text: str, tmp_path: Path) -> None:
    write(tmp_path, text)

    assert fetch(tmp_path)["prices"] == [["2010-01-01", 10.0], ["2010-02-01", 11.0]]


def test_adjusted_closes_are_the_history_and_the_last_close_is_the_price(tmp_path: Path) -> None:
    write(tmp_path, "date,close,Adj Close\n2010-01-01,10,5\n2010-02-01,11,5.5\n")

    document = fetch(tmp_path)

    assert document["price_basis"] == "adjusted"
    assert document["prices"] == [["2010-01-01", 5.0], ["2010-02-01", 5.5]]
    assert document["current_price"] == 11


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("2010-01-13,10\n2010-02-01,11\n", "date, close"),
        ("01.02.2010;11,00\n13.01.2010;10,00\n", "date, close"),
        ("20100113,9,11,8,10\n20100201,10,12,9,11\n", "date, open, high, low, close"),
        (
            "2010.01.13,00:00,9,11,8,10,7\n2010.02.01,00:00,10,12,9,11,7\n",
            "date, time, open, high, low, close, volume",
        ),
    ],
)
def test_columns_without_a_header_are_told_by_their_numbers(
    text: str, columns: str, tmp_path: Path
) -> None:
    write(tmp_path, text)

    document = fetch(tmp_path)

    assert document["prices"] == [["2010-01-13", 10.0], ["2010-02-01", 11.0]]
    note = f"prices/AAPL.csv: there is no header; the columns are read as {columns}"
    assert note in as_list(document["warnings"])


@pytest.mark.parametrize("row", ["10,7", "9,11,8,12", "10,x,8,9"])
def test_columns_without_a_header_that_may_be_anything_are_refused(
    row: str, tmp_path: Path
) -> None:
    write(tmp_path, f"2010-01-01,{row}\n2010-02-01,{row}\n")

    with pytest.raises(ToolError, match="no column of dates"):
        fetch(tmp_path)


@pytest.mark.parametrize("prices", ["all.csv", "long"])
def test_one_long_file_holds_several_codes(prices: str, tmp_path: Path) -> None:
    text = "ticker,date,price\nAAPL,2010-01-01,10\nIBM,2010-01-01,100\nAAPL,2010-02-01,11\nIBM,2010-02-01,90\n"
    (tmp_path / "long").mkdir()
    (tmp_path / "all.csv").write_text(text)
    (tmp_path / "long" / "everything.csv").write_text(text)

    document = fetch(tmp_path, "ibm", prices=prices)

    assert document["code"] == "IBM"
    assert document["prices"] == [["2010-01-01", 100.0], ["2010-02-01", 90.0]]
    with pytest.raises(ToolError, match="has no prices for 'IBN'") as refused:
        fetch(tmp_path, "IBN", prices=prices)
    assert refused.value.hint == "did you mean 'IBM'?"


def test_the_file_name_counts_without_regard_to_case(tmp_path: Path) -> None:
    write(tmp_path, HEADER + "2010-01-01,10\n2010-02-01,11\n", name="aapl.CSV")

    assert fetch(tmp_path, "aapl")["code"] == "AAPL"


def test_dates_out_of_order_are_sorted_and_said_to_be(tmp_path: Path) -> None:
    write(tmp_path, HEADER + "2010-02-01,11\n2010-01-01,10\n")

    document = fetch(tmp_path)

    assert document["prices"] == [["2010-01-01", 10.0], ["2010-02-01", 11.0]]
    assert document["warnings"] == [
        "prices/AAPL.csv: the dates were not in order; they have been sorted"
    ]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        pytest.param("", r"prices/AAPL.csv: the file is empty", "header", id="empty file"),
        pytest.param("  \n\n", r"the file is empty", "header", id="blank file"),
        pytest.param(
            HEADER,
            r"prices/AAPL.csv: the file has a header and no prices",
            "rows",
            id="header only",
        ),
        pytest.param(
            "day,closing\n2010-01-01,3\n",
            r"prices/AAPL.csv: no column of prices; the header has 'day', 'closing'",
            "'close'",
            id="no price column",
        ),
        pytest.param(
            "when,close\n2010-01-01,3\n", r"no column of dates", "'date'", id="no date column"
        ),
        pytest.param(
            "date,close,close\n2010-01-01,3,4\n",
            r"the header has 'close' twice",
            "keep one",
            id="twice",
        ),
        pytest.param(
            HEADER + "19/05/2010,3\n05/20/2010,4\n",
            r"'19/05/2010' begins with the day, and '05/20/2010' with the month",
            "in one order",
            id="two orders",
        ),
        pytest.param(
            HEADER + "2010-01-01,3\n2010-13-01,4\n",
            r"prices/AAPL.csv, line 3: the date '2010-13-01' cannot be read",
            "2010-03-01",
            id="date",
        ),
        pytest.param(
            HEADER + "03/04/2010,4\n",
            r"'03/04/2010' may begin with the day or with the month",
            "date_format: '%d/%m/%Y'",
            id="ambiguous date",
        ),
        pytest.param(HEADER + ",4\n", r"line 2: the date is empty", "2010-03-01", id="empty date"),
        pytest.param(
            HEADER + "2010-01-01,\n",
            r"the file has a header and no prices",
            "add rows",
            id="no price",
        ),
        pytest.param(
            HEADER + "2010-01-01\n",
            r"line 2: the price is missing",
            "remove the row",
            id="short row",
        ),
        pytest.param(
            HEADER + "2010-01-01,inf\n", r"line 2: the price inf is not finite", "", id="infinite"
        ),
        pytest.param(
            HEADER + "2010-01-01,-3\n",
            r"no price can be trusted: 2010-01-01: the price -3 in line 2 is not above zero",
            "correct",
            id="negative",
        ),
        pytest.param(
            HEADER + "2010-01-01,0\n", r"the price 0 in line 2 is not above", "correct", id="zero"
        ),
        pytest.param(
            HEADER + "2010-01-01,1_0\n",
            r"line 2: the price '1_0' is no number",
            "",
            id="underscore",
        ),
        pytest.param(
            HEADER + '2010-01-01,"1,500"\n',
            r"the comma of '1,500' may be that of decimals or of thousands",
            "point",
            id="decimal comma or thousands",
        ),
        pytest.param(
            HEADER + "2010-01-01,1,5\n",
            r"line 2: 3 cells under 2 columns",
            "quote",
            id="extra cell",
        ),
        pytest.param(
            HEADER + '2010-01-01,"3\n',
            r"prices/AAPL.csv, line \d: this is no CSV",
            "again",
            id="quote",
        ),
        pytest.param(b"\x00\x01\x02", r"this is no text", "UTF-8", id="binary"),
        pytest.param(
            HEADER + f"2010-01-01,{'9' * 200_000}\n",
            "this is no CSV: field larger",
            "",
            id="long cell",
        ),
    ],
)
def test_a_bad_file_is_answered_with_its_place_and_the_mend(
    text: str | bytes, message: str, hint: str, tmp_path: Path
) -> None:
    write(tmp_path, text)

    with pytest.raises(ToolError, match=message) as refused:
        fetch(tmp_path)

    assert hint in (refused.value.hint or "")
    assert not refused.value.transient


def _nothing(_: Path) -> None: ...


def _empty_folder(root: Path) -> None:
    (root / "prices").mkdir()


def _other_files(root: Path) -> None:
    (root / "prices").mkdir()
    (root / "prices" / "notes.md").write_text("x")


def _folder_in_place_of_a_file(root: Path) -> None:
    (root / "prices" / "AAPL.csv").mkdir(parents=True)


def _link(root: Path) -> None:
    (root / "prices").mkdir()
    (root / "prices" / "AAPL.csv").symlink_to("/etc/hostname")


def _two_files(root: Path) -> None:
    write_prices(root / "prices", "AAPL", [1, 2])
    write_prices(root / "prices", "aapl", [1, 2])


def _near_names(root: Path) -> None:
    write_prices(root / "prices", "APPL", [1, 2])
    write_prices(root / "prices", "IBM", [1, 2])


def _pipe(root: Path) -> None:
    (root / "prices").mkdir()
    os.mkfifo(root / "prices" / "AAPL.csv")


@pytest.mark.parametrize(
    ("arrange", "message", "hint"),
    [
        pytest.param(
            _nothing,
            "prices: there is no such file or folder",
            "it was looked for at",
            id="missing",
        ),
        pytest.param(
            _empty_folder, "prices: the folder has no price files", "such as AAPL.csv", id="empty"
        ),
        pytest.param(
            _other_files, r"no price files \(it has 1 other", "such as AAPL.csv", id="other files"
        ),
        pytest.param(
            _folder_in_place_of_a_file, "prices/AAPL.csv: it is a folder", "regular", id="folder"
        ),
        pytest.param(_link, "the folder has no price files", "such as", id="link only"),
        pytest.param(
            _two_files,
            "'AAPL.csv' and 'aapl.csv' are both files of 'AAPL'",
            "keep one",
            id="two files",
        ),
        pytest.param(
            _near_names, "prices has no prices for 'AAPL'", "did you mean 'APPL'?", id="near names"
        ),
        pytest.param(_pipe, "the folder has no price files", "such as", id="pipe"),
    ],
)
def test_a_folder_that_lacks_the_code_is_answered_with_the_mend(
    arrange: Callable[[Path], None], message: str, hint: str, tmp_path: Path
) -> None:
    arrange(tmp_path)

    with pytest.raises(ToolError, match=message) as refused:
        fetch(tmp_path)

    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize(
    "code", ["../secret", "a/b", "", ".hidden", "A" * 21, "AA PL", "A..B", "东"]
)
def test_what_is_no_code_never_becomes_a_file_name(code: str, tmp_path: Path) -> None:
    write_prices(tmp_path / "prices", "AAPL", [1, 2])

    with pytest.raises(ToolError, match=r"is no stock code|has no prices"):
        fetch(tmp_path, code)


def test_an_oversized_file_is_refused(tmp_path: Path) -> None:
    write(tmp_path, HEADER)
    os.truncate(tmp_path / "prices" / "AAPL.csv", 64 * 2**20 + 1)

    with pytest.raises(ToolError, match="larger than 67,108,864 bytes"):
        fetch(tmp_path)


def test_no_configured_prices_is_a_failure_that_says_what_to_set(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no prices are configured") as refused:
        fetch(tmp_path, prices=None)

    assert "vega_datasets" in (refused.value.hint or "")


def test_a_changed_file_is_read_again_and_force_reads_in_any_case(tmp_path: Path) -> None:
    tools = equities(tmp_path)
    file = write_prices(tmp_path / "prices", "AAPL", [1, 2])
    assert call_for_document(tools["fetch_stock_data"], code="AAPL")["current_price"] == 2

    def change(price: int, stamp: int) -> None:
        file.write_text(f"{HEADER}2009-01-01,1\n2009-02-01,{price}\n")
        os.utime(file, ns=(stamp, stamp))

    change(3, stamp=10**18)
    changed = call_for_document(tools["fetch_stock_data"], code="AAPL")["current_price"]
    change(4, stamp=10**18)
    kept = call_for_document(tools["fetch_stock_data"], code="AAPL")["current_price"]
    forced = call_for_document(tools["fetch_stock_data"], code="AAPL", force=True)["current_price"]

    assert changed == 3
    assert kept == 3
    assert forced == 4


def test_years_cut_the_history_from_its_end(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices", "AAPL", [float(n + 1) for n in range(15)])
    tool = equities(tmp_path)["fetch_stock_data"]

    one_year = call_for_document(tool, code="AAPL", years=1)
    from_config = call_for_document(tool, code="AAPL", config={"years": 0.5})

    assert points(one_year)[0] == ["2009-03-01", 3.0]
    assert points(from_config)[0] == ["2009-09-01", 9.0]
    with pytest.raises(ToolError, match="years: 'all'"):
        call_for_document(tool, code="AAPL", config={"years": "all"})


@pytest.mark.parametrize(
    "now", [dt.datetime(2009, 6, 15, tzinfo=dt.UTC), dt.datetime(2009, 6, 1, tzinfo=dt.UTC)]
)
def test_nothing_dated_after_now_is_returned(now: dt.datetime, tmp_path: Path) -> None:
    write_prices(tmp_path / "prices", "AAPL", [10.0] * 6 + [99.0] * 9)

    document = call_for_document(equities(tmp_path)["fetch_stock_data"], code="AAPL", now=now)

    assert document["as_of"] == "2009-06-01"
    assert "99" not in str(document)
    assert "2010" not in str(document)


def test_the_day_of_now_is_taken_in_utc(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices", "AAPL", [1.0, 2.0, 3.0])
    zone = dt.timezone(dt.timedelta(hours=10))
    early = dt.datetime(2009, 3, 1, 5, tzinfo=zone)

    document = call_for_document(equities(tmp_path)["fetch_stock_data"], code="AAPL", now=early)

    assert document["as_of"] == "2009-02-01"


def test_a_stock_without_a_price_before_now_is_a_failure(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices", "AAPL", [1.0, 2.0])

    with pytest.raises(
        ToolError, match="no price on or before 2008-12-31; its first is of 2009-01-01"
    ):
        call_for_document(
            equities(tmp_path)["fetch_stock_data"],
            code="AAPL",
            now=dt.datetime(2008, 12, 31, tzinfo=dt.UTC),
        )


def test_one_price_is_a_document_without_figures(tmp_path: Path) -> None:
    write_prices(tmp_path / "prices", "AAPL", [7.0])

    document = fetch(tmp_path)

    assert document["figures"] is None
    assert document["trend_signal"] == "unknown"


def test_vega_datasets_carries_the_prices_of_five_stocks(tmp_path: Path) -> None:
    pytest.importorskip("vega_datasets", reason="the extra 'equities' is not installed")
    tools = equities(tmp_path, prices="vega_datasets")

    documents = {
        code: call_for_document(tools["fetch_stock_data"], code=code)
        for code in ("AAPL", "AMZN", "GOOG", "IBM", "MSFT")
    }

    lengths = {code: len(points(document)) for code, document in documents.items()}
    assert lengths == {"AAPL": 123, "AMZN": 123, "GOOG": 68, "IBM": 123, "MSFT": 123}
    assert all(document["as_of"] == "2010-03-01" for document in documents.values())
    assert documents["AAPL"]["current_price"] == 223.02
    assert documents["AAPL"]["frequency"] == "monthly"
    assert documents["AAPL"]["currency"] == "USD"


def test_missing_vega_datasets_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(name: str) -> None:
        assert name == "vega_datasets"

    monkeypatch.setattr("importlib.util.find_spec", nothing)

    with pytest.raises(ToolError, match="are not installed") as refused:
        fetch(tmp_path, prices="vega_datasets")

    assert "pip install 'wavewright[equities]'" in (refused.value.hint or "")


@given(st.dates(min_value=dt.date(1000, 1, 1)))
def test_dates_are_read_back_from_every_form(date: dt.date) -> None:
    forms = ("%Y-%m-%d", "%Y-%m-%dT10:00:00Z", "%b %d %Y", "%d %b %Y", "%Y/%m/%d", "%Y%m%d")

    assert {parse_date(date.strftime(form)) for form in forms} == {date}
    assert MONTHS[-1] == MARCH_2010.date()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Datum;Schluss\n01.01.2010;10,5\n01.02.2010;1.011,25\n", id="decimal comma"),
        pytest.param(
            "<TICKER>,<PER>,<DATE>,<TIME>,<CLOSE>\n"
            "AAPL.US,D,20100101,000000,10.5\nAAPL.US,D,20100201,000000,1011.25\n",
            id="names in angle brackets, another symbol",
        ),
        pytest.param(
            '"Date","Price","Vol."\n"01/02/2010","1,011.25","1.2M"\n"01/01/2010","10.50","1.1M"\n'
            '"13/12/2009","null","0"\n',
            id="day first, thousands, a row without a price",
        ),
        pytest.param(
            "Date,Close\n2010-01-01 00:00:00-05:00,10.5\n2010-02-01 00:00:00-05:00,1011.25\n",
            id="time zone",
        ),
        pytest.param(
            "Date,Close\n2010-01-01,10.5\n2010-01-15,\n2010-02-01,1011.25\n", id="empty price"
        ),
        pytest.param("Datum;Kurs\n01.01.10;10,5\n01.02.10;1011,25\n", id="short years with points"),
        pytest.param("Date,Close\n2010.01.01,10.5\n2010.02.01,1011.25\n", id="points, year first"),
        pytest.param(
            "Date,Close\n1 January 2010,10.5\n1 February 2010,1011.25\n", id="months by whole names"
        ),
    ],
)
def test_files_are_read_in_the_forms_that_people_have(text: str, tmp_path: Path) -> None:
    write(tmp_path, text)

    assert fetch(tmp_path)["prices"] == [["2010-01-01", 10.5], ["2010-02-01", 1011.25]]


def test_a_comma_in_cells_that_semicolons_divide_is_that_of_decimals(tmp_path: Path) -> None:
    write(tmp_path, "Datum;Schluss\n01.01.2010;10,500\n01.02.2010;11,250\n")

    document = fetch(tmp_path)

    assert document["prices"] == [["2010-01-01", 10.5], ["2010-02-01", 11.25]]
    assert document["warnings"] == ["prices/AAPL.csv: prices are read with a decimal comma"]


def test_what_was_left_out_and_how_dates_were_read_is_said(tmp_path: Path) -> None:
    write(tmp_path, "Date,Close\n13/01/2010,10\n01/02/2010,null\n01/03/2010,11\n")

    assert fetch(tmp_path)["warnings"] == [
        "prices/AAPL.csv: 1 row without a price left out: 01/02/2010",
        "prices/AAPL.csv: dates are read as day, month, year: no other order fits all of them",
    ]


def test_the_settings_name_columns_and_the_form_of_dates(tmp_path: Path) -> None:
    write(tmp_path, "Handelstag,Kassakurs,close\n02-01-10,10,1\n01-02-10,11,1\n")

    document = fetch(
        tmp_path, columns={"date": "Handelstag", "close": "Kassakurs"}, date_format="%d-%m-%y"
    )

    assert document["prices"] == [["2010-01-02", 10.0], ["2010-02-01", 11.0]]


def test_the_currency_of_a_file_comes_before_that_of_the_settings(tmp_path: Path) -> None:
    write(tmp_path, "date,close,currency\n2010-01-01,1000,GBX\n2010-02-01,1100,GBX\n")

    document = fetch(tmp_path, currency="USD")

    assert (document["currency"], document["current_price"]) == ("GBP", 11.0)


def test_a_file_in_two_currencies_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "date,close,currency\n2010-01-01,10,EUR\n2010-02-01,11,USD\n")

    with pytest.raises(ToolError, match="the prices are in EUR and USD"):
        fetch(tmp_path)


def test_a_stock_is_not_compared_with_a_benchmark_in_another_currency(tmp_path: Path) -> None:
    write(tmp_path, "date,close,currency\n2010-01-01,10,EUR\n2010-02-01,11,EUR\n")
    write(tmp_path, "date,close,currency\n2010-01-01,10,USD\n2010-02-01,12,USD\n", "MKT.csv")
    tools = equities(tmp_path)
    stock = fetch(tmp_path)
    index = call_for_document(tools["fetch_index_data"], code="MKT")

    summary = call_for_document(
        tools["analyze_summary"], documents=[stock], title="Outlook", benchmark=index
    )

    assert as_object(as_list(summary["stocks"])[0])["comparisons"] == []
    assert "AAPL and MKT are in different currencies, and are not compared" in str(
        summary["content"]
    )


FORMS = {
    "windows": "Datum;Schlu\xdfkurs\n24.11.2026;1.250,50\n25.11.2026;1.251,00\n".encode("cp1252"),
    "utf-16": "Date\tClose\n2026-11-24\t1250.50\n2026-11-25\t1251.00\n".encode("utf-16"),
    "lines above": b"Symbol: ABC\nExport\n\nDate,Close\n2026-11-24,1250.50\n2026-11-25,1251\n",
    "a sheet's mark": b"sep=;\nDate;Close\n24.11.2026;1250,50\n25.11.2026;1251,00\n",
    "a note below": b"Date,Close\n2026-11-24,1250.50\n2026-11-25,1251\nSource: the exchange\n",
    "short years": b"Date,Close/Last\n11/24/26,$1250.50\n11/25/26,$1251\n",
    "months by name": b"Date,Close\n24-Nov-26,1250.50\n25-Nov-26,1251\n",
    "seconds": b"timestamp,close\n1795478400,1250.5\n1795564800,1251\n",
    "milliseconds": b"timestamp,close\n1795478400000,1250.5\n1795564800000,1251\n",
    "apostrophes": b"Datum;Kurs\n24.11.2026;1'250.50\n25.11.2026;1'251.00\n",
    "hard spaces": "Date;Dernier\n24.11.2026;1\xa0250,50\n25.11.2026;1\xa0251,00\n".encode(),
    "a sign": "Date;Close\n2026-11-24;1250,50 \u20ac\n2026-11-25;1251,00 \u20ac\n".encode(),
    "an explanation behind names": (
        b"Date\tOpen\tClose Close price adjusted for splits.\n"
        b"Nov 24, 2026\t1\t1,250.50\nNov 24, 2026\t0.25 Dividend\nNov 25, 2026\t1\t1,251.00\n"
    ),
    "a point in a name": b"Date,Adj. Close\n2026-11-24,1250.5\n2026-11-25,1251\n",
    "days of the week": b"Datum;Kurs\nDi, 24.11.2026;1250,50\nMi, 25.11.2026;1251,00\n",
    "days in words": b"Date;Dernier\nmar. 24 nov. 2026;1250,5\nmer. 25 nov. 2026;1251\n",
    "a day before slashes": b"Date,Close\nTue 24/11/2026,1250.5\nWed 25/11/2026,1251\n",
    "Japanese": "日付,終値\n2026年11月24日,1250.5\n2026年11月25日,1251\n".encode("cp932"),
    "Chinese": "日期,名称,收盘价\n2026-11-24,银行,1250.5\n2026-11-25,银行,1251\n".encode("gb18030"),
    "Korean": '일자,종가\n2026/11/24,"1,250.5"\n2026/11/25,"1,251"\n'.encode("cp949"),
    "Russian": "Дата;Цена\n24 ноября 2026;1250,5\n25 ноября 2026;1251,0\n".encode("cp1251"),
    "a row twice": b"Date,Close\n2026-11-24,1250.5\n2026-11-24,1250.5\n2026-11-25,1251\n",
}


def series_of(folder: Path, content: bytes) -> PriceSeries:
    (folder / "X.csv").write_bytes(content)
    return FilePrices(folder, "prices").read("X", dt.date(2026, 12, 1), fresh=True)


@pytest.mark.parametrize("content", FORMS.values(), ids=FORMS)
def test_what_people_have_is_read(tmp_path: Path, content: bytes) -> None:
    series = series_of(tmp_path, content)

    assert [(price.date.day, price.close) for price in series.prices] == [(24, 1250.5), (25, 1251)]


TABLES_OF_CODES = {
    "capitals": b"Date,ABC,BRK.B\n2026-11-24,10,20\n2026-11-25,11,\n",
    "without a name of dates": b",ABC,BRK.B\n2026-11-24,10,20\n2026-11-25,11,\n",
    "semicolons": b"Datum;ABC;BRK.B\n24.11.2026;10,00;20,00\n25.11.2026;11,00;\n",
    "lines above": b"Closing prices\n2026\n\nDate,ABC,BRK.B\n2026-11-24,10,20\n2026-11-25,11,\n",
    "what they hold, in front": (
        b"Date,Open ABC,Close ABC,Volume ABC,Close BRK.B\n2026-11-24,1,10,9,20\n2026-11-25,1,11,9,\n"
    ),
    "what they hold, behind": (
        b"Date,ABC.Open,ABC.Close,BRK.B.Close\n2026-11-24,1,10,20\n2026-11-25,1,11,\n"
    ),
    "pairs of pandas": (
        b"Date,\"('Close', 'ABC')\",\"('Close', 'BRK.B')\"\n2026-11-24,10,20\n2026-11-25,11,\n"
    ),
    "three lines of names": (
        b"Price,Close,Close,Open,Open\nTicker,ABC,BRK.B,ABC,BRK.B\nDate,,,,\n"
        b"2026-11-24,10,20,1,1\n2026-11-25,11,,1,1\n"
    ),
}


@pytest.mark.parametrize("content", TABLES_OF_CODES.values(), ids=TABLES_OF_CODES)
@pytest.mark.parametrize("source_path", [".", "all.csv"], ids=["folder", "file"])
def test_a_table_has_a_column_for_each_code(
    tmp_path: Path, content: bytes, source_path: str
) -> None:
    (tmp_path / "all.csv").write_bytes(content)
    source = FilePrices(tmp_path / source_path, "prices")

    read = {
        code: [price.close for price in source.read(code, dt.date(2026, 12, 1), fresh=True).prices]
        for code in source.codes()
    }

    assert read == {"ABC": [10, 11], "BRK.B": [20]}


def test_the_settings_name_the_dates_of_a_table_of_codes_as_the_header_has_them(
    tmp_path: Path,
) -> None:
    (tmp_path / "all.csv").write_text("Trade_Day,ABC,XYZ\n2026-11-24,1,2\n", encoding="utf-8")
    form = TableForm(columns=PriceColumnNames(date="Trade_Day"))

    assert FilePrices(tmp_path, "prices", form=form).codes() == ("ABC", "XYZ")


def test_adjusted_closes_and_currencies_are_those_of_each_code(tmp_path: Path) -> None:
    header = "Date,Close ABC (GBX),Adj Close ABC,Close XYZ (USD)"
    (tmp_path / "all.csv").write_text(f"{header}\n2026-11-24,1000,9,20\n2026-11-25,1100,10,21\n")
    source = FilePrices(tmp_path, "prices")

    abc, xyz = (source.read(code, dt.date(2026, 12, 1), fresh=False) for code in ("ABC", "XYZ"))

    assert (abc.currency, abc.basis, xyz.currency, xyz.basis) == ("GBP", "adjusted", "USD", "close")


@pytest.mark.parametrize(
    "header",
    ["Date,Apple,Microsoft", "Date,Open,High,Low", "DATE,OPEN,HIGH,LOW", "Date,ABC,remarks"],
)
def test_columns_that_are_no_codes_are_refused(header: str, tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text(f"{header}\n2026-11-24,1,2\n", encoding="utf-8")

    with pytest.raises(ToolError, match="no column of prices; the header has"):
        FilePrices(tmp_path, "prices").codes()


def test_a_code_that_a_table_lacks_is_answered_with_those_that_it_has(tmp_path: Path) -> None:
    (tmp_path / "all.csv").write_text("Date,ABC,XYZ\n2026-11-24,1,\n", encoding="utf-8")
    source = FilePrices(tmp_path, "prices")

    with pytest.raises(ToolError, match="has no prices for 'ABD'"):
        source.read("ABD", dt.date(2026, 12, 1), fresh=False)
    with pytest.raises(ToolError, match="there is no price of 'XYZ'"):
        source.read("XYZ", dt.date(2026, 12, 1), fresh=False)


@pytest.mark.parametrize("content", [FORMS["Korean"], FORMS["windows"]], ids=["Korean", "windows"])
def test_a_text_that_is_not_utf_8_says_what_it_is_read_as(tmp_path: Path, content: bytes) -> None:
    shown = "Windows-949" if content is FORMS["Korean"] else "Windows-1252"

    assert f"X.csv: read as {shown}: it is not UTF-8" in series_of(tmp_path, content).warnings[0]


def test_words_below_the_prices_are_left_out_and_named(tmp_path: Path) -> None:
    rows = "2026-11-24,1250.5,10\n2026-11-25,1251,20\n"
    summary = "Highest,1251,20\nAverage,1250.75,15\n"

    series = series_of(tmp_path, f"Date,Close,Volume\n{rows}{summary}".encode())

    assert [price.close for price in series.prices] == [1250.5, 1251]
    assert series.warnings == ("prices/X.csv: 2 rows below the prices left out: Highest, Average",)


@pytest.mark.parametrize("row", ["yesterday,1250.75", ",1250.75"], ids=["word", "empty"])
def test_a_row_among_the_prices_without_a_date_is_no_summary(tmp_path: Path, row: str) -> None:
    with pytest.raises(ToolError, match="line 3: the date"):
        series_of(tmp_path, f"Date,Close\n2026-11-24,1250.5\n{row}\n2026-11-25,1251\n".encode())
    with pytest.raises(ToolError, match="line 3: the date is empty"):
        series_of(tmp_path, b"Date,Close\n2026-11-24,1250.5\n,1250.75\n")


@pytest.mark.parametrize(
    "content",
    [
        b"Date,Close (GBX)\n2026-11-24,1250.50\n2026-11-25,1251\n",
        b"Date,Close\n2026-11-24,1250.50p\n2026-11-25,1251p\n",
        b"Date,Close (pence)\n2026-11-24,1250.50\n2026-11-25,1251\n",
        b"Security,ABC LN\nCurrency,GBp\n\nDate,Close\n2026-11-24,1250.50\n2026-11-25,1251\n",
        b"# Currency: GBX\nDate;Close\n24.11.2026;1250,50\n25.11.2026;1251,00\n",
        b"Date,Close,Currency\n2026-11-24,1250.50,p\n2026-11-25,1251,\n",
        b"Date,Close,Currency\n2026-11-24,1250.50,GBX\n2026-11-25,12.51,GBP\n",
    ],
    ids=[
        "the header",
        "the cells",
        "the header in words",
        "a line above",
        "a comment",
        "a column",
        "beside pounds",
    ],
)
def test_pence_are_a_hundredth_of_a_pound_wherever_they_are_named(
    tmp_path: Path, content: bytes
) -> None:
    series = series_of(tmp_path, content)

    assert series.currency == "GBP"
    assert [price.close for price in series.prices] == [12.505, 12.51]


@pytest.mark.parametrize(
    ("row", "kind"),
    [("2026-11-24,-3", "value"), ("2026-11-24,0", "value"), ("2026-11-25,7", "duplicate")],
)
def test_a_row_that_cannot_be_right_is_named_with_its_day(
    tmp_path: Path, row: str, kind: str
) -> None:
    series = series_of(tmp_path, f"Date,Close\n2026-11-25,12\n{row}\n2026-11-26,13\n".encode())

    [found] = series.oddities
    assert found.kind == kind
    assert found.text.startswith(row[:10])
    assert [price.close for price in series.prices] == [12, 13]


def test_a_stock_may_be_called_as_a_device_is_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "CON.csv").write_text("Date,Close\n2026-11-25,12\n")

    series = FilePrices(tmp_path, "prices").read("CON", dt.date(2026, 12, 1), fresh=True)

    assert [price.close for price in series.prices] == [12]


def test_a_doubtful_stock_is_left_out_with_its_day_and_the_others_are_not(tmp_path: Path) -> None:
    days = [dt.date(2010, 1, 4) + dt.timedelta(days=7 * (at // 5) + at % 5) for at in range(40)]
    for code, jump in (("AAA", 1), ("BBB", 1), ("CCC", 100)):
        rows = [f"{day},{(10 + at / 50) * (jump if at > 20 else 1)}" for at, day in enumerate(days)]
        write(tmp_path, HEADER + "\n".join(rows) + "\n", f"{code}.csv")
    documents: list[Json] = [fetch(tmp_path, code) for code in ("AAA", "BBB", "CCC")]

    summary = call_for_document(
        equities(tmp_path)["analyze_summary"], documents=documents, title="Three"
    )

    assert [as_object(stock)["code"] for stock in as_list(summary["stocks"])] == ["AAA", "BBB"]
    assert summary["missing"] == ["CCC"]
    [note] = [str(one) for one in as_list(summary["warnings"]) if "CCC is left out" in str(one)]
    assert str(days[21]) in note

    with pytest.raises(
        ToolError, match=rf"CCC is left out: {days[21]}: .* another unit"
    ) as refused:
        call_for_document(
            equities(tmp_path)["analyze_summary"],
            documents=documents[1:],
            title="One of two",
            required_tickers=["BBB", "CCC"],
        )
    assert "known_jumps" in str(refused.value.hint)

    with pytest.raises(ToolError, match="the prices of every stock are doubtful: CCC"):
        call_for_document(
            equities(tmp_path)["analyze_summary"],
            documents=documents[2:],
            title="One of two",
            required_tickers=["BBB", "CCC"],
        )


@pytest.mark.parametrize(
    ("text", "closes"),
    [
        pytest.param(
            "Date,Close\n40179,20\n40180.6875,21\n", [20, 21], id="dates of a spreadsheet"
        ),
        pytest.param("Datum;Schlusskurs\n01.02.2010 17:30;1.234,56\n", [1234.56], id="with a time"),
        pytest.param("date,close\n2010-1-4,20\n2010-1-5,21\n", [20, 21], id="short ISO"),
        pytest.param("Month,Price\n2010-01,20\n2010-02,21\n", [20, 21], id="months"),
        pytest.param(
            "Date,Prezzo\n4. Jänner 2010,3\n5 de febrero de 2010,4\n1st Mar. 2010,5\n6-Okt-10,6\n"
            "8th of November 2010,7\n1er décembre 2010,8\n",
            [3, 4, 5, 6, 7, 8],
            id="months in other languages",
        ),
        pytest.param('Date,Close\n"Mon, Sept 6, 2010",3 zł\n', [3], id="months in four letters"),
        pytest.param("date,close\n2010-01-04,USD 20.5\n", [20.5], id="code before"),
        pytest.param("date,close\n2010-01-04,20.5 CHF\n", [20.5], id="code behind"),
        pytest.param('date,close\n2010-01-04,"1,23,456.50"\n', [123456.5], id="Indian thousands"),
        pytest.param("date;close\n2010-01-04;1.234.500\n", [1234500], id="points of thousands"),
        pytest.param("date,close\n2010-01-04,.\n2010-01-05,3\n", [3], id="a point for no price"),
        pytest.param(",Close\n2010-01-04,3\n", [3], id="index without a name"),
        pytest.param("observation_date,X\n2010-01-04,3\n", [3], id="called by its code"),
        pytest.param("|Date|Close|\n|---|--:|\n|2010-01-04|3|\n", [3], id="Markdown"),
        pytest.param(
            "Price,Close,Volume\nTicker,AAPL,AAPL\nDate,,\n2010-01-04,3,9\n", [3], id="yfinance"
        ),
        pytest.param("date,close\n2010-01-04,3\n".encode("utf-16-le"), [3], id="UTF-16 unmarked"),
        pytest.param(
            "date,close\n2010-01-04 17:30,4\n2010-01-04 9:05,3\n2010-01-05 17:30,5\n",
            [4, 5],
            id="several of a day",
        ),
        pytest.param(
            "date,close\n2010-01-04 5:30 PM,4\n2010-01-04 9:05 AM,3\n2010-01-04 12:10 a.m.,5\n",
            [4],
            id="halves of a day",
        ),
        pytest.param(
            "date,close\n40182.729,4\n40182.375,3\n40183.729,5\n",
            [4, 5],
            id="parts of days",
        ),
        pytest.param(
            "<DATE>,<TIME>,<CLOSE>\n20100104,090000,3\n20100104,173000,4\n",
            [4],
            id="times in a column",
        ),
        pytest.param(
            "time,close\n1262595600,3\n1262624400,4\n", [4], id="several instants of a day"
        ),
    ],
)
def test_what_services_and_spreadsheets_write_is_read(
    text: str | bytes, closes: list[float], tmp_path: Path
) -> None:
    content = text if isinstance(text, bytes) else text.encode()

    assert [price.close for price in series_of(tmp_path, content).prices] == closes


@pytest.mark.parametrize(
    "written", ["(20.00)", "($20.00)", "20.00-", "\N{MINUS SIGN}20.00", "$-20"]
)
def test_a_price_below_zero_is_told_however_it_is_written(written: str, tmp_path: Path) -> None:
    content = f"date,close\n2010-01-04,{written}\n2010-01-05,21\n"

    series = series_of(tmp_path, content.encode())

    assert [price.close for price in series.prices] == [21]
    assert [oddity.kind for oddity in series.oddities] == ["value"]


@pytest.mark.parametrize(
    ("header", "currency"),
    [
        ("Close USD", "USD"),
        ("Close (GBX)", "GBP"),
        ("Kurs in €", "EUR"),
        ("Close_CHF", "CHF"),
        ("Adj Close", None),
    ],
)
def test_the_name_of_a_column_names_the_currency(
    header: str, currency: str | None, tmp_path: Path
) -> None:
    content = f"date,{header}\n2010-01-04,20\n"

    assert series_of(tmp_path, content.encode()).currency == currency


def test_rows_that_say_the_same_are_told_in_one_line(tmp_path: Path) -> None:
    content = "date,close,adjusted\n2010-01-04,20,19\n2010-01-04,20,19\n2010-01-05,21,\n"

    series = series_of(tmp_path, content.encode())

    assert series.basis == "close"
    assert [note.partition(": ")[2] for note in series.warnings] == [
        "1 row given twice with the same price: 2010-01-04 in line 2 and line 3",
        "1 row without an adjusted price, so plain closes are used: 2010-01-05",
    ]


@pytest.mark.parametrize(("hour", "monday"), [(23, "2010-01-04"), (21, "2010-01-03")])
def test_midnights_east_of_greenwich_are_of_the_next_day(
    hour: int, monday: str, tmp_path: Path
) -> None:
    # At 23:00 every day is a Sunday to Thursday; at 21:00 there is a Friday, so the days stand.
    last = "2010-01-07" if hour == 23 else "2010-01-08"
    rows = [f"{day}T{hour}:00:00Z,20" for day in ("2010-01-03", "2010-01-04", last)]

    series = series_of(tmp_path, "\n".join(["date,close", *rows]).encode())

    assert str(series.prices[0].date) == monday
    assert any("Sundays" in note for note in series.warnings) == (hour == 23)
