"""Which addresses are fetched: cases from outside where they are at hand, and each rule by an
example of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from tests.repository.tree import ROOT
from wavewright.packs.web.addresses import place_of, read_address
from wavewright.packs.web.guarded_client import GuardedClient
from wavewright.packs.web.settings import WebSettings
from wavewright.tools.functions.errors import ToolError
from wavewright.tools.packs import PackError, validated_settings

CASES = ROOT.parent / "shared" / "cases" / "ssrf_urls.jsonl"
PUBLIC = "93.184.215.14"


class Web(httpx.AsyncBaseTransport):
    """Servers that are not there: records which address was asked for in whose name, and redirects
    as it is told.
    """

    def __init__(self, dns: dict[str, list[list[str]]], redirects: Sequence[str] = ()) -> None:
        self._dns = {name: list(answers) for name, answers in dns.items()}
        self._redirects = list(redirects)
        self.requests: list[httpx.Request] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        del port
        answers = self._dns.get(host.lower(), [[]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self._redirects:
            location = self._redirects.pop(0).encode()
            return httpx.Response(302, headers=[(b"location", location)])
        return httpx.Response(200, headers={"content-type": "text/html"}, content=b"<p>page</p>")

    def client(self) -> GuardedClient:
        return GuardedClient(resolve=self.resolve, transport=lambda: self)


def fetch(web: Web, url: str, headers: dict[str, str] | None = None) -> bool:
    """Whether an address was fetched."""
    try:
        asyncio.run(web.client().get(url, headers=headers))
    except ToolError:
        return False
    return True


def is_right(case: dict[str, Any]) -> bool:
    dns = {name: [answer] for name, answer in case.get("dns", {}).items()} | case.get(
        "dns_sequence", {}
    )
    web = Web(dns, case.get("redirects", ()))
    credentials = {"Authorization": "Bearer x", "Cookie": "a=b", "Proxy-Authorization": "y"}
    fetched = fetch(web, case["url"], credentials)
    reached = [request.url.host for request in web.requests]
    dropped = {name.lower() for name in web.requests[-1].headers} if web.requests else set[str]()
    if case["verdict"] == "pin":
        return bool(reached == case["must_connect"])
    is_as_expected: bool = fetched == (case["verdict"] == "allow")
    return is_as_expected and not dropped & set(case.get("must_drop", ()))


@pytest.mark.skipif(not CASES.exists(), reason="the cases are not at hand")
def test_the_cases_end_as_they_must() -> None:
    cases = [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]

    wrong = [f"{case['id']} {case['url']!r}: {case['why']}" for case in cases if not is_right(case)]

    assert wrong == []
    assert Counter(case["class"] for case in cases)["reach"] > 0


REFUSED = {
    "this machine": "http://127.0.0.1/",
    "a local network": "http://192.168.1.1/",
    "metadata of a cloud": "http://169.254.169.254/latest/",
    "a public number that gives out credentials": "http://168.63.129.16/",
    "IPv4 in IPv6": "http://[::ffff:8.8.8.8]/",
    "another spelling of an address": "http://0x7f.1/",
    "digits of another script": "http://１２７.0.0.1/",  # noqa: RUF001 - that is the case
    "a final dot after a number": "http://127.0.0.1./",
    "another scheme": "ftp://example.org/",
    "another port": "http://example.org:6379/",
    "a user": "http://user@example.org/",
    "a backslash": "http://example.org\\@127.0.0.1/",
    "a line break": "http://example.org/\n",
    "no host": "http:///x",
    "an empty label": "http://a..example.org/",
    "too long": "http://example.org/" + "a" * 5000,
    "a host that is not there": "http://nowhere.example/",
    "a name with one private address": "http://mixed.example/",
}


@pytest.mark.parametrize("url", REFUSED.values(), ids=REFUSED)
def test_nothing_is_asked_of(url: str) -> None:
    web = Web({"example.org": [[PUBLIC]], "mixed.example": [[PUBLIC, "10.0.0.1"]]})

    assert not fetch(web, url)
    assert web.requests == []


def test_a_page_is_asked_for_at_the_checked_address_in_the_name_of_its_host() -> None:
    web = Web({"example.org": [[PUBLIC], ["127.0.0.1"]]})

    assert fetch(web, "HTTPS://Example.org:8443/a?b=c#d")
    [request] = web.requests
    assert str(request.url) == f"https://{PUBLIC}:8443/a?b=c"
    assert request.headers["host"] == "example.org:8443"
    assert request.extensions["sni_hostname"] == "example.org"


def test_a_name_of_another_script_is_asked_for_by_its_ascii_form() -> None:
    web = Web({"xn--bcher-kva.example": [[PUBLIC]]})

    assert fetch(web, "http://bücher.example/")


def test_credentials_stay_with_their_origin() -> None:
    web = Web(
        {"a.example": [[PUBLIC]], "b.example": [[PUBLIC]]}, ["/same", "https://b.example/other"]
    )

    assert fetch(web, "https://a.example/", {"Authorization": "Bearer x", "X-Kind": "y"})
    assert [("authorization" in one.headers, "x-kind" in one.headers) for one in web.requests] == [
        (True, True),
        (True, True),
        (False, True),
    ]


@pytest.mark.parametrize(
    ("written", "url"),
    [
        ("[::1]:8080", "http://[::1]:8080/"),
        ("[0:0::1]:8080", "http://[::1]:8080/"),
        ("::1:8080", "http://[0::1]:8080/"),
        ("[Wiki.Internal:443", None),
        ("Wiki.Internal.:443", "https://wiki.internal/"),
        ("http://127.0.0.1:80", None),
    ],
)
def test_a_private_place_may_be_written_in_other_ways(written: str, url: str | None) -> None:
    if url is None:
        with pytest.raises(PackError, match=r"allow_private\[0\]"):
            validated_settings("web", WebSettings, {"allow_private": [written]})
        return
    settings = validated_settings("web", WebSettings, {"allow_private": [written]})

    assert settings.allow_private == (read_address(url, settings.allow_private).place,)
    assert settings.allow_private == (place_of(url),)
    assert (
        validated_settings("web", WebSettings, {"allow_private": [*settings.allow_private]})
        == settings
    )
