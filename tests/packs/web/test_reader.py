"""Pages are fetched as robots.txt and rates allow, and kept in a file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx
import pytest

from tests.packs.equities.price_service import Answer, Service, serving
from wavewright.packs.web.guarded_client import GuardedClient, StatusError, WebAnswer
from wavewright.packs.web.reader import PageCache, WebReader
from wavewright.packs.web.settings import WebSettings
from wavewright.tools.functions.errors import ToolError

HTML = {"Content-Type": "text/html"}
PAGE = Answer("<main>page</main>", headers=HTML)
NO_ROBOTS = {"/robots.txt": Answer("", 404)}

MakeReader = Callable[..., WebReader]


@pytest.fixture
def reader_of(tmp_path: Path) -> MakeReader:
    def make(service: Service, **settings: Any) -> WebReader:
        defaults: dict[str, Any] = {
            "allow_private": [urlsplit(service.url).netloc],
            "requests_per_minute": 10_000,
            "requests_per_host_per_minute": 10_000,
        }
        given = WebSettings(**{**defaults, **settings})
        client = GuardedClient(allowed=given.allow_private, user_agent=given.user_agent)
        return WebReader(given, client, PageCache(tmp_path / "web.sqlite"))

    return make


def get(reader: WebReader, *urls: str) -> list[bytes]:
    async def get_all() -> list[bytes]:
        return [(await reader.get_page(url)).content for url in urls]

    return anyio.run(get_all)


def is_waited_for(reader: WebReader, url: str) -> bool:
    """Whether a page is not fetched at once."""

    async def try_briefly() -> bool:
        with anyio.move_on_after(0.3) as scope:
            await reader.get_page(url)
        return scope.cancelled_caught

    return anyio.run(try_briefly)


def test_what_robots_txt_forbids_is_not_fetched(reader_of: MakeReader) -> None:
    robots = Answer("User-agent: *\nDisallow: /\nUser-agent: scout\nDisallow: /gold/\n")
    with serving(PAGE, paths={"/robots.txt": robots}) as service:
        scout = reader_of(service, user_agent="scout/1.0 (+https://example.org)")
        get(scout, f"{service.url}/a")
        with pytest.raises(
            ToolError, match=r"/gold/x is refused: .*/robots\.txt does not allow it for 'scout'"
        ):
            get(scout, f"{service.url}/gold/x")
        with pytest.raises(ToolError, match="does not allow it for 'other'"):
            get(reader_of(service, user_agent="other"), f"{service.url}/b")

    assert service.asked == ["/robots.txt", "/a", "/robots.txt"]


def test_a_redirect_is_no_way_around_robots_txt(reader_of: MakeReader) -> None:
    paths = {
        "/robots.txt": Answer("User-agent: *\nDisallow: /gold/\n"),
        "/a": Answer("", 302, {"Location": "/gold/x"}),
    }
    with serving(PAGE, paths=paths) as service, pytest.raises(ToolError, match="does not allow"):
        get(reader_of(service), f"{service.url}/a")

    assert service.asked == ["/robots.txt", "/a"]


def test_without_robots_txt_everything_is_allowed(reader_of: MakeReader) -> None:
    with serving(PAGE, paths=NO_ROBOTS) as service:
        assert get(reader_of(service), service.url) == [b"<main>page</main>"]


def test_where_robots_txt_fails_nothing_is_fetched(reader_of: MakeReader) -> None:
    with (
        serving(PAGE, paths={"/robots.txt": Answer("", 500)}) as service,
        pytest.raises(StatusError, match=r"robots\.txt answered 500") as failure,
    ):
        get(reader_of(service), service.url)

    assert failure.value.transient
    assert service.asked == ["/robots.txt"]


def test_robots_txt_is_read_once_for_calls_at_once(reader_of: MakeReader) -> None:
    with serving(PAGE, paths=NO_ROBOTS) as service:
        reader = reader_of(service)

        async def get_both() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(reader.get_page, f"{service.url}/a")
                group.start_soon(reader.get_page, f"{service.url}/b")

        anyio.run(get_both)

    assert sorted(service.asked) == ["/a", "/b", "/robots.txt"]


def test_a_page_is_fetched_once(reader_of: MakeReader) -> None:
    with serving(PAGE, paths=NO_ROBOTS) as service:
        first = get(reader_of(service), f"{service.url}/a", f"{service.url}/a#part")
        again = get(reader_of(service), f"{service.url}/a")

    assert first == [*again, *again]
    assert service.asked == ["/robots.txt", "/a"]


def test_a_server_says_whether_an_older_page_has_changed(reader_of: MakeReader) -> None:
    tagged = Answer(
        "one", headers={**HTML, "ETag": '"1"', "Last-Modified": "Fri, 02 Jan 2026 00:00:00 GMT"}
    )
    with serving(tagged, Answer("", 304), Answer("two", headers=HTML), paths=NO_ROBOTS) as service:
        reader = reader_of(service, cache_for=1e-9)
        pages = get(reader, *[f"{service.url}/a"] * 3)

    assert pages == [b"one", b"one", b"two"]
    first, second, third = service.headers[1:]
    assert "If-None-Match" not in first
    for asked in (second, third):
        assert asked["If-None-Match"] == '"1"'
        assert asked["If-Modified-Since"] == "Fri, 02 Jan 2026 00:00:00 GMT"


def test_a_page_that_is_not_to_be_stored_is_fetched_again(reader_of: MakeReader) -> None:
    with serving(
        Answer("x", headers={**HTML, "Cache-Control": "no-store"}), paths=NO_ROBOTS
    ) as service:
        get(reader_of(service), *[service.url] * 2)

    assert service.asked == ["/robots.txt", "/", "/"]


def test_a_private_page_in_the_cache_is_for_those_who_may_fetch_it(
    reader_of: MakeReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(PAGE, paths=NO_ROBOTS) as service:
        monkeypatch.setattr(
            "wavewright.packs.web.addresses.PORTS", frozenset({urlsplit(service.url).port})
        )
        get(reader_of(service), service.url)
        with pytest.raises(ToolError, match="is no public address"):
            get(
                WebReader(WebSettings(), GuardedClient(), PageCache(tmp_path / "web.sqlite")),
                service.url,
            )


def test_a_page_behind_a_redirect_to_a_private_server_is_not_kept_for_others(
    tmp_path: Path,
) -> None:
    class Network(httpx.AsyncHTTPTransport):
        """The real one for this machine; a redirect to it for the public web."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.host != "93.184.215.14":
                return await super().handle_async_request(request)
            return httpx.Response(302, headers={"location": f"{service.url}/wiki"})

    url = "http://93.184.215.14/a"
    with serving(PAGE, paths=NO_ROBOTS) as service:
        allowed = (urlsplit(service.url).netloc,)
        pages = PageCache(tmp_path / "web.sqlite")
        reader = WebReader(
            WebSettings(allow_private=allowed),
            GuardedClient(allowed=allowed, transport=Network),
            pages,
        )

        assert get(reader, url) == [b"<main>page</main>"]
        with pytest.raises(ToolError, match=r"is refused: port \d+ is not one of"):
            get(WebReader(WebSettings(), GuardedClient(transport=Network), pages), url)


