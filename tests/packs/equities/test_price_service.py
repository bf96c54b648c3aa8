"""Prices over HTTP in the shape of EODHD, against a real server."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.packs.equities.market import equities
from tests.packs.equities.price_service import Answer, Service, serving
from tests.tools.calling import call_for_document
from wavewright.planner.types import JsonObject
from wavewright.tools import ToolError

KEY = "canary-key-5f1e"


def day(date: str, close: float, adjusted: float | None = None) -> dict[str, Any]:
    return {
        "date": date,
        "open": close,
        "high": close,
        "low": close,
        "close": close,
        "adjusted_close": close if adjusted is None else adjusted,
        "volume": 100,
    }


DAYS = [day("2010-02-26", 100, 50), day("2010-03-01", 110, 55)]


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRICE_KEY", KEY)


def fetch(service: Service, code: str = "GNP", **more: object) -> JsonObject:
    prices = {
        "provider": "eodhd",
        "base_url": f"{service.url}/api/",
        "api_key_env": "PRICE_KEY",
        "suffix": ".AU",
        **more,
    }
    tools = equities(Path(), prices=prices, currency="AUD", exchange="asx")
    return call_for_document(tools["fetch_stock_data"], code=code)


def test_prices_are_asked_for_and_read() -> None:
    with serving(Answer(DAYS)) as service:
        document = fetch(service)

    asked = urlsplit(service.asked[0])
    assert asked.path == "/api/eod/GNP.AU"
    assert parse_qs(asked.query) == {
        "api_token": [KEY],
        "fmt": ["json"],
        "from": ["2000-01-01"],
        "to": ["2010-03-01"],
    }
    assert document["id"] == "asx:GNP:stock_collector"
    assert document["current_price"] == 110
    assert document["price_basis"] == "adjusted"
    assert document["prices"] == [["2010-02-26", 50.0], ["2010-03-01", 55.0]]
    assert KEY not in str(document)


def test_what_the_service_sends_of_the_future_is_cut() -> None:
    with serving(Answer([*DAYS, day("2010-03-02", 999)])) as service:
        document = fetch(service)

    assert document["as_of"] == "2010-03-01"
    assert "999" not in str(document)


def test_every_call_asks_the_service() -> None:
    with serving(Answer(DAYS[:1]), Answer(DAYS)) as service:
        first, second = fetch(service), fetch(service)

    assert (first["as_of"], second["as_of"]) == ("2010-02-26", "2010-03-01")


def test_closes_alone_are_enough() -> None:
    with serving(
        Answer([{"date": "2010-02-26", "close": 5}, {"date": "2010-03-01", "close": "6.5"}])
    ) as service:
        document = fetch(service)

    assert document["price_basis"] == "close"
    assert document["current_price"] == 6.5


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_a_failure_that_may_pass_is_transient(status: int) -> None:
    with (
        serving(Answer("busy", status, {"Retry-After": "7"})) as service,
        pytest.raises(
            ToolError, match=rf"eodhd at 127\.0\.0\.1 answered {status} .*it asks to wait 7 s"
        ) as refused,
    ):
        fetch(service)

    assert refused.value.transient
    assert refused.value.retry_after == 7


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("Wed, 21 Oct 2015 07:28:00 GMT", 0.0), ("soon", None), (None, None)],
)
def test_retry_after_is_read_as_a_date_too(text: str | None, seconds: float | None) -> None:
    headers = {} if text is None else {"Retry-After": text}
    with serving(Answer("busy", 429, headers)) as service, pytest.raises(ToolError) as refused:
        fetch(service)

    assert refused.value.retry_after == seconds


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "key"),
        (403, "key"),
        (402, "plan"),
        (404, "suffix"),
        (302, "another address"),
        (400, ""),
    ],
)
def test_a_refusal_is_final_and_says_where_to_look(status: int, hint: str) -> None:
    answer = Answer("<html>no</html>", status, {"Location": "http://127.0.0.1:1/x"})
    with (
        serving(answer) as service,
        pytest.raises(ToolError, match=f"answered {status}") as refused,
    ):
        fetch(service)

    assert not refused.value.transient
    assert hint in (refused.value.hint or "")
    assert len(service.asked) == 1


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param("<html>log in</html>", "answered with a page and not with JSON", id="page"),
        pytest.param("Ticker not found", "answered with text and not with JSON", id="text"),
        pytest.param('[{"date": "2010-', "answered with text and not with JSON", id="cut"),
        pytest.param("[" * 100_000, "answered with text and not with JSON", id="deep"),
        pytest.param(b"\xff\xfe\x00", "answered with text and not with JSON", id="bytes"),
        pytest.param("", "answered with nothing", id="empty"),
        pytest.param({"error": "x"}, r"GNP\.AU: the answer is no list of prices", id="object"),
        pytest.param(["x"], r"GNP\.AU, entry 1: no object with date and close", id="list of text"),
        pytest.param([], r"GNP\.AU: no prices between 2000-01-01 and 2010-03-01", id="no prices"),
        pytest.param([day("2010-02-26", -1)], r"GNP\.AU: .*the price -1 in entry 1", id="negative"),
        pytest.param([day("soon", 1)], r"GNP\.AU, entry 1: the date 'soon'", id="date"),
        pytest.param('[{"date": "2010-02-26", "close": NaN}]', "no prices between", id="NaN"),
    ],
)
def test_an_answer_that_is_no_prices_is_refused(body: Any, message: str) -> None:
    with serving(Answer(body)) as service, pytest.raises(ToolError, match=message) as refused:
        fetch(service)

    assert KEY not in f"{refused.value}{refused.value.hint}"


def test_no_server_is_transient_and_names_no_key(caplog: pytest.LogCaptureFixture) -> None:
    with serving(Answer(DAYS)) as service:
        pass
    caplog.set_level(logging.DEBUG)

    with pytest.raises(ToolError, match=r"cannot be read \(ConnectError\)") as refused:
        fetch(service)

    assert refused.value.transient
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__
    assert KEY not in f"{refused.value}{refused.value.hint}{caplog.text}"


def test_a_server_that_hangs_up_is_transient() -> None:
    answer = Answer("x", headers={"Transfer-Encoding": "chunked"})
    with serving(answer) as service, pytest.raises(ToolError, match="cannot be read") as refused:
        fetch(service)

    assert refused.value.transient


def test_the_key_is_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    with serving(Answer(DAYS)) as service:
        fetch(service)

    assert "send_request_headers" in caplog.text
    assert KEY not in caplog.text


def test_a_missing_key_is_named_by_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PRICE_KEY")

    with (
        serving(Answer(DAYS)) as service,
        pytest.raises(ToolError, match="PRICE_KEY is not set") as refused,
    ):
        fetch(service)

    assert refused.value.hint == "export PRICE_KEY=…"
    assert service.asked == []


def test_prices_over_http_go_out_and_may_be_kept_for_an_hour() -> None:
    tools = equities(Path(), prices={"provider": "eodhd"})

    signature = tools["fetch_stock_data"].signature
    assert signature.effects == {"read", "egress"}
    assert signature.cache_for == 3600
    assert equities(Path())["fetch_stock_data"].signature.effects == {"read"}


def test_what_one_service_gave_answers_for_no_other(tmp_path: Path) -> None:
    def version(**provider: str) -> str | None:
        tools = equities(tmp_path, prices={"provider": "eodhd", **provider})
        return tools["fetch_stock_data"].signature.version

    assert version(suffix=".AU") == version(suffix=".AU")
    assert version(suffix=".AU") != version(suffix=".US")
