"""The tool `fetch_page` of the pack `web`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest

from tests.packs.equities.price_service import Answer, serving
from tests.tools.calling import call_for_document, request
from wavewright.packs.web.pages import CrawlExecuted
from wavewright.planner.types import JsonObject
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.tool import Emission, Tool
from wavewright.tools.packs import PackError, load_pack


def fetch_page(**settings: object) -> Tool:
    given: JsonObject = {"requests_per_host_per_minute": 10_000, **settings}  # type: ignore[dict-item]
    [tool] = (
        tool
        for tool in load_pack("web", given, Path()).tools
        if tool.signature.name == "fetch_page"
    )
    return tool


def test_a_page_of_an_allowed_host_is_fetched() -> None:
    page = "<title>Gate</title><main><p>A <a href='/x'>gate</a>.</p></main>"
    paths = {"/robots.txt": Answer("", 404)}
    with serving(Answer(page, headers={"Content-Type": "text/html"}), paths=paths) as service:
        tool = fetch_page(allow_private=[urlsplit(service.url).netloc])
        emitted: list[Emission] = []
        asked = replace(request({"url": f"{service.url}/gate"}), emit=emitted.append)
        document = anyio.run(tool.call, asked)

    assert isinstance(document, dict)
    [event] = emitted
    assert isinstance(event, CrawlExecuted)
    assert (event.event_name, event.url) == ("crawl_executed", f"{service.url}/gate")
    assert event.characters == len(str(document["text"]))
    fetched_at = document.pop("fetched_at")
    assert isinstance(fetched_at, str)
    assert document == {
        "url": f"{service.url}/gate",
        "title": "Gate",
        "text": f"A [gate]({service.url}/x).",
        "links": [{"url": f"{service.url}/x", "text": "gate"}],
    }


def test_no_other_private_host_is_fetched() -> None:
    with pytest.raises(ToolError, match="is no public address"):
        call_for_document(fetch_page(), url="http://127.0.0.1:8080/")


def test_a_page_goes_out_and_comes_back_as_text_that_is_not_trusted() -> None:
    signature = fetch_page().signature

    assert signature.effects == {"read", "egress"}
    assert signature.untrusted_output
    assert signature.idempotent


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"user": "x"}, "'user'"),
        ({"allow_private": ["localhost"]}, r"allow_private\[0\]"),
        ({"requests_per_minute": 0}, "'requests_per_minute'"),
    ],
)
def test_a_wrong_setting_is_named(settings: JsonObject, place: str) -> None:
    with pytest.raises(PackError, match=place):
        load_pack("web", settings, Path())
