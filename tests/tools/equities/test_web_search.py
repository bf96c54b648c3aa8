"""Web search through a configured service."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.tools.calling import call_for_document
from tests.tools.equities.market import equities
from tests.tools.equities.price_service import Answer, Service, serving
from wavewright.planner.types import JsonObject
from wavewright.tools import ToolError

HITS = [
    {"title": "Results *up*", "url": "https://example.org/a", "content": "Sales\n rose."},
    {"title": "Script", "url": "javascript:alert(1)", "content": "x"},
    "not an object",
    {"title": "Two", "url": "http://example.org/b"},
]


def search(service: Service, settings: dict[str, Any] | None = None, limit: int = 10) -> JsonObject:
    given = {"url": f"{service.url}/search", **(settings or {})}
    tool = equities(Path(), search=given)["search_web"]
    return call_for_document(tool, now=dt.datetime.now(dt.UTC), query="GNP news", limit=limit)


def test_results_of_a_searxng_are_read() -> None:
    with serving(Answer({"results": HITS})) as service:
        document = search(service)

    assert parse_qs(urlsplit(service.asked[0]).query) == {"q": ["GNP news"], "format": ["json"]}
    assert document["items"] == [
        {"title": "Results *up*", "url": "https://example.org/a", "text": "Sales rose."},
        {"title": "Two", "url": "http://example.org/b", "text": ""},
    ]
    assert document["tags"] == ["web-search"]
    assert document["content"] == (
        "# GNP news\n\n- Results \\*up\\*: https://example.org/a\n- Two: http://example.org/b\n"
    )


def test_another_shape_is_a_matter_of_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEARCH_KEY", "canary-1")
    settings = {
        "query_param": "query",
        "params": {"lang": "en"},
        "results": "data.items",
        "title": "name",
        "link": "href",
        "text": "snippet",
        "api_key_env": "SEARCH_KEY",
        "api_key_header": "X-Key",
    }
    hit = {"name": "A", "href": "https://example.org", "snippet": "B"}
    with serving(Answer({"data": {"items": [hit, hit]}})) as service:
        document = search(service, settings, limit=1)

    assert parse_qs(urlsplit(service.asked[0]).query) == {"query": ["GNP news"], "lang": ["en"]}
    assert service.headers[0]["X-Key"] == "canary-1"
    assert document["items"] == [{"title": "A", "url": "https://example.org", "text": "B"}]
    assert "canary-1" not in str(document)


def test_an_answer_without_results_is_refused() -> None:
    with (
        serving(Answer({"hits": []})) as service,
        pytest.raises(ToolError, match="without a list at 'results'"),
    ):
        search(service)


def test_without_a_service_the_call_fails_and_says_what_to_set() -> None:
    with pytest.raises(ToolError, match="no search service is configured") as refused:
        call_for_document(equities(Path())["search_web"], query="x")

    assert "http://localhost:8888/search" in (refused.value.hint or "")


def test_a_run_that_stands_in_the_past_does_not_search_todays_web() -> None:
    tool = equities(Path(), search={"url": "http://127.0.0.1:1/search"})["search_web"]

    with pytest.raises(ToolError, match="takes 2010-03-01 for now"):
        call_for_document(tool, query="x")


def test_searching_goes_out_and_its_output_is_not_trusted() -> None:
    signature = equities(Path())["search_web"].signature

    assert signature.effects == {"read", "egress"}
    assert signature.untrusted_output
