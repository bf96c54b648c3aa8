"""The index of a site: what a crawl fetches, keeps and finds."""

from __future__ import annotations

import functools
import http.server
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest

from tests.packs.equities.price_service import Answer, Service, serving
from tests.packs.web.test_index import CORPUS, name_queries
from tests.tools.calling import request
from wavewright.packs.web.guarded_client import GuardedClient
from wavewright.packs.web.index import PageMatch
from wavewright.packs.web.pages import CrawlExecuted
from wavewright.packs.web.reader import PageCache, WebReader
from wavewright.packs.web.settings import LocalSearch, WebSettings
from wavewright.packs.web.site import SiteIndex
from wavewright.tools import Tool, load_pack
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.functions.injected import LogEvent, TextChunk
from wavewright.tools.functions.tool import Emission

HTML = {"Content-Type": "text/html", "ETag": '"1"'}
MISSING = Answer("no such page", 404)

MakeIndex = Callable[..., SiteIndex]


@pytest.fixture
def index_of(tmp_path: Path) -> MakeIndex:
    """Return an index of a service's site; all indexes of a test share one cache."""

    def make(url: str, path: str = "/", *, cache_for: float = 3600.0, **options: Any) -> SiteIndex:
        settings = WebSettings(
            allow_private=(urlsplit(url).netloc,),
            requests_per_minute=10_000,
            requests_per_host_per_minute=10_000,
            cache_for=cache_for,
        )
        client = GuardedClient(allowed=settings.allow_private)
        reader = WebReader(settings, client, PageCache(tmp_path / "web.sqlite"))
        return SiteIndex(
            LocalSearch.model_validate({"provider": "local", "site": url + path, **options}), reader
        )

    return make


def page(title: str, *links: str) -> Answer:
    anchors = "".join(f'<a href="{link}">x</a>' for link in links)
    body = f"<html><body><nav>{anchors}</nav><main><h1>{title}</h1><p>all words</p></main></body></html>"
    return Answer(body, headers=HTML)


def search(
    index: SiteIndex, query: str = "words", limit: int = 50, emitted: list[Emission] | None = None
) -> list[PageMatch]:
    emit = (emitted if emitted is not None else list[Emission]()).append
    return anyio.run(index.search, query, limit, emit)


def found_paths(service: Service, index: SiteIndex) -> list[str]:
    return sorted(match.path.removeprefix(service.url) for match in search(index))


def test_a_crawl_follows_links_below_its_address_and_reads_each_page_once(
    index_of: MakeIndex,
) -> None:
    paths = {
        "/docs/": page(
            "Start", "a", "/docs/b?x=1#part", "/other/c", "http://example.org/", "picture.png"
        ),
        "/docs/a": page("A", "b?x=1", "./", "mailto:a@example.org"),
        "/docs/b?x=1": page("B", "gone"),
    }
    with serving(MISSING, paths=paths) as service:
        assert found_paths(service, index_of(service.url, "/docs/")) == [
            "/docs/",
            "/docs/a",
            "/docs/b?x=1",
        ]

    asked = ["/robots.txt", "/sitemap.xml", "/docs/", "/docs/a", "/docs/b?x=1", "/docs/gone"]
    assert service.asked == asked


def test_pages_of_sitemaps_are_fetched_and_what_robots_txt_forbids_is_not(
    index_of: MakeIndex,
) -> None:
    paths = {
        "/robots.txt": Answer("User-agent: *\nDisallow: /gold/\nSitemap: /maps.xml\n"),
        "/maps.xml": Answer("<sitemapindex><sitemap><loc>/map.xml</loc></sitemap></sitemapindex>"),
        "/map.xml": Answer(
            "<urlset><url><loc> /alone?a=1&amp;b=2 </loc></url><loc>/gold/x</loc></urlset>"
        ),
        "/": page("Start"),
        "/alone?a=1&b=2": page("Alone"),
    }
    with serving(MISSING, paths=paths) as service:
        paths["/robots.txt"].body = paths["/robots.txt"].body.replace(
            "/maps", f"{service.url}/maps"
        )
        assert found_paths(service, index_of(service.url)) == ["/", "/alone?a=1&b=2"]

    assert not any(path.startswith("/gold") for path in service.asked)


def test_a_crawl_ends_at_its_number_of_pages_and_leaves_excluded_ones_out(
    index_of: MakeIndex,
) -> None:
    paths = {
        "/": page("0", "/drafts/x", "/1"),
        **{f"/{number}": page(f"{number}", f"/{number + 1}") for number in range(1, 9)},
    }
    with serving(MISSING, paths=paths) as service:
        index = index_of(service.url, max_pages=4, exclude=["drafts/*"])
        assert found_paths(service, index) == ["/", "/1", "/2", "/3"]