def test_a_page_that_has_not_changed_is_no_answer_for_another_one(reader_of: MakeReader) -> None:
    tagged = Answer("one", headers={**HTML, "ETag": '"1"'})
    to_one, to_two = (Answer("", 302, {"Location": f"/{name}"}) for name in ("one", "two"))
    last = Answer("two", headers=HTML)
    with serving(to_one, tagged, to_two, Answer("", 304), to_two, last, paths=NO_ROBOTS) as service:
        pages = get(reader_of(service, cache_for=1e-9), *[f"{service.url}/a"] * 2)

    assert pages == [b"one", b"two"]
    assert service.asked == ["/robots.txt", "/a", "/one", "/a", "/two", "/a", "/two"]
    assert "If-None-Match" not in service.headers[-1]


def test_an_answer_to_conditions_that_were_not_sent_is_a_failure(reader_of: MakeReader) -> None:
    with (
        serving(Answer("", 304), paths=NO_ROBOTS) as service,
        pytest.raises(ToolError, match="answered 304 although no condition was sent"),
    ):
        get(reader_of(service), service.url)


def test_requests_to_one_server_are_spaced(reader_of: MakeReader) -> None:
    with serving(PAGE, paths=NO_ROBOTS) as service:
        reader = reader_of(service, requests_per_host_per_minute=1)
        get(reader, f"{service.url}/a")

        assert is_waited_for(reader, f"{service.url}/b")
    assert service.asked == ["/robots.txt", "/a"]


def test_a_crawl_delay_is_kept(reader_of: MakeReader) -> None:
    with serving(
        PAGE, paths={"/robots.txt": Answer("User-agent: *\nCrawl-delay: 60\n")}
    ) as service:
        reader = reader_of(service)
        get(reader, f"{service.url}/a")

        assert is_waited_for(reader, f"{service.url}/b")
    assert service.asked == ["/robots.txt", "/a"]


