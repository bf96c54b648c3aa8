"""Web search as a document of the pack."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from tests.packs.equities.market import equities
from tests.packs.equities.price_service import Answer, serving
from tests.tools.calling import call_for_document
from wavewright.tools import ToolError


def test_results_of_the_provider_are_one_document() -> None:
    hit = {"title": "Results *up*", "url": "https://example.org/a", "content": "Sales\n rose."}
    with serving(Answer({"results": [hit]})) as service:
        tool = equities(Path(), search={"provider": "searxng", "base_url": service.url})[
            "search_web"
        ]
        document = call_for_document(tool, now=dt.datetime.now(dt.UTC), query="GNP news")

    assert document["items"] == [
        {"title": "Results *up*", "url": "https://example.org/a", "text": "Sales rose."}
    ]
    assert document["tags"] == ["web-search"]
    assert document["content"] == "# GNP news\n\n- Results \\*up\\*: https://example.org/a\n"


def test_without_a_provider_the_call_fails_and_says_what_to_set() -> None:
    with pytest.raises(ToolError, match="no search provider is configured") as refused:
        call_for_document(equities(Path())["search_web"], now=dt.datetime.now(dt.UTC), query="x")

    assert "http://localhost:8888" in (refused.value.hint or "")


def test_a_run_that_stands_in_the_past_does_not_search_todays_web() -> None:
    tool = equities(Path(), search={"provider": "searxng", "base_url": "http://127.0.0.1:1"})[
        "search_web"
    ]

    with pytest.raises(ToolError, match="takes 2010-03-01 for now"):
        call_for_document(tool, query="x")


def test_searching_goes_out_and_its_output_is_not_trusted() -> None:
    signature = equities(Path())["search_web"].signature

    assert signature.effects == {"read", "egress"}
    assert signature.untrusted_output