def test_one_text_at_two_addresses_is_one_page(index_of: MakeIndex) -> None:
    with serving(
        MISSING, paths={"/": page("Start", "/index.html"), "/index.html": page("Start")}
    ) as service:
        assert found_paths(service, index_of(service.url)) == ["/"]


def test_the_index_is_kept_and_a_crawl_after_its_time_asks_only_what_has_changed(
    index_of: MakeIndex,
) -> None:
    paths = {"/": page("Start", "/a"), "/a": page("A")}
    with serving(MISSING, paths=paths) as service:
        search(index_of(service.url))
        asked = len(service.asked)
        assert found_paths(service, index_of(service.url)) == ["/", "/a"]
        assert len(service.asked) == asked

        paths["/a"] = replace(page("New words"), headers={**HTML, "ETag": '"2"'})
        found = search(index_of(service.url, refresh=1e-6, cache_for=1e-6), "new", 1)

    assert [match.title for match in found] == ["New words"]
    conditions = [headers.get("If-None-Match") for headers in service.headers[asked:]]
    assert conditions.count('"1"') == 2


def test_a_crawl_emits_its_progress_and_one_event(index_of: MakeIndex) -> None:
    paths = {"/": page("Start", *(f"/{number}" for number in range(30)), "/none")}
    paths |= {f"/{number}": page(f"Page {number}") for number in range(30)}
    emitted = list[Emission]()
    with serving(MISSING, paths=paths) as service:
        index = index_of(service.url)
        search(index, emitted=emitted)
        search(index, emitted=emitted)

    text, event = emitted
    assert text == TextChunk(f"25 pages of {service.url}/\n")
    assert isinstance(event, CrawlExecuted)
    assert (event.url, event.pages, event.left_out) == (f"{service.url}/", 31, 1)
    assert event.event_name == "crawl_executed"


def test_a_site_that_cannot_be_read_is_an_error_and_the_next_search_tries_again(
    index_of: MakeIndex,
) -> None:
    paths = {"/": MISSING}
    with serving(MISSING, paths=paths) as service:
        index = index_of(service.url)
        with pytest.raises(ToolError, match="404"):
            search(index)
        paths["/"] = page("Start")
        assert found_paths(service, index) == ["/"]


def test_a_server_that_asks_to_wait_for_long_ends_the_crawl(index_of: MakeIndex) -> None:
    paths = {"/": page("Start", "/busy"), "/busy": Answer("", 503, {"Retry-After": "600"})}
    with serving(MISSING, paths=paths) as service, pytest.raises(ToolError) as caught:
        search(index_of(service.url))

    assert caught.value.transient
    assert caught.value.retry_after is not None


def test_search_web_searches_the_site_of_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    emitted = list[Emission]()
    with serving(MISSING, paths={"/": page("Start", "/a"), "/a": page("Aerie")}) as service:
        tool = search_tool(service.url)
        found: Any = anyio.run(tool.call, replace(request({"query": "aerie"}), emit=emitted.append))

    assert found == [
        {
            "title": "Aerie",
            "url": f"{service.url}/a",
            "snippet": "Aerie all words",
            "score": found[0]["score"],
            "provider": "local",
        }
    ]
    assert [event.event_name for event in emitted if isinstance(event, LogEvent)] == [
        "crawl_executed",
        "search_executed",
    ]
    # The first search crawls: it has two minutes, and time for each page at the rate of the host.
    assert tool.signature.timeout == 120 + 1_000 * (60 / 600 + 2)


def search_tool(url: str) -> Tool:
    settings: Any = {
        "allow_private": [urlsplit(url).netloc],
        "requests_per_minute": 10_000,
        "requests_per_host_per_minute": 600,
        "search": {"provider": "local", "site": f"{url}/"},
    }
    tools = load_pack("web", settings, Path()).tools
    return next(tool for tool in tools if tool.signature.name == "search_web")


class _CorpusHandler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.path.startswith(("/gold/", "/tools/")):
            self.send_error(404)
        else:
            super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - named so in the base class
        """Write nothing."""


@contextmanager
def corpus_site() -> Generator[str]:
    handler = functools.partial(_CorpusHandler, directory=str(CORPUS))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_pages_of_a_wiki_are_found_by_name_and_topic_as_in_its_folder(index_of: MakeIndex) -> None:
    emitted = list[Emission]()

    async def hits(index: SiteIndex, url: str) -> list[bool]:
        return [
            [match.path for match in await index.search(query, 1, emitted.append)]
            == [f"{url}/{path}"]
            for path, query in name_queries()
        ]

    with corpus_site() as url:
        found = anyio.run(hits, index_of(url, max_pages=1_000), url)

    assert len(found) > 300
    assert sum(found) / len(found) >= 0.95
    [event] = [one for one in emitted if isinstance(one, CrawlExecuted)]
    assert event.pages >= 528