def test_all_servers_share_one_rate(reader_of: MakeReader) -> None:
    with serving(PAGE, paths=NO_ROBOTS) as service, serving(PAGE, paths=NO_ROBOTS) as other:
        allowed = tuple(urlsplit(one.url).netloc for one in (service, other))
        reader = reader_of(service, allow_private=allowed, requests_per_minute=3)
        get(reader, service.url)

        assert is_waited_for(reader, other.url)
    assert (service.asked, other.asked) == (["/robots.txt", "/"], ["/robots.txt"])


def test_a_server_is_left_alone_for_as_long_as_it_asks(reader_of: MakeReader) -> None:
    with serving(Answer("", 429, {"Retry-After": "30"}), PAGE, paths=NO_ROBOTS) as service:
        reader = reader_of(service)
        with pytest.raises(StatusError) as failure:
            get(reader, service.url)
        assert failure.value.retry_after == 30

        assert is_waited_for(reader, f"{service.url}/b")
    assert service.asked == ["/robots.txt", "/"]


def test_calls_that_wait_for_a_rate_wait_for_what_the_server_asks_meanwhile(
    reader_of: MakeReader,
) -> None:
    asks = Answer("", 429, {"Retry-After": "3600"})
    with serving(asks, PAGE, paths=NO_ROBOTS) as service:
        reader = reader_of(service, requests_per_host_per_minute=120)
        failures: list[ToolError] = []

        async def fetch(path: str) -> None:
            try:
                await reader.get_page(service.url + path)
            except ToolError as error:
                failures.append(error)

        async def fetch_both() -> None:
            async with anyio.create_task_group() as group:
                group.start_soon(fetch, "/a")
                group.start_soon(fetch, "/b")

        anyio.run(fetch_both)

    assert [type(failure) for failure in failures] == [StatusError, ToolError]
    assert failures[1].retry_after is not None
    assert len(service.asked) == 2


def test_robots_txt_is_not_asked_for_while_its_server_asks_to_wait(reader_of: MakeReader) -> None:
    with serving(Answer("", 503, {"Retry-After": "3600"})) as service:
        reader = reader_of(service)
        for error in ("robots.txt answered 503", "asks to wait"):
            with pytest.raises(ToolError, match=error):
                get(reader, service.url)

    assert service.asked == ["/robots.txt"]


def test_a_crawl_delay_is_bounded(reader_of: MakeReader, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavewright.packs.web.reader.MAX_CRAWL_DELAY", 0.0)
    with serving(
        PAGE, paths={"/robots.txt": Answer("User-agent: *\nCrawl-delay: 30\n")}
    ) as service:
        get(reader_of(service), f"{service.url}/a", f"{service.url}/b")

    assert service.asked == ["/robots.txt", "/a", "/b"]


def test_a_longer_wait_fails_the_call_and_says_how_long(reader_of: MakeReader) -> None:
    with serving(Answer("", 503, {"Retry-After": "3600"}), PAGE, paths=NO_ROBOTS) as service:
        reader = reader_of(service)
        with pytest.raises(StatusError):
            get(reader, service.url)
        with pytest.raises(ToolError, match=r"asks to wait 3\d\d\d s") as failure:
            get(reader, f"{service.url}/b")

    assert failure.value.transient
    assert failure.value.retry_after is not None
    assert service.asked == ["/robots.txt", "/"]


def answer(content: bytes, day: int = 1) -> WebAnswer:
    return WebAnswer(
        "https://example.org/",
        200,
        {"etag": "é"},
        content,
        dt.datetime(2026, 1, day, 12, 30, tzinfo=dt.UTC),
    )


def test_an_answer_is_kept_whole_for_others_of_the_same_file(tmp_path: Path) -> None:
    file = tmp_path / "state" / "web.sqlite"
    PageCache(file).put("a", answer(b"\x00\xff"))

    assert PageCache(file).get("a") == answer(b"\x00\xff")
    assert PageCache(file).get("b") is None


def test_a_newer_answer_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "web.sqlite")
    cache.put("a", answer(b"one"))
    cache.put("a", answer(b"two", day=2))

    assert cache.get("a") == answer(b"two", day=2)


def test_the_oldest_go_where_there_is_no_room(tmp_path: Path) -> None:
    cache = PageCache(tmp_path / "web.sqlite", max_bytes=250)
    for day, key in enumerate("bac", start=1):
        cache.put(key, answer(b"x" * 100, day))

    assert [key for key in "abc" if cache.get(key)] == ["a", "c"]


@pytest.mark.parametrize("content", [b"no database", None])
def test_a_file_that_cannot_be_used_keeps_nothing(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "web.sqlite"
    if content is None:
        file.mkdir()
    else:
        file.write_bytes(content)
    cache = PageCache(file)
    cache.put("a", answer(b"x"))

    assert cache.get("a") is None
