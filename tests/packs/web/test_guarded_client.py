"""The guarded client against real servers on loopback."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from itertools import cycle
from urllib.parse import urlsplit

import anyio
import httpx
import pytest
from anyio.abc import SocketStream

from tests.packs.equities.price_service import Answer, Service, serving
from wavewright.packs.web import addresses
from wavewright.packs.web.addresses import AddressRefused, WebAddress
from wavewright.packs.web.guarded_client import GuardedClient, StatusError, WebAnswer
from wavewright.tools.functions.errors import ToolError

HTML = {"Content-Type": "text/html; charset=utf-8"}
PAGE = Answer("<p>page</p>", headers=HTML)


def place(service: Service) -> str:
    return urlsplit(service.url).netloc


def get(service: Service, path: str = "/", *, max_bytes: int = 4096) -> WebAnswer:
    client = GuardedClient(allowed=[place(service)], max_bytes=max_bytes)
    return asyncio.run(client.get(service.url + path))


def test_a_page_is_read_with_its_type_and_in_the_name_of_its_host() -> None:
    with serving(PAGE) as service:
        answer = get(service, "/a?b=c")

    assert (answer.status, answer.content_type, answer.content) == (
        200,
        "text/html",
        b"<p>page</p>",
    )
    assert service.asked == ["/a?b=c"]
    assert service.headers[0]["Host"] == place(service)
    assert service.headers[0]["User-Agent"] == "wavewright"


def test_a_host_is_allowed_at_its_port_only() -> None:
    with serving(PAGE) as service, pytest.raises(AddressRefused):
        asyncio.run(GuardedClient(allowed=["127.0.0.1:1"]).get(service.url))

    assert service.asked == []


def test_a_body_is_read_up_to_the_cap() -> None:
    with serving(Answer("x" * 1000, headers=HTML)) as service:
        assert len(get(service, max_bytes=1000).content) == 1000
        with pytest.raises(ToolError, match="is larger than 999 bytes"):
            get(service, max_bytes=999)


def test_the_cap_holds_after_decompression() -> None:
    bomb = gzip.compress(b"\0" * 5_000_000)
    answer = Answer(bomb, headers={**HTML, "Content-Encoding": "gzip"})
    with (
        serving(answer) as service,
        pytest.raises(ToolError, match="is larger than 1,000,000 bytes"),
    ):
        get(service, max_bytes=1_000_000)

    assert len(bomb) < 1_000_000


@pytest.mark.parametrize("encoding", ["gzip, gzip", "deflate", "br"])
def test_a_body_that_is_packed_in_another_way_is_refused(encoding: str) -> None:
    answer = Answer(
        gzip.compress(gzip.compress(b"page")), headers={**HTML, "Content-Encoding": encoding}
    )
    with (
        serving(answer) as service,
        pytest.raises(ToolError, match=f"has the content encoding '{encoding}'"),
    ):
        get(service)

    assert service.headers[0]["Accept-Encoding"] == "gzip"


def test_a_packed_body_is_unpacked_no_further_than_the_cap() -> None:
    answer = Answer(gzip.compress(b"\0" * 50_000_000), headers={**HTML, "Content-Encoding": "gzip"})
    with serving(answer) as service:
        tracemalloc.start()
        try:
            with pytest.raises(ToolError, match="is larger than 4,096 bytes"):
                get(service)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

    assert peak < 10_000_000


def test_a_packed_body_is_read_whole() -> None:
    with serving(
        Answer(gzip.compress(b"page" * 1000), headers={**HTML, "Content-Encoding": "x-gzip"})
    ) as service:
        assert get(service).content == b"page" * 1000


def test_a_body_that_is_not_packed_as_its_header_says_is_a_failure() -> None:
    with (
        serving(Answer(b"page", headers={**HTML, "Content-Encoding": "gzip"})) as service,
        pytest.raises(ToolError, match=r"cannot be read \(DecodingError\)"),
    ):
        get(service)


def test_a_body_that_never_ends_ends_at_the_deadline() -> None:
    async def trickle(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(
                b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1000000\r\n\r\n"
            )
            while True:
                await stream.send(b"x")
                await anyio.sleep(0.01)

    async def fetch() -> None:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610 - not Django's
        async with listener, anyio.create_task_group() as group:
            group.start_soon(listener.serve, trickle)
            client = GuardedClient(allowed=[f"127.0.0.1:{port}"], seconds=0.2)
            with pytest.raises(ToolError, match=r"gave no answer within 0\.2 s") as failure:
                await client.get(f"http://127.0.0.1:{port}/")
            assert failure.value.transient
            group.cancel_scope.cancel()

    anyio.run(fetch)


def test_another_type_is_refused() -> None:
    with (
        serving(Answer(b"\x89PNG", headers={"Content-Type": "image/png"})) as service,
        pytest.raises(ToolError, match="is image/png, and not a page"),
    ):
        get(service)


@pytest.mark.parametrize(
    ("status", "transient"), [(429, True), (503, True), (404, False), (403, False)]
)
def test_a_failure_has_its_status_and_the_wait_that_it_asks_for(
    status: int, *, transient: bool
) -> None:
    with (
        serving(Answer("x", status, {**HTML, "Retry-After": "7"})) as service,
        pytest.raises(StatusError, match=f"answered {status}") as failure,
    ):
        get(service)

    assert (failure.value.status, failure.value.transient, failure.value.retry_after) == (
        status,
        transient,
        7.0,
    )


def test_redirects_are_followed_and_the_last_address_is_known() -> None:
    paths = {"/a": Answer("", 302, {"Location": "/b"}), "/b": Answer("", 308, {"Location": "c"})}
    with serving(PAGE, paths=paths) as service:
        answer = get(service, "/a")

    assert service.asked == ["/a", "/b", "/c"]
    assert answer.url == f"{service.url}/c"


def test_a_circle_of_redirects_ends() -> None:
    with (
        serving(Answer("", 302, {"Location": "/"})) as service,
        pytest.raises(ToolError, match="answered 302 after 10 redirects"),
    ):
        get(service)

    assert len(service.asked) == 11


def test_a_redirect_that_leads_nowhere_is_a_failure() -> None:
    with (
        serving(Answer("", 302)) as service,
        pytest.raises(StatusError, match="answered 302 without saying where to"),
    ):
        get(service)


def test_a_redirect_to_no_address_is_a_failure() -> None:
    with (
        serving(Answer("", 302, {"Location": "//["})) as service,
        pytest.raises(StatusError, match="answered 302 and leads to no address"),
    ):
        get(service)


def test_errors_name_a_service_in_place_of_an_address_with_its_key() -> None:
    with (
        serving(Answer("x", 401)) as service,
        pytest.raises(StatusError, match=r"^the bank answered 401"),
    ):
        asyncio.run(
            GuardedClient(allowed=[place(service)], shown="the bank").get(
                f"{service.url}/?key=canary"
            )
        )


def test_a_redirect_to_another_local_port_is_refused() -> None:
    with (
        serving(PAGE) as canary,
        serving(Answer("", 302, {"Location": canary.url})) as service,
        pytest.raises(AddressRefused),
    ):
        get(service)

    assert canary.asked == []


def test_each_hop_is_admitted_before_it_is_made() -> None:
    hops: list[str] = []

    async def admit(address: WebAddress) -> None:
        hops.append(address.target)
        if address.target == "/b":
            raise ToolError("no")

    with serving(PAGE, paths={"/a": Answer("", 302, {"Location": "/b"})}) as service:
        client = GuardedClient(allowed=[place(service)])
        with pytest.raises(ToolError, match="no"):
            asyncio.run(client.get(f"{service.url}/a", admit=admit))

    assert (hops, service.asked) == (["/a", "/b"], ["/a"])


def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(PAGE) as proxy, serving(PAGE) as service:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        get(service)

    assert (len(service.asked), proxy.asked) == (1, [])


def test_an_address_that_does_not_answer_leaves_time_for_the_next() -> None:
    class Network(httpx.AsyncBaseTransport):
        """One address that never answers, and one that does."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.host == "93.184.215.14":
                await anyio.sleep(request.extensions["timeout"]["connect"])
                raise httpx.ConnectTimeout("no answer")
            return httpx.Response(200, headers={"content-type": "text/html"}, content=b"page")

    async def resolve(host: str, port: int) -> list[str]:
        del host, port
        return ["93.184.215.14", "93.184.215.15"]

    client = GuardedClient(resolve=resolve, transport=Network, seconds=1.0)

    assert asyncio.run(client.get("http://example.org/")).content == b"page"


def test_a_name_that_alternates_never_leads_to_this_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    public: list[str] = []

    class Network(httpx.AsyncHTTPTransport):
        """The real one for this machine; answers for the public web."""

        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            if request.url.host != "93.184.215.14":
                return await super().handle_async_request(request)
            public.append(str(request.url))
            return httpx.Response(200, headers={"content-type": "text/html"}, content=b"page")

    answers = cycle(["93.184.215.14", "127.0.0.1", "::ffff:127.0.0.1"])

    async def resolve(host: str, port: int) -> list[str]:
        del host, port
        return [next(answers)]

    async def fetch_often(url: str) -> int:
        client, refused = GuardedClient(resolve=resolve, transport=Network), 0
        for _ in range(9):
            try:
                await client.get(url)
            except AddressRefused:
                refused += 1
        return refused

    with serving(PAGE) as canary:
        port = urlsplit(canary.url).port
        monkeypatch.setattr(addresses, "PORTS", frozenset({port}))
        refused = asyncio.run(fetch_often(f"http://rebinding.example:{port}/"))

    assert (refused, len(public), canary.asked) == (6, 3, [])
