"""The tool `search_web` and its providers."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest

from tests.packs.equities.price_service import Answer, serving
from tests.tools.calling import call, request
from wavewright.packs.web.addresses import WebAddress
from wavewright.packs.web.json_services import fetch_json
from wavewright.planner.types import Json, JsonObject
from wavewright.tools import LogEvent, PackError, Tool, ToolCall, ToolError, load_pack

HITS: list[Any] = [
    {"title": "A \n page", "url": "https://example.org/a", "content": "Some\n words.", "score": 2},
    {"title": "Script", "url": "javascript:alert(1)", "content": "x"},
    "no object",
    {"title": "Two", "url": "http://example.org/b", "description": "More.", "score": 10**400},
]


def search_tool(settings: JsonObject | None, root: Path = Path()) -> Tool:
    given: JsonObject = {} if settings is None else {"search": settings}
    tools = load_pack("web", given, root).tools
    return next(tool for tool in tools if tool.signature.name == "search_web")


def test_searxng_is_asked_for_json_and_read() -> None:
    with serving(Answer({"results": HITS})) as service:
        found = call(
            search_tool({"provider": "searxng", "base_url": f"{service.url}/"}), query="a & b"
        )

    asked = urlsplit(service.asked[0])
    assert (asked.path, parse_qs(asked.query)) == ("/search", {"q": ["a & b"], "format": ["json"]})
    assert found == [
        {
            "title": "A page",
            "url": "https://example.org/a",
            "snippet": "Some words.",
            "score": 2.0,
            "provider": "searxng",
        },
        {
            "title": "Two",
            "url": "http://example.org/b",
            "snippet": "",
            "score": None,
            "provider": "searxng",
        },
    ]


def test_tavily_is_posted_to_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAVILY_API_KEY", "canary-1")
    with serving(Answer({"results": HITS})) as service:
        found = call(
            search_tool({"provider": "tavily", "base_url": service.url}), query="x", limit=1
        )

    assert service.posted == [{"query": "x", "max_results": 1}]
    assert service.headers[0]["Authorization"] == "Bearer canary-1"
    assert isinstance(found, list)
    assert len(found) == 1


@pytest.mark.parametrize(
    ("answer", "snippets"),
    [
        pytest.param({"web": {"results": HITS}}, ["", "More."], id="results"),
        pytest.param({"type": "search"}, [], id="none"),
    ],
)
def test_brave_is_asked_with_its_key(
    monkeypatch: pytest.MonkeyPatch, answer: Json, snippets: list[str]
) -> None:
    monkeypatch.setenv("MY_KEY", "canary-1")
    with serving(Answer(answer)) as service:
        settings: JsonObject = {
            "provider": "brave",
            "base_url": service.url,
            "api_key_env": "MY_KEY",
        }
        found = call(search_tool(settings), query="x")

    assert urlsplit(service.asked[0]).path == "/web/search"
    assert service.headers[0]["X-Subscription-Token"] == "canary-1"
    assert isinstance(found, list)
    assert [hit["snippet"] for hit in found if isinstance(hit, dict)] == snippets


@pytest.mark.parametrize(
    "base_url", ["https://wiki.example.org/v1", "https://wiki.example.org/v1/"]
)
def test_the_address_of_a_file_keeps_the_path_of_its_base(tmp_path: Path, base_url: str) -> None:
    (tmp_path / "a b#c.md").write_text("# Aerie\n", encoding="utf-8")
    settings: JsonObject = {"provider": "local", "folder": ".", "base_url": base_url}

    found: Any = call(search_tool(settings, tmp_path), query="aerie")

    assert found[0]["url"] == "https://wiki.example.org/v1/a%20b%23c.md"


def test_the_wait_of_a_refused_admission_is_kept() -> None:
    async def admit(address: WebAddress) -> None:
        raise ToolError(
            f"{address.place} is busy", transient=True, hint="come later", retry_after=70.0
        )

    async def ask() -> None:
        await fetch_json("http://127.0.0.1:1/", service="the bank", seconds=1.0, admit=admit)

    with pytest.raises(ToolError) as failure:
        anyio.run(ask)

    assert (failure.value.transient, failure.value.hint, failure.value.retry_after) == (
        True,
        "come later",
        70.0,
    )


def test_a_folder_is_searched_below_its_base_url(tmp_path: Path) -> None:
    (tmp_path / "wiki").mkdir()
    (tmp_path / "wiki" / "aerie.md").write_text("# Aerie\n\nWhere drakes nest.")
    settings: JsonObject = {
        "provider": "local",
        "folder": "wiki",
        "base_url": "https://wiki.example.org/",
    }

    found = call(search_tool(settings, tmp_path), query="aerie")

    assert isinstance(found, list)
    assert isinstance(found[0], dict)
    assert (found[0]["url"], found[0]["provider"]) == ("https://wiki.example.org/aerie.md", "local")


def test_ddgs_without_a_network_is_a_failure_that_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ddgs")
    monkeypatch.setenv("DDGS_PROXY", "http://127.0.0.1:1")

    with pytest.raises(ToolError, match="ddgs found no answer") as failed:
        call(search_tool({"provider": "ddgs", "timeout": 1}), query="x")

    assert failed.value.transient


@pytest.mark.parametrize("provider", ["tavily", "brave"])
def test_a_provider_without_its_key_is_refused_and_nothing_is_asked(
    monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    variable = f"{provider.upper()}_API_KEY"
    monkeypatch.delenv(variable, raising=False)
    with (
        serving(Answer({})) as service,
        pytest.raises(ToolError, match=f"variable {variable} is not set"),
    ):
        call(search_tool({"provider": provider, "base_url": service.url}), query="x")

    assert service.asked == []


def test_no_provider_is_an_error_that_names_them_all() -> None:
    with pytest.raises(ToolError, match="no search provider is configured") as refused:
        call(search_tool(None), query="x")

    assert "pack 'web'" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("answer", "message", "is_transient"),
    [
        pytest.param(Answer({"hits": []}), "without a list at 'results'", False, id="shape"),
        pytest.param(Answer("<p>log in"), "with a page and not with JSON", False, id="page"),
        pytest.param(Answer("no", status=403), "answered 403", False, id="forbidden"),
        pytest.param(
            Answer("", status=429, headers={"Retry-After": "7"}), "wait 7 s", True, id="limited"
        ),
    ],
)
def test_an_answer_that_is_none_is_a_failure(
    answer: Answer,
    message: str,
    is_transient: bool,  # noqa: FBT001
) -> None:
    with serving(answer) as service, pytest.raises(ToolError, match=message) as failed:
        call(search_tool({"provider": "searxng", "base_url": service.url}), query="x")

    assert failed.value.transient == is_transient


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"provider": "nobody"}, id="provider"),
        pytest.param({"provider": "searxng"}, id="no address"),
        pytest.param({"provider": "searxng", "base_url": "file:///etc"}, id="address"),
        pytest.param({"provider": "brave", "api_key_env": "a key"}, id="variable"),
    ],
)
def test_wrong_settings_are_refused(settings: JsonObject) -> None:
    with pytest.raises(PackError, match="pack 'web': 'search"):
        search_tool(settings)


def test_a_search_emits_its_event(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("word")
    emitted: list[Any] = []

    made = request({"query": "word"})
    asked = ToolCall(
        made.run, made.step, made.tool, made.params, made.key, made.now, emit=emitted.append
    )
    anyio.run(search_tool({"provider": "local", "folder": "."}, tmp_path).call, asked)

    (event,) = emitted
    assert isinstance(event, LogEvent)
    assert event.event_name == "search_executed"
    fields = event.to_json()
    assert fields.pop("seconds") is not None
    assert fields == {"provider": "local", "query": "word", "results": 1}
